"""The tile dialect: value semantics over tiles with static shapes, made by the front end.

Scalar constants are `arith.constant`, control flow is `scf`, the kernel is a `func.func`; everything
else is here. A "value" below is a scalar or a tile; shapes of operands match exactly (the front end
inserts `splat` and `broadcast`). `docs/architecture.md` says what each pass guarantees.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure, ReturnLike
from xdsl.utils.exceptions import VerifyException

from ..formats import OPERANDS, Format
from ..isa.table import SCALE_BLOCK
from ..isa.vector_ops import BY_NAME as VECTOR_OPS
from .types import PtrType, element_type, format_of, shape_of, with_shape

REDUCE_KINDS = (
    "fsum", "fprod", "fmax", "fmin", "fmaxnum", "fminnum", "isum", "iprod",
    "smax", "smin", "umax", "umin", "and", "or", "xor",
)  # fmt: skip
ARG_KINDS = ("fmax", "fmin", "fmaxnum", "fminnum", "smax", "smin", "umax", "umin")
ATOMIC_KINDS = (
    "fadd", "iadd", "fmax", "fmin", "smax", "smin", "umax", "umin", "and", "or", "xor", "xchg", "cas",
)  # fmt: skip


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise VerifyException(message)


def i64_array(values: Sequence[int]) -> DenseArrayBase:
    """An `array<i64: …>` attribute."""
    return _array(tuple(values))


def ints(attribute: Attribute) -> tuple[int, ...]:
    """The values of an `array<i64: …>` attribute."""
    assert isinstance(attribute, DenseArrayBase)
    return _values(attribute)


# Attributes cannot change, and kernels have few different ones: packing and checking them is what takes time.
@lru_cache(maxsize=4096)
def _array(values: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


@lru_cache(maxsize=4096)
def _values(attribute: DenseArrayBase[Any]) -> tuple[int, ...]:
    return tuple(int(v) for v in attribute.get_values())


@lru_cache(maxsize=4096)
def i64_attribute(value: int) -> IntegerAttr:
    """An i64 attribute."""
    return IntegerAttr(value, i64)


class _PureOp(IRDLOperation):
    traits = traits_def(Pure())


@irdl_op_definition
class ProgramIdOp(_PureOp):
    """The program's index along a grid axis (0, 1, 2)."""

    name = "tile.program_id"
    axis = prop_def(IntegerAttr)
    result = result_def(i32)

    def __init__(self, axis: int) -> None:
        super().__init__(properties={"axis": IntegerAttr(axis, i32)}, result_types=[i32])


@irdl_op_definition
class NumProgramsOp(_PureOp):
    """The size of the grid along an axis."""

    name = "tile.num_programs"
    axis = prop_def(IntegerAttr)
    result = result_def(i32)

    def __init__(self, axis: int) -> None:
        super().__init__(properties={"axis": IntegerAttr(axis, i32)}, result_types=[i32])


@irdl_op_definition
class IotaOp(_PureOp):
    """start, start + 1, … along the one dim of an int32 tile."""

    name = "tile.iota"
    start = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def __init__(self, start: int, length: int) -> None:
        super().__init__(
            properties={"start": IntegerAttr(start, i32)}, result_types=[TensorType(i32, [length])]
        )


@irdl_op_definition
class SplatOp(_PureOp):
    """A tile with one scalar (number or pointer) everywhere."""

    name = "tile.splat"
    value = operand_def()
    result = result_def(TensorType)

    def __init__(self, value: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(operands=[value], result_types=[with_shape(value.type, tuple(shape))])

    def verify_(self) -> None:
        _require(element_type(self.result.type) == self.value.type, "element type differs")


@irdl_op_definition
class MapOp(_PureOp):
    """An elementwise operation of the vector-op table on values of one shape."""

    name = "tile.map"
    fn = prop_def(StringAttr)
    args = var_operand_def()
    result = result_def()

    def __init__(self, fn: str, args: Sequence[SSAValue], element: Attribute | None = None) -> None:
        """`element` is the result's element type; needed for casts only."""
        row = VECTOR_OPS[fn]
        if row.result == "bool":
            element = i1
        elif row.result == "same":
            element = element_type(args[-1].type)
        assert element is not None
        super().__init__(
            operands=[list(args)],
            properties={"fn": StringAttr(fn)},
            result_types=[with_shape(element, shape_of(args[0].type))],
        )

    def verify_(self) -> None:
        row = VECTOR_OPS.get(self.fn.data)
        _require(row is not None, f"unknown elementwise operation {self.fn.data!r}")
        assert row is not None
        _require(
            len(self.args) == len(row.operands), f"{row.name} takes {len(row.operands)} operands"
        )
        shapes = {shape_of(v.type) for v in (*self.args, self.result)}
        _require(len(shapes) == 1, f"shapes differ: {sorted(shapes)}")
        same = {
            element_type(v.type) for v in (self.args[1:] if row.name == "select" else self.args)
        }
        _require(len(same) == 1, "element types differ")
        for kind, arg in zip(row.operands, self.args):
            is_int = isinstance(element_type(arg.type), IntegerType)
            is_ptr = isinstance(element_type(arg.type), PtrType)
            _require(kind != "float" or not (is_int or is_ptr), f"{row.name} takes floats")
            _require(kind != "int" or is_int, f"{row.name} takes integers")


@irdl_op_definition
class AddPtrOp(_PureOp):
    """ptr + offset, the offset counted in elements; both of one shape."""

    name = "tile.addptr"
    ptr = operand_def()
    offset = operand_def()
    result = result_def()

    def __init__(self, ptr: SSAValue, offset: SSAValue) -> None:
        super().__init__(operands=[ptr, offset], result_types=[ptr.type])

    def verify_(self) -> None:
        _require(isinstance(element_type(self.ptr.type), PtrType), "not a pointer")
        _require(shape_of(self.ptr.type) == shape_of(self.offset.type), "shapes differ")


@irdl_op_definition
class PtrCastOp(_PureOp):
    """Pointer to pointer, pointer to i64 (byte address) or i64 to pointer; one shape."""

    name = "tile.ptr_cast"
    value = operand_def()
    result = result_def()

    def __init__(self, value: SSAValue, element: Attribute) -> None:
        super().__init__(operands=[value], result_types=[with_shape(element, shape_of(value.type))])


@irdl_op_definition
class ExpandDimsOp(_PureOp):
    """Insert a dim of size 1 before `axis`."""

    name = "tile.expand_dims"
    value = operand_def()
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def __init__(self, value: SSAValue, axis: int) -> None:
        shape = list(shape_of(value.type))
        shape.insert(axis, 1)
        super().__init__(
            operands=[value],
            properties={"axis": IntegerAttr(axis, i32)},
            result_types=[with_shape(element_type(value.type), tuple(shape))],
        )


@irdl_op_definition
class BroadcastOp(_PureOp):
    """Repeat dims of size 1 up to the result's shape; the ranks are equal."""

    name = "tile.broadcast"
    value = operand_def()
    result = result_def(TensorType)

    def __init__(self, value: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(
            operands=[value], result_types=[with_shape(element_type(value.type), tuple(shape))]
        )

    def verify_(self) -> None:
        source, target = shape_of(self.value.type), shape_of(self.result.type)
        ok = len(source) == len(target) and all(s in (1, t) for s, t in zip(source, target))
        _require(ok, f"cannot broadcast {source} to {target}")


@irdl_op_definition
class ReshapeOp(_PureOp):
    """The same elements in row-major order under another shape (a tile of rank 0 is a scalar)."""

    name = "tile.reshape"
    value = operand_def()
    result = result_def()

    def __init__(self, value: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(
            operands=[value], result_types=[with_shape(element_type(value.type), tuple(shape))]
        )


@irdl_op_definition
class PermuteOp(_PureOp):
    """Dim d of the result is dim order[d] of the operand."""

    name = "tile.permute"
    value = operand_def()
    order = prop_def(DenseArrayBase)
    result = result_def(TensorType)

    def __init__(self, value: SSAValue, order: Sequence[int]) -> None:
        shape = shape_of(value.type)
        super().__init__(
            operands=[value],
            properties={"order": i64_array(order)},
            result_types=[with_shape(element_type(value.type), tuple(shape[d] for d in order))],
        )


@irdl_op_definition
class SliceOp(_PureOp):
    """Element i of a dim of the result is element starts[d] + i * steps[d] of the operand's; steps may be negative."""

    name = "tile.slice"
    value = operand_def(TensorType)
    starts = prop_def(DenseArrayBase)
    steps = prop_def(DenseArrayBase)
    result = result_def(TensorType)

    def __init__(
        self, value: SSAValue, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]
    ) -> None:
        super().__init__(
            operands=[value],
            properties={"starts": i64_array(starts), "steps": i64_array(steps)},
            result_types=[with_shape(element_type(value.type), tuple(shape))],
        )

    def verify_(self) -> None:
        source, target = shape_of(self.value.type), shape_of(self.result.type)
        starts, steps = ints(self.starts), ints(self.steps)
        _require(len(source) == len(target) == len(starts) == len(steps), "ranks differ")
        for size, count, start, step in zip(source, target, starts, steps):
            inside = 0 <= start < size and 0 <= start + (count - 1) * step < size
            _require(inside, f"{count} elements from {start} by {step} leave a dim of size {size}")


@irdl_op_definition
class ConcatOp(_PureOp):
    """Tiles one after the other along `axis`; the other dims are equal."""

    name = "tile.concat"
    args = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def __init__(self, args: Sequence[SSAValue], axis: int) -> None:
        shape = list(shape_of(args[0].type))
        shape[axis] = sum(shape_of(arg.type)[axis] for arg in args)
        super().__init__(
            operands=[list(args)],
            properties={"axis": IntegerAttr(axis, i32)},
            result_types=[with_shape(element_type(args[0].type), tuple(shape))],
        )

    def verify_(self) -> None:
        axis = self.axis.value.data
        others = {
            tuple(n for d, n in enumerate(shape_of(v.type)) if d != axis)
            for v in (*self.args, self.result)
        }
        _require(len(others) == 1, "the dims beside the axis differ")
        total = sum(shape_of(arg.type)[axis] for arg in self.args)
        _require(
            total == shape_of(self.result.type)[axis], "the sizes along the axis do not add up"
        )


@irdl_op_definition
class TakeOp(_PureOp):
    """result[…, i, …] = value[…, index[…, i, …], …] along `axis`; zero bits for an index outside of it.

    The index is int32 or int64 and has the shape of the result, that of the value beside the axis.
    """

    name = "tile.take"
    value = operand_def(TensorType)
    index = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def __init__(self, value: SSAValue, index: SSAValue, axis: int) -> None:
        super().__init__(
            operands=[value, index],
            properties={"axis": IntegerAttr(axis, i32)},
            result_types=[with_shape(element_type(value.type), shape_of(index.type))],
        )

    def verify_(self) -> None:
        axis = self.axis.value.data
        shapes = [list(shape_of(v.type)) for v in (self.value, self.index, self.result)]
        _require(shapes[1] == shapes[2], "the index has another shape than the result")
        for shape in shapes[:2]:
            del shape[axis]
        _require(shapes[0] == shapes[1], "the dims beside the axis differ")
        _require(element_type(self.index.type) in (i32, i64), "an index is int32 or int64")


@irdl_op_definition
class LoadOp(IRDLOperation):
    """Load from pointers of any shape; masked-off elements are `other` (0 when absent)."""

    name = "tile.load"
    ptr = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self, ptr: SSAValue, mask: SSAValue | None = None, other: SSAValue | None = None
    ) -> None:
        pointee = element_type(ptr.type)
        assert isinstance(pointee, PtrType)
        super().__init__(
            operands=[ptr, mask, other],
            result_types=[with_shape(pointee.pointee, shape_of(ptr.type))],
        )


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Store through pointers of any shape; masked-off elements are not touched."""

    name = "tile.store"
    ptr = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(self, ptr: SSAValue, value: SSAValue, mask: SSAValue | None = None) -> None:
        super().__init__(operands=[ptr, value, mask])


@irdl_op_definition
class AtomicOp(IRDLOperation):
    """Read-modify-write element by element in row-major order; the result is the old values."""

    name = "tile.atomic"
    kind = prop_def(StringAttr)
    ptr = operand_def()
    value = operand_def()
    compare = opt_operand_def()
    mask = opt_operand_def()
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        kind: str,
        ptr: SSAValue,
        value: SSAValue,
        compare: SSAValue | None = None,
        mask: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[ptr, value, compare, mask],
            properties={"kind": StringAttr(kind)},
            result_types=[value.type],
        )


@irdl_op_definition
class LoadBoxOp(IRDLOperation):
    """A load whose pointers have been analysed (made by the access pass; replaces `tile.load`).

    Element (i0, i1, …) is at base + Σ_d f_d(i_d) * stride_d bytes, where f_d(i) is i, or (wrap_start_d + i)
    mod wrap_d when dim d is wrapped, or index_d[i] when it has an index vector. It is valid when
    lo_d <= i_d < hi_d in every dim; others get `fill`.

    Operands: base (i64 byte address); strides (i64 bytes, one per dim); lo, hi (i32, one per dim);
    wrap_starts and wraps (i64, one pair per dim listed in `wrapped`); indices (int32 or int64 tiles of
    rank 1, one per dim listed in `indexed`); fill (scalar of the element type, absent means 0).
    `arg` is the number of the kernel argument that the base derives from, -1 when unknown.
    """

    name = "tile.load_box"
    base = operand_def(i64)
    strides = var_operand_def(i64)
    lo = var_operand_def(i32)
    hi = var_operand_def(i32)
    wrap_starts = var_operand_def(i64)
    wraps = var_operand_def(i64)
    indices = var_operand_def(TensorType)
    fill = opt_operand_def()
    wrapped = prop_def(DenseArrayBase)
    indexed = prop_def(DenseArrayBase)
    arg = prop_def(IntegerAttr)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class StoreBoxOp(IRDLOperation):
    """A store whose pointers have been analysed; operands as in `LoadBoxOp`, invalid elements are skipped."""

    name = "tile.store_box"
    base = operand_def(i64)
    strides = var_operand_def(i64)
    lo = var_operand_def(i32)
    hi = var_operand_def(i32)
    wrap_starts = var_operand_def(i64)
    wraps = var_operand_def(i64)
    indices = var_operand_def(TensorType)
    value = operand_def()
    wrapped = prop_def(DenseArrayBase)
    indexed = prop_def(DenseArrayBase)
    arg = prop_def(IntegerAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class GatherOp(IRDLOperation):
    """Load element by element at base + offsets[i] bytes; an offset of INVALID_OFFSET gives `fill`."""

    name = "tile.gather"
    base = operand_def(i64)
    offsets = operand_def()
    fill = opt_operand_def()
    arg = prop_def(IntegerAttr)
    result = result_def()


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """Store element by element at base + offsets[i] bytes; an offset of INVALID_OFFSET skips it."""

    name = "tile.scatter"
    base = operand_def(i64)
    offsets = operand_def()
    value = operand_def()
    arg = prop_def(IntegerAttr)


@irdl_op_definition
class AtomicListOp(IRDLOperation):
    """An atomic whose pointers have been turned into byte offsets (replaces `tile.atomic`)."""

    name = "tile.atomic_list"
    kind = prop_def(StringAttr)
    base = operand_def(i64)
    offsets = operand_def()
    value = operand_def()
    compare = opt_operand_def()
    arg = prop_def(IntegerAttr)
    result = result_def()


@irdl_op_definition
class DotOp(_PureOp):
    """acc + a·b over the last two dims (a leading batch dim may stand before them).

    The format of acc is fp32, bf16 or int32. A missing acc means zeros; the result type says the format.
    `format_a` and `format_b` are what the elements of an operand hold where the type does not say it: `uint8`,
    or a packed format, whose bytes hold two numbers that are neighbours along K. `scale_a` [M, G] and `scale_b` [N, G]
    are E8M0 bytes, one per G-th part of K, or per 32 numbers along K (the last block may be shorter).
    """

    name = "tile.dot"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    acc = opt_operand_def(TensorType)
    scale_a = opt_operand_def(TensorType)
    scale_b = opt_operand_def(TensorType)
    format_a = opt_prop_def(StringAttr)
    format_b = opt_prop_def(StringAttr)
    result = result_def(TensorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        acc: SSAValue | None,
        result_type: Attribute,
        scales: tuple[SSAValue | None, SSAValue | None] = (None, None),
        formats: tuple[str | None, str | None] = (None, None),
    ) -> None:
        named = zip(("format_a", "format_b"), formats)
        super().__init__(
            operands=[a, b, acc, *scales],
            properties={name: StringAttr(fmt) for name, fmt in named if fmt},
            result_types=[result_type],
        )

    def drop_accumulator(self) -> None:
        """Start from zeros."""
        scales = [scale for scale in (self.scale_a, self.scale_b) if scale is not None]
        sizes = [1, 1, 0, int(self.scale_a is not None), int(self.scale_b is not None)]
        self.operands = (self.a, self.b, *scales)
        self.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)

    @property
    def formats(self) -> tuple[Format, Format]:
        """What the operands hold."""
        pairs = ((self.a, self.format_a), (self.b, self.format_b))
        return (*(format_of(v.type) if f is None else OPERANDS[f.data] for v, f in pairs),)  # type: ignore[return-value]

    @property
    def k(self) -> int:
        """Numbers that each product sums; even where an operand is packed."""
        return shape_of(self.a.type)[-1] * self.formats[0].per_element

    def block(self, scale: SSAValue) -> int:
        """Numbers along K that share a scale of `scale_a` or `scale_b`."""
        count = shape_of(scale.type)[-1]
        return SCALE_BLOCK if count == -(-self.k // SCALE_BLOCK) else self.k // count

    def takes_scale(self, scale: SSAValue | None) -> bool:
        """Whether `mma` can read scales of the op as they are: E8M0, one per 32 numbers (or none at all)."""
        if scale is None:
            return True
        return format_of(scale.type).name == "int8" and self.block(scale) == SCALE_BLOCK

    def verify_(self) -> None:
        a, b, d = (shape_of(v.type) for v in (self.a, self.b, self.result))
        _require(len(a) == len(b) == len(d) and len(a) in (2, 3), "dot takes tiles of rank 2 or 3")
        same = self.k == b[-2] * self.formats[1].per_element
        ok = same and d[-2:] == (a[-2], b[-1]) and a[:-2] == b[:-2] == d[:-2]
        _require(ok, f"dot of {a} and {b} does not give {d}")
        _require(self.acc is None or self.acc.type == self.result.type, "accumulator differs")
        for scale, along in ((self.scale_a, a[-2]), (self.scale_b, b[-1])):
            if scale is not None:
                shape, block = shape_of(scale.type), self.block(scale)
                fits = shape[:-1] == (*a[:-2], along) and shape[-1] == -(-self.k // max(block, 1))
                _require(fits, f"scales of shape {shape} for a dot of {a} and {b}")


@irdl_op_definition
class ReduceOp(_PureOp):
    """Reduce `axis` away by a kind of REDUCE_KINDS; rank 1 gives a scalar."""

    name = "tile.reduce"
    kind = prop_def(StringAttr)
    axis = prop_def(IntegerAttr)
    value = operand_def(TensorType)
    result = result_def()

    def __init__(self, kind: str, value: SSAValue, axis: int) -> None:
        shape = list(shape_of(value.type))
        del shape[axis]
        super().__init__(
            operands=[value],
            properties={"kind": StringAttr(kind), "axis": IntegerAttr(axis, i32)},
            result_types=[with_shape(element_type(value.type), tuple(shape))],
        )

    def verify_(self) -> None:
        _require(self.kind.data in REDUCE_KINDS, f"unknown reduction {self.kind.data!r}")


@irdl_op_definition
class ArgReduceOp(_PureOp):
    """Extreme value and its int32 position (the first one on ties) along `axis`.

    A NaN wins, for fmaxnum and fminnum it loses.
    """

    name = "tile.arg_reduce"
    kind = prop_def(StringAttr)
    axis = prop_def(IntegerAttr)
    value = operand_def(TensorType)
    result = result_def()
    position = result_def()

    def __init__(self, kind: str, value: SSAValue, axis: int) -> None:
        shape = list(shape_of(value.type))
        del shape[axis]
        super().__init__(
            operands=[value],
            properties={"kind": StringAttr(kind), "axis": IntegerAttr(axis, i32)},
            result_types=[
                with_shape(element_type(value.type), tuple(shape)),
                with_shape(i32, tuple(shape)),
            ],
        )

    def verify_(self) -> None:
        _require(self.kind.data in ARG_KINDS, f"unknown reduction {self.kind.data!r}")


@irdl_op_definition
class ScanOp(_PureOp):
    """Inclusive scan along `axis`."""

    name = "tile.scan"
    kind = prop_def(StringAttr)
    axis = prop_def(IntegerAttr)
    reverse = prop_def(IntegerAttr)
    value = operand_def(TensorType)
    result = result_def(TensorType)

    def __init__(self, kind: str, value: SSAValue, axis: int, reverse: bool) -> None:
        super().__init__(
            operands=[value],
            properties={
                "kind": StringAttr(kind),
                "axis": IntegerAttr(axis, i32),
                "reverse": IntegerAttr(int(reverse), i1),
            },
            result_types=[value.type],
        )


@irdl_op_definition
class PrintOp(IRDLOperation):
    """Print a prefix and values (scalars or tiles) from the device."""

    name = "tile.print"
    prefix = prop_def(StringAttr)
    args = var_operand_def()
    unsigned = prop_def(DenseArrayBase)  # 1 where an integer argument is unsigned

    def __init__(self, prefix: str, args: Sequence[SSAValue], unsigned: Sequence[int]) -> None:
        super().__init__(
            operands=[list(args)],
            properties={"prefix": StringAttr(prefix), "unsigned": i64_array(unsigned)},
        )


@irdl_op_definition
class AssertOp(IRDLOperation):
    """Stop the device with a message when a bool value is false anywhere."""

    name = "tile.assert"
    condition = operand_def()
    message = prop_def(StringAttr)

    def __init__(self, condition: SSAValue, message: str) -> None:
        super().__init__(operands=[condition], properties={"message": StringAttr(message)})


class _Microkernel(IRDLOperation):
    """A call of a microkernel (`backend/micro`): what the place pass writes instructions for.

    `kernel` is the name under which the microkernel is registered. `contract` is JSON: "arguments" maps each parameter to
    {"operand": number} or {"value": constant}; "operands" and "results" are the names of their formats (which
    know the signs that IR types lack). Result k is written over operand `in_place[k]` where that is not -1.
    """

    kernel = prop_def(StringAttr)
    contract = prop_def(StringAttr)
    in_place = prop_def(DenseArrayBase)
    args = var_operand_def()
    res = var_result_def()

    def __init__(
        self,
        kernel: str,
        contract: str,
        args: Sequence[SSAValue],
        in_place: Sequence[int],
        result_types: Sequence[Attribute],
    ) -> None:
        super().__init__(
            operands=[list(args)],
            properties={
                "kernel": StringAttr(kernel),
                "contract": StringAttr(contract),
                "in_place": i64_array(in_place),
            },
            result_types=[list(result_types)],
        )

    def verify_(self) -> None:
        places = ints(self.in_place)
        _require(len(places) == len(self.res), "in_place and results differ in number")
        for result, place in zip(self.res, places):
            if place >= 0:
                _require(
                    self.args[place].type == result.type, "an in-place operand differs in type"
                )


@irdl_op_definition
class MicrokernelOp(_Microkernel):
    """A call of a microkernel that works on its tiles only."""

    name = "tile.micro"
    traits = traits_def(Pure())


@irdl_op_definition
class MicrokernelHbmOp(_Microkernel):
    """A call of a microkernel that gets addresses of HBM: it may read and write there."""

    name = "tile.micro_hbm"


MICROKERNELS: tuple[type[_Microkernel], ...] = (MicrokernelOp, MicrokernelHbmOp)


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends the body of a `tile.fused`."""

    name = "tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), ReturnLike())

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(values)])


@irdl_op_definition
class IndexOp(_PureOp):
    """Inside a `tile.fused`: the int32 coordinate along a dim of the iteration space."""

    name = "tile.index"
    dim = prop_def(IntegerAttr)
    result = result_def(i32)

    def __init__(self, dim: int) -> None:
        super().__init__(properties={"dim": IntegerAttr(dim, i32)}, result_types=[i32])


@irdl_op_definition
class FusedOp(IRDLOperation):
    """A vector program (made by the fuse pass): scalar ops run at every point of `sizes`.

    Operand j is a tile or a scalar; `dims[j][e]` is the iteration dim that dim e of operand j follows
    (-1 for a dim of size 1 that is broadcast); a scalar has an empty list. Block argument j is its element.
    The body holds `tile.map`, `arith.constant` and `tile.index` ops on scalars and ends in `tile.yield`.
    Results are tiles of shape `sizes` (scalars for rank 0).
    """

    name = "tile.fused"
    args = var_operand_def()
    sizes = prop_def(DenseArrayBase)
    dims = prop_def(ArrayAttr)
    body = region_def("single_block")
    res = var_result_def()
    traits = traits_def(Pure())

    def __init__(
        self,
        args: Sequence[SSAValue],
        sizes: Sequence[int],
        dims: Sequence[Sequence[int]],
        body: Block,
    ) -> None:
        terminator = body.last_op
        assert isinstance(terminator, YieldOp)
        super().__init__(
            operands=[list(args)],
            properties={
                "sizes": i64_array(sizes),
                "dims": ArrayAttr([i64_array(d) for d in dims]),
            },
            regions=[Region(body)],
            result_types=[[with_shape(v.type, tuple(sizes)) for v in terminator.values]],
        )


VIEWS: tuple[type[Operation], ...] = (ExpandDimsOp, BroadcastOp, ReshapeOp, PermuteOp, SliceOp)
"""Ops that only change how a tile's memory is walked."""


Tile = Dialect(
    "tile",
    [
        ProgramIdOp, NumProgramsOp, IotaOp, SplatOp, MapOp, AddPtrOp, PtrCastOp, ExpandDimsOp,
        BroadcastOp, ReshapeOp, PermuteOp, SliceOp, ConcatOp, TakeOp, LoadOp, StoreOp, AtomicOp, LoadBoxOp, StoreBoxOp, GatherOp,
        ScatterOp, AtomicListOp, DotOp, ReduceOp, ArgReduceOp, ScanOp, PrintOp, AssertOp, YieldOp,
        IndexOp, FusedOp, MicrokernelOp, MicrokernelHbmOp,
    ],
    [PtrType],
)  # fmt: skip
