"""The glue: what the control core runs, as LLVM IR made from the final dsa IR of a kernel.

The text has no target triple; the same one is compiled for RV64 (`riscv.py`) and for the host.
`docs/architecture.md` has the ABI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects import func, scf
from xdsl.ir import Block, Operation, SSAValue

from .. import formats
from ..dialects.dsa import (
    AcquireOp,
    AssertOp,
    CoreIdOp,
    GridDimOp,
    HeldOp,
    IssueOp,
    NumCoresOp,
    PartOp,
    PrintOp,
    ReadOp,
    RingOp,
    SetOp,
    WaitOp,
    rotation_of,
)
from ..errors import InternalError
from ..image.tables import Tables, issue_template, semaphore_template
from ..isa.rv64 import CALLS
from ..isa.table import Engine
from . import ir
from .arith import I64, Value, constant, int_type, lower_arith, narrow, widen

ENTRY = "dsa_kernel"
I32 = ir.I32

_ATTRIBUTES = (
    # no switch tables and no calls into a C library: the device has neither loader nor libc
    '"no-jump-tables"="true"',
    '"no-builtins"',
    # a tail call would leave the function by the very call that becomes a custom-0 instruction
    '"disable-tail-calls"="true"',
)


def build_glue(kernel: func.FuncOp, strides: Mapping[SSAValue, int], tables: Tables) -> str:
    """The LLVM IR of a kernel; fills `tables`. `strides` has the distance of slots per ring in bytes."""
    builder = _Glue(kernel, strides, tables)
    builder.run(kernel.body.blocks[0])
    builder.b.ret_void()
    return builder.text()


class _Glue:
    """State of the walk: where LLVM instructions go, and the LLVM value of every SSA value."""

    def __init__(
        self, kernel: func.FuncOp, strides: Mapping[SSAValue, int], tables: Tables
    ) -> None:
        self.module = ir.Module()
        self.calls = {
            name: ir.Function(self.module, I64, [I64, I64], f"__dsa_{name}") for name in CALLS
        }
        for call in self.calls.values():
            call.attributes.append("nounwind")
        self.function = ir.Function(self.module, ir.VOID, [ir.PTR, I64, I64], ENTRY)
        self.function.attributes += [*_ATTRIBUTES, "nounwind"]
        self.args, self.core, self.cores = self.function.args
        self.b: Any = ir.IRBuilder(self.function, self.function.append_basic_block("entry"))
        self.tables = tables
        self.strides = strides
        self.values: dict[SSAValue, Value] = {}
        self.rings: dict[SSAValue, RingOp] = {}
        self.cursors: dict[SSAValue, Value] = {}
        self.arguments = len(kernel.body.blocks[0].args)
        widest = max(
            (len(op.operands) for op in kernel.walk() if op.name in _WITH_ARRAY), default=0
        )
        self.array = self.b.alloca(ir.ArrayType(I64, max(widest, 1)))
        self.array_address = self.b.ptrtoint(self.array, I64)
        for number, argument in enumerate(kernel.body.blocks[0].args):
            self.values[argument] = narrow(self.b, self.argument(number), int_type(argument.type))

    def text(self) -> str:
        """The module without triple and data layout, so that it fits every machine."""
        return str(self.module)

    def argument(self, number: int) -> Value:
        """Load entry `number` of the argument array."""
        return self.b.load(self.b.gep(self.args, [I64(number)], I64), I64)

    def call(self, name: str, first: Value, second: Value) -> Value:
        """Call into the machine."""
        return self.b.call(self.calls[name], [first, second])

    def run(self, block: Block) -> list[Value]:
        """Emit a block; the result is the values its terminator passes on."""
        for op in block.ops:
            if isinstance(op, scf.YieldOp | func.ReturnOp | scf.ConditionOp):
                return self.of(op.operands)
            self.op(op)
        return []

    def of(self, values: Sequence[SSAValue]) -> list[Value]:
        """The LLVM values of SSA values."""
        return [self.values[value] for value in values]

    def op(self, op: Operation) -> None:
        """Emit one op."""
        emit = _EMIT.get(type(op))
        if emit is not None:
            emit(self, op)
            return
        results = lower_arith(self.b, op, self.of(op.operands))
        self.values.update(zip(op.results, results, strict=True))

    # SRAM

    def ring(self, op: RingOp) -> None:
        """Rings with several slots get a cursor, the address of the next slot, kept as long as the kernel runs."""
        if op.address.value.data < 0 or op.slots.value.data < 1:
            raise InternalError(f"lower: ring {op.label.data} has no place")
        self.rings[op.result] = op
        if op.slots.value.data > 1:
            cursor = self.b.alloca(I64)
            self.b.store(I64(op.address.value.data), cursor)
            self.cursors[op.result] = cursor

    def acquire(self, op: AcquireOp) -> None:
        """The slot at the cursor, which moves on; a constant when there is only one."""
        ring = self.rings[op.ring]
        base = ring.address.value.data
        cursor = self.cursors.get(op.ring)
        if cursor is None:
            self.values[op.result] = I64(base)
            return
        stride = self.strides[op.ring]
        slot = self.b.load(cursor, I64)
        behind = self.b.add(slot, I64(stride))
        end = I64(base + stride * ring.slots.value.data)
        wraps = self.b.icmp_unsigned("==", behind, end)
        self.b.store(self.b.select(wraps, I64(base), behind), cursor)
        self.values[op.result] = slot

    def held(self, op: HeldOp) -> None:
        """The slot of an earlier turn: `age` slots before the current one, round the ring."""
        acquire, age = rotation_of(op.result)
        ring = self.rings[acquire.ring]
        base, stride = ring.address.value.data, self.strides[acquire.ring]
        if ring.slots.value.data <= age:
            raise InternalError(f"lower: ring {ring.label.data} does not hold {age} slots")
        before = self.b.sub(self.values[op.current], I64(age * stride))
        below = self.b.icmp_signed("<", before, I64(base))
        after = self.b.add(before, I64(ring.slots.value.data * stride))
        self.values[op.result] = self.b.select(below, after, before)

    def part(self, op: PartOp) -> None:
        """An address within a slot."""
        self.values[op.result] = self.b.add(*self.of(op.operands))

    # Calls into the machine

    def issue(self, op: IssueOp) -> None:
        """Store the open operands and issue the template."""
        bound = op.bound()
        known = {name: constant(self.values[value]) for name, value in bound.items()}
        template, offsets = issue_template(op, known, self.tables)
        operands = [
            _add(self.b, widen(self.b, self.values[bound[name]]), offset)
            for name, offset in zip(template.open, offsets, strict=True)
        ]
        self.call("issue", I64(self.tables.add_template(template)), self.pass_values(operands))

    def pass_values(self, values: Sequence[Value]) -> Value:
        """Store i64 values where a call finds them; its address."""
        for number, value in enumerate(values):
            self.b.store(value, self.b.gep(self.array, [I64(number)], I64))
        return self.array_address if values else I64(0)

    def set(self, op: SetOp) -> None:
        """Queue a set."""
        number = self.tables.add_template(semaphore_template(op))
        self.call("issue", I64(number), I64(0))

    def wait(self, op: WaitOp) -> None:
        """Queue a wait, or wait here when it is the control core's own."""
        if op.engine.value.data == Engine.CORE:
            self.call("wait", I64(op.sem.value.data), I64(0))
            return
        number = self.tables.add_template(semaphore_template(op))
        self.call("issue", I64(number), I64(0))

    def read(self, op: ReadOp) -> None:
        """Fetch a scalar from SRAM."""
        address = _add(self.b, self.values[op.slot], op.offset.value.data)
        value = self.call("read", address, I64(formats.by_name(op.fmt.data).code))
        self.values[op.result] = narrow(self.b, value, int_type(op.result.type))

    def print(self, op: PrintOp) -> None:
        """Report values."""
        values = [widen(self.b, value) for value in self.of(op.args)]
        self.call("print", I64(self.tables.add_print(op)), self.pass_values(values))

    def check(self, op: AssertOp) -> None:
        """Report a condition."""
        condition = widen(self.b, self.values[op.condition])
        self.call("assert", I64(self.tables.add_assert(op)), condition)

    def core_id(self, op: CoreIdOp) -> None:
        """This core's number."""
        self.values[op.result] = narrow(self.b, self.core, I32)

    def num_cores(self, op: NumCoresOp) -> None:
        """How many cores run."""
        self.values[op.result] = narrow(self.b, self.cores, I32)

    def grid_dim(self, op: GridDimOp) -> None:
        """A size of the grid, which stands behind the kernel's arguments."""
        number = self.arguments + op.axis.value.data
        self.values[op.result] = narrow(self.b, self.argument(number), I32)

    # Control flow

    def new_block(self, name: str) -> Any:
        """A fresh basic block."""
        return self.function.append_basic_block(name)

    def phis(self, values: Sequence[SSAValue]) -> list[Any]:
        """One empty phi per SSA value, which it stands for from now on."""
        phis = [self.b.phi(int_type(value.type)) for value in values]
        self.values.update(zip(values, phis, strict=True))
        return phis

    def if_(self, op: scf.IfOp) -> None:
        """Two regions that meet in phis."""
        then, other, done = (self.new_block(name) for name in ("then", "else", "done"))
        self.b.cbranch(self.values[op.cond], then, other)
        edges = []
        for start, region in ((then, op.true_region), (other, op.false_region)):
            self.b.position_at_end(start)
            results = self.run(region.blocks[0]) if region.blocks else []
            edges.append((self.b.block, results))
            self.b.branch(done)
        self.b.position_at_end(done)
        phis = self.phis(op.results)
        for block, results in edges:
            _incoming(phis, results, block)

    def for_(self, op: scf.ForOp) -> None:
        """A counted loop; goes on while ub - iv > step, which cannot overflow, iv being below ub."""
        low, high, step = self.of((op.lb, op.ub, op.step))
        initial = self.of(op.iter_args)
        before = self.b.block
        body, done = self.new_block("loop"), self.new_block("done")
        self.b.cbranch(self.b.icmp_signed("<", low, high), body, done)
        self.b.position_at_end(body)
        block = op.body.blocks[0]
        phis = self.phis(block.args)
        _incoming(phis, [low, *initial], before)
        results = self.run(block)
        counter = phis[0]
        more = self.b.icmp_unsigned(">", self.b.sub(high, counter), step)
        following = self.b.add(counter, step)
        _incoming(phis, [following, *results], self.b.block)
        end = self.b.block
        self.b.cbranch(more, body, done)
        self.b.position_at_end(done)
        outcome = self.phis(op.results)
        _incoming(outcome, initial, before)
        _incoming(outcome, results, end)

    def while_(self, op: scf.WhileOp) -> None:
        """A loop with its condition in front."""
        before = self.b.block
        head, body, done = (self.new_block(name) for name in ("while", "do", "done"))
        self.b.branch(head)
        self.b.position_at_end(head)
        first, second = op.before_region.blocks[0], op.after_region.blocks[0]
        phis = self.phis(first.args)
        _incoming(phis, self.of(op.arguments), before)
        condition, *passed = self.run(first)
        self.b.cbranch(condition, body, done)
        self.values.update(zip(second.args, passed, strict=True))
        self.values.update(zip(op.results, passed, strict=True))
        self.b.position_at_end(body)
        _incoming(phis, self.run(second), self.b.block)
        self.b.branch(head)
        self.b.position_at_end(done)


def _incoming(phis: Sequence[Any], values: Sequence[Value], block: Any) -> None:
    for phi, value in zip(phis, values, strict=True):
        phi.add_incoming(value, block)


def _add(b: Any, value: Value, offset: int) -> Value:
    if offset == 0:
        return value
    known = constant(value)
    return b.add(value, I64(offset)) if known is None else I64(known + offset)


_WITH_ARRAY = (IssueOp.name, PrintOp.name)
_EMIT: dict[type[Operation], Any] = {
    RingOp: _Glue.ring,
    AcquireOp: _Glue.acquire,
    HeldOp: _Glue.held,
    PartOp: _Glue.part,
    IssueOp: _Glue.issue,
    SetOp: _Glue.set,
    WaitOp: _Glue.wait,
    ReadOp: _Glue.read,
    PrintOp: _Glue.print,
    AssertOp: _Glue.check,
    CoreIdOp: _Glue.core_id,
    NumCoresOp: _Glue.num_cores,
    GridDimOp: _Glue.grid_dim,
    scf.IfOp: _Glue.if_,
    scf.ForOp: _Glue.for_,
    scf.WhileOp: _Glue.while_,
}
