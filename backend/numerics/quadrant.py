"""The reduction of sine and cosine to a quarter of a turn, after Payne and Hanek (1983), for fp32 and fp64.

The significand times the bits of 2/pi that matter at its exponent is a * 2/pi mod 4 in fixed point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .convert import Real
from .fma import fma
from .transcendental_tables import FP32, FP64, TWO_OVER_PI

Array = npt.NDArray[Any]
Reduced = tuple[npt.NDArray[np.int32], Real, Real]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

QUADRANT = float.fromhex("0x1.921fb54442d18p-64")
"""pi/2 * 2^-64, in fp64."""
_WORD, _MASK = np.uint64(32), np.uint64((1 << 32) - 1)


def reduce_quadrant(a: Any) -> tuple[npt.NDArray[np.int32], Any, Any]:
    """a >= 0 finite as q * pi/2 + r + r_low with |r| <= pi/4: (q mod 4, r, r_low)."""
    return _reduce64(a) if a.dtype == np.float64 else _reduce32(a)


def _windows(exponents: int, offset: int, words: int) -> Array:
    """Row E: floor(2/pi * 2^(E - offset)) mod 2^(32 words) as 32-bit words, the lowest first."""
    mask = (1 << 32 * words) - 1
    rows = [(TWO_OVER_PI >> (1184 + offset - e)) & mask for e in range(exponents)]
    return np.array(
        [[row >> 32 * k & 0xFFFF_FFFF for k in range(words)] for row in rows], np.uint64
    )


_WINDOWS32, _WINDOWS64 = _windows(256, 56, 3), _windows(2048, 885, 6)


def _reduce32(a: F32) -> tuple[npt.NDArray[np.int32], F32, F32]:
    """With 62 fraction bits, their error below 2^-61; no fp32 comes closer to a multiple of pi/2 than 2^-30 of it."""
    pattern = a.view(np.uint32)
    exponent = pattern >> np.uint32(23)
    m = ((pattern & np.uint32(0x7F_FFFF)) | np.uint32(0x80_0000)).astype(np.uint64)
    low, middle, high = (_WINDOWS32[exponent, k] for k in range(3))
    fixed = ((m * high) << _WORD) + m * middle + ((m * low) >> _WORD)
    quadrant = ((fixed + np.uint64(1 << 61)) >> np.uint64(62)).astype(np.int32)
    fraction = (fixed << np.uint64(2)).view(np.int64)
    exact = fraction.astype(np.float64) * QUADRANT
    r = exact.astype(np.float32)
    r_low = (exact - r.astype(np.float64)).astype(np.float32)
    near = a <= FP32.quarter_pi
    zero = np.float32(0)
    return np.where(near, 0, quadrant), np.where(near, a, r), np.where(near, zero, r_low)


def _product_words(pattern: Array) -> list[Array]:
    """The upper four of the six 32-bit words of significand * window, the lowest first."""
    exponent = pattern >> np.uint64(52)
    m = (pattern & np.uint64((1 << 52) - 1)) | np.uint64(1 << 52)
    windows = [_WINDOWS64[exponent, k] for k in range(6)]
    words = [np.zeros_like(m)] * 6
    for first, factor in enumerate((m & _MASK, m >> _WORD)):
        carry = np.zeros_like(m)
        for k in range(6 - first):
            total = factor * windows[k] + words[k + first] + carry
            words[k + first], carry = total & _MASK, total >> _WORD
    return words[2:]


def _reduce64(a: F64) -> tuple[npt.NDArray[np.int32], F64, F64]:
    """With 126 fraction bits, their error below 2^-125; no fp64 comes closer to a multiple of pi/2 than 2^-62 of it."""
    w0, w1, w2, w3 = _product_words(a.view(np.uint64))
    quadrant = ((w3 + np.uint64(1 << 29)) >> np.uint64(30)).astype(np.int32)
    # the fraction of a quarter turn in units of 2^-128, in pieces of 48, 48 and 32 bits that are exact in fp64
    two, thirty = np.uint64(2), np.uint64(30)
    g3, g2, g1, g0 = (
        ((w << two) | (below >> thirty)) & _MASK
        for w, below in ((w3, w2), (w2, w1), (w1, w0), (w0, np.uint64(0)))
    )
    top = ((g3 << _WORD | g2).view(np.int64) >> 16).astype(np.float64) * 2.0**80
    middle = ((g2 & np.uint64(0xFFFF)) << _WORD | g1).astype(np.float64) * 2.0**32
    total = top + middle
    rest = (middle - (total - top)) + g0.astype(np.float64)
    y = total + rest
    y_low = rest - (y - total)
    quarter, quarter_low = (x * 2.0**-128 for x in (FP64.half_pi, FP64.half_pi_low))
    r = y * quarter
    r_low = fma(y, quarter, -r) + fma(y, quarter_low, y_low * quarter)
    near = a <= FP64.quarter_pi
    zero = np.float64(0)
    return np.where(near, 0, quadrant), np.where(near, a, r), np.where(near, zero, r_low)
