"""Building tile IR inside a pass: ops go before an anchor and take its location.

Building through `create` skips the declarative constructors, which cost more than the rest of a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerType,
    LocationAttr,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import tile
from ..dialects.attributes import text, wrapped_integer
from ..dialects.types import element_type, shape_of, with_shape
from ..isa.vector_ops import BY_NAME as VECTOR_OPS


class Emitter:
    """Puts new ops into `block` before `before` (at the end when None). What is there stays while it is in use."""

    def __init__(self, block: Block, before: Operation | None, location: LocationAttr) -> None:
        self.block = block
        self.before = before
        self.location = location
        self._constants: dict[tuple[int, int], SSAValue] = {}

    @staticmethod
    def at(op: Operation) -> Emitter:
        """Before an op, with its location."""
        assert op.parent is not None
        return Emitter(op.parent, op, op.location)

    def insert(self, op: Operation) -> Operation:
        """Place an op that was built elsewhere; it takes the anchor's location."""
        op.location = self.location
        if self.before is None:
            self.block.add_op(op)
        else:
            self.block.insert_op_before(op, self.before)
        return op

    def _new(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        type_: Attribute,
        properties: Mapping[str, Attribute] | None = None,
    ) -> SSAValue:
        op = kind.create(operands=operands, result_types=[type_], properties=properties or {})
        return self.insert(op).results[0]

    def constant(self, value: int | float, type_: Attribute) -> SSAValue:
        """A scalar constant; integers wrap to the type."""
        if isinstance(type_, IntegerType):
            key = (int(value), type_.width.data)
            if key not in self._constants:
                properties = {"value": wrapped_integer(key[0], type_)}
                self._constants[key] = self._new(arith.ConstantOp, (), type_, properties)
            return self._constants[key]
        assert isinstance(type_, AnyFloat)
        attribute = FloatAttr(float(value), type_)
        return self._new(arith.ConstantOp, (), type_, {"value": attribute})

    def filled(self, value: int | float, type_: Attribute) -> SSAValue:
        """A constant of a scalar or tile type."""
        scalar = self.constant(value, element_type(type_))
        shape = shape_of(type_)
        return self.splat(scalar, shape) if shape else scalar

    def splat(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`tile.splat`."""
        return self._new(tile.SplatOp, (value,), with_shape(value.type, tuple(shape)))

    def map(self, fn: str, *args: SSAValue, element: Attribute | None = None) -> SSAValue:
        """`tile.map`; `element` is the result's element type of casts."""
        row = VECTOR_OPS[fn]
        if row.result == "bool":
            element = i1
        elif row.result == "same":
            element = element_type(args[-1].type)
        assert element is not None
        type_ = with_shape(element, shape_of(args[0].type))
        return self._new(tile.MapOp, args, type_, {"fn": text(fn)})

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`tile.reshape`; the value itself when the shape is already right."""
        if shape_of(value.type) == tuple(shape):
            return value
        return self._new(
            tile.ReshapeOp, (value,), with_shape(element_type(value.type), tuple(shape))
        )

    def broadcast(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`tile.broadcast`; the value itself when the shape is already right."""
        if shape_of(value.type) == tuple(shape):
            return value
        return self._new(
            tile.BroadcastOp, (value,), with_shape(element_type(value.type), tuple(shape))
        )


def after(value: SSAValue) -> Emitter:
    """An emitter right after the definition of a value."""
    owner = value.owner
    if isinstance(owner, Block):
        first = owner.first_op
        assert first is not None
        return Emitter(owner, first, first.location)
    assert owner.parent is not None
    return Emitter(owner.parent, owner.next_op, owner.location)
