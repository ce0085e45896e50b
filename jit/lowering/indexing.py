"""Parts of tiles and tiles of parts: indexing, slices, join, split, cat, interleave, flip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from dsalang._backend.dialects import tile

from .. import dtypes
from ..dtypes import dtype
from ..parse.emit import Emitter
from ..semantics import broadcast, cast, common_shape, numeric, shape_of_operand, unify
from ..values import (
    Operand,
    Static,
    Value,
    describe,
    fail,
    shape_text,
    static_axis,
    static_bool,
    to_python,
)
from ..values import tile as need_tile
from .shape import inserted, reshaped

Pick = tuple[int, int, int]
"""What a slice takes of a dim: the first element, the step, how many."""


def sliced(em: Emitter, value: Value, picks: Sequence[Pick]) -> Value:
    """Some elements of each dim."""
    if all(pick == (0, 1, n) for pick, n in zip(picks, value.shape)):
        return value
    starts, steps, shape = ([pick[k] for pick in picks] for k in range(3))
    op = em.add(tile.SliceOp(value.ssa, starts, steps, shape))
    return Value(op.result, value.dtype, tuple(shape))


def part(em: Emitter, value: Value, axis: int, pick: Pick) -> Value:
    """Some elements of one dim, all of the others."""
    picks = [(0, 1, n) for n in value.shape]
    picks[axis] = pick
    return sliced(em, value, picks)


def element(em: Emitter, value: Value, axis: int, position: int) -> Value:
    """One element of a dim, which disappears."""
    shape = value.shape[:axis] + value.shape[axis + 1 :]
    return reshaped(em, part(em, value, axis, (position, 1, 1)), shape)


def concatenated(em: Emitter, values: Sequence[Value], axis: int) -> Value:
    """Tiles of one type one after the other along an axis."""
    if len(values) == 1:
        return values[0]
    if not isinstance(values[0].dtype, dtype):
        fail(f"tiles of pointers cannot be joined ({values[0].type})", "join the offsets instead")
    op = em.add(tile.ConcatOp([v.ssa for v in values], axis))
    shape = list(values[0].shape)
    shape[axis] = sum(v.shape[axis] for v in values)
    return Value(op.result, values[0].dtype, tuple(shape))


def index_tile(em: Emitter, value: Value, index: tuple[Operand, ...]) -> Value:
    """`x[i, a:b, :, None]`: a number picks an element, a slice some, None inserts a dim of size 1.

    A number may be known at run time only; outside of the dim it gives 0.
    """
    keys = _keys(value, index)
    taken = [key for key in keys if key is not None]
    if len(taken) > len(value.shape):
        if not value.shape and all(key == slice(None) for key in taken):
            taken = []  # as in Triton, `:` of a scalar is the scalar
            keys = [key for key in keys if key is None]
        elif not value.shape:
            fail(
                "unsupported tensor index: a scalar cannot be indexed, except with None",
                "element i of an array parameter x is tl.load(x + i)",
            )
        else:
            fail(f"too many indices for a tile of rank {len(value.shape)}: {value.type}")
    picks = [(0, 1, n) for n in value.shape]
    for d, key in enumerate(taken):
        if not isinstance(key, Value):
            picks[d] = _pick(key, value.shape[d])
    result = sliced(em, value, picks)
    for d, key in enumerate(taken):
        if isinstance(key, Value):
            result = _at(em, result, d, key)
    gone = [d for d, key in enumerate(taken) if not isinstance(key, slice)]
    kept = tuple(n for d, n in enumerate(result.shape) if d not in gone)
    result = reshaped(em, result, kept)
    dims = [key for key in keys if key is None or isinstance(key, slice)]
    for position, key in enumerate(dims):
        if key is None:
            result = inserted(em, result, position)
    return result


def _at(em: Emitter, value: Value, axis: int, position: Value) -> Value:
    """The element of a dim at a run-time position; the dim stays with size 1."""
    shape = (*value.shape[:axis], 1, *value.shape[axis + 1 :])
    picked = gather(em, value, broadcast(em, position, shape), Static(axis))
    assert isinstance(picked, Value)
    return picked


def _keys(value: Value, index: tuple[Operand, ...]) -> list[Any]:
    """The compile-time keys, an ellipsis written out."""
    keys: list[Any] = []
    for item in index:
        known, key = to_python(item)
        if isinstance(item, Value) and not item.shape and _is_integer(item):
            keys.append(item)
            continue
        plain = isinstance(key, int | slice) and not isinstance(key, bool)
        if not known or not (plain or key is None or key is Ellipsis):
            fail(
                f"a tile is indexed with integers, compile-time slices, : and None, not {describe(item)}",
                "pick several elements at run time with tl.gather, or load the part that is needed",
            )
        keys.append(key)
    dots = [position for position, key in enumerate(keys) if key is Ellipsis]
    if len(dots) > 1:
        fail("an index can only have one ellipsis (...)")
    for position in dots:
        dims = sum(key is not None and key is not Ellipsis for key in keys)
        keys[position : position + 1] = [slice(None)] * (len(value.shape) - dims)
    return keys


def _is_integer(value: Value) -> bool:
    return isinstance(value.dtype, dtype) and value.dtype.is_int() and not value.dtype.is_bool()


def _pick(key: Any, size: int) -> Pick:
    if isinstance(key, int):
        if not -size <= key < size:
            fail(f"index {key} is out of range for a dim of size {size}")
        return key % size, 1, 1
    try:
        chosen = range(*key.indices(size))
    except (TypeError, ValueError) as error:
        fail(f"cannot slice a dim of size {size}: {error}")
    if not chosen:
        fail(f"the slice {_text(key)} of a dim of size {size} is empty")
    return chosen.start, chosen.step if len(chosen) > 1 else 1, len(chosen)


def _text(key: slice) -> str:
    parts = ["" if bound is None else str(bound) for bound in (key.start, key.stop)]
    return ":".join(parts if key.step is None else [*parts, str(key.step)])


def item(em: Emitter, x: Operand) -> Operand:
    """The one element of a tile."""
    value = need_tile(x, "the argument of item")
    if prod(value.shape) != 1:
        fail(f"item() takes a tile of one element, not {value.type}", "pick one: x[0]")
    return reshaped(em, value, ())


def _pair(em: Emitter, a: Operand, b: Operand, name: str) -> list[Value]:
    """Two values of one type and shape (scalars stay scalars)."""
    operands = [numeric(o, f"an argument of {name}") for o in (a, b)]
    shape = common_shape(*(shape_of_operand(o) for o in operands))
    return [broadcast(em, v, shape) for v in unify(em, operands)]


def join(em: Emitter, a: Operand, b: Operand) -> Operand:
    """Two values side by side in a new last dim."""
    return _stacked(em, _pair(em, a, b, "join"))


def _stacked(em: Emitter, values: list[Value]) -> Value:
    rank = len(values[0].shape)
    return concatenated(em, [inserted(em, v, rank) for v in values], rank)


def split(em: Emitter, a: Operand) -> Operand:
    """The two halves of a last dim of size 2."""
    value = need_tile(a, "the argument of split")
    if value.shape[-1] != 2:
        fail(f"split takes a tile whose last dim has size 2, not {shape_text(value.shape)}")
    last = len(value.shape) - 1
    return tuple(element(em, value, last, k) for k in (0, 1))


def interleave(em: Emitter, a: Operand, b: Operand) -> Operand:
    """The elements of two tiles in turn along the last dim."""
    values = _pair(em, a, b, "interleave")
    shape = values[0].shape
    joined = _stacked(em, values)
    return reshaped(em, joined, (*shape[:-1], 2 * shape[-1])) if shape else joined


def cat(em: Emitter, input: Operand, other: Operand, can_reorder: Operand, dim: Operand) -> Operand:
    """One tile after another along a dim."""
    tiles = [need_tile(o, "an argument of cat") for o in (input, other)]
    static_bool(can_reorder, "can_reorder of cat")
    if len(tiles[0].shape) != len(tiles[1].shape):
        fail(f"cat takes tiles of one rank, not {tiles[0].type} and {tiles[1].type}")
    axis = static_axis(dim, len(tiles[0].shape), "the dim of cat")
    beside = [t.shape[:axis] + t.shape[axis + 1 :] for t in tiles]
    if beside[0] != beside[1]:
        fail(f"cat of {tiles[0].type} and {tiles[1].type}: dims other than {axis} differ")
    if tiles[0].dtype != tiles[1].dtype:
        fail(f"cat of {tiles[0].type} and {tiles[1].type}: convert one with .to(...)")
    return concatenated(em, tiles, axis)


def flip(em: Emitter, x: Operand, dim: Operand) -> Operand:
    """Backwards along a dim (the last one when None)."""
    value = need_tile(x, "the argument of flip")
    rank = len(value.shape)
    axis = rank - 1 if to_python(dim) == (True, None) else static_axis(dim, rank, "the dim of flip")
    return backwards(em, value, axis)


def backwards(em: Emitter, value: Value, axis: int) -> Value:
    """A tile backwards along an axis."""
    size = value.shape[axis]
    return part(em, value, axis, (size - 1, -1, size)) if size > 1 else value


def interleaved(em: Emitter, even: Value, odd: Value, axis: int) -> Value:
    """Elements of two tiles in turn along an axis; `even` may have one more."""
    count = odd.shape[axis]
    tail = even.shape[axis] - count
    head = part(em, even, axis, (0, 1, count))
    pair = concatenated(em, [inserted(em, v, axis + 1) for v in (head, odd)], axis + 1)
    shape = list(odd.shape)
    shape[axis] = 2 * count
    mixed = reshaped(em, pair, tuple(shape))
    if not tail:
        return mixed
    return concatenated(em, [mixed, part(em, even, axis, (count, 1, 1))], axis)


def gather(em: Emitter, src: Operand, index: Operand, axis: Operand) -> Operand:
    """Elements picked along an axis at run time."""
    value, picks = need_tile(src, "the source of gather"), need_tile(index, "the index of gather")
    rank = len(value.shape)
    if not isinstance(value.dtype, dtype):
        fail(f"gather takes numbers, not {value.type}", "gather the offsets instead")
    if not isinstance(picks.dtype, dtype) or not _is_integer(picks):
        fail(f"the index of gather must be integers, not {picks.type}")
    if len(picks.shape) != rank:
        fail(f"gather takes a source and an index of one rank, not {value.type} and {picks.type}")
    along = static_axis(axis, rank, "the axis of gather")
    beside = [v.shape[:along] + v.shape[along + 1 :] for v in (value, picks)]
    if beside[0] != beside[1]:
        fail(f"gather from {value.type} with {picks.type}: dims other than {along} differ")
    wide = (
        dtypes.int32
        if picks.dtype.primitive_bitwidth + (not picks.dtype.signed) <= 32
        else dtypes.int64
    )
    op = em.add(tile.TakeOp(value.ssa, cast(em, picks, wide).ssa, along))
    return Value(op.result, value.dtype, picks.shape)


TABLE: dict[str, Callable[..., Operand]] = {
    "item": item, "join": join, "split": split, "interleave": interleave, "cat": cat, "flip": flip,
    "gather": gather,
}  # fmt: skip
