"""Tiles that depend on one dim, or on none, taken as rank-1 tiles and scalars.

The ops that build such a slice stand right after the tile they are taken from.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ..dialects import tile
from ..dialects.types import element_type, shape_of
from .simplify_emit import after


def unit_reshape(source: tuple[int, ...], target: tuple[int, ...]) -> tuple[int | None, ...] | None:
    """Per target dim the source dim it is (None for size 1), when a reshape only moves dims of size 1."""
    solid = [d for d, n in enumerate(source) if n != 1]
    if [source[d] for d in solid] != [n for n in target if n != 1]:
        return None
    left = iter(solid)
    return tuple(None if n == 1 else next(left) for n in target)


def source_dims(op: Operation) -> tuple[int | None, ...] | None:
    """Per result dim of a view the operand dim it follows (None: no dim); None when no such map exists."""
    value = op.operands[0]
    rank = len(shape_of(value.type))
    if isinstance(op, tile.ExpandDimsOp):
        axis = op.axis.value.data
        return (*range(axis), None, *range(axis, rank))
    if isinstance(op, tile.BroadcastOp):
        return tuple(range(rank))
    if isinstance(op, tile.PermuteOp):
        return tile.ints(op.order)
    if isinstance(op, tile.ReshapeOp):
        return unit_reshape(shape_of(value.type), shape_of(op.results[0].type))
    return None


class Slices:
    """Slices made so far."""

    def __init__(self) -> None:
        self._depends: dict[SSAValue, frozenset[int]] = {}
        self._lines: dict[tuple[SSAValue, int], SSAValue] = {}
        self._scalars: dict[SSAValue, SSAValue] = {}

    def depends_on(self, value: SSAValue) -> frozenset[int]:
        """The dims that the elements of a tile may depend on."""
        found = self._depends.get(value)
        if found is None:
            found = self._find_dependence(value)
            self._depends[value] = found
        return found

    def _find_dependence(self, value: SSAValue) -> frozenset[int]:
        op = value.owner
        shape = shape_of(value.type)
        if isinstance(op, tile.SplatOp):
            return frozenset()
        if isinstance(op, tile.MapOp):
            return frozenset().union(*map(self.depends_on, op.args))
        if isinstance(op, tile.VIEWS) and (dims := source_dims(op)) is not None:
            inner = self.depends_on(op.operands[0])
            return frozenset(d for d, s in enumerate(dims) if s in inner)
        return frozenset(d for d, n in enumerate(shape) if n > 1)

    def scalar(self, value: SSAValue) -> SSAValue:
        """The one number in a tile that depends on no dim."""
        if not shape_of(value.type):
            return value
        if value not in self._scalars:
            self._scalars[value] = self._find_scalar(value)
        return self._scalars[value]

    def _find_scalar(self, value: SSAValue) -> SSAValue:
        op = value.owner
        emit = after(value)
        if isinstance(op, tile.SplatOp):
            return op.value
        if isinstance(op, tile.IotaOp):
            return emit.constant(op.start.value.data, element_type(value.type))
        if isinstance(op, tile.MapOp):
            element = element_type(value.type)
            return emit.map(op.fn.data, *map(self.scalar, op.args), element=element)
        if isinstance(op, tile.VIEWS) and source_dims(op) is not None:
            return self.scalar(op.operands[0])
        return emit.reshape(value, ())

    def line(self, value: SSAValue, dim: int) -> SSAValue:
        """A tile that depends on no dim but `dim`, as a rank-1 tile."""
        key = (value, dim)
        if key not in self._lines:
            self._lines[key] = self._find_line(value, dim)
        return self._lines[key]

    def _find_line(self, value: SSAValue, dim: int) -> SSAValue:
        op, shape = value.owner, shape_of(value.type)
        size = shape[dim]
        if len(shape) == 1:
            return value
        emit = after(value)
        if not self.depends_on(value):
            return emit.splat(self.scalar(value), (size,))
        if all(n == 1 or d == dim for d, n in enumerate(shape)):
            return emit.reshape(value, (size,))
        if isinstance(op, tile.MapOp):
            lines = [self.line(a, dim) for a in op.args]
            return emit.map(op.fn.data, *lines, element=element_type(value.type))
        assert isinstance(op, tile.VIEWS)
        dims = source_dims(op)
        assert dims is not None
        source = dims[dim]
        assert source is not None
        return emit.broadcast(self.line(op.operands[0], source), (size,))
