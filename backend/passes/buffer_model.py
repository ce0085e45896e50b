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


def loop_rates(kernel: func.FuncOp, uses: Sequence[RingUse], target: Target) -> dict[int, Rates]:
    """Rates by number of the rings that pass data between engines."""
    model = _Model(target)
    rates: dict[int, Rates] = {}
    for number, use in enumerate(uses):
        if len(use.engines) < 2:
            continue
        period = max(model.block_busy(use.home).values(), default=0)
        held = _held(use, model)
        wanted = ceil(held / max(1, period)) + int(_has_dma(use))
        rates[number] = Rates(held, max(1, period), _turns(use.home), max(2, wanted))
    return rates


def _has_dma(use: RingUse) -> bool:
    return bool(use.engines & {Engine.LD, Engine.ST})


def _held(use: RingUse, model: _Model) -> float:
    """Accesses follow each other; those of one engine that follow without another between share their latency."""
    total, last = 0.0, None
    spans: dict[Operation, float] = {}
    for op, engine, _ in use.accesses:
        top = op
        while top.parent is not use.home:
            parent = top.parent_op()
            assert parent is not None
            top = parent
        if top is op:
            spans[op] = model.busy(op)
        elif top not in spans:  # a loop that uses the slot in every iteration
            spans[top] = max(model.op_busy(top).values(), default=0)
        if engine is not last and engine in (Engine.LD, Engine.ST):
            total += model.target.hbm.latency_cycles
        last = engine
    return total + sum(spans.values())


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


class _Model:
    """Busy cycles of engines by operation and block, remembered."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._busy: dict[Operation, float] = {}
        self._blocks: dict[Block, dict[str, float]] = {}

    def busy(self, op: Operation) -> float:
        """Cycles for which an instruction holds its engine or the HBM port, whichever is longer."""
        if op not in self._busy:
            self._busy[op] = self._instruction(op) if isinstance(op, dsa.IssueOp) else 0.0
        return self._busy[op]

    def _instruction(self, op: dsa.IssueOp) -> float:
        fields = static_fields(op)
        program = program_of(op)
        cycles = cost.compute_cycles(op.op.data, fields, program, self.target)
        return cycles + self._transfer(op)

    def _transfer(self, op: dsa.IssueOp) -> int:
        if "hbm" not in BY_NAME[op.op.data].by_name:
            return 0
        moved = cost.dma_bytes(op.op.data, static_fields(op), self.target)
        return cost.transfer_cycles(moved, self.target, self.target.cores)

    def op_busy(self, op: Operation) -> dict[str, float]:
        """Busy cycles by resource (an engine, "HBM", "CORE") of an operation with all that is nested in it."""
        total: dict[str, float] = defaultdict(float)
        if isinstance(op, dsa.IssueOp):
            total[op.engine.name] += self.busy(op)
            total["HBM"] += self._transfer(op)
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
