"""The scheduling problem of one core: instructions with their costs, and what must come before what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .. import cost
from ..image.model import Template
from ..isa.table import Engine
from ..isa.vprog import VectorProgram
from ..target import Target
from .schedule_stream import Access, Step

IN_ORDER = (Engine.MM, Engine.VE)
"""Engines on which an instruction is over before the next one starts; LD and ST overlap latencies."""


@dataclass(frozen=True, slots=True)
class Work:
    """What an instruction costs: cycles on its engine before the transfer, cycles of the HBM port (-1: no
    transfer), cycles from the end to completion, cycles of the control core."""

    engine: int
    busy: int
    transfer: int
    latency: int
    issue: int

    @property
    def holds(self) -> int:
        """Cycles for which the engine is held."""
        return self.busy + max(self.transfer, 0)

    @property
    def takes(self) -> int:
        """Cycles from start until others may rely on it: completion, but after the cycle in which the last
        part (a transfer has a turn of its own) begins, where starts go first."""
        begins = self.busy if self.transfer >= 0 else 0
        return max(begins + 1, self.holds + self.latency)


def work_of(
    template: Template, programs: Sequence[VectorProgram], target: Target, active_cores: int
) -> Work:
    """The costs of an instruction, by the functions that the machine's time comes from.

    All elements of a gather, scatter or atomic count: which of them are masked off is data.
    """
    instruction = template.instruction
    op, fields = instruction.op, cost.complete(instruction.op, instruction.fields)
    program = programs[cost.scalar(fields, "program")] if op == "vexec" else None
    busy = cost.compute_cycles(op, fields, program, target)
    transfer, latency = -1, 0
    if instruction.engine in (Engine.LD, Engine.ST):
        moved = cost.dma_bytes(op, fields, target)
        transfer = cost.transfer_cycles(moved, target, active_cores)
        latency = target.hbm.latency_cycles
    issue = cost.issue_cycles(len(template.open), target)
    return Work(int(instruction.engine), busy, transfer, latency, issue)


@dataclass
class Problem:
    """Instructions in program order. `after[i]` must be complete when i starts; `behind[i]` only come before
    it in the queue of their common engine."""

    work: list[Work]
    after: list[tuple[int, ...]]
    behind: list[tuple[int, ...]]

    def __len__(self) -> int:
        return len(self.work)

    def key(self) -> tuple[object, ...]:
        """Equal for cores that have the same problem."""
        return tuple(self.work), tuple(self.after), tuple(self.behind)


@dataclass
class _Log:
    """Who touched one piece of memory since its last write."""

    writes: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    atomics: list[int] = field(default_factory=list)


class _Dependences:
    """Finds the instructions that one must come after, from accesses in program order."""

    def __init__(self, steps: Sequence[Step], alias: Sequence[int]) -> None:
        self.steps, self.alias = steps, alias
        self.sram: dict[tuple[int, int], _Log] = {}
        self.near: dict[tuple[int, int], list[_Log]] = {}
        self.loads: list[tuple[Access, int]] = []
        self.stores: list[tuple[Access, int]] = []
        self.program = -1
        self.atomics: list[tuple[Access, int]] = []
        spans = {(a.low, a.high) for s in steps for a in s.accesses if a.arg == -2}
        for span in spans:
            self.sram[span] = _Log()
        for span in spans:
            self.near[span] = [
                log for other, log in self.sram.items() if other[0] < span[1] and span[0] < other[1]
            ]

    def of(self, number: int) -> tuple[set[int], set[int]]:
        """Instructions that must be complete, and those that must only be ahead in the queue."""
        step = self.steps[number]
        after: set[int] = set()
        behind: set[int] = set()
        for access in step.accesses:
            earlier = self.on_hbm(access, step.program) if access.arg > -2 else self.on_sram(access)
            for other, needs_result in earlier:
                if other == number:
                    continue
                same = self.steps[other].engine == step.engine
                ordered = same and (step.engine in IN_ORDER or not needs_result)
                (behind if ordered else after).add(other)
        for access in step.accesses:
            self.note(access, number)
        return after, behind - after

    def on_sram(self, access: Access) -> list[tuple[int, bool]]:
        """Earlier instructions that conflict on SRAM; True: this one reads what it wrote."""
        found = []
        for log in self.near[access.low, access.high]:
            found += [(other, access.reads) for other in log.writes]
            if access.writes:
                found += [(other, False) for other in log.reads]
        return found

    def on_hbm(self, access: Access, program: int) -> list[tuple[int, bool]]:
        """The same on HBM: within a program; atomics keep their order over all programs."""
        if program != self.program:
            self.program = program
            self.loads.clear()
            self.stores.clear()
        found = []
        for old, other in self.stores:
            if self.overlap(old, access):
                both = old.atomic and access.atomic
                found.append((other, access.reads and not both))
        if access.writes:
            found += [(other, False) for old, other in self.loads if self.overlap(old, access)]
        if access.atomic:
            found += [(other, False) for old, other in self.atomics if self.overlap(old, access)]
        return found

    def overlap(self, a: Access, b: Access) -> bool:
        """True when two accesses of HBM may touch the same byte."""
        if a.arg == b.arg and a.arg >= 0 and a.low <= a.high and b.low <= b.high:
            return a.low < b.high and b.low < a.high
        if a.arg < 0 or b.arg < 0:
            return True
        return a.arg == b.arg or self.alias[a.arg] == self.alias[b.arg]

    def note(self, access: Access, number: int) -> None:
        """Remember an access. A write makes everybody before it come before everybody after it."""
        if access.arg > -2:
            (self.stores if access.writes else self.loads).append((access, number))
            if access.atomic:
                self.atomics = [p for p in self.atomics if p[0] != access] + [(access, number)]
            return
        log = self.sram[access.low, access.high]
        if access.writes:
            log.writes, log.reads = [number], []
        else:
            log.reads.append(number)


def problem_of(steps: Sequence[Step], work: Sequence[Work], alias: Sequence[int]) -> Problem:
    """The problem of a core's instructions (no sets and waits); `work` is by template."""
    dependences = _Dependences(steps, alias)
    problem = Problem([], [], [])
    for number, step in enumerate(steps):
        after, behind = dependences.of(number)
        problem.work.append(work[step.template])
        problem.after.append(tuple(sorted(after)))
        problem.behind.append(tuple(sorted(behind)))
    return problem
