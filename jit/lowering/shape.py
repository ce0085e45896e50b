"""Shapes: views, broadcasts and permutations."""

from __future__ import annotations

import math
from collections.abc import Callable

from dsalang._backend.dialects import tile

from ..parse.emit import Emitter
from ..semantics import broadcast as broadcast_value
from ..semantics import common_shape, materialise
from ..values import (
    Operand,
    Value,
    fail,
    shape_text,
    static_ints,
    static_shape,
)
from ..values import tile as need_tile


def reshaped(em: Emitter, value: Value, shape: tuple[int, ...]) -> Value:
    """A value of another shape with the same number of elements (() for a scalar)."""
    if value.shape == shape:
        return value
    if not value.shape:
        return broadcast_value(em, value, shape)
    op = em.add(tile.ReshapeOp(value.ssa, shape))
    return Value(op.result, value.dtype, shape)


def inserted(em: Emitter, value: Value, axis: int) -> Value:
    """A dim of size 1 at `axis`."""
    shape = (*value.shape[:axis], 1, *value.shape[axis:])
    if not value.shape:
        return broadcast_value(em, value, shape)
    return Value(em.add(tile.ExpandDimsOp(value.ssa, axis)).result, value.dtype, shape)


def spread(em: Emitter, value: Value, axis: int, shape: tuple[int, ...]) -> Value:
    """A reduced value back in the shape that was reduced along `axis`."""
    return broadcast_value(em, inserted(em, value, axis), shape)


def expand_dims(em: Emitter, input: Operand, axis: Operand) -> Operand:
    """Dims of size 1 at the places given, which count in the result."""
    value = materialise(em, input, "the argument of expand_dims")
    axes = static_ints(axis, "the axis of expand_dims")
    rank = len(value.shape) + len(axes)
    for number in axes:
        if not -rank <= number < rank:
            fail(f"the axis {number} of expand_dims is out of range for a result of rank {rank}")
    places = sorted(number % rank for number in axes)
    if len(set(places)) != len(places):
        fail(f"expand_dims got an axis twice: {axes}")
    for place in places:
        value = inserted(em, value, place)
    return value


def broadcast_to(em: Emitter, input: Operand, shape: Operand) -> Operand:
    """Repeat up to a shape."""
    value = materialise(em, input, "the argument of broadcast_to")
    wanted = static_shape(shape, "the shape of broadcast_to")
    if common_shape(value.shape, wanted) != wanted:
        fail(f"cannot broadcast {shape_text(value.shape)} to {shape_text(wanted)}")
    return broadcast_value(em, value, wanted)


def broadcast(em: Emitter, input: Operand, other: Operand) -> Operand:
    """Two values in their common shape."""
    a = materialise(em, input, "the first argument of broadcast")
    b = materialise(em, other, "the second argument of broadcast")
    shape = common_shape(a.shape, b.shape)
    return (broadcast_value(em, a, shape), broadcast_value(em, b, shape))


def reshape(em: Emitter, input: Operand, shape: Operand, **hints: Operand) -> Operand:
    """The same elements under another shape."""
    value = materialise(em, input, "the argument of reshape")
    wanted = static_shape(shape, "the shape of reshape")
    if math.prod(wanted) != math.prod(value.shape):
        fail(
            f"cannot reshape {shape_text(value.shape)} to {shape_text(wanted)}: "
            f"{math.prod(value.shape)} elements against {math.prod(wanted)}"
        )
    return reshaped(em, value, wanted)


def ravel(em: Emitter, x: Operand, **hints: Operand) -> Operand:
    """All elements in one dim."""
    value = need_tile(x, "the argument of ravel")
    return reshaped(em, value, (math.prod(value.shape),))


def trans(em: Emitter, input: Operand, dims: Operand) -> Operand:
    """Permute; without dims swap the last two."""
    value = need_tile(input, "the argument of trans")
    rank = len(value.shape)
    if dims == ():
        if rank < 2:
            fail(f"trans takes a tile of rank 2 or more, not {value.type}")
        return _permuted(em, value, (*range(rank - 2), rank - 1, rank - 2))
    return permute(em, input, dims)


def permute(em: Emitter, input: Operand, dims: Operand) -> Operand:
    """Reorder the dims."""
    value = need_tile(input, "the argument of permute")
    order = static_ints(dims, "the dims of permute")
    rank = len(value.shape)
    if sorted(d % rank if -rank <= d < rank else rank for d in order) != list(range(rank)):
        fail(f"{order} is not an order of the {rank} dims of {value.type}")
    return _permuted(em, value, tuple(d % rank for d in order))


def _permuted(em: Emitter, value: Value, order: tuple[int, ...]) -> Value:
    if order == tuple(range(len(order))):
        return value
    op = em.add(tile.PermuteOp(value.ssa, order))
    return Value(op.result, value.dtype, tuple(value.shape[d] for d in order))


TABLE: dict[str, Callable[..., Operand]] = {
    "expand_dims": expand_dims, "broadcast_to": broadcast_to, "broadcast": broadcast,
    "reshape": reshape, "view": reshape, "ravel": ravel, "trans": trans, "permute": permute,
}  # fmt: skip
