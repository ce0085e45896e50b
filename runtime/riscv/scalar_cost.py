"""What issuing costs a scalar core, counted in the binary, beside what a target file says it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsalang._backend.image.model import Image
from dsalang._backend.isa.rv64 import CALLS
from dsalang._backend.target import Target

from ..memory import Memory
from ..reference.options import Options
from .core import Call
from .engine import run

_ISSUE = CALLS.index("issue")


@dataclass(frozen=True)
class IssueCost:
    """One issue: its template's number of open fields, and the instructions since the call before.

    `retired` covers the address arithmetic, loop control, stores of operands, and the call itself.
    """

    template: int
    operands: int
    retired: int


@dataclass(frozen=True)
class ScalarCost:
    """The issues of a run, of all cores.

    Attributes:
        issues: every issue.
        start: instructions from the entry of each core to its first call, where arguments are loaded and what loops
            do not change is computed; summed over cores. A launch's cost, not an issue's: no issue has them.
        rest: instructions before calls that are no issues.
    """

    issues: tuple[IssueCost, ...]
    start: int
    rest: int

    @property
    def retired(self) -> int:
        """Instructions that went into issues."""
        return sum(issue.retired for issue in self.issues)

    def stated(self, target: Target) -> int:
        """Cycles that the target says the same issues take."""
        scalar = target.scalar
        operands = sum(issue.operands for issue in self.issues)
        return scalar.issue_cycles * len(self.issues) + scalar.operand_cycles * operands


def measure(
    image: Image, target: Target, args: Sequence[int], grid: tuple[int, int, int], memory: Memory
) -> ScalarCost:
    """Run a kernel on the RISC-V engine and count. Errors as for `engine.run`."""
    issues: list[IssueCost] = []
    seen: dict[int, int] = {}
    start = rest = 0

    def on_call(core: int, call: Call, retired: int) -> None:
        nonlocal start, rest
        if core not in seen:
            start += retired
            seen[core] = retired
        spent = retired - seen[core]
        seen[core] = retired
        if call[0] == _ISSUE and call[1] < len(image.templates):
            issues.append(IssueCost(call[1], len(image.templates[call[1]].open), spent))
        else:
            rest += spent

    run(image, target, args, grid, memory, Options(timeline=False), on_call)
    return ScalarCost(tuple(issues), start, rest)
