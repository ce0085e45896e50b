"""Bits of numbers, from CUDA's libdevice, written in the language."""

from __future__ import annotations

from typing import Any

from . import builtins as tl
from . import dtypes
from .builtin import defined


@defined()
def float_as_int(x: Any) -> Any:
    """The bits of an fp32 as int32."""
    return x.to(dtypes.int32, bitcast=True)


@defined()
def float_as_uint(x: Any) -> Any:
    """The bits of an fp32 as uint32."""
    return x.to(dtypes.uint32, bitcast=True)


@defined()
def int_as_float(x: Any) -> Any:
    """The fp32 with these bits."""
    return x.to(dtypes.float32, bitcast=True)


@defined()
def popc(x: Any) -> Any:
    """How many bits of a 32-bit integer are set (int32)."""
    v = tl.cast(x, dtypes.uint32)
    v = v - ((v >> 1) & 0x55555555)
    v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
    v = (v + (v >> 4)) & 0x0F0F0F0F
    return ((v * 0x01010101) >> 24).to(dtypes.int32)


@defined()
def clz(x: Any) -> Any:
    """How many leading bits of a 32-bit integer are zero (int32)."""
    v = tl.cast(x, dtypes.uint32)
    v = v | (v >> 1)
    v = v | (v >> 2)
    v = v | (v >> 4)
    v = v | (v >> 8)
    v = v | (v >> 16)
    return 32 - popc(v)


@defined()
def ffs(x: Any) -> Any:
    """The position of the lowest set bit of a 32-bit integer, from 1; 0 for 0."""
    v = tl.cast(x, dtypes.int32)
    return tl.where(v == 0, 0, 32 - clz(v & -v))


@defined()
def brev(x: Any) -> Any:
    """The bits of a 32-bit integer in reverse order."""
    v = tl.cast(x, dtypes.uint32)
    v = ((v >> 1) & 0x55555555) | ((v & 0x55555555) << 1)
    v = ((v >> 2) & 0x33333333) | ((v & 0x33333333) << 2)
    v = ((v >> 4) & 0x0F0F0F0F) | ((v & 0x0F0F0F0F) << 4)
    v = ((v >> 8) & 0x00FF00FF) | ((v & 0x00FF00FF) << 8)
    return ((v >> 16) | (v << 16)).to(x.dtype, bitcast=True)


@defined()
def uint_as_float(x: Any) -> Any:
    """The fp32 with these bits."""
    return tl.cast(x, dtypes.uint32).to(dtypes.float32, bitcast=True)


@defined()
def double_as_longlong(x: Any) -> Any:
    """The bits of an fp64 as int64."""
    return x.to(dtypes.int64, bitcast=True)


@defined()
def longlong_as_double(x: Any) -> Any:
    """The fp64 with these bits."""
    return x.to(dtypes.float64, bitcast=True)


@defined()
def double2hiint(x: Any) -> Any:
    """The high 32 bits of an fp64 as int32."""
    return (x.to(dtypes.int64, bitcast=True) >> 32).to(dtypes.int32)


@defined()
def double2loint(x: Any) -> Any:
    """The low 32 bits of an fp64 as int32."""
    return x.to(dtypes.int64, bitcast=True).to(dtypes.int32)


@defined()
def hiloint2double(x: Any, y: Any) -> Any:
    """The fp64 with the high bits x and the low bits y."""
    high = tl.cast(x, dtypes.int64) << 32
    low = tl.cast(y, dtypes.uint32).to(dtypes.int64)
    return (high | low).to(dtypes.float64, bitcast=True)


@defined()
def byte_perm(x: Any, y: Any, s: Any) -> Any:
    """Four of the eight bytes of x (0 to 3) and y (4 to 7), picked by the low three bits of each half byte of s."""
    both = (tl.cast(y, dtypes.uint32).to(dtypes.uint64) << 32) | tl.cast(x, dtypes.uint32)
    picks = tl.cast(s, dtypes.uint32)
    result = tl.cast(x, dtypes.uint32) & 0
    for k in range(4):
        place = ((picks >> (4 * k)) & 7) * 8
        byte = (both >> place.to(dtypes.uint64)).to(dtypes.uint32) & 255
        result = result | (byte << (8 * k))
    return result.to(dtypes.int32)


@defined()
def sad(x: Any, y: Any, z: Any) -> Any:
    """|x - y| + z."""
    return tl.where(x > y, x - y, y - x).to(dtypes.uint32) + tl.cast(z, dtypes.uint32)


@defined()
def mulhi(x: Any, y: Any) -> Any:
    """High half of the product of two 32-bit integers."""
    wide = tl.cast(x, dtypes.int64) * tl.cast(y, dtypes.int64)
    return (wide >> 32).to(dtypes.int32)


@defined()
def mul24(x: Any, y: Any) -> Any:
    """The product of the low 24 bits of two integers, modulo 2^32."""
    a, b = tl.cast(x, dtypes.int32), tl.cast(y, dtypes.int32)
    return ((a << 8) >> 8) * ((b << 8) >> 8)


@defined()
def hadd(x: Any, y: Any) -> Any:
    """The average of two integers, rounded down, without overflow."""
    return (x & y) + ((x ^ y) >> 1)


@defined()
def rhadd(x: Any, y: Any) -> Any:
    """The average of two integers, rounded up, without overflow."""
    return (x | y) - ((x ^ y) >> 1)


@defined()
def _pattern(x: Any) -> Any:
    """The bits of a float as an integer of its width."""
    kind = dtypes.int64 if x.dtype == dtypes.float64 else dtypes.int32
    return x.to(kind, bitcast=True)


@defined()
def nextafter(x: Any, y: Any) -> Any:
    """The next number (of fp32 or fp64) after x towards y."""
    tl.static_assert(x.dtype.primitive_bitwidth >= 32, "nextafter takes fp32 or fp64")
    bits = _pattern(x)
    away = (x < y) == (x > 0.0)
    moved = tl.where(away, bits + 1, bits - 1).to(x.dtype, bitcast=True)
    least = (bits & 0) + 1
    tiny = tl.where(y > 0.0, least.to(x.dtype, bitcast=True), -(least.to(x.dtype, bitcast=True)))
    moved = tl.where(x == 0.0, tiny, moved)
    return tl.where((x != x) | (y != y), x + y, tl.where(x == y, y, moved))


@defined()
def _exponent(x: Any) -> Any:
    """The exponent of a finite non-zero number as int32, of subnormal ones too."""
    wide = tl.abs(tl.cast(x, dtypes.float64))
    tiny = wide < 2.2250738585072014e-308
    bits = tl.where(tiny, wide * 18014398509481984.0, wide).to(dtypes.int64, bitcast=True)
    return ((bits >> 52) - tl.where(tiny, 1077, 1023)).to(dtypes.int32)


@defined()
def logb(x: Any) -> Any:
    """The exponent of x as a float: -inf for 0, inf for infinities."""
    size = tl.abs(x)
    exponent = _exponent(x).to(x.dtype)
    special = tl.where(size == 0.0, -float("inf"), size * size)
    return tl.where((size > 0.0) & (size < float("inf")), exponent, special.to(x.dtype))


@defined()
def ilogb(x: Any) -> Any:
    """The exponent of x as int32: -2^31 for 0 and NaN, 2^31 - 1 for infinities."""
    size = tl.abs(x)
    special = tl.where(size == float("inf"), 2147483647, -2147483648)
    return tl.where((size > 0.0) & (size < float("inf")), _exponent(x), special)
