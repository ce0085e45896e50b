"""Functions of the language that are written in it. The compiler and the interpreter run the same text."""

from __future__ import annotations

from typing import Any

from . import builtins as tl
from . import dtypes
from .builtin import defined
from .constexpr import constexpr_function

CHUNK = 1 << 15
"""Elements of the largest tile that a comparison of all with all makes at a time."""


@constexpr_function
def _to_last(rank: int, dim: int) -> tuple[int, ...]:
    """The order of dims that moves one to the end."""
    return (*[d for d in range(rank) if d != dim], dim)


@constexpr_function
def _from_last(rank: int, dim: int) -> tuple[int, ...]:
    """The order that undoes `_to_last`."""
    order = list(range(rank - 1))
    order.insert(dim, rank - 1)
    return tuple(order)


@constexpr_function
def _dim(dim: int | None, rank: int, what: str) -> int:
    number = rank - 1 if dim is None else dim
    if rank == 0 or not -rank <= number < rank:
        raise ValueError(f"{what}: dim {dim} is out of range for a tile of rank {rank}")
    return number % rank


@constexpr_function
def _integer_of(kind: dtypes.dtype) -> dtypes.dtype:
    """The signed integer type of a type's width."""
    return dtypes.dtype(f"int{max(kind.primitive_bitwidth, 8)}")


@constexpr_function
def _log2(n: int) -> int:
    """The exponent of the smallest power of two that is >= n."""
    return (n - 1).bit_length()


@defined()
def _sort_key(x: Any) -> Any:
    """Integers in the order of the values: floats by sign and magnitude, NaN beyond infinity."""
    if x.dtype.is_floating():
        kind = _integer_of(x.dtype)
        bits = x.to(kind, bitcast=True)
        result = tl.where(bits < 0, bits ^ kind.get_int_max_value(), bits)
    elif x.dtype.is_bool():
        result = x.to(dtypes.int8)
    else:
        result = x
    return result


@defined()
def _from_sort_key(key: Any, kind: Any) -> Any:
    if kind.is_floating():
        bits = tl.where(key < 0, key ^ key.dtype.get_int_max_value(), key)
        result = bits.to(kind, bitcast=True)
    else:
        result = key.to(kind)
    return result


@defined()
def _exchange(key: Any, rows: Any, length: Any, block: Any, distance: Any) -> Any:
    """One step of a bitonic network: elements `distance` apart, ascending in every other `block`."""
    pairs = rows * length // (2 * distance)
    tile = key.reshape(pairs, 2, distance)
    other = tile[:, ::-1, :]
    lower = (tl.arange(0, 2) == 0)[None, :, None]
    if block < length:
        first = (tl.arange(0, pairs) * (2 * distance)) & block
        keep_smaller = lower == (first == 0)[:, None, None]
    else:
        keep_smaller = lower
    return tl.where(keep_smaller, tl.minimum(tile, other), tl.maximum(tile, other))


@defined(method=True)
def sort(x: Any, dim: Any = None, descending: bool = False) -> Any:
    """Sorted along a dim (the last one when None), of any length; NaN counts as larger than infinity."""
    place = _dim(dim, len(x.shape), "sort")
    rank = len(x.shape)
    size = x.shape[place]
    length = 1 << _log2(size)
    rows = x.numel // size
    key = _sort_key(tl.permute(x, _to_last(rank, place))).reshape(rows, size)
    if size < length:
        top = key.dtype.get_int_max_value()
        key = tl.cat(key, tl.full((rows, length - size), top, key.dtype), dim=1)
    for stage in tl.static_range(1, _log2(size) + 1):
        for step in tl.static_range(stage):
            key = _exchange(key, rows, length, 1 << stage, 1 << (stage - 1 - step))
    key = key.reshape(rows, length)[:, :size]
    if descending:
        key = key[:, ::-1]
    shape = tl.permute(x, _to_last(rank, place)).shape
    return tl.permute(_from_sort_key(key, x.dtype).reshape(shape), _from_last(rank, place))


@defined(method=True)
def topk(x: Any, k: Any, dim: Any = None, descending: bool = True) -> Any:
    """The k largest elements along a dim (the last one when None), the largest first; else the k smallest."""
    place = _dim(dim, len(x.shape), "topk")
    rank = len(x.shape)
    tl.static_assert(k > 0 and k <= x.shape[place], "topk: k must be from 1 to the size of the dim")
    key = sort(x, dim=place, descending=descending)
    key = tl.permute(key, _to_last(rank, place))[..., :k]
    return tl.permute(key, _from_last(rank, place))


@defined(method=True)
def histogram(input: Any, num_bins: Any, mask: Any = None) -> Any:
    """How many elements are 0, 1, … num_bins - 1 (where mask is true), as int32; others are not counted."""
    values = input.ravel()
    bins = tl.arange(0, num_bins)
    step = max(1, CHUNK // num_bins)
    total = tl.zeros((num_bins,), dtypes.int32)
    for start in tl.static_range(0, values.shape[0], step):
        hit = values[start : start + step][:, None] == bins[None, :]
        if mask is not None:
            hit = hit & (tl.ravel(mask)[start : start + step] != 0)[:, None]
        total += tl.sum(hit.to(dtypes.int32), 0)
    return total


@defined()
def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> Any:
    """Indices of a row-major size_i × size_j grid, reordered column by column within groups of size_g rows."""
    number = i * size_j + j
    per_group = size_g * size_j
    first = number // per_group * size_g
    height = tl.minimum(size_i - first, size_g)
    inside = number % per_group
    return first + inside % height, inside // height


@defined()
def to_tensor(x: Any) -> Any:
    """A number as a run-time scalar of its own type; tiles and scalars as they are."""
    return tl.cast(x, x.dtype)


@defined()
def condition(arg1: Any, disable_licm: bool = False) -> Any:
    """The condition of a `while`, as it is."""
    return arg1


@defined()
def squeeze(x: Any, dim: int) -> Any:
    """Remove a dim of size 1."""
    place = _dim(dim, len(x.shape), "squeeze")
    tl.static_assert(x.shape[place] == 1, "squeeze: the dim must have size 1")
    return x.reshape(_without(x.shape, place))


@defined()
def unsqueeze(x: Any, dim: int) -> Any:
    """Insert a dim of size 1; the same as expand_dims."""
    return tl.expand_dims(x, dim)


@constexpr_function
def _without(shape: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*shape[:place], *shape[place + 1 :])


@defined(method=True)
def atomic_load(pointer: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """Load; a program's loads and stores keep their order, and every one of an element is whole."""
    return tl.load(pointer, mask=mask)


@defined(method=True)
def atomic_store(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> None:
    """Store; a program's loads and stores keep their order, and every one of an element is whole."""
    tl.store(pointer, val, mask=mask)


@defined()
def expect_zero(x: Any, mask: Any) -> Any:
    """X, which is expected to be zero where mask is true."""
    return x


@defined()
def atomic_poll(
    pointer: Any, expected_value: Any, sem: Any = None, scope: Any = None, timeout_ns: Any = None
) -> Any:
    """True where memory holds expected_value. It does not wait, as nothing changes memory under a program: without
    timeout_ns a value that is not there stops the device.
    """
    matched = tl.load(pointer) == expected_value
    if timeout_ns is None:
        tl.device_assert(matched, "atomic_poll waits for a value that is not there")
    return matched


@defined()
def add(x: Any, y: Any, sanitize_overflow: bool = True) -> Any:
    """X + y."""
    return x + y


@defined()
def sub(x: Any, y: Any, sanitize_overflow: bool = True) -> Any:
    """X - y."""
    return x - y


@defined()
def mul(x: Any, y: Any, sanitize_overflow: bool = True) -> Any:
    """X * y."""
    return x * y


@defined()
def bitonic_merge(x: Any, dim: Any = None, descending: bool = False) -> Any:
    """Sort what first rises and then falls along a dim; here the same as sort."""
    return sort(x, dim, descending)
