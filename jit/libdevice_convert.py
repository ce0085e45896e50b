"""Conversions between floats and integers from CUDA's libdevice, written in the language.

`_rn` rounds to nearest, ties to even, `_rd` down, `_ru` up, `_rz` towards zero; results saturate. Conversions to floats
exist as `_rn`, which is how the machine rounds.
"""

from __future__ import annotations

from typing import Any

from . import builtins as tl
from . import dtypes
from .builtin import defined


@defined()
def float2int_rn(x: Any) -> Any:
    """X as int32, rounded to nearest, ties to even."""
    return tl.cast(tl.rint(x), dtypes.int32)


@defined()
def float2int_rd(x: Any) -> Any:
    """X as int32, rounded down."""
    return tl.cast(tl.floor(x), dtypes.int32)


@defined()
def float2int_ru(x: Any) -> Any:
    """X as int32, rounded up."""
    return tl.cast(tl.ceil(x), dtypes.int32)


@defined()
def float2int_rz(x: Any) -> Any:
    """X as int32, rounded towards zero."""
    return tl.cast(x, dtypes.int32)


@defined()
def float2uint_rn(x: Any) -> Any:
    """X as uint32, rounded to nearest, ties to even."""
    return tl.cast(tl.rint(x), dtypes.uint32)


@defined()
def float2uint_rd(x: Any) -> Any:
    """X as uint32, rounded down."""
    return tl.cast(tl.floor(x), dtypes.uint32)


@defined()
def float2uint_ru(x: Any) -> Any:
    """X as uint32, rounded up."""
    return tl.cast(tl.ceil(x), dtypes.uint32)


@defined()
def float2uint_rz(x: Any) -> Any:
    """X as uint32, rounded towards zero."""
    return tl.cast(x, dtypes.uint32)


@defined()
def float2ll_rn(x: Any) -> Any:
    """X as int64, rounded to nearest, ties to even."""
    return tl.cast(tl.rint(x), dtypes.int64)


@defined()
def float2ll_rd(x: Any) -> Any:
    """X as int64, rounded down."""
    return tl.cast(tl.floor(x), dtypes.int64)


@defined()
def float2ll_ru(x: Any) -> Any:
    """X as int64, rounded up."""
    return tl.cast(tl.ceil(x), dtypes.int64)


@defined()
def float2ll_rz(x: Any) -> Any:
    """X as int64, rounded towards zero."""
    return tl.cast(x, dtypes.int64)


@defined()
def float2ull_rn(x: Any) -> Any:
    """X as uint64, rounded to nearest, ties to even."""
    return tl.cast(tl.rint(x), dtypes.uint64)


@defined()
def float2ull_rd(x: Any) -> Any:
    """X as uint64, rounded down."""
    return tl.cast(tl.floor(x), dtypes.uint64)


@defined()
def float2ull_ru(x: Any) -> Any:
    """X as uint64, rounded up."""
    return tl.cast(tl.ceil(x), dtypes.uint64)


@defined()
def float2ull_rz(x: Any) -> Any:
    """X as uint64, rounded towards zero."""
    return tl.cast(x, dtypes.uint64)


@defined()
def int2float_rn(x: Any) -> Any:
    """An int32 as fp32, rounded to nearest even."""
    return tl.cast(tl.cast(x, dtypes.int32), dtypes.float32)


@defined()
def int2double_rn(x: Any) -> Any:
    """An int32 as fp64, rounded to nearest even."""
    return tl.cast(tl.cast(x, dtypes.int32), dtypes.float64)


@defined()
def uint2float_rn(x: Any) -> Any:
    """An uint32 as fp32, rounded to nearest even."""
    return tl.cast(tl.cast(x, dtypes.uint32), dtypes.float32)


@defined()
def uint2double_rn(x: Any) -> Any:
    """An uint32 as fp64, rounded to nearest even."""
    return tl.cast(tl.cast(x, dtypes.uint32), dtypes.float64)


@defined()
def ll2float_rn(x: Any) -> Any:
    """An int64 as fp32, rounded to nearest even."""
    return tl.cast(tl.cast(x, dtypes.int64), dtypes.float32)


@defined()
def ll2double_rn(x: Any) -> Any:
    """An int64 as fp64, rounded to nearest even."""
    return tl.cast(tl.cast(x, dtypes.int64), dtypes.float64)


@defined()
def ull2float_rn(x: Any) -> Any:
    """An uint64 as fp32, rounded to nearest even."""
    return tl.cast(tl.cast(x, dtypes.uint64), dtypes.float32)


@defined()
def ull2double_rn(x: Any) -> Any:
    """An uint64 as fp64, rounded to nearest even."""
    return tl.cast(tl.cast(x, dtypes.uint64), dtypes.float64)


@defined()
def double2float_rn(x: Any) -> Any:
    """X as fp32, rounded to nearest even."""
    return tl.cast(x, dtypes.float32)
