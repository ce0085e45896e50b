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


def _looked_through(value: SSAValue) -> tuple[SSAValue, ...]:
    """The operands that a value depends on in a way that is known dim by dim."""
    op = value.owner
    if isinstance(op, tile.MapOp):
        return tuple(op.args)
    if isinstance(op, tile.VIEWS) and source_dims(op) is not None:
        return (op.operands[0],)
    return ()


class Slices:
    """Slices made so far."""

    def __init__(self) -> None:
        self._depends: dict[SSAValue, frozenset[int]] = {}
        self._lines: dict[tuple[SSAValue, int], SSAValue] = {}
        self._scalars: dict[SSAValue, SSAValue] = {}

    def depends_on(self, value: SSAValue) -> frozenset[int]:
        """The dims that the elements of a tile may depend on."""
        work = [value]
        while work:  # not recursive: a mask may hang on a long computation
            last = work[-1]
            unknown = [v for v in _looked_through(last) if v not in self._depends]
            if unknown:
                work += unknown
            else:
                self._depends[last] = self._dependence(last)
                work.pop()
        return self._depends[value]

    def _dependence(self, value: SSAValue) -> frozenset[int]:
        """The dims, when those of the operands are known."""
        op, operands = value.owner, _looked_through(value)
        if isinstance(op, tile.MapOp):
            return frozenset().union(*[self._depends[v] for v in operands])
        if operands and isinstance(op, Operation):
            dims, inner = source_dims(op), self._depends[operands[0]]
            assert dims is not None
            return frozenset(d for d, s in enumerate(dims) if s in inner)
        if isinstance(op, tile.SplatOp):
            return frozenset()
        return frozenset(d for d, n in enumerate(shape_of(value.type)) if n > 1)

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
