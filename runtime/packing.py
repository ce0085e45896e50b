"""Numbers of 4 bits as kernels hold them: two per byte, the first one in the low half."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from dsalang._backend.errors import LaunchError

Array = NDArray[Any]

HALVES = tuple(np.dtype(t) for t in (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn))
"""numpy's types of 4 bits, which spend a byte on each number."""


def pack4(values: Array, axis: int = -1) -> NDArray[np.uint8]:
    """Pack numbers of 4 bits in pairs along an axis, whose length must be even.

    Args:
        values: int4, uint4 or float4_e2m1fn of ml_dtypes.

    >>> pack4(np.array([1, 2, -1, 7], ml_dtypes.int4)).tolist()
    [33, 127]
    """
    values = np.asarray(values)
    if values.dtype not in HALVES:
        raise LaunchError(
            f"pack4 takes {', '.join(map(str, HALVES))} of ml_dtypes, not {values.dtype}",
            hint="convert with values.astype(ml_dtypes.int4)",
        )
    _check_axis("pack4", values, axis)
    if values.shape[axis] % 2:
        raise LaunchError(f"pack4: axis {axis} of {values.shape} is not of even length")
    codes = np.moveaxis(np.ascontiguousarray(values).view(np.uint8) & 15, axis, -1)
    pairs = codes[..., 0::2] | codes[..., 1::2] << 4
    return np.ascontiguousarray(np.moveaxis(pairs, -1, axis))


def unpack4(pairs: Array, dtype: Any, axis: int = -1) -> Array:
    """The numbers of packed bytes along an axis: what `pack4` packed.

    >>> unpack4(np.array([33, 127], np.uint8), ml_dtypes.int4).tolist()
    [1, 2, -1, 7]
    """
    pairs = np.asarray(pairs)
    try:
        known = np.dtype(dtype) in HALVES
    except TypeError:
        known = False
    if not known or pairs.dtype.itemsize != 1:
        raise LaunchError(
            f"unpack4 takes bytes and a type of 4 bits, not {pairs.dtype} and {dtype}"
        )
    _check_axis("unpack4", pairs, axis)
    data = np.moveaxis(np.ascontiguousarray(pairs).view(np.uint8), axis, -1)
    codes = np.stack([data & 15, data >> 4], -1).reshape(*data.shape[:-1], 2 * data.shape[-1])
    result: Array = np.ascontiguousarray(np.moveaxis(codes, -1, axis)).view(dtype)
    return result


def _check_axis(name: str, array: Array, axis: object) -> None:
    if not isinstance(axis, int | np.integer) or not -array.ndim <= axis < array.ndim:
        raise LaunchError(
            f"{name}: {array.shape} has no axis {axis!r}",
            hint=f"axes are integers from {-array.ndim} to {array.ndim - 1}" if array.ndim else "",
        )
