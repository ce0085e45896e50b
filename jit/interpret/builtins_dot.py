"""Interpreted builtins: the matrix product of block formats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .. import dtypes
from . import numeric
from .errors import fail
from .registry import implements
from .tile import InterpTile, number_type, to_tile, unwrap

Array = NDArray[Any]

_HALVES = {"e2m1": ml_dtypes.float4_e2m1fn, "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}
_WHOLE = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "int8": np.int8,
    "uint8": np.uint8,
}


@implements("dot_scaled")
def dot_scaled(
    lhs: Any,
    lhs_scale: Any,
    lhs_format: Any,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: Any,
    acc: Any = None,
    fast_math: Any = False,
    lhs_k_pack: Any = True,
    rhs_k_pack: Any = True,
    out_dtype: Any = dtypes.float32,
) -> InterpTile:
    """acc + lhs · rhs; the sum is made in float64 (exact integers) and rounded once."""
    a = _numbers("lhs", lhs, unwrap(lhs_format), -1 if unwrap(lhs_k_pack) else -2)
    b = _numbers("rhs", rhs, unwrap(rhs_format), -2 if unwrap(rhs_k_pack) else -1)
    if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        raise fail(f"dot_scaled of {a.shape} and {b.shape} numbers: the inner sizes differ")
    floats = {"lhs": unwrap(lhs_scale) is not None, "rhs": unwrap(rhs_scale) is not None}
    floats["kind"] = not {unwrap(lhs_format), unwrap(rhs_format)} <= {
        "int8",
        "uint8",
        "int4",
        "uint4",
    }
    if floats["lhs"]:
        a = _scaled(a, _factors("lhs", lhs_scale, a.shape))
    if floats["rhs"]:
        b = _scaled(
            b, np.swapaxes(_factors("rhs", rhs_scale, np.swapaxes(b, -1, -2).shape), -1, -2)
        )
    start = unwrap(acc)
    wanted = unwrap(out_dtype) if any(floats.values()) else dtypes.int32
    if isinstance(start, InterpTile):
        wanted = number_type(start)
    shape = (*a.shape[:-1], b.shape[-1])
    addend = None if start is None else to_tile(start)
    if addend is not None and addend.shape not in ((), shape):
        raise fail(f"dot_scaled: the accumulator has shape {addend.shape}, the product {shape}")
    with numeric.quiet():
        exact = a @ b + (0.0 if addend is None else addend.data.astype(np.float64))
        if wanted.is_int():
            return InterpTile(exact.astype(np.int64).astype(np.int32), dtypes.int32)
        return InterpTile(numeric.narrow64(exact, wanted), wanted)


def _scaled(numbers: Array, factors: Array) -> NDArray[np.float64]:
    """Numbers times their scales: fp32 numbers on this machine, so a product beyond that range is infinite."""
    with numeric.quiet():
        product = numbers.astype(np.float32) * factors.astype(np.float32)
    wide: NDArray[np.float64] = product.astype(np.float64)
    return wide


def _numbers(name: str, operand: Any, kind: Any, pack: int) -> NDArray[np.float64]:
    """The numbers of an operand; `pack` is the dim along which 4-bit formats are packed."""
    stored = to_tile(operand).data
    if kind in _WHOLE:
        if stored.dtype.itemsize != np.dtype(_WHOLE[kind]).itemsize:
            raise fail(f"{name} of dot_scaled is {kind}, not a tile of {stored.dtype}")
        whole: NDArray[np.float64] = (
            np.ascontiguousarray(stored).view(_WHOLE[kind]).astype(np.float64)
        )
        return whole
    if kind not in _HALVES:
        raise fail(f"{name}_format of dot_scaled is one of {', '.join((*_HALVES, *_WHOLE))}")
    data = np.ascontiguousarray(stored).view(np.uint8)
    halves = [(data >> shift & 15).view(_HALVES[kind]).astype(np.float64) for shift in (0, 4)]
    shape = list(data.shape)
    shape[pack] *= 2
    numbers: NDArray[np.float64] = np.stack(halves, data.ndim + pack + 1).reshape(shape)
    return numbers


def _factors(name: str, scale: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The scales of an operand with K as its last dim, one per number."""
    given = to_tile(scale).data
    k = shape[-1]
    count = given.shape[-1]
    block = 32 if count == -(-k // 32) else k // count
    if given.shape[:-1] != shape[:-1] or -(-k // max(block, 1)) != count:
        raise fail(
            f"{name}_scale of dot_scaled has shape {given.shape}, not {shape[:-1]} by K / 32"
        )
    if given.dtype.itemsize == 1 and given.dtype.kind in "iu":
        exponent = given.view(np.uint8).astype(np.float64)
        given = np.where(exponent == 255, np.nan, 2.0 ** (exponent - 127))
    factors: NDArray[np.float64] = np.repeat(given.astype(np.float64), block, -1)
    return factors[..., :k]
