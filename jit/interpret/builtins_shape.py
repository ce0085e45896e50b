"""Interpreted builtins: reductions, scans and shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import dtypes
from ..dtypes import dtype
from . import numeric
from .builtins_memory import element_type, static_int, static_shape
from .errors import fail
from .registry import IMPLEMENTATIONS, implements
from .tile import (
    InterpTile,
    broadcast_shapes,
    broadcast_to,
    cast,
    is_integer,
    number_type,
    subtract,
    to_tile,
    unwrap,
)  # fmt: skip

Array = NDArray[Any]


def _tile_axis(input: Any, axis: Any, what: str) -> tuple[InterpTile, int | None]:
    value, axis = to_tile(input), unwrap(axis)
    if not value.shape:
        raise fail(f"{what} of a scalar")
    if axis is None:
        return value, None
    axis = static_int(axis, f"{what}: axis")
    rank = len(value.shape)
    if not -rank <= axis < rank:
        raise fail(f"{what}: axis {axis} is out of range for shape {value.shape}")
    return value, axis % rank


def _drop_bf16(value: InterpTile) -> InterpTile:
    return cast(value, dtypes.float32) if value.dtype == dtypes.bfloat16 else value


def _sum_type(kind: dtype, wanted: Any, what: str) -> dtype:
    if unwrap(wanted) is not None:
        found = element_type(wanted, what)
        assert isinstance(found, dtype)
        return found
    if kind.is_int() and kind.primitive_bitwidth < 32:
        return dtypes.int32 if kind.is_int_signed() else dtypes.uint32
    return kind


@implements("sum", method=True)
def sum_builtin(
    input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None
) -> InterpTile:
    """Made in float64 and rounded once; integers wrap."""
    value, axis = _tile_axis(input, axis, "sum")
    value = _drop_bf16(value)
    value = cast(value, _sum_type(number_type(value), dtype, "sum"))
    kind, keep = number_type(value), bool(unwrap(keep_dims))
    with numeric.quiet():
        if kind.is_floating():
            total = np.sum(value.data.astype(np.float64), axis=axis, keepdims=keep)
            return InterpTile(numeric.narrow64(np.asarray(total), kind), kind)
        total = np.sum(value.data, axis=axis, keepdims=keep, dtype=value.data.dtype)
        return InterpTile(np.asarray(total), kind)


def _wide_enough(value: InterpTile) -> InterpTile:
    """Extremes without their positions are taken in at least 32 bits, as in Triton: int32 for all integers."""
    kind = number_type(value)
    if kind.primitive_bitwidth >= 32:
        return value
    return cast(value, dtypes.float32 if kind.is_floating() else dtypes.int32)


def _fold(value: Array, axis: int, largest: bool) -> Array:
    """Extreme along an axis; a NaN loses."""
    parts = np.moveaxis(value, axis, 0)
    while len(parts) > 1:  # halves at a time; an odd one out waits for the next round
        half = len(parts) // 2
        best = numeric.minimum(parts[:half], parts[half : 2 * half], False, largest)
        parts = np.concatenate([np.asarray(best, value.dtype), parts[2 * half :]])
    return np.asarray(parts[0], value.dtype)


def _position(value: Array, axis: int, largest: bool) -> Array:
    """First position of the extreme along an axis; a NaN loses."""
    if value.dtype.kind in "biu":
        return np.asarray((np.argmax if largest else np.argmin)(value, axis=axis), np.int32)
    best = np.expand_dims(_fold(value, axis, largest), axis)
    hits = (value == best) & (np.signbit(value) == np.signbit(best))
    return np.asarray(np.argmax(hits, axis=axis), np.int32)


def _take(value: Array, position: Array, axis: int) -> Array:
    picked = np.take_along_axis(value, np.expand_dims(position.astype(np.int64), axis), axis)
    return np.squeeze(picked, axis)


def _flatten(value: InterpTile, axis: int | None) -> tuple[Array, int]:
    return (value.data.reshape(-1), 0) if axis is None else (value.data, axis)


def _restore(data: Array, value: InterpTile, axis: int | None, keep: Any) -> Array:
    if not unwrap(keep):
        return data
    return data.reshape((1,) * len(value.shape)) if axis is None else np.expand_dims(data, axis)


def _extreme(input: Any, axis: Any, with_position: Any, keep: Any, largest: bool, what: str) -> Any:
    if isinstance(axis, InterpTile) and not to_tile(input).shape:
        return IMPLEMENTATIONS["maximum" if largest else "minimum"](input, axis)
    value, axis = _tile_axis(input, axis, what)
    value = _drop_bf16(value) if unwrap(with_position) else _wide_enough(value)
    kind = number_type(value)
    data, along = _flatten(value, axis)
    if not unwrap(with_position):
        return InterpTile(_restore(_fold(data, along, largest), value, axis, keep), kind)
    position = _position(data, along, largest)
    best = _restore(_take(data, position, along), value, axis, keep)
    return (
        InterpTile(best, kind),
        InterpTile(_restore(position, value, axis, keep), dtypes.int32),
    )


@implements("max", method=True)
def max_builtin(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """See the language."""
    return _extreme(input, axis, return_indices, keep_dims, True, "max")


@implements("min", method=True)
def min_builtin(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """See the language."""
    return _extreme(input, axis, return_indices, keep_dims, False, "min")


@implements("argmax", method=True)
def argmax(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Any:
    """The first position, also when ties need not break left."""
    return _extreme(input, axis, True, keep_dims, True, "argmax")[1]


@implements("argmin", method=True)
def argmin(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Any:
    """See the language."""
    return _extreme(input, axis, True, keep_dims, False, "argmin")[1]


def _bit_reduce(input: Any, axis: Any, keep_dims: Any, ufunc: np.ufunc, what: str) -> InterpTile:
    value, axis = _tile_axis(input, axis, what)
    if not is_integer(value):
        raise fail(f"{what} needs integers, not {value.dtype}")
    data, along = _flatten(value, axis)
    total = np.asarray(ufunc.reduce(data, axis=along), data.dtype)
    return InterpTile(_restore(total, value, axis, keep_dims), value.dtype)


@implements("xor_sum", method=True)
def xor_sum(input: Any, axis: Any = None, keep_dims: Any = False) -> InterpTile:
    """See the language."""
    return _bit_reduce(input, axis, keep_dims, np.bitwise_xor, "xor_sum")


@implements("reduce_or", method=True)
def reduce_or(input: Any, axis: Any, keep_dims: Any = False) -> InterpTile:
    """See the language."""
    return _bit_reduce(input, axis, keep_dims, np.bitwise_or, "reduce_or")


def _scan(value: InterpTile, axis: int, reverse: Any, ufunc: np.ufunc) -> InterpTile:
    kind = number_type(value)
    data = np.flip(value.data, axis) if unwrap(reverse) else value.data
    with numeric.quiet():
        if kind.is_floating():
            total = numeric.narrow64(ufunc.accumulate(data.astype(np.float64), axis=axis), kind)
        elif kind.is_bool():
            total = (ufunc.accumulate(data.astype(np.uint8), axis=axis) & 1).astype(np.bool_)
        else:
            total = ufunc.accumulate(data, axis=axis, dtype=data.dtype)
    return InterpTile(np.flip(total, axis) if unwrap(reverse) else total, kind)


@implements("cumsum", method=True)
def cumsum(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> InterpTile:
    """See the language."""
    value, along = _tile_axis(input, 0 if unwrap(axis) is None else axis, "cumsum")
    assert along is not None
    value = _drop_bf16(value)
    value = cast(value, _sum_type(number_type(value), dtype, "cumsum"))
    return _scan(value, along, reverse, np.add)


@implements("cumprod", method=True)
def cumprod(input: Any, axis: Any = 0, reverse: Any = False) -> InterpTile:
    """See the language."""
    value, along = _tile_axis(input, 0 if unwrap(axis) is None else axis, "cumprod")
    assert along is not None
    return _scan(_drop_bf16(value), along, reverse, np.multiply)


@implements("softmax", method=True)
def softmax(
    x: Any, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False
) -> InterpTile:
    """exp(x - max) / sum, each step rounded."""
    value = to_tile(x)
    axis = 0 if unwrap(dim) is None else dim
    shifted = subtract(value, max_builtin(value, axis, keep_dims=True))
    top: InterpTile = IMPLEMENTATIONS["exp"](shifted)
    divide: Callable[[Any, Any], InterpTile] = IMPLEMENTATIONS["fdiv"]
    return divide(top, sum_builtin(top, axis, keep_dims=True))


@implements("expand_dims", method=True)
def expand_dims(input: Any, axis: Any) -> InterpTile:
    """See the language."""
    value, axis = to_tile(input), unwrap(axis)
    axes = [axis] if isinstance(axis, int) else [static_int(a, "expand_dims: axis") for a in axis]
    rank = len(value.shape) + len(axes)
    if any(not -rank <= a < rank for a in axes) or len({a % rank for a in axes}) != len(axes):
        raise fail(f"expand_dims: axis {axis} does not fit shape {value.shape}")
    return InterpTile(np.expand_dims(value.data, tuple(axes)), value.dtype)


def _shape_argument(shape: tuple[Any, ...], what: str) -> Any:
    """A shape given as one sequence or as several integers."""
    first = unwrap(shape[0]) if len(shape) == 1 else None
    return first if isinstance(first, (tuple, list)) else shape


@implements("broadcast_to", method=True)
def broadcast_to_builtin(input: Any, *shape: Any) -> InterpTile:
    """See the language."""
    return broadcast_to(
        to_tile(input), static_shape(_shape_argument(shape, "broadcast_to"), "broadcast_to")
    )


@implements("broadcast")
def broadcast(input: Any, other: Any) -> tuple[InterpTile, InterpTile]:
    """See the language."""
    a, b = to_tile(input), to_tile(other)
    shape = broadcast_shapes(a.shape, b.shape)
    return broadcast_to(a, shape), broadcast_to(b, shape)


@implements("reshape", "view", method=True)
def reshape(input: Any, *shape: Any, can_reorder: Any = False) -> InterpTile:
    """See the language."""
    value = to_tile(input)
    sizes = static_shape(_shape_argument(shape, "reshape"), "reshape")
    if int(np.prod(sizes)) != value.numel:
        raise fail(f"reshape: {value.shape} has {value.numel} elements, {sizes} another number")
    return InterpTile(value.data.reshape(sizes), value.dtype)


@implements("ravel", method=True)
def ravel(x: Any, can_reorder: Any = False) -> InterpTile:
    """See the language."""
    value = to_tile(x)
    return InterpTile(value.data.reshape(-1), value.dtype)


@implements("trans", "permute", method=True)
def trans(input: Any, *dims: Any) -> InterpTile:
    """See the language."""
    value = to_tile(input)
    if not dims:
        return value.T
    order = [static_int(d, "permute") for d in _shape_argument(dims, "permute")]
    if sorted(order) != list(range(len(value.shape))):
        raise fail(f"{tuple(order)} is not an order of the dims of shape {value.shape}")
    return InterpTile(np.transpose(value.data, order), value.dtype)
