"""Pass 2, access: loads, stores and atomics through pointer tiles become boxes, gathers and scatters.

First every pointer and every integer tile that addresses or masks depend on gets its form (see
`access_forms`), through control flow too; then each memory op is replaced. An access whose form has a part
that depends on two dims jointly, or whose mask is not an interval, goes element by element.

A scalar access is a box of one dim of size 1; its mask, a scalar, is that dim's `hi`. The value is
reshaped to or from a scalar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from ..dialects import tile
from ..dialects.attributes import i64_attribute
from ..dialects.definition import operands_of
from ..dialects.types import PtrType, element_type, shape_of, with_shape
from ..isa.table import INVALID_OFFSET, MAX_DMA_DIMS
from .access_analysis import Analysis, is_analysed, is_pointer
from .access_flow import analyse_block
from .access_forms import Form, Indexed, ScalarMath, Wrapped
from .access_masks import Conjunct, Masks
from .simplify import simplify
from .simplify_emit import Emitter
from .simplify_fold import float_constant, int_constant
from .simplify_regions import erase, terminator

Operand = SSAValue | list[SSAValue] | None

_COMPUTED = frozenset((tile.MapOp, tile.SplatOp, tile.AddPtrOp, tile.PtrCastOp, *tile.VIEWS))
"""Ops whose results have forms by those of their operands."""
_MEMORY = (tile.LoadOp, tile.StoreOp, tile.AtomicOp)
_REPLACED = frozenset((*_MEMORY, tile.PtrCastOp, tile.PrintOp))


def access(module: ModuleOp) -> None:
    """Analyse the accesses of every function of a module in place, then simplify."""
    for op in tuple(module.ops):
        if isinstance(op, func.FuncOp):
            _access_function(op)
    simplify(module)


def _access_function(function: func.FuncOp) -> None:
    block = function.body.block
    arguments: dict[SSAValue, int] = {a: n for n, a in enumerate(block.args) if is_pointer(a.type)}
    analysis = Analysis(arguments)
    ops = tile.operations(block)
    analyse_block(block, analysis, _needed(ops))
    replaced: list[tuple[Operation, SSAValue | None]] = []
    for op in ops:
        if type(op) not in _REPLACED:
            continue
        if isinstance(op, tile.LoadOp):
            replaced.append((op, _Access(op, op.ptr, op.mask, analysis).load(op)))
        elif isinstance(op, tile.StoreOp):
            _Access(op, op.ptr, op.mask, analysis).store(op)
            replaced.append((op, None))
        elif isinstance(op, tile.AtomicOp):
            replaced.append((op, _Access(op, op.ptr, op.mask, analysis).atomic(op)))
        elif isinstance(op, (tile.PtrCastOp, tile.PrintOp)):
            _replace_addresses(op, analysis)
    # only now: forms refer to the results of loads, and slices of them stand right after them
    for op, value in replaced:
        if value is not None:
            op.results[0].replace_all_uses_with(value)
    for op, _ in replaced:
        erase(op)


def _needed(ops: Sequence[Operation]) -> set[SSAValue]:
    """Pointers, masks, and the integer tiles that they depend on."""
    work: list[SSAValue] = []
    for op in ops:
        work += [v for v in (*operands_of(op), *op.results) if is_pointer(v.type)]
        if isinstance(op, _MEMORY) and op.mask is not None:
            work.append(op.mask)
    needed: set[SSAValue] = set()
    while work:
        value = work.pop()
        if value not in needed and is_analysed(value):
            needed.add(value)
            work += _sources(value)
    return needed


def _sources(value: SSAValue) -> Iterator[SSAValue]:
    """The values that a value is computed from, across control flow."""
    if isinstance(value, OpResult):
        op, index = value.op, value.index
        if isinstance(op, scf.ForOp):
            yield from (op.iter_args[index], terminator(op.body.block).operands[index])
            yield op.body.block.args[index + 1]
        elif isinstance(op, scf.IfOp):
            yield from (terminator(r.block).operands[index] for r in op.regions)
        elif isinstance(op, scf.WhileOp):
            yield terminator(op.before_region.block).operands[index + 1]
        elif type(op) in _COMPUTED:
            yield from operands_of(op)
    elif isinstance(value, BlockArgument):
        yield from _argument_sources(value)


def _argument_sources(value: BlockArgument) -> Iterator[SSAValue]:
    op, index = value.block.parent_op(), value.index
    if isinstance(op, scf.ForOp) and index > 0:
        yield from (op.iter_args[index - 1], terminator(value.block).operands[index - 1])
    elif isinstance(op, scf.WhileOp) and value.block is op.before_region.block:
        yield from (op.arguments[index], terminator(op.after_region.block).operands[index])
    elif isinstance(op, scf.WhileOp):
        yield terminator(op.before_region.block).operands[index + 1]


def _replace_addresses(op: tile.PtrCastOp | tile.PrintOp, analysis: Analysis) -> None:
    """Pointers that are read as numbers: casts to integers, printed pointers."""
    if isinstance(op, tile.PtrCastOp):
        source = op.value
        if is_pointer(op.result.type) or not is_pointer(source.type):
            return
        value = analysis.tile_of(analysis.form(source), ScalarMath(Emitter.at(op)))
        op.result.replace_all_uses_with(value)
        return
    for index, operand in enumerate(op.operands):
        if is_pointer(operand.type):
            value = analysis.tile_of(analysis.form(operand), ScalarMath(Emitter.at(op)))
            op.operands[index] = value


class _Access:
    """The replacement of one memory op."""

    def __init__(
        self, op: Operation, ptr: SSAValue, mask: SSAValue | None, analysis: Analysis
    ) -> None:
        self.op = op
        self.analysis = analysis
        self.emit = Emitter.at(op)
        self.math = ScalarMath(self.emit)
        form = analysis.form(ptr)
        if mask is not None and int_constant(mask) == 1:
            mask = None
        self.mask = mask
        self.scalar = not form.shape
        self.form = replace(form, shape=(1,), terms=(None,)) if self.scalar else form
        self.shape = self.form.shape
        self.base = self.math.value(form.const)
        self.arg = i64_attribute(form.arg)

    def conjuncts(self) -> list[Conjunct] | None:
        """The mask as intervals, when the access can be a box."""
        if self.form.rest or len(self.shape) > MAX_DMA_DIMS:
            return None
        if self.mask is None:
            return []
        return Masks(self.analysis, self.math).conjuncts(self.mask)

    def load(self, op: tile.LoadOp) -> SSAValue:
        """`tile.load` → `load_box` or `gather`, and a select when `other` is a tile."""
        element = element_type(op.result.type)
        memory = i64 if isinstance(element, PtrType) else element
        conjuncts = self.conjuncts()
        fill, other = self._fill(op.other, memory)
        if conjuncts is None:
            value = self._gather(memory, fill)
        else:
            operands = self._box(conjuncts)
            box = tile.LoadBoxOp(
                operands=[*operands, fill],
                properties=self._box_properties(),
                result_types=[with_shape(memory, self.shape)],
            )
            value = self.emit.insert(box).results[0]
        if self.scalar:
            value = self.emit.reshape(value, ())
        if other is not None:
            assert self.mask is not None
            value = self.emit.map("select", self.mask, value, other)
        if memory != element:
            value = self.emit.insert(tile.PtrCastOp(value, element)).results[0]
        return value

    def _fill(
        self, other: SSAValue | None, memory: Attribute
    ) -> tuple[SSAValue | None, SSAValue | None]:
        """`other` as a scalar for the DMA to fill in, or as a tile to select from."""
        if other is None or self.mask is None:
            return None, None
        if is_pointer(other.type):
            other = self.analysis.tile_of(self.analysis.form(other), self.math)
        assert element_type(other.type) == memory
        slices = self.analysis.slices
        if slices.depends_on(other):
            return None, other
        number = slices.scalar(other)
        zero = int_constant(number) == 0 or str(float_constant(number)) == "0.0"
        return (None if zero else number), None

    def store(self, op: tile.StoreOp) -> None:
        """`tile.store` → `store_box` or `scatter`."""
        value = op.value
        if is_pointer(value.type):
            value = self.analysis.tile_of(self.analysis.form(value), self.math)
        value = self._as_tile(value)
        conjuncts = self.conjuncts()
        if conjuncts is None:
            offsets = self._flat(self._offsets())
            scatter = tile.ScatterOp(
                operands=[self.base, offsets, self._flat(value)], properties={"arg": self.arg}
            )
            self.emit.insert(scatter)
        else:
            box = tile.StoreBoxOp(
                operands=[*self._box(conjuncts), value], properties=self._box_properties()
            )
            self.emit.insert(box)

    def atomic(self, op: tile.AtomicOp) -> SSAValue:
        """`tile.atomic` → `atomic_list`."""
        value = self._flat(self._as_tile(op.value))
        compare = None if op.compare is None else self._flat(self._as_tile(op.compare))
        offsets = self._flat(self._offsets())
        atomic = tile.AtomicListOp(
            operands=[self.base, offsets, value, compare],
            properties={"kind": op.kind, "arg": self.arg},
            result_types=[value.type],
        )
        result = self.emit.insert(atomic).results[0]
        return self.emit.reshape(result, shape_of(op.result.type))

    def _as_tile(self, value: SSAValue) -> SSAValue:
        """A scalar as a tile of one element: a view when it lies in SRAM already."""
        if shape_of(value.type):
            return value
        if isinstance(value.owner, (tile.ReduceOp, tile.ArgReduceOp, tile.ReshapeOp)):
            return self.emit.reshape(value, (1,))
        return self.emit.splat(value, (1,))

    def _box(self, conjuncts: list[Conjunct]) -> list[Operand]:
        """Operands of a box: base, strides, lo, hi, wrap_starts, wraps, indices."""
        math, form = self.math, self.form
        lo, hi = Masks(self.analysis, math).box(self.shape, conjuncts)
        strides = [math.value(0 if t is None else t.coef) for t in form.terms]
        wrapped = [t for t in form.terms if isinstance(t, Wrapped)]
        starts = [math.value(t.start) for t in wrapped]
        wraps = [math.value(t.modulus) for t in wrapped]
        indices = [self._index(t) for t in form.terms if isinstance(t, Indexed)]
        return [self.base, strides, lo, hi, starts, wraps, indices]

    def _index(self, term: Indexed) -> SSAValue:
        return self.analysis.slices.line(term.value, term.dim)

    def _box_properties(self) -> dict[str, Attribute]:
        terms = self.form.terms
        wrapped = [d for d, t in enumerate(terms) if isinstance(t, Wrapped)]
        indexed = [d for d, t in enumerate(terms) if isinstance(t, Indexed)]
        return {
            "wrapped": tile.i64_array(wrapped),
            "indexed": tile.i64_array(indexed),
            "arg": self.arg,
        }

    def _offsets(self) -> SSAValue:
        """Byte offsets from the base, INVALID_OFFSET where the mask is false."""
        relative: Form = replace(self.form, const=0)
        offsets = self.analysis.tile_of(relative, self.math)
        if self.mask is None:
            return offsets
        mask = self.mask if shape_of(self.mask.type) else self.emit.splat(self.mask, (1,))
        invalid = self.emit.filled(INVALID_OFFSET, offsets.type)
        return self.emit.map("select", mask, offsets, invalid)

    def _gather(self, memory: Attribute, fill: SSAValue | None) -> SSAValue:
        offsets = self._flat(self._offsets())
        gather = tile.GatherOp(
            operands=[self.base, offsets, fill],
            properties={"arg": self.arg},
            result_types=[with_shape(memory, shape_of(offsets.type))],
        )
        return self.emit.reshape(self.emit.insert(gather).results[0], self.shape)

    def _flat(self, value: SSAValue) -> SSAValue:
        """Tiles of more dims than the DMA has go as one row."""
        if len(self.shape) <= MAX_DMA_DIMS:
            return value
        total = 1
        for size in self.shape:
            total *= size
        return self.emit.reshape(value, (total,))
