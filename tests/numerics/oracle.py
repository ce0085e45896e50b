"""Slow exact references: rounding of fractions, and errors in units in the last place."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dsalang._backend import formats
from dsalang._backend.formats import Format

FLOATS = tuple(f for f in formats.FORMATS if f.is_float)
SMALL_FLOATS = tuple(f for f in FLOATS if f.bits < 32)
INTS = tuple(f for f in formats.FORMATS if not f.is_float)

# name: (significand bits, exponent of the smallest normal, largest finite value, what overflows give)
SHAPES = {
    "fp8e4m3": (4, -6, 448.0, 448.0),
    "fp8e5m2": (3, -14, 57344.0, math.inf),
    "fp16": (11, -14, 65504.0, math.inf),
    "bf16": (8, -126, float.fromhex("0x1.fep127"), math.inf),
    "fp32": (24, -126, float.fromhex("0x1.fffffep127"), math.inf),
    "fp64": (53, -1022, float.fromhex("0x1.fffffffffffffp1023"), math.inf),
}


def round_fraction(value: Fraction, name: str) -> float:
    """`value` rounded to nearest even in the float format `name`, as a Python float (exact)."""
    precision, min_exponent, largest, overflow = SHAPES[name]
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    place = Fraction(2) ** (max(exponent, min_exponent) - precision + 1)
    rounded = round(magnitude / place) * place  # Python rounds halves to even
    if name == "fp8e4m3":
        result = min(float(rounded), largest)
    else:
        result = float(rounded) if rounded <= Fraction(largest) else overflow
    return math.copysign(result, 1 if value > 0 else -1)


def hidden_tie_breakers(addend_bits: int, place: int) -> tuple[npt.NDArray[Any], ...]:
    """(x, y, c, exact x*y + c rounded): fp32 where x*y is half of c's last place but for less than fp64 can see.

    c is a whole number of `addend_bits` bits times 2^place. Rounding the fp64 sum of the product and c again
    would take each for a tie.
    """
    shift = place // 2  # of x; the rest is y's, so that both stay normal
    x = (1 << 23) + np.arange(1, 1 << 19, dtype=np.int64)
    y = (2**47 + x // 2) // x
    excess = x * y - 2**47
    # fp64 sees addend_bits + e bits down to 2^(e - 53): the excess must stay below half of that
    few = (excess != 0) & (np.abs(excess) < 1 << (addend_bits - 7))
    x, y, excess = x[few], y[few], excess[few]
    c = (1 << (addend_bits - 1)) + (np.arange(x.size) * 7919) % (1 << (addend_bits - 1))
    rounded = np.ldexp((c + (excess > 0)).astype(np.float64), place)
    return (
        np.ldexp(x, shift - 23).astype(np.float32),
        np.ldexp(y, place - 1 - shift - 24).astype(np.float32),
        np.ldexp(c, place).astype(np.float32),
        rounded.astype(np.float32),
    )


def all_values(fmt: Format) -> npt.NDArray[Any]:
    """Every bit pattern of an 8- or 16-bit format."""
    if fmt.kind == "bool":
        return np.array([False, True])
    return np.arange(1 << fmt.bits, dtype=f"u{fmt.bytes}").view(fmt.storage)


def spread_fp32(stride: int) -> npt.NDArray[np.float32]:
    """Every `stride`-th bit pattern of fp32, and the patterns around each power of two."""
    spread = np.arange(0, 1 << 32, stride, dtype=np.uint64)
    powers = np.arange(0, 1 << 32, 1 << 23, dtype=np.uint64)
    near = (powers[:, None] + np.arange(-3, 4).astype(np.uint64)).ravel() & np.uint64(0xFFFF_FFFF)
    return np.concatenate([spread, near]).astype(np.uint32).view(np.float32)


def ulp_errors(
    got: npt.NDArray[Any], exact: npt.NDArray[np.float64], fmt: Format
) -> npt.NDArray[np.float64]:
    """|got - exact| in units of the last place of `fmt` at `exact`; infinite where the special values differ."""
    precision, min_exponent, largest, overflow = SHAPES[fmt.name]
    values = got.astype(np.float64)
    exponent = np.maximum(np.frexp(exact)[1] - 1, min_exponent)
    place = np.ldexp(1.0, exponent - precision + 1)
    top_place = math.ldexp(1.0, math.frexp(largest)[1] - precision)
    with np.errstate(all="ignore"):
        too_large = np.abs(exact) >= largest + top_place / 2
        expected = np.where(too_large, np.copysign(overflow, exact), exact)
        special = too_large | ~np.isfinite(exact)
        same = (values == expected) | (np.isnan(values) & np.isnan(expected))
        error = np.abs(values - exact) / place
        error = np.where(np.isfinite(values), error, np.where(np.isinf(values), 0.51, np.inf))
    # an infinity for a finite result is fine within the last half place of the largest number only
    near_top = np.abs(exact) > largest + 0.49 * top_place
    error = np.where(np.isinf(values) & ~near_top, np.inf, error)
    return np.where(special, np.where(same, 0.0, np.inf), error)
