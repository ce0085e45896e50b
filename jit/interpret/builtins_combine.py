"""Interpreted builtins: parts of tiles, tiles of parts, reductions and scans with a function of the kernel's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import fail
from .registry import implements
from .tile import (
    InterpTile,
    broadcast_shapes,
    broadcast_to,
    is_integer,
    number_type,
    operands,
    to_tile,
    unwrap,
)

Tiles = tuple[InterpTile, ...]


@implements("item", method=True)
def item(x: Any) -> InterpTile:
    """See the language."""
    value = to_tile(x)
    if not value.shape or value.numel != 1:
        raise fail(f"item() needs a tile of one element, not shape {value.shape}")
    return InterpTile(value.data.reshape(()), value.dtype)


def _side_by_side(a: Any, b: Any) -> InterpTile:
    x, y, kind = operands(a, b)
    shape = broadcast_shapes(x.shape, y.shape)
    both = [broadcast_to(v, shape).data for v in (x, y)]
    return InterpTile(np.stack(both, axis=-1), kind)


@implements("join")
def join(a: Any, b: Any) -> InterpTile:
    """See the language."""
    return _side_by_side(a, b)


@implements("interleave")
def interleave(a: Any, b: Any) -> InterpTile:
    """See the language."""
    pairs = _side_by_side(a, b)
    data = pairs.data
    if data.ndim > 1:
        data = data.reshape(*data.shape[:-2], 2 * data.shape[-2])
    return InterpTile(data, pairs.dtype)


@implements("split", method=True)
def split(a: Any) -> tuple[InterpTile, InterpTile]:
    """See the language."""
    value = to_tile(a)
    if not value.shape or value.shape[-1] != 2:
        raise fail(f"split needs a last dim of size 2, not shape {value.shape}")
    return InterpTile(value.data[..., 0], value.dtype), InterpTile(value.data[..., 1], value.dtype)


@implements("cat")
def cat(input: Any, other: Any, can_reorder: Any = False, dim: Any = 0) -> InterpTile:
    """See the language."""
    a, b, axis = to_tile(input), to_tile(other), unwrap(dim)
    if number_type(a) != number_type(b):
        raise fail(f"cat of {a.dtype} and {b.dtype}: the types must be equal")
    try:
        return InterpTile(np.concatenate([a.data, b.data], axis), a.dtype)
    except (ValueError, IndexError, TypeError) as error:
        raise fail(f"cat of shapes {a.shape} and {b.shape}: {error}") from None


@implements("flip")
def flip(x: Any, dim: Any = None) -> InterpTile:
    """See the language."""
    value, axis = to_tile(x), unwrap(dim)
    rank = len(value.shape)
    axis = rank - 1 if axis is None else axis
    if not -rank <= axis < rank or not rank:
        raise fail(f"flip: dim {axis} is out of range for shape {value.shape}")
    return InterpTile(np.flip(value.data, axis), value.dtype)


@implements("gather", method=True)
def gather(src: Any, index: Any, axis: Any) -> InterpTile:
    """See the language."""
    value, picks = to_tile(src), to_tile(index)
    number_type(value)
    if not is_integer(picks) or len(picks.shape) != len(value.shape):
        raise fail(f"gather needs integers of rank {len(value.shape)}, not {picks.type}")
    along = _axis_of((value,), axis, "gather")
    for d, (a, b) in enumerate(zip(value.shape, picks.shape)):
        if d != along and a != b:
            raise fail(f"gather from shape {value.shape} with shape {picks.shape}: dim {d} differs")
    where = picks.data.astype(object) if picks.data.dtype.kind == "u" else picks.data
    inside = np.asarray((where >= 0) & (where < value.shape[along]), bool)
    safe = np.where(inside, picks.data, 0).astype(np.int64)
    found = np.take_along_axis(value.data, safe, along)
    return InterpTile(np.where(inside, found, np.zeros((), value.data.dtype)), value.dtype)


def _tiles(input: Any, what: str) -> tuple[Tiles, bool]:
    many = isinstance(unwrap(input), (tuple, list))
    values = tuple(to_tile(v) for v in (unwrap(input) if many else (input,)))
    for value in values:
        if not value.shape or value.shape != values[0].shape:
            raise fail(f"{what} needs tiles of one shape, not {[v.shape for v in values]}")
    return values, many


def _combiner(function: Any, what: str) -> Callable[[Tiles, Tiles], Tiles]:
    def run(left: Tiles, right: Tiles) -> Tiles:
        result = function(*left, *right)
        found = result if isinstance(result, (tuple, list)) else (result,)
        if len(found) != len(left):
            raise fail(f"the function of {what} returns {len(found)} values for {len(left)}")
        tiles = tuple(to_tile(v) for v in found)
        for old, new in zip(left, tiles):
            if old.dtype != new.dtype:
                raise fail(f"the function of {what} gives {new.dtype} for {old.dtype}")
        return tuple(broadcast_to(v, old.shape) for old, v in zip(left, tiles))

    return run


def _take(tiles: Tiles, axis: int, key: slice) -> Tiles:
    index = (slice(None),) * axis + (key,)
    return tuple(InterpTile(v.data[index], v.dtype) for v in tiles)


def _stack(parts: list[Tiles], axis: int) -> Tiles:
    return tuple(
        InterpTile(np.concatenate([v.data for v in column], axis), column[0].dtype)
        for column in zip(*parts)
    )


def _axis_of(tiles: Tiles, axis: Any, what: str) -> int:
    rank, number = len(tiles[0].shape), unwrap(axis)
    if not isinstance(number, int) or not -rank <= number < rank:
        raise fail(f"{what}: axis {number} is out of range for shape {tiles[0].shape}")
    return number % rank


@implements("reduce", method=True)
def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    """Level by level: neighbours in pairs; the last of an odd number waits for the end."""
    tiles, many = _tiles(input, "reduce")
    shape = tiles[0].shape
    if unwrap(axis) is None:
        tiles = tuple(InterpTile(v.data.reshape(-1), v.dtype) for v in tiles)
        along, kept = 0, (1,) * len(shape)
    else:
        along = _axis_of(tiles, axis, "reduce")
        kept = (*shape[:along], 1, *shape[along + 1 :])
    combine = _combiner(combine_fn, "reduce")
    waiting: list[Tiles] = []
    while (size := tiles[0].shape[along]) > 1:
        if size % 2:
            waiting.insert(0, _take(tiles, along, slice(size - 1, size)))
            if len(waiting) > 1:
                waiting = [combine(waiting[0], waiting[1])]
            tiles = _take(tiles, along, slice(0, size - 1))
        tiles = combine(
            _take(tiles, along, slice(0, None, 2)), _take(tiles, along, slice(1, None, 2))
        )
    if waiting:
        tiles = combine(tiles, waiting[0])
    result = tuple(
        InterpTile(
            v.data.reshape(kept)
            if unwrap(keep_dims)
            else v.data.reshape([n for d, n in enumerate(v.shape) if d != along]),
            v.dtype,
        )
        for v in tiles
    )
    return result if many else result[0]


def _scan(tiles: Tiles, axis: int, combine: Callable[[Tiles, Tiles], Tiles]) -> Tiles:
    size = tiles[0].shape[axis]
    if size == 1:
        return tiles
    even = size - size % 2
    pairs = combine(_take(tiles, axis, slice(0, even, 2)), _take(tiles, axis, slice(1, even, 2)))
    scanned = _scan(pairs, axis, combine)
    rows = [_take(tiles, axis, slice(0, 1)), _take(scanned, axis, slice(0, 1))]
    between: Tiles | None = None
    if size > 2:
        count = (size - 1) // 2
        between = combine(
            _take(scanned, axis, slice(0, count)), _take(tiles, axis, slice(2, size, 2))
        )
    for position in range(2, size):
        source = scanned if position % 2 else between
        assert source is not None
        at = position // 2 if position % 2 else position // 2 - 1
        rows.append(_take(source, axis, slice(at, at + 1)))
    return _stack(rows, axis)


@implements("associative_scan", method=True)
def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:
    """Pairs are scanned first; what stands between them is combined with the pairs before it."""
    tiles, many = _tiles(input, "associative_scan")
    along = _axis_of(tiles, axis, "associative_scan")
    turn = slice(None, None, -1) if unwrap(reverse) else slice(None)
    scanned = _scan(_take(tiles, along, turn), along, _combiner(combine_fn, "associative_scan"))
    result = _take(scanned, along, turn)
    return result if many else result[0]


@implements("map_elementwise")
def map_elementwise(scalar_fn: Any, *args: Any, pack: Any = 1) -> Any:
    """See the language."""
    values = [to_tile(v) for v in args]
    shape = broadcast_shapes(*(v.shape for v in values))
    return scalar_fn(*(broadcast_to(v, shape) for v in values))
