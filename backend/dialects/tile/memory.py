"""Pointers, and accesses to HBM: through pointers as the front end makes them, and analysed."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, TensorType, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    var_operand_def,
)

from ..attributes import text
from ..definition import DialectOp, PureOp, op_definition, require
from ..types import PtrType, element_type, shape_of, with_shape


@op_definition
class AddPtrOp(PureOp):
    """ptr + offset, the offset counted in elements; both of one shape."""

    name = "tile.addptr"
    ptr = operand_def()
    offset = operand_def()
    result = result_def()

    def __init__(self, ptr: SSAValue, offset: SSAValue) -> None:
        super().__init__(operands=[ptr, offset], result_types=[ptr.type])

    def verify_(self) -> None:
        require(isinstance(element_type(self.ptr.type), PtrType), "not a pointer")
        require(shape_of(self.ptr.type) == shape_of(self.offset.type), "shapes differ")


@op_definition
class PtrCastOp(PureOp):
    """Pointer to pointer, pointer to i64 (byte address) or i64 to pointer; one shape."""

    name = "tile.ptr_cast"
    value = operand_def()
    result = result_def()

    def __init__(self, value: SSAValue, element: Attribute) -> None:
        super().__init__(operands=[value], result_types=[with_shape(element, shape_of(value.type))])


@op_definition
class LoadOp(DialectOp):
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


@op_definition
class StoreOp(DialectOp):
    """Store through pointers of any shape; masked-off elements are not touched."""

    name = "tile.store"
    ptr = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(self, ptr: SSAValue, value: SSAValue, mask: SSAValue | None = None) -> None:
        super().__init__(operands=[ptr, value, mask])


@op_definition
class AtomicOp(DialectOp):
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
            properties={"kind": text(kind)},
            result_types=[value.type],
        )


@op_definition
class LoadBoxOp(DialectOp):
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


@op_definition
class StoreBoxOp(DialectOp):
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


@op_definition
class GatherOp(DialectOp):
    """Load element by element at base + offsets[i] bytes; an offset of INVALID_OFFSET gives `fill`."""

    name = "tile.gather"
    base = operand_def(i64)
    offsets = operand_def()
    fill = opt_operand_def()
    arg = prop_def(IntegerAttr)
    result = result_def()


@op_definition
class ScatterOp(DialectOp):
    """Store element by element at base + offsets[i] bytes; an offset of INVALID_OFFSET skips it."""

    name = "tile.scatter"
    base = operand_def(i64)
    offsets = operand_def()
    value = operand_def()
    arg = prop_def(IntegerAttr)


@op_definition
class AtomicListOp(DialectOp):
    """An atomic whose pointers have been turned into byte offsets (replaces `tile.atomic`)."""

    name = "tile.atomic_list"
    kind = prop_def(StringAttr)
    base = operand_def(i64)
    offsets = operand_def()
    value = operand_def()
    compare = opt_operand_def()
    arg = prop_def(IntegerAttr)
    result = result_def()
