"""Reductions, positions of extremes, and scans along one axis, in a defined order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..formats import Format
from ..isa.table import ReduceKind
from .convert import Real, as_signed, as_unsigned, narrow, to_integer_format, widen

Array = npt.NDArray[Any]
K = ReduceKind

PARTIALS = 16
"""Interleaved partial results of a float sum or product."""

_CHAINS: dict[ReduceKind, tuple[np.ufunc, float]] = {
    K.FSUM: (np.add, -0.0),
    K.FPROD: (np.multiply, 1.0),
}
_INTEGER: dict[ReduceKind, np.ufunc] = {
    K.ISUM: np.add,
    K.IPROD: np.multiply,
    K.SMAX: np.maximum,
    K.SMIN: np.minimum,
    K.UMAX: np.maximum,
    K.UMIN: np.minimum,
    K.AND: np.bitwise_and,
    K.OR: np.bitwise_or,
    K.XOR: np.bitwise_xor,
}
_MAXIMA = (K.FMAX, K.FMAXNUM, K.SMAX, K.UMAX)
_FLOAT_EXTREMES = (K.FMAX, K.FMIN, K.FMAXNUM, K.FMINNUM)
_EXTREMES = (*_FLOAT_EXTREMES, K.SMAX, K.SMIN, K.UMAX, K.UMIN)
_KEY = np.iinfo(np.int64)


@np.errstate(all="ignore")
def reduce(kind: ReduceKind, array: Array, axis: int, fmt: Format) -> Array:
    """`array` of format `fmt`, axis (of length >= 1) reduced away.

    Float sums and products: partial j takes the elements at j, j+16, j+32, … in this order, starting
    from -0.0 (product: 1.0); then p[j] op p[j+8] for j < 8, likewise 4, 2, 1; all in fp32 (fp64
    for fp64), rounded once to `fmt` at the end. Integers wrap.
    """
    values = np.moveaxis(array, axis, 0)
    if kind in _CHAINS:
        return narrow(_interleaved(kind, widen(values)), fmt)
    if kind in _FLOAT_EXTREMES:
        wide = widen(values)
        keys = np.asarray(_extreme(kind).reduce(_float_keys(kind, wide), axis=0))
        return narrow(_from_keys(keys, wide.dtype), fmt)
    operands = _view(kind, values)
    result = _INTEGER[kind].reduce(operands, axis=0, dtype=operands.dtype)
    return to_integer_format(np.asarray(result), fmt)


def arg_reduce(
    kind: ReduceKind, array: Array, axis: int, fmt: Format
) -> tuple[Array, npt.NDArray[np.int32]]:
    """The extreme value and its int32 position along `axis`, which is removed.

    The first position wins ties (-0 and +0 are no tie: -0 < +0). FMAX and FMIN: the first NaN wins.
    FMAXNUM and FMINNUM ignore NaN; where all are NaN the position is 0.

    Raises:
        ValueError: when `kind` is not a maximum or minimum.
    """
    if kind not in _EXTREMES:
        raise ValueError(f"{kind.name} has no position")
    values = np.moveaxis(array, axis, 0)
    keys = _float_keys(kind, widen(values)) if kind in _FLOAT_EXTREMES else _view(kind, values)
    position = np.asarray((np.argmax if kind in _MAXIMA else np.argmin)(keys, axis=0))
    return reduce(kind, array, axis, fmt), position.astype(np.int32)


@np.errstate(all="ignore")
def scan(kind: ReduceKind, array: Array, axis: int, reverse: bool, fmt: Format) -> Array:
    """Inclusive scan along `axis`, one element after the other (`reverse`: from the end).

    The running value of floats is kept in fp32 (fp64 for fp64) and rounded to `fmt` for each output only.
    """
    values = np.moveaxis(array, axis, 0)
    if reverse:
        values = values[::-1]
    result = _scan_first_axis(kind, values, fmt)
    if reverse:
        result = result[::-1]
    return np.ascontiguousarray(np.moveaxis(result, 0, axis))


def _scan_first_axis(kind: ReduceKind, values: Array, fmt: Format) -> Array:
    if kind in _CHAINS:
        return narrow(_CHAINS[kind][0].accumulate(widen(values), axis=0), fmt)
    if kind in _FLOAT_EXTREMES:
        wide = widen(values)
        keys = _extreme(kind).accumulate(_float_keys(kind, wide), axis=0)
        return narrow(_from_keys(keys, wide.dtype), fmt)
    operands = _view(kind, values)
    return to_integer_format(_INTEGER[kind].accumulate(operands, axis=0, dtype=operands.dtype), fmt)


def _interleaved(kind: ReduceKind, values: Real) -> Real:
    operation, identity = _CHAINS[kind]
    partials = np.full((PARTIALS, *values.shape[1:]), identity, values.dtype)
    for start in range(0, len(values), PARTIALS):
        group = values[start : start + PARTIALS]
        live = partials[: len(group)]
        operation(live, group, out=live)
    while len(partials) > 1:
        half = len(partials) // 2
        partials = operation(partials[:half], partials[half:])
    return np.asarray(partials[0])


def _view(kind: ReduceKind, values: Array) -> Array:
    """Signless integers read the way `kind` means them."""
    return as_signed(values) if kind in (K.SMAX, K.SMIN) else as_unsigned(values)


def _extreme(kind: ReduceKind) -> np.ufunc:
    return np.maximum if kind in _MAXIMA else np.minimum


def _float_keys(kind: ReduceKind, values: Real) -> npt.NDArray[np.int64]:
    """Integers ordered as `kind` orders the values: -0 below +0, NaN winning or losing everything."""
    keys = _ordered(as_signed(values)).astype(np.int64)
    nan_wins = kind in (K.FMAX, K.FMIN)
    nan_key = _KEY.max if nan_wins == (kind in _MAXIMA) else _KEY.min
    return np.where(values != values, np.int64(nan_key), keys)


def _from_keys(keys: npt.NDArray[np.int64], real: np.dtype[Any]) -> Real:
    nan = (keys == _KEY.max) | (keys == _KEY.min)
    pattern = np.where(nan, 0, keys).astype(f"i{real.itemsize}")
    return np.where(nan, real.type(np.nan), _ordered(pattern).view(real))


def _ordered(pattern: Array) -> Array:
    """Bit patterns of floats as integers in the order of the numbers, and back."""
    width = 8 * pattern.dtype.itemsize
    result: Array = pattern ^ ((pattern >> (width - 1)) & np.iinfo(pattern.dtype).max)
    return result
