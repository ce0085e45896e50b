"""What a launch asks for: the kernel's decorator, its arguments and its options together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dsalang._backend.errors import LaunchError

from . import resident as residency
from .arguments import Arguments, bind, classify
from .launch import Grid, grid_of
from .schedule import Request, compiled_grid, fixed
from .source import KernelSource
from .specialize import Specialization, from_signature, specialize

GPU_OPTIONS = (
    "num_warps", "num_ctas", "maxnreg", "enable_fp_fusion", "waves_per_eu", "matrix_instr_nonkdim", "kpack",
    "launch_cooperative_grid", "launch_pdl", "extern_libs", "sanitize_overflow",
)  # fmt: skip
"""Keyword arguments of launches that Triton takes and that change nothing here."""

LAUNCH_OPTIONS = (
    "target", "num_stages", "timeline", "schedule", "deadline_us", "stream", "resident",
    *GPU_OPTIONS,
)  # fmt: skip
"""Keyword arguments of a launch that are not the kernel's."""

JIT_OPTIONS = (
    "interpret", "num_stages", "do_not_specialize", "do_not_specialize_on_alignment", "schedule",
    "deadline_us", "resident", "noinline", "debug", "version", "repr", "launch_metadata",
)  # fmt: skip
"""Keyword arguments of the decorator."""


class Asked(NamedTuple):
    """What a launch asks for: what to compile for, its arguments, the sizes of its grid, its options by name."""

    spec: Specialization
    arguments: Arguments
    grid: Grid
    options: dict[str, Any]


@dataclass(frozen=True)
class Defaults:
    """What a kernel asks for in each of its launches: its decorator's options.

    `unspecialized` names the parameters whose values and addresses must not make an image of their own.
    """

    source: KernelSource
    num_stages: int | None
    schedule: Request
    resident: residency.Wish
    unspecialized: frozenset[str]

    @staticmethod
    def of(source: KernelSource, options: Mapping[str, Any]) -> Defaults:
        """The options as the user wrote them. Raises LaunchError."""
        for name in options:
            if name not in JIT_OPTIONS:
                raise LaunchError(
                    f"dsa.jit has no option {name!r}", hint=f"options are {', '.join(JIT_OPTIONS)}"
                )
        return Defaults(
            source,
            _stages(options.get("num_stages")),
            Request.of(options.get("schedule"), options.get("deadline_us")),
            residency.Wish.of(options.get("resident"), source) or residency.Wish(),
            _unspecialized(source, options),
        )

    def wanted(self, options: Mapping[str, Any]) -> Request:
        """Schedule and deadline of a launch."""
        wanted = Request.of(options.get("schedule"), options.get("deadline_us"))
        return wanted.over(self.schedule)

    def asked(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> Asked:
        """What a launch with these arguments asks for; its options are taken out of `kwargs`. Raises LaunchError."""
        own = {param.name for param in self.source.params}
        options = {n: kwargs.pop(n) for n in LAUNCH_OPTIONS if n in kwargs and n not in own}
        bound = bind(self.source, args, kwargs, LAUNCH_OPTIONS)
        sizes: Grid = grid_of(grid, {**bound, **options})
        arguments = classify(self.source, bound)
        stages = _stages(options.get("num_stages")) or self.num_stages
        wanted = self.wanted(options)
        spec = specialize(arguments, bound, self.unspecialized, stages)
        if wanted.static:
            spec = fixed(spec, arguments, sizes)
        wish = residency.Wish.of(options.get("resident"), self.source) or self.resident
        spec = replace(spec, resident=residency.requested(wish, arguments, sizes, wanted.static))
        return Asked(spec, arguments, sizes, options)

    def compiled_for(
        self,
        signature: str | Mapping[str, str] | None,
        constants: Mapping[str, Any] | None,
        num_stages: int | None,
        wanted: Request,
        grid: Any,
        resident: Any,
    ) -> Specialization:
        """What a compilation without arguments asks for. Raises LaunchError."""
        stages = _stages(num_stages) or self.num_stages
        spec = from_signature(self.source, signature, constants, stages)
        wish = residency.Wish.of(resident, self.source) or self.resident
        return replace(
            spec,
            grid=compiled_grid(wanted, grid, spec.constants),
            resident=residency.compiled(wish, spec, grid, wanted.static),
        )


def _unspecialized(source: KernelSource, options: Mapping[str, Any]) -> frozenset[str]:
    names = [param.name for param in source.params]
    found = set()
    for key in ("do_not_specialize", "do_not_specialize_on_alignment"):
        for entry in options.get(key) or ():
            if isinstance(entry, int) and 0 <= entry < len(names):
                entry = names[entry]
            if entry in names:  # other names are ignored, as by Triton
                found.add(entry)
    return frozenset(found)


def _stages(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise LaunchError(f"num_stages={value!r} is not allowed", hint="it is an integer from 1")
    return value
