"""Machine time as maxima of earlier times, with a state that can be compared and moved on.

The rules are those of docs/architecture.md, "Machine time". Queues run ahead as far as what they wait for is
known; a transfer is decided when nothing else can move, since only then it is certain who was first at the port.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from .. import cost
from ..errors import InternalError
from ..isa.table import QUEUED, Engine
from ..target import Target


class Kind(IntEnum):
    """What an entry of a queue does."""

    COMPUTE = 0
    DMA = 1
    SET = 2
    WAIT = 3


class Entry(NamedTuple):
    """An instruction to issue. `cycles` hold the engine (DMA: set-up only), `bytes` are bursts of a DMA."""

    kind: Kind
    engine: int
    issue: int
    cycles: int = 0
    bytes: int = 0
    sem: int = -1


@dataclass
class Counts:
    """What adds up over a run: busy cycles by engine, of the port, bytes of bursts, instructions."""

    busy: list[int]
    port: int = 0
    bytes: int = 0
    instructions: int = 0

    def plus(self, earlier: Counts, later: Counts, times: int) -> None:
        """Add `times` the difference of two counts."""
        for number in range(len(self.busy)):
            self.busy[number] += times * (later.busy[number] - earlier.busy[number])
        self.port += times * (later.port - earlier.port)
        self.bytes += times * (later.bytes - earlier.bytes)
        self.instructions += times * (later.instructions - earlier.instructions)

    def copy(self) -> Counts:
        """The same, on its own."""
        return Counts(list(self.busy), self.port, self.bytes, self.instructions)


class Machine:
    """One core. Issue entries with `issue`, let the control core wait with `wait` and read with `read`."""

    def __init__(
        self, target: Target, credits: Sequence[int], taker: dict[int, int], active_cores: int
    ) -> None:
        self.target, self.active, self.depth = target, active_cores, target.queue_depth
        self.taker = taker
        self.time = self.port_free = 0
        engines = len(QUEUED)
        self.free, self.completed = [0] * engines, [0] * engines
        self.pending: list[deque[tuple[Entry, int]]] = [deque() for _ in range(engines)]
        self.left: list[deque[int]] = [deque(maxlen=self.depth) for _ in range(engines)]
        self.moving: list[tuple[int, int, Entry] | None] = [None] * engines  # ready, start
        self.tokens: list[deque[int]] = [deque([0] * count) for count in credits]
        self.counts = Counts([0] * len(Engine))
        self._transfers: dict[int, int] = {}

    def issue(self, entry: Entry) -> None:
        """The control core issues an entry, as soon as its queue has room."""
        engine = entry.engine
        self.time += entry.issue
        self.counts.busy[Engine.CORE] += entry.issue
        pending, left = self.pending[engine], self.left[engine]
        while len(pending) >= self.depth:
            self._move()
        if len(left) >= self.depth - len(pending):
            self.time = max(self.time, left[len(pending) - self.depth])
        pending.append((entry, self.time))
        self._drain(engine)

    def wait(self, sem: int) -> None:
        """The control core takes a token."""
        while not self.tokens[sem]:
            self._move()
        self.time = max(self.time, self.tokens[sem].popleft())

    def read(self) -> None:
        """The control core reads a scalar."""
        cycles = self.target.scalar.read_cycles
        self.time += cycles
        self.counts.busy[Engine.CORE] += cycles

    def finish(self) -> int:
        """Let everything complete; the cycles of the run."""
        while any(m is not None for m in self.moving):
            self._move()
        if any(self.pending):
            raise InternalError("predict: the kernel does not end")
        return max(self.time, self.port_free, *self.completed)

    def _move(self) -> None:
        """Give the port to the transfer that was ready first, LD before ST."""
        waiting = [(m[0], engine) for engine, m in enumerate(self.moving) if m is not None]
        if not waiting:
            raise InternalError("predict: the control core waits for ever")
        ready, engine = min(waiting)
        moving = self.moving[engine]
        assert moving is not None
        entry = moving[2]
        cycles = self._transfers.get(entry.bytes)
        if cycles is None:
            cycles = cost.transfer_cycles(entry.bytes, self.target, self.active)
            self._transfers[entry.bytes] = cycles
        end = max(ready, self.port_free) + cycles
        self.moving[engine] = None
        self.free[engine] = self.port_free = end
        latency = self.target.hbm.latency_cycles
        self.completed[engine] = max(self.completed[engine], end + latency)
        counts = self.counts
        counts.busy[engine] += entry.cycles + cycles
        counts.port += cycles
        counts.bytes += entry.bytes
        self._drain(engine)

    def _drain(self, first: int) -> None:
        """Start what can start, on the engine and on those that its tokens reach."""
        todo = [first]
        while todo:
            engine = todo.pop()
            pending = self.pending[engine]
            while pending and self.moving[engine] is None:
                entry, issued = pending[0]
                start = max(self.free[engine], issued)
                if entry.kind is Kind.WAIT:
                    if not self.tokens[entry.sem]:
                        break
                    start = max(start, self.tokens[entry.sem].popleft())
                pending.popleft()
                self.left[engine].append(start)
                self.free[engine] = start
                if entry.kind is Kind.SET:
                    self.tokens[entry.sem].append(max(start, self.completed[engine]))
                    if (taker := self.taker[entry.sem]) != Engine.CORE:
                        todo.append(taker)
                elif entry.kind is Kind.DMA:
                    self.counts.instructions += 1
                    self.moving[engine] = (start + entry.cycles, start, entry)
                elif entry.kind is Kind.COMPUTE:
                    self.counts.instructions += 1
                    self.counts.busy[engine] += entry.cycles
                    self.free[engine] = self.completed[engine] = start + entry.cycles

    # Steady state

    def state(self) -> Hashable:
        """All that decides how long what comes next will take, relative to the control core's time."""
        now = self.time
        lows = [self._low(engine) for engine in range(len(self.free))]
        parts: list[Hashable] = [max(self.port_free, min(lows[Engine.LD], lows[Engine.ST])) - now]
        for engine, low in enumerate(lows):
            moving = self.moving[engine]
            parts += (
                max(self.free[engine], low) - now
                if moving is None
                else (moving[0] - now, moving[2]),
                max(self.completed[engine], low) - now,
                tuple((entry, max(at, low) - now) for entry, at in self.pending[engine]),
                tuple(max(at - now, 0) for at in self.left[engine]),
            )
        for sem, tokens in enumerate(self.tokens):
            taker = self.taker.get(sem, Engine.CORE)
            low = now if taker == Engine.CORE else lows[taker]
            parts.append(tuple(max(at, low) - now for at in tokens))
        return tuple(parts)

    def _low(self, engine: int) -> int:
        """Nothing that an engine does next starts before this."""
        moving = self.moving[engine]
        if moving is not None:
            return moving[0]
        return self.free[engine] if self.pending[engine] else max(self.free[engine], self.time)

    def advance(self, cycles: int) -> None:
        """Move everything that has happened `cycles` later."""
        self.time += cycles
        self.port_free += cycles
        for engine in range(len(self.free)):
            self.free[engine] += cycles
            self.completed[engine] += cycles
            pending, left = self.pending[engine], self.left[engine]
            self.pending[engine] = deque((entry, at + cycles) for entry, at in pending)
            self.left[engine] = deque((at + cycles for at in left), self.depth)
            if (moving := self.moving[engine]) is not None:
                self.moving[engine] = (moving[0] + cycles, moving[1] + cycles, moving[2])
        self.tokens = [deque(at + cycles for at in tokens) for tokens in self.tokens]
