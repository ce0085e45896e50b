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

MOST_ROUNDS = 64
"""Calls that may fail to be generated, one after the other."""


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
class _Search:
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
        best, error, sites = self.cost(chosen)
        decided: set[str] = set()
        for _ in range(MOST_ROUNDS * max(1, len(sites))):
            site = next((s for key, s in sites.items() if key not in decided), None)
            if site is None:
                break
            decided.add(site.key)
            generated = best
            for micro in site.candidates:
                taken, best, error, sites = self.tried(
                    site, micro.name, chosen, generated, best, error, sites
                )
                if taken:
                    chosen[site.key] = micro.name
        if best == inf:
            assert error is not None
            raise error
        plan, module, error = self.parsed(chosen)
        assert module is not None, error
        _require_direct(plan)
        _note(module, [*self.choices, *_by_name(plan)])
        return module

    def tried(
        self,
        site: Site,
        name: str,
        chosen: Mapping[str, str],
        generated: float,
        best: float,
        error: CompileError | None,
        sites: dict[str, Site],
    ) -> tuple[bool, float, CompileError | None, dict[str, Site]]:
        """Try a microkernel at a site: whether it is taken, and what is best then."""
        cycles, problem, found = self.cost({**chosen, site.key: name})
        # A kernel that has not compiled so far may get further.
        further = best == inf and cycles == inf and len(found) > len(sites)
        faster = cycles < best or (
            self.mode == "always" and cycles < inf and site.key not in chosen
        )
        taken = faster or further
        if taken:
            for call in site.calls:
                if call.micro.name == name:
                    require_right(call, self.target)
        reason = _reason(generated, cycles, problem, error, taken)
        loc = replace(site.loc, caller=None)
        if taken:
            self.choices = [replace(c, ran=c.ran and c.site != site.key) for c in self.choices]
        self.choices.append(
            Choice(site.key, loc, site.op, name, taken, _whole(generated), _whole(cycles), reason)
        )
        if taken:
            return True, cycles, problem, {**sites, **found}
        return False, best, error, sites

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


def _reason(
    generated: float,
    cycles: float,
    problem: CompileError | None,
    error: CompileError | None,
    taken: bool,
) -> str:
    if isinstance(problem, MicrokernelRefusedError):
        return f"it does not serve the call: {problem.message}"
    if cycles == inf and not taken:
        return f"with it the kernel does not compile: {problem.message if problem else ''}"
    if generated == inf:
        return f"generated code does not compile: {error.message if error else ''}"
    if taken:
        return "it is faster" if cycles < generated else "DSA_MICROKERNELS=always"
    return "it is not faster"


def _note(module: ModuleOp, choices: list[Choice]) -> None:
    """Write the choices into the kernel, from where they get into its image."""
    if not choices:
        return
    from xdsl.dialects.builtin import StringAttr
    from xdsl.dialects.func import FuncOp

    for op in module.ops:
        if isinstance(op, FuncOp):
            op.attributes["dsa.choices"] = StringAttr(json.dumps([asdict(c) for c in choices]))
