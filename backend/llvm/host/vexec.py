"""vexec: a vector program as a loop nest over host vectors.

The innermost (merged) dim runs in vectors. Values that do not vary along it are made once per row, those that
vary along no dim once. Every operand counts as read before any output is written: an output that overlaps an
operand at other places, or another output, goes to a copy first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ... import formats
from ...formats import Format
from ...isa.table import MAX_VECTOR_DIMS
from ...isa.vprog import CONST, IN, INDEX, OUT, SCALAR, MicroOp, VectorProgram
from ...numerics.nan import canonical_sources
from . import lanes, ops
from .abi import LINE_BYTES
from .ahead import Fetch
from .build import Bool, Int, Value, constant, list_constant, vector
from .ops import Register
from .unit import Unit
from .walk import Elements, Space, injective, load_elements, mask_below, merge, store_elements

_ONCE, _PER_ROW, _PER_VECTOR = 0, 1, 2
_PEELED_OPS = 24
"""Programs up to this size get a separate tail; bigger ones mask every vector, which halves their code."""


@dataclass
class _Operand:
    """An input or output: its format, address, range of bytes and host pointer."""

    fmt: Format
    address: Int
    strides: list[Int]
    range: tuple[Int, Int]
    pointer: Value = None
    kept: Value | None = None
    steps: list[Int] = field(default_factory=list)
    row: Value = None


@dataclass
class _Node:
    """A micro-op with its sources resolved, and how often it must run."""

    op: MicroOp
    sources: list[_Node]
    canonical: bool
    level: int
    value: Register | None = None


def emit(unit: Unit) -> None:
    """The body of a vexec."""
    _Vexec(unit).emit()


class _Vexec:
    def __init__(self, unit: Unit) -> None:
        assert unit.spec.program is not None
        self.unit, self.program = unit, unit.spec.program
        self.ndim = unit.static("ndim")
        self.sizes = unit.entries("size", self.ndim)
        self.inputs = self._operands("in", self.program.inputs)
        self.outputs = self._operands("out", self.program.outputs)
        self.order = [op.imm for op in self.program.ops if op.op == OUT]
        self.lanes = unit.host.vector_bytes // _widest(self.program)

    def _operands(self, name: str, names: Sequence[str]) -> list[_Operand]:
        unit = self.unit
        addresses = unit.entries(name, len(names))
        result = []
        for k, fmt_name in enumerate(names):
            fmt = formats.by_name(fmt_name)
            start = k * MAX_VECTOR_DIMS
            strides = unit.entries(f"{name}_stride", self.ndim, start)
            range_ = unit.check_sram(addresses[k], self.sizes, strides, fmt.bytes)
            result.append(_Operand(fmt, addresses[k], strides, range_))
        return result

    def emit(self) -> None:
        unit = self.unit
        for operand in (*self.inputs, *self.outputs):
            operand.pointer = unit.at(unit.sram, operand.address)
        for k in self.order:
            output = self.outputs[k]
            output.pointer, output.kept = unit.redirect(
                self._hazard(output), output.pointer, output.range, output.address, copy_in=False
            )
        space = self._space()
        nodes = self._nodes(space)
        self._run(nodes, _ONCE, space, [], 0, None)
        self._rows(nodes, space, 0, [])
        for k in self.order:
            output = self.outputs[k]
            unit.finish(
                output.kept,
                output.pointer,
                unit.at(unit.sram, output.address),
                self.sizes,
                output.strides,
                lanes.storage(output.fmt),
            )

    def _hazard(self, output: _Operand) -> Bool:
        """Whether writing `output` as we go would change an operand that is still to be read."""
        unit = self.unit
        hazard: Bool = False
        exact = injective(self.sizes, output.strides, output.fmt.bytes)
        for other in (*self.inputs, *self.outputs):
            if other is output:
                continue
            clash = unit.overlaps(output.range, other.range)
            same = exact and other.fmt.bytes == output.fmt.bytes
            if same and other.strides == output.strides:
                elsewhere = unit.compare("!=", other.address, output.address)
                clash = unit.both(clash, elsewhere)
            hazard = unit.either(hazard, clash)
        return hazard

    def _space(self) -> Space:
        """The merged space, at least one dim; sets the steps of the operands."""
        fixed = {op.imm for op in self.program.ops if op.op == INDEX}
        operands = (*self.inputs, *self.outputs)
        space = merge(self.unit, self.sizes, [o.strides for o in operands], fixed)
        if not space.sizes:
            space = Space([1], [[0] for _ in operands], [-1])
        for operand, steps in zip(operands, space.strides):
            operand.steps = steps
        return space

    def _nodes(self, space: Space) -> list[_Node]:
        current: dict[int, _Node] = {}
        nodes = []
        for op, canonical in zip(self.program.ops, canonical_sources(self.program)):
            sources = [current[r] for r in op.srcs]
            level = max((s.level for s in sources), default=_ONCE)
            if op.op == IN:
                level = _level(self.inputs[op.imm].steps)
            elif op.op == INDEX and op.imm in space.dims:
                level = _PER_VECTOR if space.dims[-1] == op.imm else _PER_ROW
            elif op.op == OUT:
                level = _PER_VECTOR
            node = _Node(op, sources, canonical, level)
            nodes.append(node)
            if op.op != OUT:
                current[op.dst] = node
        return nodes

    def _rows(self, nodes: list[_Node], space: Space, dim: int, at: list[Int]) -> None:
        """Loops over all dims but the last, then the vectors of a row."""
        if dim < len(space.sizes) - 1:
            self.unit.loop(
                0, space.sizes[dim], lambda i: self._rows(nodes, space, dim + 1, [*at, i])
            )
            return
        unit = self.unit
        for operand in (*self.inputs, *self.outputs):
            offset: Int = 0
            for i, step in zip(at, operand.steps):
                offset = unit.add(offset, unit.mul(i, step))
            operand.row = unit.at(operand.pointer, offset)
        self._run(nodes, _PER_ROW, space, at, 0, None)
        self._vectors(nodes, space, at)

    def _vectors(self, nodes: list[_Node], space: Space, at: list[Int]) -> None:
        unit, size, count = self.unit, space.sizes[-1], self.lanes

        def masked(i: Int) -> None:
            mask = mask_below(unit, unit.sub(size, i), count)
            self._run(nodes, _PER_VECTOR, space, at, i, mask)

        def full(i: Int) -> None:
            fetch.line(unit.mul(i, LINE_BYTES // count))
            self._run(nodes, _PER_VECTOR, space, at, i, None)

        if not isinstance(size, int):
            unit.loop(0, size, masked, step=count)
            return
        whole = size // count * count
        small = sum(node.level == _PER_VECTOR for node in nodes) <= _PEELED_OPS
        # a tail of one element is always apart: its mask must be known for what it is (see `walk`)
        if small or whole == 0 or size - whole < 2:
            fetch = Fetch(unit, whole // count, self.outputs[self.order[0]].row)
            unit.loop(0, whole, full, step=count)
            if whole < size:
                masked(whole)
        else:
            unit.loop(0, size, masked, step=count)

    def _run(
        self,
        nodes: list[_Node],
        level: int,
        space: Space,
        at: list[Int],
        i: Int,
        mask: Value | None,
    ) -> None:
        """Emit the micro-ops of one level."""
        for node in nodes:
            if node.level != level:
                continue
            if node.op.op == OUT:
                self._out(node, i, mask)
            else:
                node.value = self._value(node, space, at, i, mask)

    def _value(
        self, node: _Node, space: Space, at: list[Int], i: Int, mask: Value | None
    ) -> Register:
        unit, op = self.unit, node.op
        fmt = formats.by_name(op.fmt)
        if op.op == IN:
            operand = self.inputs[op.imm]
            pointer = operand.pointer if node.level == _ONCE else operand.row
            if node.level != _PER_VECTOR:
                where = Elements(pointer, 0, self.lanes, None)
            else:
                step = operand.steps[-1]
                where = Elements(unit.at(pointer, unit.mul(i, step)), step, self.lanes, mask)
            return Register(fmt, load_elements(unit, fmt, where))
        if op.op == CONST:
            return self._constant(fmt, op.imm)
        if op.op == SCALAR:
            (value,) = unit.entries("scalar", 1, op.imm)
            return self._constant(fmt, value)
        if op.op == INDEX:
            return self._index(fmt, op.imm, space, at, i)
        registers = [s.value for s in node.sources if s.value is not None]
        if node.canonical and registers[0].fmt.is_float:
            source = registers[0]
            registers = [Register(source.fmt, source.canonical(unit))]
        return ops.apply(unit, op.op, fmt, formats.by_name(op.src_fmt), registers)

    def _constant(self, fmt: Format, pattern: Int) -> Register:
        """The low bits of a pattern in all lanes."""
        unit, element = self.unit, lanes.integer(fmt)
        if isinstance(pattern, int):
            pattern &= (1 << 8 * fmt.bytes) - 1
            if fmt.bits == 1:
                pattern = int(pattern != 0)
            return Register(fmt, constant(vector(element, self.lanes), pattern), known=pattern)
        stored = lanes.storage(fmt)
        value = unit.b.trunc(pattern, stored) if stored.width < 64 else pattern
        spread = unit.splat(value, self.lanes)
        return Register(fmt, lanes.from_memory(unit, spread, fmt))

    def _index(self, fmt: Format, dim: int, space: Space, at: list[Int], i: Int) -> Register:
        unit, element = self.unit, lanes.integer(fmt)
        type_ = vector(element, self.lanes)
        if dim not in space.dims:
            return Register(fmt, constant(type_, 0))
        place = space.dims.index(dim)
        along = place == len(space.dims) - 1
        number = unit.i64(i if along else at[place])
        number = unit.b.trunc(number, element) if element.width < 64 else number
        spread = unit.splat(number, self.lanes)
        if along:
            spread = unit.b.add(spread, list_constant(element, range(self.lanes)))
        return Register(fmt, spread)

    def _out(self, node: _Node, i: Int, mask: Value | None) -> None:
        unit, output = self.unit, self.outputs[node.op.imm]
        (source,) = (s.value for s in node.sources)
        assert source is not None
        bits = source.canonical(unit) if node.canonical else source.bits
        step = output.steps[-1]
        where = Elements(unit.at(output.row, unit.mul(i, step)), step, self.lanes, mask)
        store_elements(unit, output.fmt, bits, where)


def _level(steps: Sequence[Int]) -> int:
    def still(step: Int) -> bool:
        return isinstance(step, int) and step == 0

    if not still(steps[-1]):
        return _PER_VECTOR
    return _ONCE if all(map(still, steps)) else _PER_ROW


def _widest(program: VectorProgram) -> int:
    """Bytes of the widest register that the program computes with; floats are fp32."""
    used = {formats.by_name(name) for op in program.ops for name in (op.fmt, op.src_fmt)}
    return max((max(f.bytes, 4) if f.is_float else f.bytes for f in used), default=4)
