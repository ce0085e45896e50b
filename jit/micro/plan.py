"""Which calls of a kernel run which microkernels: filled while the kernel is parsed, decided by `select`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsalang._backend.errors import Loc
from dsalang._backend.image.model import Choice
from dsalang._backend.target import Target

from .function import MicrokernelFunction
from .registry import Registration


@dataclass(frozen=True)
class Call:
    """A microkernel with the arguments of a call: TileSpecs and compile-time values."""

    micro: MicrokernelFunction
    arguments: tuple[Any, ...]
    loc: Loc | None = field(default=None, compare=False)


@dataclass
class Site:
    """A line that calls an op which microkernels serve.

    `calls` has what each microkernel would be called with; a line in an unrolled loop may call it with several.
    """

    key: str
    loc: Loc
    op: str
    candidates: list[MicrokernelFunction] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


@dataclass
class Plan:
    """What runs where.

    Attributes:
        chosen: by site the microkernel that runs there; elsewhere generated code does.
        sites: those that have been met, in order.
        direct: calls of microkernels by name.
        on: whether sites are looked for.
    """

    target: Target
    chosen: Mapping[str, str] = field(default_factory=dict)
    sites: dict[str, Site] = field(default_factory=dict)
    direct: list[Call] = field(default_factory=list)
    on: bool = True

    def meet(
        self, loc: Loc, op: str, found: Sequence[Registration], arguments: Sequence[Any]
    ) -> MicrokernelFunction | None:
        """Note a call of an op; the microkernel that is to run there."""
        serving = [r.micro for r in found if r.serves(arguments, self.target)]
        if not serving:
            return None
        key = site_key(loc)
        site = self.sites.setdefault(key, Site(key, loc, op))
        for micro in serving:
            if micro not in site.candidates:
                site.candidates.append(micro)
            call = Call(micro, tuple(arguments))
            if call not in site.calls:
                site.calls.append(call)
        return next((m for m in serving if m.name == self.chosen.get(key)), None)


def site_key(loc: Loc) -> str:
    """A place with its call chain, as a text."""
    return str(loc) if loc.caller is None else f"{loc} < {site_key(loc.caller)}"


def chosen_of(choices: tuple[Choice, ...]) -> dict[str, str]:
    """The microkernel by site of an image's choices."""
    return {choice.site: choice.kernel for choice in choices if choice.ran}
