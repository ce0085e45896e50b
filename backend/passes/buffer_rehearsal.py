"""A rehearsal of a kernel: when its instructions would run with given slots and addresses.

Engines are in order, hand-overs follow the slots' addresses, DMAs share the HBM port. Loops run a few times and
then as often as they should at the pace they have reached. Used where choices cannot be told apart by the
bounds of `buffer_model`: when rings have to share memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from .. import cost
from ..dialects import dsa
from ..target import Target
from .buffer_model import Work, aged_slots, open_fields, trips
from .sram import RingUse, ring_uses, slot_stride

INNERMOST_TURNS, OUTER_TURNS = 8, 3

Place = tuple[int, int]
"""A ring's number and a slot of it."""


@dataclass(frozen=True)
class _Access:
    """What of an instruction does not depend on slots and addresses. `places`: ring, age, whether it writes."""

    engine: str
    issue: float
    busy: float
    transfer: float
    places: tuple[tuple[int, int, bool], ...]


def estimate(module: ModuleOp, target: Target) -> float:
    """The cost model's cycles of a kernel after all passes, some programs for an unknown grid."""
    (kernel,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    uses = ring_uses(kernel)
    slots = [use.ring.slots.value.data for use in uses]
    addresses = [use.ring.address.value.data for use in uses]
    return Rehearsal(kernel, uses, Work(target)).cycles(slots, addresses)


class Rehearsal:
    """A kernel made ready to be rehearsed many times."""

    def __init__(self, kernel: func.FuncOp, uses: Sequence[RingUse], work: Work) -> None:
        self.kernel, self.uses, self.work = kernel, uses, work
        self.numbers = {use.slot: number for number, use in enumerate(uses)}
        self.accesses: dict[Operation, _Access] = {
            op: self._access(op) for op in kernel.walk() if isinstance(op, dsa.IssueOp)
        }
        self.outer: dict[Operation, list[tuple[int, str]]] = {
            op: self._outer_accesses(op)
            for op in kernel.walk()
            if isinstance(op, scf.ForOp | scf.WhileOp)
        }

    def cycles(self, slots: Sequence[int], addresses: Sequence[int]) -> float:
        """Estimated cycles of a core's share of the kernel, some programs for an unknown grid."""
        run = _Run(self, slots, _shared(self.uses, slots, addresses, self.work))
        run.block(self.kernel.body.block)
        return run.now()

    def _access(self, op: dsa.IssueOp) -> _Access:
        places = tuple(
            (self.numbers[slot], age, "w" in role) for (slot, age), role in aged_slots(op).items()
        )
        transfer = self.work.transfer(op)
        issue = cost.issue_cycles(len(open_fields(op)), self.work.target)
        return _Access(op.engine.name, issue, self.work.busy(op) - transfer, transfer, places)

    def _outer_accesses(self, loop: Operation) -> list[tuple[int, str]]:
        """Accesses inside a loop to slots acquired outside: their flags are set when the loop is over."""
        inside = {self.numbers[op.result] for op in loop.walk() if isinstance(op, dsa.AcquireOp)}
        found = {
            (number, access.engine): None
            for op in loop.walk()
            if (access := self.accesses.get(op)) is not None
            for number, _, _ in access.places
            if number not in inside
        }
        return list(found)


class _Port:
    """The HBM port. Transfers are asked for in program order, not in the order of time, so one takes whatever is left
    of the time from when it is ready: it does not matter which of two goes first, but only one can have the port.
    """

    KEPT = 24

    def __init__(self) -> None:
        self.taken: list[tuple[float, float]] = []

    def serve(self, ready: float, cycles: float) -> float:
        """When a transfer of so many cycles is over."""
        at, left = ready, cycles
        for begin, end in self.taken:
            if end < ready:
                continue
            if begin - at >= left:
                break
            left -= max(0, begin - at)
            at = max(at, end)
        self._take(ready, at + left)
        return at + left

    def _take(self, begin: float, end: float) -> None:
        """All time from begin to end is taken: what was free of it went to this transfer."""
        kept = [(a, b) for a, b in self.taken if b < begin or a > end]
        joined = [(a, b) for a, b in self.taken if not (b < begin or a > end)]
        begin = min([begin, *(a for a, _ in joined)])
        end = max([end, *(b for _, b in joined)])
        self.taken = sorted([*kept, (begin, end)])[-self.KEPT :]

    def advance(self, cycles: float) -> None:
        """Shift what is known to a later time."""
        self.taken = [(begin + cycles, end + cycles) for begin, end in self.taken]


class _Run:
    def __init__(
        self, script: Rehearsal, slots: Sequence[int], shared: dict[Place, list[Place]]
    ) -> None:
        self.script, self.slots, self.shared = script, slots, shared
        self.read_cycles = script.work.target.scalar.read_cycles
        self.latency = script.work.target.hbm.latency_cycles
        self.turn = [-1] * len(slots)
        self.free: dict[str, float] = defaultdict(float)  # by engine, and "CORE"
        self.port = _Port()
        self.written: dict[Place, dict[str, float]] = defaultdict(dict)
        self.touched: dict[Place, dict[str, float]] = defaultdict(dict)

    def now(self) -> float:
        """When everything so far is over."""
        return max(self.free.values(), default=0)

    def block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, dsa.AcquireOp):
                self.turn[self.script.numbers[op.result]] += 1
            elif isinstance(op, dsa.IssueOp):
                self.issue(self.script.accesses[op])
            elif isinstance(op, dsa.ReadOp):
                acquire, age = dsa.rotation_of(op.slot)
                place = self.place(self.script.numbers[acquire.result], age)
                done = self.ready(place, "CORE", False)
                self.free["CORE"] = max(self.free["CORE"], done) + self.read_cycles
            elif isinstance(op, scf.ForOp | scf.WhileOp):
                self.loop(op)
            else:
                self.regions(op)

    def regions(self, op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                self.block(block)

    def loop(self, op: Operation) -> None:
        """Run some iterations, then shift the rest of time by what is left at the pace of the later half."""
        nested = any(isinstance(o, scf.ForOp | scf.WhileOp) for o in op.walk() if o is not op)
        times = trips(op)
        run = min(times, OUTER_TURNS if nested else INNERMOST_TURNS)
        ends = [self.now()]
        for _ in range(run):
            self.regions(op)
            ends.append(self.now())
        half = run // 2
        more = (times - run) * (ends[-1] - ends[half]) / max(1, run - half)
        if more:
            self.port.advance(more)
            self.free = defaultdict(float, {name: at + more for name, at in self.free.items()})
            for times_ in (*self.written.values(), *self.touched.values()):
                for name in times_:
                    times_[name] += more
        for number, engine in self.script.outer[op]:
            for times_ in (self.touched[self.place(number)], self.written[self.place(number)]):
                if engine in times_:
                    times_[engine] = max(times_[engine], self.free[engine])

    def place(self, number: int, age: int = 0) -> Place:
        return number, (self.turn[number] - age) % self.slots[number]

    def ready(self, place: Place, engine: str, writes: bool) -> float:
        """When the accesses of other engines that come before this one are over."""
        done = 0.0
        for other in self.shared[place]:
            times = (self.touched if writes else self.written)[other]
            done = max(done, *(at for name, at in times.items() if name != engine), 0.0)
        return done

    def issue(self, access: _Access) -> None:
        engine, free = access.engine, self.free
        places = [(self.place(number, age), writes) for number, age, writes in access.places]
        free["CORE"] += access.issue
        start = max(free[engine], free["CORE"])
        for place, writes in places:
            start = max(start, self.ready(place, engine, writes))
        end = complete = start + access.busy
        if access.transfer:
            end = self.port.serve(end, access.transfer)
            complete = end + self.latency
        free[engine] = end
        for place, writes in places:
            self.touched[place][engine] = complete
            if writes:
                self.written[place][engine] = complete


def _shared(
    uses: Sequence[RingUse], slots: Sequence[int], addresses: Sequence[int], work: Work
) -> dict[Place, list[Place]]:
    """Which slots wait for which: each for itself, and all slots of two rings that have bytes in common.

    One pair of flags orders all accesses of two rings in their common block, whichever slots they are to.
    """
    shared = {(n, k): [(n, k)] for n, count in enumerate(slots) for k in range(count)}
    spans = [
        (address, address + count * slot_stride(use.bytes, work.target))
        for use, count, address in zip(uses, slots, addresses, strict=True)
    ]
    for a, b in permutations(range(len(uses)), 2):
        if spans[a][0] < spans[b][1] and spans[b][0] < spans[a][1]:
            for k in range(slots[a]):
                shared[a, k] += [(b, j) for j in range(slots[b])]
    return shared
