"""Generated or hand-written: a kernel's calls of ops that microkernels serve, decided one by one by the cost model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from dsalang._backend.errors import CompileError, MicrokernelError, MicrokernelRefusedError
from dsalang._backend.image.model import Choice
from dsalang._backend.target import Target

from .. import knobs
from ..source import KernelSource
from ..specialize import Specialization
from .plan import Plan, Site, site_key
from .selftest import require_right

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def planned(source: KernelSource, spec: Specialization, target: Target) -> ModuleOp:
    """The tile IR of a kernel with the microkernels that run in it, and what was decided as `dsa.choices`.

    Raises:
        CompileError: neither generated code nor a microkernel does.
        MicrokernelError: a microkernel that would run is wrong.
    """
    mode = knobs.MICROKERNELS.get()
    search = _Search(source, spec, target, mode)
    plan, module, error = search.parsed({})
    if not plan.sites:
        if module is None:
            assert error is not None
            raise error
        _require_direct(plan)
        _note(module, _by_name(plan))
        return module
    return search.run()


def _by_name(plan: Plan) -> list[Choice]:
    """The microkernels that the kernel calls by their names."""
    return [
        Choice(
            site_key(call.loc),
            replace(call.loc, caller=None),
            "",
            call.micro.name,
            True,
            -1,
            -1,
            "called by name",
        )
        for call in plan.direct
        if call.loc is not None
    ]


def _require_direct(plan: Plan) -> None:
    for call in plan.direct:
        require_right(call, plan.target)


@dataclass
class _Trial:
    """The kernel with some choices: the cost model's cycles (infinite with the reason), and the sites that were met."""

    cycles: float
    error: CompileError | None
    sites: dict[str, Site]


@dataclass
class _Search:
    """The decisions for one kernel."""

    source: KernelSource
    spec: Specialization
    target: Target
    mode: str
    choices: list[Choice] = field(default_factory=list)

    def parsed(
        self, chosen: Mapping[str, str]
    ) -> tuple[Plan, ModuleOp | None, CompileError | None]:
        """The kernel parsed with some choices; the error when it does not parse."""
        from ..compiled import tile_ir

        plan = Plan(self.target, chosen, on=self.mode != "off")
        try:
            return plan, tile_ir(self.source, self.spec, plan), None
        except MicrokernelRefusedError as error:
            return plan, None, error
        except MicrokernelError:
            raise
        except CompileError as error:
            return plan, None, error

    def run(self) -> ModuleOp:
        """Decide site after site, each given what has been decided before."""
        chosen: dict[str, str] = {}
        best, failure, sites = self.cost(chosen)
        if failure is not None:
            chosen, best, sites = self.rescued(sites, failure)
        decided: set[str] = set()
        while (site := next((s for s in sites.values() if s.key not in decided), None)) is not None:
            decided.add(site.key)
            trials = self.trials(site, chosen, _Trial(best, None, sites), failure)
            name = self.winner(trials)
            if name is not None:
                self.require_right(site, name)
                chosen[site.key] = name
            else:
                chosen.pop(site.key, None)
            best, sites = trials[name].cycles, trials[name].sites
            self.note(site, trials, name)
        plan, module, error = self.parsed(chosen)
        assert module is not None, error
        _require_direct(plan)
        _note(module, [*self.choices, *_by_name(plan)])
        return module

    def rescued(
        self, sites: dict[str, Site], failure: CompileError
    ) -> tuple[dict[str, str], float, dict[str, Site]]:
        """Choices with which the kernel compiles where generated code does not: a microkernel at every site."""
        for number in range(max(len(site.candidates) for site in sites.values())):
            known = 0
            while len(sites) > known:  # a kernel that gets further may come to more sites
                known = len(sites)
                chosen = {
                    key: site.candidates[min(number, len(site.candidates) - 1)].name
                    for key, site in sites.items()
                }
                cycles, _, found = self.cost(chosen)
                if cycles < inf:
                    return chosen, cycles, found
                sites = {**sites, **found}
        raise failure

    def trials(
        self, site: Site, chosen: Mapping[str, str], now: _Trial, failure: CompileError | None
    ) -> dict[str | None, _Trial]:
        """The kernel with each microkernel at a site, and (None) with generated code there; one of them is as it is now."""
        found: dict[str | None, _Trial] = {chosen.get(site.key): now}
        for name in (None, *(micro.name for micro in site.candidates)):
            if name not in found:
                trial = {key: n for key, n in chosen.items() if key != site.key}
                if name is not None:
                    trial[site.key] = name
                found[name] = _Trial(*self.cost(trial))
        if found[None].error is None and found[None].cycles == inf:
            found[None].error = failure
        return found

    def winner(self, trials: Mapping[str | None, _Trial]) -> str | None:
        """What runs at a site: the fastest, generated code when equal."""
        written = {name for name, trial in trials.items() if name and trial.cycles < inf}
        if self.mode == "always" and written:
            return min(written, key=lambda name: trials[name].cycles)
        return min(trials, key=lambda name: (trials[name].cycles, name is not None))

    def require_right(self, site: Site, name: str) -> None:
        """Self-test a microkernel on what it would be called with."""
        for call in site.calls:
            if call.micro.name == name:
                require_right(call, self.target)

    def note(self, site: Site, trials: Mapping[str | None, _Trial], chosen: str | None) -> None:
        """Remember what was decided."""
        generated = trials[None]
        for name, trial in trials.items():
            if name is not None:
                self.choices.append(
                    Choice(
                        site.key, replace(site.loc, caller=None), site.op, name, name == chosen,
                        _whole(generated.cycles), _whole(trial.cycles),
                        _reason(generated, trial, name == chosen),
                    )
                )  # fmt: skip

    def cost(self, chosen: Mapping[str, str]) -> tuple[float, CompileError | None, dict[str, Site]]:
        """The cost model's cycles of the kernel with some choices (infinite with the reason), and its sites."""
        from dsalang._backend.passes.buffer_rehearsal import estimate
        from dsalang._backend.pipeline import run_passes

        plan, module, error = self.parsed(chosen)
        if module is None:
            return inf, error, plan.sites
        try:
            run_passes(
                module, self.target, num_stages=self.spec.num_stages, resident=self.spec.resident
            )
        except MicrokernelRefusedError as refused:
            return inf, refused, plan.sites
        except MicrokernelError:
            raise
        except CompileError as failed:
            return inf, failed, plan.sites
        return estimate(module, self.target), None, plan.sites


def _whole(cycles: float) -> int:
    return -1 if cycles == inf else round(cycles)


def _reason(generated: _Trial, trial: _Trial, ran: bool) -> str:
    problem = trial.error
    if isinstance(problem, MicrokernelRefusedError):
        return f"it does not serve the call: {problem.message}"
    if trial.cycles == inf:
        return f"with it the kernel does not compile: {problem.message if problem else ''}"
    if not ran:
        return "it is not faster" if generated.cycles <= trial.cycles else "another one is faster"
    if generated.cycles == inf:
        error = generated.error
        return f"generated code does not compile: {error.message if error else ''}"
    return "it is faster" if trial.cycles < generated.cycles else "DSA_MICROKERNELS=always"


def _note(module: ModuleOp, choices: list[Choice]) -> None:
    """Write the choices into the kernel, from where they get into its image."""
    if not choices:
        return
    from xdsl.dialects.builtin import StringAttr
    from xdsl.dialects.func import FuncOp

    for op in module.ops:
        if isinstance(op, FuncOp):
            op.attributes["dsa.choices"] = StringAttr(json.dumps([asdict(c) for c in choices]))
