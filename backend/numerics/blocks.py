"""Operands of the tensor engine that are packed two per byte, or have a scale per block along K.

An operand's value is its number times the scale of its block; `docs/numerics.md` has the rules in prose.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ..formats import Format, by_name
from ..isa.table import SCALE_BLOCK
from .convert import int_to_float, widen

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]

_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_FP32 = by_name("fp32")


def unpacked(stored: Array, fmt: Format, axis: int, count: int) -> Array:
    """The first `count` numbers along `axis` of a packed format: int8, uint8, or fp32 for fp4.

    >>> from ..formats import OPERANDS
    >>> unpacked(np.array([0x7F, 0x08], np.uint8), OPERANDS["int4"], 0, 3).tolist()
    [-1, 7, -8]
    """
    halves = np.stack([stored & 15, stored >> 4], axis + 1)
    shape = (*stored.shape[:axis], 2 * stored.shape[axis], *stored.shape[axis + 1 :])
    codes: Array = halves.reshape(shape).take(range(count), axis)
    if fmt.is_float:
        value: Array = np.where(codes & 8, -_E2M1[codes & 7], _E2M1[codes & 7])
        return value
    if fmt.is_signed:
        codes = (codes ^ 8).view(np.int8) - np.int8(8)
    return codes


def scale_values(scales: npt.NDArray[np.uint8]) -> F32:
    """E8M0 as fp32: 2^(code - 127), 255 is NaN; exact."""
    values: F32 = widen(np.ascontiguousarray(scales).view(ml_dtypes.float8_e8m0fnu))
    return values


def scaled(values: Array, scales: npt.NDArray[np.uint8] | None, axis: int) -> F32:
    """An operand as fp32: widened exactly, then multiplied in fp32 by the scale of each block along `axis`."""
    if np.issubdtype(values.dtype, np.integer):
        wide = int_to_float(values, _FP32, values.dtype.kind == "i")
    else:
        wide = widen(values)
    if scales is None:
        return wide
    count = values.shape[axis]
    factors = np.repeat(scale_values(scales), SCALE_BLOCK, axis).take(range(count), axis)
    with np.errstate(all="ignore"):
        return wide * factors
