"""Machine time of a static schedule: known before the kernel runs, whatever its data and its addresses.

What the reference engine finds while it runs is worked out here from what each core issues, once per image. A
schedule that the machine does not keep is not for this engine; the reference engine says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dsalang._backend.cost import dma_bytes, transfer_cycles
from dsalang._backend.image.model import Image
from dsalang._backend.isa.engines import QUEUED, Engine
from dsalang._backend.llvm.table_glue import TimedIssue, read_table_glue
from dsalang._backend.target import Target

from ..stats import CoreStats, Event, Reason, Wait
from . import timing
from .outline import UnsuitedError
from .plan import Row

_OF_TIME = ("size", "lo", "hi", "hbm_stride", "index", "batch", "m", "n", "k")
"""Fields that times depend on: in a schedule they are known."""
_NOT_ISSUED = Reason("not issued")


def issues_of(image: Image) -> list[list[TimedIssue]]:
    """What each core issues, in that order. Raises UnsuitedError where that stands in code, not in a table."""
    try:
        return read_table_glue(image.glue)
    except ValueError as error:
        raise UnsuitedError(str(error)) from None


def by_start(issues: Sequence[TimedIssue], rows: Sequence[Row]) -> list[TimedIssue]:
    """What a core issues, in the order in which the machine starts it: memory changes then."""
    return sorted(issues, key=lambda issue: (issue.start, rows[issue.template].engine))


def times_of(image: Image, target: Target, rows: Sequence[Row]) -> tuple[CoreStats, ...]:
    """What each core does when, without traffic. Raises UnsuitedError where the machine does not keep the schedule."""
    assert image.timing is not None
    if target.hbm.jitter_cycles:
        raise UnsuitedError("fixed times on a machine whose HBM has jitter")
    if any(row.kind in (timing.SET, timing.TAKE) for row in rows):
        raise UnsuitedError("flags in a static schedule")
    if any(slot.name in _OF_TIME for row in rows for slot in row.prepared.open):
        raise UnsuitedError(
            "an instruction of a static schedule takes a time that is known at run time only"
        )
    cores = issues_of(image)
    if len(cores) != len(image.timing.cycles):
        raise UnsuitedError("a schedule of other cores")
    costs = [_cost(row, target, len(cores)) for row in rows]
    known: dict[tuple[tuple[int, int], ...], _Core] = {}
    finished = []
    for number, issues in enumerate(cores):
        key = tuple((issue.template, issue.start) for issue in issues)
        if key not in known:
            known[key] = _Core(rows, costs, target).run(key)
        stats = known[key].stats(number)
        if stats.cycles != image.timing.cycles[number]:
            raise UnsuitedError("a schedule that takes other than the promised time")
        finished.append(stats)
    return tuple(finished)


@dataclass(frozen=True)
class _Cost:
    """Of a template: cycles on its engine, then at the HBM port, bytes that it moves there."""

    cycles: int
    transfer: int
    bytes: int


def _cost(row: Row, target: Target, cores: int) -> _Cost:
    if row.kind != timing.DMA:
        return _Cost(row.cycles, 0, 0)
    moved = dma_bytes(row.name, row.prepared.fields, target)
    return _Cost(row.cycles, transfer_cycles(moved, target, cores), moved)


@dataclass
class _Queue:
    """An engine: when what it was given started, when it is free, when all of it is complete."""

    starts: list[int] = field(default_factory=list)
    free: int = 0
    completed: int = 0


class _Core:
    """One core, by the rules of `reference/core.py` for instructions with a fixed start."""

    def __init__(self, rows: Sequence[Row], costs: Sequence[_Cost], target: Target) -> None:
        self.rows, self.costs, self.target = rows, costs, target
        self.queues = {engine: _Queue() for engine in QUEUED}
        self.time = 0  # of the control core
        self.found = CoreStats(0)
        self.moves: list[tuple[int, int]] = []  # at the port: from, to

    def run(self, issues: Sequence[tuple[int, int]]) -> _Core:
        """Everything that is issued: templates and starts."""
        for template, start in issues:
            self.issue(template, start)
        port = 0
        for begin, end in sorted(self.moves):
            if begin < port:
                raise UnsuitedError("transfers of a schedule that meet")
            port = end
        ends = (queue.completed for queue in self.queues.values())
        self.found.cycles = max(self.time, port, *ends)
        self.found.sort()
        return self

    def stats(self, core: int) -> CoreStats:
        """The figures of core number `core`."""
        return CoreStats(**{**vars(self.found), "core": core})

    def issue(self, template: int, start: int) -> None:
        """The control core issues an instruction, and its engine runs it."""
        row = self.rows[template]
        queue, depth = self.queues[row.engine], self.target.queue_depth
        core = self.found.engines[Engine.CORE]
        self.time += row.issue
        core.busy += row.issue
        core.instructions += 1
        if len(queue.starts) >= depth:
            room = max(self.time, queue.starts[-depth])
            self.stall(Engine.CORE, Reason("queue full", row.engine), self.time, room)
            self.time = room
        if self.time > start or queue.free > start:
            raise UnsuitedError("an instruction that cannot start when it is to")
        self.stall(row.engine, _NOT_ISSUED, queue.free, self.time)
        queue.starts.append(start)
        self.execute(queue, template, start)

    def execute(self, queue: _Queue, template: int, start: int) -> None:
        """The engine's time from an instruction's start to its completion."""
        row, cost, found = self.rows[template], self.costs[template], self.found
        engine = found.engines[row.engine]
        ready = start + cost.cycles
        queue.free = ready + cost.transfer
        if row.kind == timing.DMA:
            self.moves.append((ready, queue.free))
            queue.completed = max(queue.completed, queue.free + self.target.hbm.latency_cycles)
            found.port_busy += cost.transfer
            found.burst_bytes += cost.bytes
        else:
            queue.completed = queue.free
            found.operations[row.engine] = found.operations.get(row.engine, 0) + row.work
        engine.instructions += 1
        engine.busy += queue.free - start
        found.events.append(
            Event(row.engine, template, start, queue.free, queue.completed, row.address)
        )

    def stall(self, engine: Engine, reason: Reason, start: int, end: int) -> None:
        """Count the cycles for which an engine stood still."""
        if end > start:
            stalls = self.found.engines[engine].stalls
            stalls[reason] = stalls.get(reason, 0) + end - start
            self.found.waits.append(Wait(engine, reason, start, end))
