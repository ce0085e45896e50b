"""How a point of an iteration space reads its operands: views become walks, cheap sources are remade.

An expression is traced from an elementwise operand through views down to what has to be in memory (a
`Leaf`) or costs nothing (a scalar, a constant, a coordinate). `Place` says which dim of the iteration
space each dim of a value follows; None stands for a dim of size 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import tile
from ..dialects.types import shape_of
from ..isa.vector_ops import BY_NAME as VECTOR_OPS
from ..isa.vector_ops import CHEAP
from .access_slices import unit_reshape

_ABSORBED = frozenset((tile.ExpandDimsOp, tile.BroadcastOp, tile.PermuteOp))

Place = tuple[int | None, ...]

CHEAP_OPS = 2
"""A tile of coordinates and scalars that takes up to so many cheap operations is remade in each user."""

CHEAP_SCALARS = 2
"""It may use so many scalars, so that no operation on three such tiles exceeds what a program takes."""


@dataclass(frozen=True)
class Leaf:
    """A tile or scalar that an expression reads from outside."""

    value: SSAValue
    place: Place


def is_view(op: Operation | Block) -> bool:
    """True for views that an elementwise user absorbs."""
    if type(op) in _ABSORBED:
        return True
    if not isinstance(op, tile.ReshapeOp):
        return False
    source, target = shape_of(op.value.type), shape_of(op.result.type)
    return bool(source and target) and unit_reshape(source, target) is not None


def is_scalar_float_map(op: Operation) -> bool:
    """True for a `tile.map` on scalars that touches a float: the control core cannot run it."""
    if not isinstance(op, tile.MapOp) or shape_of(op.result.type):
        return False
    return any(not isinstance(v.type, IntegerType) for v in (*op.args, op.result))


def through_views(value: SSAValue, place: Place) -> tuple[SSAValue, Place]:
    """The value behind the views that are absorbed, and the place of its dims."""
    while is_view(op := value.owner):
        assert isinstance(op, tile.VIEWS)
        value, place = op.operands[0], _through(op, place)
    return value, place


def _through(op: Operation, place: Place) -> Place:
    source = shape_of(op.operands[0].type)
    if isinstance(op, tile.ExpandDimsOp):
        axis = op.axis.value.data
        return place[:axis] + place[axis + 1 :]
    if isinstance(op, tile.BroadcastOp):
        return tuple(None if n == 1 else p for n, p in zip(source, place, strict=True))
    inner: list[int | None] = [None] * len(source)
    if isinstance(op, tile.PermuteOp):
        for d, s in enumerate(tile.ints(op.order)):
            inner[s] = place[d]
    else:
        moved = unit_reshape(source, shape_of(op.results[0].type))
        assert moved is not None
        for d, moved_to in enumerate(moved):
            if moved_to is not None:
                inner[moved_to] = place[d]
    return tuple(inner)


def space_of(value: SSAValue) -> tuple[int, ...]:
    """The iteration space of a value: its dims longer than 1; (1,) for a tile of one element."""
    shape = shape_of(value.type)
    return tuple(n for n in shape if n > 1) or ((1,) if shape else ())


def own_place(value: SSAValue) -> Place:
    """Where the dims of a value lie in its own space."""
    count = -1
    place: list[int | None] = []
    for n in shape_of(value.type):
        count += n > 1
        place.append(count if n > 1 else None)
    return tuple(place)


class CheapTiles:
    """Which tiles are remade in each user: splats, coordinates, and up to CHEAP_OPS operations on them.

    `kept` are operations whose result has to be in memory anyway; they are computed once.
    """

    def __init__(self) -> None:
        self.kept: set[Operation] = set()
        self._sizes: dict[Operation, int] = {}

    def is_cheap(self, op: Operation | Block) -> bool:
        """True when the op's result is remade."""
        if isinstance(op, (tile.SplatOp, tile.IotaOp)):
            return True
        if not isinstance(op, tile.MapOp) or not shape_of(op.result.type) or op in self.kept:
            return False
        return self._size(op) <= CHEAP_OPS and _scalars(op) <= CHEAP_SCALARS

    def _size(self, op: Operation | Block) -> int:
        """Operations to remake the op's result; more than CHEAP_OPS when it is not worth it."""
        if isinstance(op, (tile.SplatOp, tile.IotaOp)):
            return 0
        if is_view(op):
            assert isinstance(op, tile.VIEWS)
            return self._size(op.operands[0].owner)
        if not isinstance(op, tile.MapOp) or VECTOR_OPS[op.fn.data].cost != CHEAP:
            return CHEAP_OPS + 1
        if op not in self._sizes:
            self._sizes[op] = CHEAP_OPS + 1
            self._sizes[op] = 1 + sum(self._size(a.owner) for a in op.args)
        return self._sizes[op]


def _scalars(op: Operation | Block) -> int:
    """Scalars in a cheap tile that are not constants."""
    if isinstance(op, tile.SplatOp):
        return 0 if isinstance(op.value.owner, arith.ConstantOp) else 1
    if isinstance(op, tile.MapOp) or (is_view(op) and isinstance(op, Operation)):
        return sum([_scalars(value.owner) for value in op.operands])
    return 0


@dataclass
class Reading:
    """What a member of a cluster reads, at places in its own space: `leaves` from outside, and the
    operations on cheap tiles that it remakes."""

    leaves: dict[Leaf, None]
    remade: dict[Leaf, None]


def reading(op: Operation, cheap: CheapTiles) -> Reading:
    """Trace the operands of a member."""
    place = own_place(op.results[0])
    found = Reading({}, {})
    if isinstance(op, tile.MapOp):
        for value in op.args:
            _collect(value, place, cheap, found)
    elif isinstance(op, tile.BroadcastOp):
        _collect(op.value, _through(op, place), cheap, found)
    elif isinstance(op, tile.SplatOp):
        found.leaves[Leaf(op.value, ())] = None
    return found


def _collect(value: SSAValue, place: Place, cheap: CheapTiles, found: Reading) -> None:
    value, place = through_views(value, place)
    op = value.owner
    if isinstance(op, tile.SplatOp):
        found.leaves[Leaf(op.value, ())] = None
    elif isinstance(op, tile.MapOp) and cheap.is_cheap(op):
        found.remade[Leaf(value, place)] = None
        for operand in op.args:
            _collect(operand, place, cheap, found)
    elif not isinstance(op, tile.IotaOp):
        found.leaves[Leaf(value, place)] = None
