"""Fused multiply-add in fp64 with a single rounding, from fp64 operations and, where those fail, from fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

_SPLIT = float((1 << 27) + 1)
_LEAST, _MOST = 2.0**-900, 2.0**900
"""Between these, products and their errors neither overflow nor lose bits."""


@np.errstate(all="ignore")
def fma64(a: F64, b: F64, c: F64) -> F64:
    """a * b + c rounded once to fp64, to nearest even; subnormals, signed zeros and overflow as in IEEE 754.

    Broadcasts. NaN results have no defined sign or payload.

    >>> float(fma64(*(np.array(v) for v in (1 + 2.0**-30, 1 + 2.0**-30, -1 - 2.0**-29)))) == 2.0**-60
    True
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    product = np.asarray(a * b)
    magnitude = np.abs(product)
    # exact products (of zeros) and what infinite operands give need no care
    simple = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b)
    inside = (magnitude > _LEAST) & (magnitude < _MOST) & (np.abs(c) < _MOST)
    for factor in (a, b):
        inside &= np.abs(factor) < _MOST
    result = np.where(simple, product + c, _exact_sum(a, b, c, product))
    hard = ~(simple | inside | np.isnan(c))
    if hard.any():
        result[hard] = [_by_fraction(*xs) for xs in zip(a[hard], b[hard], c[hard])]
    return result


def _exact_sum(a: F64, b: F64, c: F64, product: F64) -> F64:
    """The emulation of Boldo and Melquiond (2008): two exact sums, the middle one rounded to odd."""
    rest = _product_error(a, b, product)
    low_sum, low_error = _two_sum(c, rest)
    high_sum, high_error = _two_sum(product, low_sum)
    # exact cancellation gives +0
    result: F64 = high_sum + sum_to_odd(low_error, high_error) + 0.0
    return result


def _product_error(a: F64, b: F64, product: F64) -> F64:
    """a * b - product, exact (Dekker 1971)."""
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    error: F64 = a_high * b_high - product
    return a_low * b_low + ((error + a_high * b_low) + a_low * b_high)


def _halves(x: F64) -> tuple[F64, F64]:
    """x as a sum of two numbers of at most 26 bits (Veltkamp 1968)."""
    scaled = x * _SPLIT
    high = scaled - (scaled - x)
    return high, x - high


def _two_sum(x: F64, y: F64) -> tuple[F64, F64]:
    """x + y and its rounding error (Knuth)."""
    total = np.asarray(x + y)
    part = total - x
    return total, (x - (total - part)) + (y - part)


def sum_to_odd(x: F64, y: F64) -> F64:
    """x + y in fp64, where inexact moved to the neighbour with an odd last bit (Boldo and Melquiond 2008)."""
    total, error = _two_sum(x, y)
    pattern = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & ((pattern & 1) == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, pattern + step, pattern).view(np.float64)


def _by_fraction(a: float, b: float, c: float) -> float:
    """The same for finite non-zero a and b, any c but NaN: division of integers rounds once."""
    if np.isinf(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
