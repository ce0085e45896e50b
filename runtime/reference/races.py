"""Happens-before over the engines of a core, by vector clocks, and the races it uncovers.

Each engine numbers its instructions (the control core its reads). `known[e][f]` is the number of
instructions of engine f that are known to have *completed* before engine e's current one started.
Knowledge flows through semaphore tokens, with every issue from the control core, and along a queue in
order; for LD and ST the latter does not cover reading what an earlier instruction of the queue wrote
(docs/architecture.md, "Semantics of order").

A semaphore's tokens are taken first in, first out, which is exact when one engine sets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dsalang._backend.isa.table import Engine

ACTORS = tuple(Engine)
OVERLAPPING = (Engine.LD, Engine.ST)
"""Engines whose queued instructions overlap each other's latency."""

Clock = tuple[int, ...]
NOTHING: Clock = (0,) * len(ACTORS)


class Clocks:
    """The vector clocks of one core."""

    def __init__(self) -> None:
        self.count = [0] * len(ACTORS)
        self.known = [[0] * len(ACTORS) for _ in ACTORS]

    def join(self, engine: Engine, clock: Sequence[int]) -> None:
        """`engine` learns what `clock` knows."""
        self.known[engine] = [max(a, b) for a, b in zip(self.known[engine], clock)]

    def start(self, engine: Engine) -> int:
        """The next instruction of `engine` starts; its number."""
        if engine not in OVERLAPPING:
            self.known[engine][engine] = self.count[engine]
        self.count[engine] += 1
        return self.count[engine]

    def token(self, engine: Engine) -> Clock:
        """What a `set` of `engine` tells whoever waits for it: all its instructions so far completed."""
        clock = list(self.known[engine])
        clock[engine] = self.count[engine]
        return tuple(clock)

    def snapshot(self, engine: Engine) -> Clock:
        """What `engine` knows now."""
        return tuple(self.known[engine])


@dataclass(frozen=True, slots=True)
class Box:
    """A set of bytes: elements of `elem_bytes` at base + Σ i_d · stride_d, or at `addresses`."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    elem_bytes: int
    low: int
    high: int
    addresses: npt.NDArray[np.int64] | None = field(default=None, compare=False)

    @property
    def dense(self) -> bool:
        """True when every byte from low to high is in the set (False when that is not obvious)."""
        if self.addresses is not None:
            return False
        run = self.elem_bytes
        for stride, size in sorted((abs(t), n) for t, n in zip(self.strides, self.shape)):
            if size > 1 and stride:
                if stride != run:
                    return False
                run *= size
        return run == self.high - self.low

    def bitmap(self, low: int, high: int) -> npt.NDArray[np.bool_]:
        """Which bytes of [low, high) are in the set."""
        everything = np.zeros(self.high - self.low, np.bool_)
        if self.addresses is not None:
            for byte in range(self.elem_bytes):
                everything[self.addresses - self.low + byte] = True
        else:
            np.ndarray(
                (*self.shape, self.elem_bytes),
                np.bool_,
                everything,
                self.base - self.low,
                (*self.strides, 1),
            )[...] = True
        return everything[low - self.low : high - self.low]


def make_box(base: int, shape: Sequence[int], strides: Sequence[int], elem_bytes: int) -> Box:
    """The box of a strided walk; no size may be 0."""
    low = high = base
    for size, stride in zip(shape, strides, strict=True):
        reach = (size - 1) * stride
        if reach < 0:
            low += reach
        else:
            high += reach
    return Box(base, tuple(shape), tuple(strides), elem_bytes, low, high + elem_bytes)


def list_box(addresses: npt.NDArray[np.int64], elem_bytes: int) -> Box:
    """The box of elements at the given byte addresses; there must be one."""
    low, high = int(addresses.min()), int(addresses.max()) + elem_bytes
    return Box(low, (), (), elem_bytes, low, high, addresses)


def overlap(a: Box, b: Box) -> bool:
    """True when two sets share a byte."""
    low, high = max(a.low, b.low), min(a.high, b.high)
    if low >= high:
        return False
    if a.dense and b.dense:
        return True
    return bool((a.bitmap(low, high) & b.bitmap(low, high)).any())


@dataclass(frozen=True, slots=True)
class Access:
    """What instruction number `number` of `engine` did to memory; `template` says where it came from.

    `atomic` accesses of one kind of memory do not conflict with each other.
    """

    engine: Engine
    number: int
    writes: bool
    box: Box
    template: int
    atomic: bool = False


class AccessLog:
    """Earlier accesses to one memory, as far as later ones could still race with them."""

    _PRUNE_AT = 128

    def __init__(self, clocks: Clocks, observers: Sequence[Engine], own_queue: bool) -> None:
        """`observers` access the memory; `own_queue`: an LD or ST may read what its queue wrote."""
        self._clocks = clocks
        self._observers = tuple(observers)
        self._own_queue = own_queue
        self._reads: list[Access] = []
        self._writes: list[Access] = []
        self._limit = self._PRUNE_AT

    def add(self, access: Access) -> Access | None:
        """Record an access of the instruction that starts now. The result is one it races with."""
        for old in self._writes:
            if self._races(old, access):
                return old
        if access.writes:
            for old in self._reads:
                if self._races(old, access):
                    return old
            if access.box.dense:
                # Whoever is ordered after this write is ordered after what it overwrites.
                self._reads = _outside(self._reads, access.box)
                self._writes = _outside(self._writes, access.box)
        (self._writes if access.writes else self._reads).append(access)
        if len(self._reads) + len(self._writes) > self._limit:
            self._prune()
        return None

    def _races(self, old: Access, new: Access) -> bool:
        apart = old.box.high <= new.box.low or old.box.low >= new.box.high
        return not apart and self._conflict(old, new) and overlap(old.box, new.box)

    def _conflict(self, old: Access, new: Access) -> bool:
        """True when two accesses that share a byte would be unordered and matter."""
        if not (old.writes or new.writes) or (old.atomic and new.atomic):
            return False
        if old.engine == new.engine:
            reads_written = old.writes and not (new.writes and not new.atomic)
            if new.engine not in OVERLAPPING or not reads_written or old.number == new.number:
                return False
        return old.number > self._clocks.known[new.engine][old.engine]

    def _prune(self) -> None:
        """Forget what everybody knows to be over, and all but the last of equal accesses."""
        self._reads, self._writes = self._relevant(self._reads), self._relevant(self._writes)
        self._limit = max(self._PRUNE_AT, 2 * (len(self._reads) + len(self._writes)))

    def _relevant(self, records: list[Access]) -> list[Access]:
        latest: dict[object, Access] = {}
        for access in records:
            if self._unknown_to_some(access):
                unique = access.box.addresses is not None
                latest[id(access) if unique else (access.engine, access.atomic, access.box)] = (
                    access
                )
        return list(latest.values())

    def _unknown_to_some(self, access: Access) -> bool:
        engine = access.engine
        return any(
            access.number > self._clocks.known[e][engine]
            for e in self._observers
            if e != engine or (self._own_queue and access.writes)
        )


def _outside(records: list[Access], box: Box) -> list[Access]:
    return [a for a in records if a.box.low < box.low or a.box.high > box.high]
