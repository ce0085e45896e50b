"""Arithmetic of the interpreter on raw numpy arrays, rounded once to the type of the result.

An oracle for the compiler: shares no code with it nor with the machine's numerics. Arrays hold values in
the numpy dtype that stores them; pointers are int64 addresses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..dtypes import dtype

Array = NDArray[Any]

STORAGE: dict[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in {
        "int1": np.bool_,
        "int8": np.int8,
        "int16": np.int16,
        "int32": np.int32,
        "int64": np.int64,
        "uint8": np.uint8,
        "uint16": np.uint16,
        "uint32": np.uint32,
        "uint64": np.uint64,
        "fp8e4nv": ml_dtypes.float8_e4m3fn,
        "fp8e5": ml_dtypes.float8_e5m2,
        "fp16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "fp32": np.float32,
        "fp64": np.float64,
    }.items()
}
E4M3_MAX = 448.0


def quiet() -> np.errstate:
    """The machine neither warns nor traps: overflow wraps or saturates, 0/0 is NaN."""
    return np.errstate(all="ignore")


def widen(data: Array) -> Array:
    """A float array as what it is computed in: fp64 as it is, others as fp32; exact."""
    return data if data.dtype == np.float64 else data.astype(np.float32)


def narrow(data: Array, to: dtype) -> Array:
    """fp32 values rounded to a float type, nearest even; fp8e4nv saturates."""
    if to.name == "fp8e4nv":
        data = np.clip(data, -E4M3_MAX, E4M3_MAX)  # NaN stays NaN
    return data.astype(STORAGE[to.name])


def narrow64(data: NDArray[np.float64], to: dtype) -> Array:
    """float64 values rounded once to a float type (by way of fp32 that is rounded to odd)."""
    if to.name == "fp64":
        return data
    nearest = data.astype(np.float32)
    if to.name == "fp32":
        return nearest
    return narrow(_to_odd(nearest, data), to)


def _to_odd(nearest: NDArray[np.float32], exact: NDArray[np.float64]) -> NDArray[np.float32]:
    """Of the two neighbours of an inexact value the one with an odd last bit, so that a second rounding is right."""
    back = nearest.astype(np.float64)
    away = (np.abs(back) > np.abs(exact)) & np.isfinite(exact)
    bits = np.atleast_1d(nearest).view(np.uint32).reshape(nearest.shape).copy()
    bits = bits - away.astype(np.uint32)  # towards zero
    inexact = (back != exact) & np.isfinite(exact)
    return np.asarray(bits | inexact.astype(np.uint32)).view(np.float32)


def from_int(data: Array, to: dtype) -> Array:
    """Integers to a float type, nearest even."""
    if to.name == "fp64":
        return data.astype(np.float64)
    if data.dtype == np.bool_ or data.dtype.itemsize < 8:
        return narrow64(data.astype(np.float64), to)
    if to.name == "fp32":
        return data.astype(np.float32)
    # 64 bits do not fit float64: the low 11 bits become one sticky bit, which is enough for any type here.
    magnitude = np.abs(data).astype(np.uint64)
    sticky = (magnitude & np.uint64(0x7FF)) != 0
    big = (magnitude & ~np.uint64(0x7FF)) | (sticky.astype(np.uint64) << np.uint64(11))
    value = np.where(magnitude >> np.uint64(53), big, magnitude).astype(np.float64)
    return narrow64(np.where(data < 0, -value, value), to)


def to_int(data: Array, to: dtype) -> Array:
    """Floats to integers: towards zero, saturating, NaN gives 0."""
    storage = STORAGE[to.name]
    low, high = to.get_int_min_value(), to.get_int_max_value()
    value = np.trunc(data.astype(np.float64))
    inside = (value >= low) & (value <= high)
    safe = np.where(inside, value, 0.0)
    exact = safe.astype(storage)
    if (
        float(high) > high
    ):  # 2**63: the largest integer is not a float, floats at it and above saturate
        exact = np.where(inside & (value < float(high)), exact, storage.type(0))
    result = np.where(value >= high, storage.type(high), exact)
    result = np.where(value < low, storage.type(low), result)
    return np.where(np.isnan(value), storage.type(0), result).astype(storage)


def convert(data: Array, source: dtype, to: dtype) -> Array:
    """Values of type `source` as type `to`."""
    if source == to:
        return data
    if to.is_bool():
        return np.asarray(data != data.dtype.type(0))
    if "fp64" in (source.name, to.name) and source.is_floating() and to.is_floating():
        return narrow64(data.astype(np.float64), to)
    if source.is_floating():
        return narrow(widen(data), to) if to.is_floating() else to_int(data, to)
    if to.is_floating():
        return from_int(data, to)
    return data.astype(STORAGE[to.name])


def floats(function: Callable[..., Array], to: dtype, *operands: Array) -> Array:
    """A function of fp32 (for fp64: fp64) operands, its result rounded to `to`."""
    result = np.asarray(function(*(widen(x) for x in operands)))
    return result if to.name == "fp64" else narrow(result.astype(np.float32), to)


def real(function: Callable[..., Array], to: dtype, *operands: Array) -> Array:
    """A function computed in float64, its result rounded to `to`."""
    exact = function(*(x.astype(np.float64) for x in operands))
    return narrow64(np.asarray(exact, np.float64), to)


@np.vectorize
def _fma64(a: float, b: float, c: float) -> float:
    """Exact, then rounded; what is not finite or zero needs no care."""
    if not (np.isfinite([a, b, c]).all() and a and b and c):
        return a * b + (c if np.isfinite(a * b) or not np.isfinite(a + b) else c - c)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)


def fma(a: Array, b: Array, c: Array, to: dtype) -> Array:
    """a * b + c with one rounding."""
    if to.name == "fp64":
        return np.asarray(_fma64(a, b, c), np.float64)
    product = a.astype(np.float64) * b.astype(np.float64)  # exact
    addend = c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)  # two-sum: what the addition lost
    usable = np.isfinite(total) & (error != 0)
    bits = np.asarray(total).reshape(-1).view(np.int64).reshape(np.shape(total)).copy()
    towards_zero = usable & ((error < 0) == (total > 0))
    odd = (bits - towards_zero.astype(np.int64)) | usable.astype(np.int64)
    return narrow64(np.asarray(odd).view(np.float64), to)


def minimum(a: Array, b: Array, keep_nan: bool, largest: bool) -> Array:
    """Smaller (or larger) of two arrays; -0 < +0; NaN wins if `keep_nan`, else loses."""
    if a.dtype.kind in "biu":
        return np.maximum(a, b) if largest else np.minimum(a, b)
    x, y = widen(a), widen(b)
    first = (x > y) if largest else (x < y)
    tie = (x == y) & (np.signbit(x) != largest) & (np.signbit(x) != np.signbit(y))
    tie |= (x == y) & (np.signbit(x) == np.signbit(y))
    picked = np.where(first | tie, a, b)
    if keep_nan:
        return np.where(np.isnan(x), a, np.where(np.isnan(y), b, picked))
    return np.where(np.isnan(x), b, np.where(np.isnan(y), a, picked))


def divide(a: Array, b: Array) -> tuple[Array, Array]:
    """Quotient towards zero and remainder with the sign of a; x / 0 is 0 and x % 0 is x."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    if a.dtype.kind != "i":
        quotient = np.where(zero, b.dtype.type(0), a // safe).astype(a.dtype)
        return quotient, (a - quotient * b).astype(a.dtype)
    # Magnitudes are unsigned, so that the smallest integer has one.
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    size_a, size_b = np.abs(a).astype(unsigned), np.abs(safe).astype(unsigned)
    size = (size_a // size_b).astype(a.dtype)
    quotient = np.where((a < 0) != (safe < 0), -size, size)
    quotient = np.where(zero, a.dtype.type(0), quotient).astype(a.dtype)
    return quotient, (a - quotient * b).astype(a.dtype)


def shift(a: Array, b: Array, left: bool, arithmetic: bool) -> Array:
    """a shifted by b; amounts of the width and above (read as unsigned) shift everything out."""
    width = 8 * a.dtype.itemsize
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    amount = b.astype(unsigned)
    out = amount >= width
    safe = np.where(out, unsigned.type(0), amount)
    if arithmetic and not left:
        signed = a.astype(np.dtype(f"i{a.dtype.itemsize}"))
        moved = np.right_shift(signed, safe.astype(signed.dtype))
        return np.where(out, np.where(signed < 0, -1, 0), moved).astype(a.dtype)
    raw = a.astype(unsigned)
    moved = np.left_shift(raw, safe) if left else np.right_shift(raw, safe)
    kept: Array = np.where(out, unsigned.type(0), moved).astype(unsigned)
    return kept.astype(a.dtype)
