"""A rehearsal of a kernel: when its instructions would run with given slots and addresses.

Engines are in order, hand-overs follow the slots' addresses, DMAs share the HBM port. Loops run a few times and
then as often as they should at the pace they have reached. Used where choices cannot be told apart by the
bounds of `buffer_model`: when rings have to share memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import permutations

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from .. import cost
from ..dialects import dsa
from ..target import Target
from .buffer_model import Work, accessed_slots, aged_slots, open_fields, trips
from .sram import RingUse, ring_uses, slot_stride

INNERMOST_TURNS, OUTER_TURNS = 8, 3

Place = tuple[int, int]
"""A ring's number and a slot of it."""


def rehearse(
    kernel: func.FuncOp,
    uses: Sequence[RingUse],
    slots: Sequence[int],
    addresses: Sequence[int],
    work: Work,
) -> float:
    """Estimated cycles of a core's share of the kernel, some programs for an unknown grid."""
    rehearsal = _Rehearsal(uses, slots, addresses, work)
    rehearsal.block(kernel.body.block)
    return rehearsal.now()


def estimate(module: ModuleOp, target: Target) -> float:
    """The cost model's cycles of a kernel after all passes, some programs for an unknown grid."""
    (kernel,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    uses = ring_uses(kernel)
    slots = [use.ring.slots.value.data for use in uses]
    addresses = [use.ring.address.value.data for use in uses]
    return rehearse(kernel, uses, slots, addresses, Work(target))


class _Rehearsal:
    def __init__(
        self, uses: Sequence[RingUse], slots: Sequence[int], addresses: Sequence[int], work: Work
    ) -> None:
        self.work, self.slots = work, slots
        self.numbers = {use.slot: number for number, use in enumerate(uses)}
        self.turn = [-1] * len(uses)
        self.free: dict[str, float] = defaultdict(float)  # by engine, "HBM", "CORE"
        self.written: dict[Place, dict[str, float]] = defaultdict(dict)
        self.touched: dict[Place, dict[str, float]] = defaultdict(dict)
        self.outer: dict[Operation, set[tuple[SSAValue, str]]] = {}
        self.shared = _shared(uses, slots, addresses, work)

    def now(self) -> float:
        """When everything so far is over."""
        return max(self.free.values(), default=0)

    def block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, dsa.AcquireOp):
                self.turn[self.numbers[op.result]] += 1
            elif isinstance(op, dsa.IssueOp):
                self.issue(op)
            elif isinstance(op, dsa.ReadOp):
                acquire, age = dsa.rotation_of(op.slot)
                done = self.ready(self.place(acquire.result, age), "CORE", False)
                read = self.work.target.scalar.read_cycles
                self.free["CORE"] = max(self.free["CORE"], done) + read
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
            self.free = defaultdict(float, {name: at + more for name, at in self.free.items()})
            for times_ in (*self.written.values(), *self.touched.values()):
                for name in times_:
                    times_[name] += more
        for slot, engine in self.outer_accesses(op):
            for times_ in (self.touched[self.place(slot)], self.written[self.place(slot)]):
                if engine in times_:
                    times_[engine] = max(times_[engine], self.free[engine])

    def outer_accesses(self, loop: Operation) -> set[tuple[SSAValue, str]]:
        """Accesses inside a loop to slots acquired outside: their flags are set when the loop is over."""
        if loop not in self.outer:
            found: set[tuple[SSAValue, str]] = set()
            for op in loop.walk():
                if isinstance(op, dsa.IssueOp):
                    found.update((slot, op.engine.name) for slot in accessed_slots(op))
            inside = {op.result for op in loop.walk() if isinstance(op, dsa.AcquireOp)}
            self.outer[loop] = {(slot, engine) for slot, engine in found if slot not in inside}
        return self.outer[loop]

    def place(self, slot: SSAValue, age: int = 0) -> Place:
        number = self.numbers[slot]
        return number, (self.turn[number] - age) % self.slots[number]

    def ready(self, place: Place, engine: str, writes: bool) -> float:
        """When the accesses of other engines that come before this one are over."""
        done = 0.0
        for other in self.shared[place]:
            times = (self.touched if writes else self.written)[other]
            done = max(done, *(at for name, at in times.items() if name != engine), 0.0)
        return done

    def issue(self, op: dsa.IssueOp) -> None:
        engine = op.engine.name
        places = {self.place(*slot): role for slot, role in aged_slots(op).items()}
        self.free["CORE"] += cost.issue_cycles(len(open_fields(op)), self.work.target)
        start = max(self.free[engine], self.free["CORE"])
        for place, role in places.items():
            start = max(start, self.ready(place, engine, "w" in role))
        transfer = self.work.transfer(op)
        end = start + self.work.busy(op) - transfer
        if (
            transfer
        ):  # a load may overtake an earlier store at the port, so only the sum of transfers counts
            self.free["HBM"] += transfer
            end = max(end + transfer, self.free["HBM"])
        self.free[engine] = end
        complete = end + (self.work.target.hbm.latency_cycles if transfer else 0)
        for place, role in places.items():
            self.touched[place][engine] = complete
            if "w" in role:
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
