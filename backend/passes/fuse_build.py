"""Building a `tile.fused` from the members of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import tile
from ..dialects.types import element_type, shape_of
from .fuse_space import fused_space
from .fuse_walks import CheapTiles, Leaf, Place, own_place, through_views
from .simplify_emit import Emitter


@dataclass
class _Operand:
    value: SSAValue
    place: Place


def build_fused(
    members: Sequence[Operation],
    outputs: Sequence[SSAValue],
    cheap: CheapTiles,
    built: dict[SSAValue, SSAValue],
) -> None:
    """Put a fused op where the last member stands, after which all operands are defined.

    `outputs` are the results of members that are used from outside. `built` says what replaces the outputs
    of earlier clusters, and learns about these. The members stay as they are: later clusters look through
    them.
    """
    _Builder(members, outputs, cheap, built).build()


class _Builder:
    def __init__(
        self,
        members: Sequence[Operation],
        outputs: Sequence[SSAValue],
        cheap: CheapTiles,
        built: dict[SSAValue, SSAValue],
    ) -> None:
        self.members = members
        self.built = built
        self.outputs = outputs
        self.cheap = cheap
        self.space = fused_space(members, outputs, cheap)
        self.block = Block()
        self.operands: list[_Operand] = []
        self.known: dict[Leaf, SSAValue] = {}
        self.index: dict[int, SSAValue] = {}
        self.results: dict[SSAValue, SSAValue] = {}

    def build(self) -> None:
        """Build the body, the op, and the views that give results their shapes."""
        for op in self.members:
            self.results[op.results[0]] = self._member(op)
        anchor = self.members[-1]
        end = tile.YieldOp([self.results[v] for v in self.outputs])
        end.location = anchor.location
        self.block.add_op(end)
        emit = Emitter.at(anchor)
        values, dims = [], []
        for operand in self.operands:
            shape, walk = self.space.walk(shape_of(operand.value.type), operand.place)
            values.append(emit.reshape(operand.value, shape))
            dims.append(walk)
        fused = tile.FusedOp(values, self.space.sizes, dims, self.block)
        emit.insert(fused)
        for old, new in zip(self.outputs, fused.results, strict=True):
            new.name_hint = old.name_hint
            self.built[old] = emit.reshape(new, shape_of(old.type))

    # Expressions

    def _member(self, op: Operation) -> SSAValue:
        place = own_place(op.results[0])
        if isinstance(op, tile.MapOp):
            return self._map(op, place)
        if isinstance(op, tile.BroadcastOp):
            return self._value(*through_views(op.result, place))
        if isinstance(op, tile.SplatOp):
            return self._scalar(op.value)
        assert isinstance(op, tile.IotaOp)
        return self._coordinate(op, place)

    def _map(self, op: tile.MapOp, place: Place) -> SSAValue:
        args = [self._value(*through_views(value, place)) for value in op.args]
        new = tile.MapOp.create(
            operands=args,
            properties=op.properties,
            result_types=(element_type(op.result.type),),
            location=op.location,
        )
        self.block.add_op(new)
        result: SSAValue = new.results[0]
        return result

    def _value(self, value: SSAValue, place: Place) -> SSAValue:
        """The element of a value (views have been passed through)."""
        if value in self.results:
            return self.results[value]
        op = value.owner
        if isinstance(op, tile.SplatOp):
            return self._scalar(op.value)
        if not shape_of(value.type):
            return self._scalar(value)
        key = Leaf(value, place)
        if key not in self.known:
            if isinstance(op, tile.IotaOp):
                self.known[key] = self._coordinate(op, place)
            elif isinstance(op, tile.MapOp) and self.cheap.is_cheap(op):
                self.known[key] = self._map(op, place)
            else:
                self.known[key] = self._argument(value, place)
        return self.known[key]

    def _argument(self, value: SSAValue, place: Place) -> SSAValue:
        self.operands.append(_Operand(self.built.get(value, value), place))
        return self.block.insert_arg(element_type(value.type), len(self.block.args))

    def _scalar(self, value: SSAValue) -> SSAValue:
        key = Leaf(value, ())
        if value in self.results:
            return self.results[value]
        if key not in self.known:
            op = value.owner
            if isinstance(op, arith.ConstantOp):
                constant = op.clone()
                self.block.add_op(constant)
                self.known[key] = constant.result
            else:
                self.known[key] = self._argument(value, ())
        return self.known[key]

    def _constant(self, number: int) -> SSAValue:
        op = arith.ConstantOp(IntegerAttr(number, i32))
        op.location = self.members[-1].location
        self.block.add_op(op)
        return op.result

    def _coordinate(self, op: tile.IotaOp, place: Place) -> SSAValue:
        start = op.start.value.data
        dim = place[0]
        if dim is None:
            return self._constant(start)
        emit = Emitter(self.block, None, op.location)
        index = self._index(dim, emit)
        return emit.map("iadd", index, self._constant(start)) if start else index

    def _index(self, dim: int, emit: Emitter) -> SSAValue:
        """The coordinate along a dim of the space, taken apart again when that dim has been merged."""
        if dim not in self.index:
            number, inner, outer = self.space.coordinate(dim)
            value: SSAValue = emit.insert(tile.IndexOp(number)).results[0]
            if inner > 1:
                value = emit.map("udiv", value, self._constant(inner))
            if outer > 1:
                value = emit.map("urem", value, self._constant(self.space.dims[dim]))
            self.index[dim] = value
        return self.index[dim]
