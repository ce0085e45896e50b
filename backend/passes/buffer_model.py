"""The buffer pass's cost model: how long a slot is held, and how often a loop wants a new one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from .. import cost
from ..dialects import dsa
from ..isa.table import BY_NAME, Engine
from ..isa.text import parse_program
from ..isa.vprog import VectorProgram
from ..target import Target
from .placing.transfer import ESTIMATED_TRIPS
from .sram import RingUse

UNKNOWN_TRIPS = 16
"""Iterations assumed for a loop whose bounds come at run time."""

_FAR = 1 << 40  # a stride that makes no two rows neighbours


@dataclass(frozen=True)
class Rates:
    """What a ring's turns cost.

    `held`: cycles from the first write of a slot to the end of its last access, latency included.
    `period`: cycles per iteration of its loop that the busiest engine needs. `turns`: how often the home block
    runs. `wanted`: slots that cover the hand-overs with one to spare for jitter.
    """

    held: float
    period: float
    turns: float
    wanted: int


def loop_rates(uses: Sequence[RingUse], work: Work) -> dict[int, Rates]:
    """Rates by number of the rings that pass data between engines."""
    spans: dict[Block, dict[SSAValue, float]] = {}
    stores = {op for use in uses for op, engine, _ in use.accesses if engine is Engine.ST}
    store = max((work.transfer(op) for op in stores if isinstance(op, dsa.IssueOp)), default=0)
    rates: dict[int, Rates] = {}
    for number, use in enumerate(uses):
        if len(use.engines) < 2 or not use.repeats:
            continue
        if use.home not in spans:
            spans[use.home] = spans_of(use.home, work)
        period = max(1, *work.block_busy(_iteration(use.home)).values())
        held = spans[use.home].get(use.slot, 0)
        wanted = ceil(held / period)
        if Engine.LD in use.engines:
            # The loads of a loop do not all come when it is ideal: one may have to wait for a store at the port.
            wanted = ceil((held + store) / period) + 1
        rates[number] = Rates(held, period, _turns(use.home), max(2, wanted))
    return rates


def _iteration(block: Block) -> Block:
    """The body of the innermost loop around what is in a block: how often it runs sets the pace."""
    parent = block.parent_op()
    while isinstance(parent, scf.IfOp) and parent.parent is not None:
        block = parent.parent
        parent = block.parent_op()
    return block


def spans_of(block: Block, work: Work) -> dict[SSAValue, float]:
    """Cycles from the first to the last access of each slot when a block runs once on an idle core."""
    timing = Timing(work)
    timing.block(block)
    return {slot: end - timing.begin[slot] for slot, end in timing.end.items()}


class Timing:
    """Times at which instructions run when each engine takes them in order as soon as their data is there."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.free: dict[str, float] = defaultdict(float)  # by engine, and "HBM"
        self.ready: dict[SSAValue, float] = {}  # when the last write of a slot is complete
        self.begin: dict[SSAValue, float] = {}
        self.end: dict[SSAValue, float] = {}

    def block(self, block: Block) -> None:
        """Run the operations of a block once; a loop runs once and then takes its period for the rest."""
        for op in block.ops:
            if isinstance(op, dsa.IssueOp):
                self.issue(op)
                continue
            before = dict(self.free)
            for region in op.regions:
                for inner in region.blocks:
                    self.block(inner)
            if isinstance(op, scf.ForOp | scf.WhileOp):
                self._repeat(op, before)

    def _repeat(self, op: Operation, before: dict[str, float]) -> None:
        busy = [self.work.block_busy(b) for region in op.regions for b in region.blocks]
        period = max((cycles for part in busy for cycles in part.values()), default=0)
        more = (trips(op) - 1) * period
        for name in self.free:
            if self.free[name] != before.get(name, 0):
                self.free[name] += more
        for inner in op.walk():
            if isinstance(inner, dsa.IssueOp):
                for slot in accessed_slots(inner):
                    self.end[slot] += more
                    self.ready[slot] = max(self.ready.get(slot, 0), self.end[slot])

    def issue(self, op: dsa.IssueOp) -> None:
        """Run an instruction."""
        engine, slots = op.engine.name, accessed_slots(op)
        start = max(self.free[engine], *(self.ready.get(s, 0) for s in slots), 0)
        transfer = self.work.transfer(op)
        end = start + self.work.busy(op) - transfer
        if transfer:
            end = max(end, self.free["HBM"]) + transfer
            self.free["HBM"] = end
        self.free[engine] = end
        complete = end + (self.work.target.hbm.latency_cycles if transfer else 0)
        for slot, role in slots.items():
            self.begin[slot] = min(self.begin.get(slot, start), start)
            self.end[slot] = max(self.end.get(slot, 0), complete)
            if "w" in role:
                self.ready[slot] = complete


def accessed_slots(op: dsa.IssueOp) -> dict[SSAValue, str]:
    """What the acquires of the slots that an instruction accesses give, with the letters of the roles."""
    found: dict[SSAValue, str] = {}
    for (slot, _), role in aged_slots(op).items():
        found[slot] = found.get(slot, "") + role
    return found


def aged_slots(op: dsa.IssueOp) -> dict[tuple[SSAValue, int], str]:
    """The slots that an instruction accesses, as acquired now and their ages, with the letters of the roles."""
    row = BY_NAME[op.op.data]
    found: dict[tuple[SSAValue, int], str] = {}
    for name, value in op.bound().items():
        if isinstance(value.type, dsa.SlotType):
            role = row.by_name[name.partition(".")[0]].role or ""
            acquire, age = dsa.rotation_of(value)
            place = acquire.result, age
            found[place] = found.get(place, "") + role.removeprefix("sram_")
    return found


def _turns(block: Block) -> float:
    """How often a block runs."""
    turns, op = 1.0, block.parent_op()
    while op is not None and not isinstance(op, func.FuncOp):
        if isinstance(op, scf.ForOp | scf.WhileOp):
            turns *= trips(op)
        op = op.parent_op()
    return turns


def trips(op: Operation) -> int:
    """Iterations of a loop, assumed when they are not known."""
    estimate = op.attributes.get(ESTIMATED_TRIPS)
    if isinstance(estimate, IntegerAttr):
        return estimate.value.data
    if not isinstance(op, scf.ForOp):
        return UNKNOWN_TRIPS
    lb, ub, step = (_constant(v) for v in (op.lb, op.ub, op.step))
    if lb is None or ub is None or not step:
        return UNKNOWN_TRIPS
    return max(0, -(-(ub - lb) // step))


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


class Work:
    """Busy cycles of engines by operation and block, remembered."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._busy: dict[Operation, float] = {}
        self._transfers: dict[Operation, int] = {}
        self._blocks: dict[Block, dict[str, float]] = {}

    def changed(self) -> None:
        """Operations have come, gone or moved; what is known of those that stay holds."""
        self._blocks.clear()

    def busy(self, op: Operation) -> float:
        """Cycles for which an instruction holds its engine or the HBM port, whichever is longer."""
        if op not in self._busy:
            self._busy[op] = self._instruction(op) if isinstance(op, dsa.IssueOp) else 0.0
        return self._busy[op]

    def _instruction(self, op: dsa.IssueOp) -> float:
        fields = static_fields(op)
        program = program_of(op)
        cycles = cost.compute_cycles(op.op.data, fields, program, self.target)
        return cycles + self.transfer(op)

    def transfer(self, op: dsa.IssueOp) -> int:
        """Cycles for which an instruction holds the HBM port when all cores are active."""
        if "hbm" not in BY_NAME[op.op.data].by_name:
            return 0
        if op not in self._transfers:
            moved = cost.dma_bytes(op.op.data, static_fields(op), self.target)
            self._transfers[op] = cost.transfer_cycles(moved, self.target, self.target.cores)
        return self._transfers[op]

    def op_busy(self, op: Operation) -> dict[str, float]:
        """Busy cycles by resource (an engine, "HBM", "CORE") of an operation with all that is nested in it."""
        total: dict[str, float] = defaultdict(float)
        if isinstance(op, dsa.IssueOp):
            total[op.engine.name] += self.busy(op)
            total["HBM"] += self.transfer(op)
            total["CORE"] += cost.issue_cycles(len(open_fields(op)), self.target)
        elif isinstance(op, dsa.ReadOp):
            total["CORE"] += self.target.scalar.read_cycles
        times = trips(op) if isinstance(op, scf.ForOp | scf.WhileOp) else 1
        for region in op.regions:
            for block in region.blocks:
                for name, cycles in self.block_busy(block).items():
                    total[name] += cycles * times
        return total

    def block_busy(self, block: Block) -> dict[str, float]:
        """Busy cycles by resource of one execution of a block."""
        if block not in self._blocks:
            total: dict[str, float] = defaultdict(float)
            for op in block.ops:
                for name, cycles in self.op_busy(op).items():
                    total[name] += cycles
            self._blocks[block] = total
        return self._blocks[block]


def open_fields(op: dsa.IssueOp) -> list[str]:
    """Fields that need a run-time operand; a slot of a ring with one slot is known in advance."""
    return list(op.bound())


def program_of(op: dsa.IssueOp) -> VectorProgram | None:
    """The vector program of a vexec."""
    return parse_program(op.program.data) if op.program is not None else None


def static_fields(op: dsa.IssueOp) -> dict[str, cost.FieldValue]:
    """The fields of an instruction with assumptions for open ones: boxes fully valid, rows apart in HBM."""
    row = BY_NAME[op.op.data]
    fields: dict[str, cost.FieldValue] = {
        name: op.static(name) for name in op.fields.data if row.by_name[name].type != "u64"
    }  # addresses and bit patterns cost nothing
    bound = op.bound()
    for name in bound:
        field_name, _, entry = name.partition(".")
        field = row.by_name[field_name]
        if field.type == "u64":
            continue
        if field_name == "hi":
            sizes = op.static("size")
            assert isinstance(sizes, tuple)
            value = sizes[int(entry)]
        elif field_name == "hbm_stride":
            value = _FAR
        else:
            value = 0
        if entry:
            known = fields.get(field_name, (0,) * field.count)
            assert isinstance(known, tuple)
            fields[field_name] = (*known[: int(entry)], value, *known[int(entry) + 1 :])
        else:
            fields[field_name] = value
    return cost.complete(op.op.data, fields)
