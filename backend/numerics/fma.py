"""Fused multiply-add with a single rounding; in fp32 from fp64 additions and multiplications."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .fma64 import fma64, sum_to_odd

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Operand = F32 | np.float32

_LOW = np.int64((1 << 29) - 1)
_HALF = np.int64(1 << 28)
_MIN_NORMAL = 2.0**-126


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c rounded once, of operands that are all fp32 or all fp64."""
    return (fma64 if a.dtype == np.float64 else fma32)(a, b, c)


@np.errstate(all="ignore")
def fma32(a: Operand, b: Operand, c: Operand) -> F32:
    """a * b + c rounded once to fp32, to nearest even; subnormals, signed zeros and overflow as in IEEE 754.

    Broadcasts. NaN results have no defined sign or payload.

    >>> float(fma32(np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(-1 - 2**-11))) == 2**-24
    True
    """
    product = np.asarray(
        np.multiply(a, b, dtype=np.float64)
    )  # exact: 48 bits, exponent within fp64's
    return round_sum32(product, np.asarray(c, np.float64), product + c)


def round_sum32(product: F64, addend: F64, total: F64) -> F32:
    """product + addend rounded once to fp32, given `total`, their fp64 sum.

    Rounding `total` again is wrong only where it lies exactly between two fp32 numbers (or is subnormal
    in fp32, where the place of the midpoint varies) without being the exact sum. Those few elements are
    first rounded to odd in fp64, which leaves the second rounding as the only one that counts.
    """
    total = np.asarray(total)
    result: F32 = np.asarray(total.astype(np.float32))
    doubtful = (total.view(np.int64) & _LOW) == _HALF
    doubtful |= np.abs(total) < _MIN_NORMAL
    if doubtful.any():
        p, c = (np.broadcast_to(x, total.shape)[doubtful] for x in (product, addend))
        result[doubtful] = sum_to_odd(p, c).astype(np.float32)
    return result
