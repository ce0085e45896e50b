"""Conversions between number formats: every one rounds at most once, to nearest even.

Arrays hold the storage dtype of their format. See `docs/numerics.md` for the same rules in prose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import formats
from ..formats import Format

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Real = npt.NDArray[np.float32] | npt.NDArray[np.float64]
"""What floats are computed in: fp64 for fp64, fp32 for every narrower format."""

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


@dataclass(frozen=True)
class FloatLayout:
    """The bits of a floating-point format below its sign: what rounding to it needs.

    `overflow` is the pattern that values too large become; `nan` the canonical quiet NaN.
    """

    mantissa_bits: int
    bias: int
    largest: int
    overflow: int
    nan: int


FLOAT_LAYOUTS: dict[str, FloatLayout] = {
    "fp8e4m3": FloatLayout(3, 7, 0x7E, 0x7E, 0x7F),
    "fp8e5m2": FloatLayout(2, 15, 0x7B, 0x7C, 0x7E),
    "fp16": FloatLayout(10, 15, 0x7BFF, 0x7C00, 0x7E00),
    "bf16": FloatLayout(7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    "fp32": FloatLayout(23, 127, 0x7F7F_FFFF, 0x7F80_0000, 0x7FC0_0000),
    "fp64": FloatLayout(52, 1023, 0x7FEF << 48 | (1 << 48) - 1, 0x7FF0 << 48, 0x7FF8 << 48),
}


def bits(array: Array) -> Array:
    """The elements' bit patterns as unsigned integers of the same width (a view)."""
    return array.view(_UNSIGNED[array.dtype.itemsize])


def from_bits(pattern: Array, fmt: Format) -> Array:
    """Elements of `fmt` with these bit patterns (unsigned integers of any width that holds them)."""
    result: Array = pattern.astype(_UNSIGNED[fmt.bytes], copy=False).view(fmt.storage)
    return result


def as_unsigned(array: Array) -> Array:
    """An integer array's values read as unsigned; int1 gives 0 or 1 in uint8."""
    return bits(array)


def as_signed(array: Array) -> Array:
    """An integer array's values read as signed; int1 gives 0 or -1 in int8."""
    if array.dtype == np.bool_:
        return -array.view(np.int8)
    return array.view(_SIGNED[array.dtype.itemsize])


def to_integer_format(values: Array, fmt: Format) -> Array:
    """Integers reduced modulo 2^bits to the storage of integer format `fmt`."""
    if fmt.kind == "bool":
        return (values & 1).astype(np.bool_)
    return from_bits(values, fmt)


@np.errstate(all="ignore")
def canonical_nan(array: Array, fmt: Format) -> Array:
    """`array` with every NaN replaced by the canonical quiet NaN of float format `fmt`."""
    nan = array != array
    if not nan.any():
        return array
    pattern = bits(array).dtype.type(FLOAT_LAYOUTS[fmt.name].nan)
    return from_bits(np.where(nan, pattern, bits(array)), fmt)


@np.errstate(all="ignore")
def widen(array: Array) -> Any:
    """A float array of any format as what it is computed in: fp64 as it is, others as fp32.

    Exact, subnormals and signed zeros kept, NaN canonical.
    """
    if array.dtype == np.float64:
        return canonical_nan(array, formats.by_name("fp64"))
    wide = array if array.dtype == np.float32 else array.astype(np.float32)
    return canonical_nan(wide, formats.by_name("fp32"))


@np.errstate(all="ignore")
def narrow(values: Real, fmt: Format) -> Array:
    """fp32 or fp64 rounded once, to nearest even, to float format `fmt`.

    Overflow gives infinity, and ±448 in fp8e4m3, which has no infinity (an infinite operand too).
    NaN gives the canonical NaN. Subnormal results are kept.
    """
    if fmt.name in ("fp32", "fp64"):
        return canonical_nan(values.astype(fmt.storage, copy=False), fmt)
    if values.dtype == np.float64:
        values = _to_fp32_odd(np.asarray(values, np.float64))
    layout = FLOAT_LAYOUTS[fmt.name]
    pattern = values.view(np.uint32)
    magnitude = pattern & np.uint32(0x7FFF_FFFF)
    sign = (pattern >> np.uint32(31)) << np.uint32(fmt.bits - 1)
    code = np.where(
        magnitude < np.uint32((128 - layout.bias) << 23),
        _round_subnormal(magnitude, layout),
        _round_normal(magnitude, layout),
    )
    code = np.where(code > np.uint32(layout.largest), np.uint32(layout.overflow), code)
    nan = magnitude > np.uint32(0x7F80_0000)
    code = np.where(nan, np.uint32(layout.nan), code | sign)
    return from_bits(code, fmt)


def _round_normal(magnitude: Array, layout: FloatLayout) -> Array:
    """Drop the low mantissa bits (a carry runs into the exponent by itself) and rebase the exponent."""
    shift = np.uint32(23 - layout.mantissa_bits)
    half = np.uint32((1 << (22 - layout.mantissa_bits)) - 1)
    rounded: Array = (magnitude + half + ((magnitude >> shift) & np.uint32(1))) >> shift
    rounded -= np.uint32((127 - layout.bias) << layout.mantissa_bits)
    return rounded


def _round_subnormal(magnitude: Array, layout: FloatLayout) -> Array:
    """Add the power of two whose last fp32 place is the format's smallest subnormal: fp32 does the rounding."""
    exponent = 1 - layout.bias - layout.mantissa_bits + 23
    magic = np.array((exponent + 127) << 23, np.uint32)
    total: F32 = magnitude.view(np.float32) + magic.view(np.float32)
    return total.view(np.uint32) - magic


def float_to_float(array: Array, fmt: Format) -> Array:
    """fcvt: any float format to float format `fmt`, one rounding."""
    return narrow(widen(array), fmt)


@np.errstate(all="ignore")
def float_to_int(array: Array, fmt: Format, signed: bool) -> Array:
    """Float to an integer of `fmt`'s width: towards zero, saturating at its signed or unsigned range, NaN is 0."""
    value = np.trunc(widen(array))
    width = fmt.bits - 1 if signed else fmt.bits
    low, high = (-(1 << width) if signed else 0), 1 << width
    wide = np.int64 if signed else np.uint64
    below, above = value < value.dtype.type(low), value >= value.dtype.type(high)
    inside = np.where(below | above | (value != value), value.dtype.type(0), value).astype(wide)
    result = np.where(above, wide(high - 1), np.where(below, wide(low), inside))
    return to_integer_format(result, fmt)


def int_to_float(array: Array, fmt: Format, signed: bool) -> Array:
    """Integer to float format `fmt` with a single rounding, int64 and uint64 included."""
    value = as_signed(array) if signed else as_unsigned(array)
    if fmt.name == "fp64":
        return value.astype(np.float64)
    negative = value < 0
    magnitude = value.astype(np.uint64)
    magnitude = np.where(negative, np.uint64(0) - magnitude, magnitude)
    # At most 52 significant bits, the last one sticky: exact in fp64, and still far below any rounding bit.
    sticky = ((magnitude & np.uint64(0xFFF)) != 0).astype(np.uint64) << np.uint64(12)
    jammed = (magnitude & ~np.uint64(0xFFF)) | sticky
    exact = np.where(magnitude < np.uint64(1 << 52), magnitude, jammed).astype(np.float64)
    exact = np.where(negative, -exact, exact)
    if fmt.name == "fp32":
        return exact.astype(np.float32)
    return narrow(_to_fp32_odd(exact), fmt)


def _to_fp32_odd(values: F64) -> F32:
    """fp64 to fp32, inexact results made odd (of the two neighbours), so that rounding on is single."""
    nearest = values.astype(np.float32)
    back = nearest.astype(np.float64)
    pattern = nearest.view(np.uint32)
    # the neighbour below in magnitude: its last bit is set if that loses something
    below = pattern - (np.abs(back) > np.abs(values)).astype(np.uint32)
    odd: F32 = (below | ((back != values) & (values == values)).astype(np.uint32)).view(np.float32)
    return odd


def bitcast(array: Array, fmt: Format) -> Array:
    """The same bits read as `fmt`, which has the same width. No NaN is changed here."""
    if fmt.bits == 1 or array.dtype == np.bool_:
        return array.astype(fmt.storage) if array.dtype != fmt.storage else array
    return array.view(fmt.storage)


def convert(array: Array, fmt: Format) -> Array:
    """Any format to any other by value, the signedness being that of the formats.

    To int1 the result is `value != 0`, unlike `fptosi`/`trunc`.

    >>> convert(np.array([2.5, 1e9], np.float32), formats.by_name("int8")).tolist()
    [2, 127]
    """
    source = formats.BY_STORAGE[array.dtype]
    if fmt.kind == "bool":
        value = widen(array) if source.is_float else array
        return np.not_equal(value, 0)
    if source.is_float:
        if fmt.is_float:
            return float_to_float(array, fmt)
        return float_to_int(array, fmt, fmt.kind == "sint")
    signed = source.kind == "sint"
    if fmt.is_float:
        return int_to_float(array, fmt, signed)
    return to_integer_format(as_signed(array) if signed else as_unsigned(array), fmt)
