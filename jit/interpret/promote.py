"""Triton's type promotion, written from its documentation a second time (the compiler has its own)."""

from __future__ import annotations

import math

from .. import dtypes
from ..dtypes import dtype

_RANK = {"bool": 0, "int": 1, "float": 2}
_MIN_F32, _MAX_F32 = 1.1754943508222875e-38, 3.4028234663852886e38
"""The normal numbers of fp32."""


class PromotionError(Exception):
    """Two types do not combine; the message says why."""


def of_number(value: bool | int | float) -> dtype:
    """The type that a Python number has on its own: the narrowest of int32, uint32, int64, uint64 that holds it."""
    if isinstance(value, bool):
        return dtypes.int1
    if isinstance(value, float):
        size = abs(value)
        beyond = math.isfinite(size) and (size > _MAX_F32 or 0 < size < _MIN_F32)
        return dtypes.float64 if beyond else dtypes.float32
    for kind in (dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64):
        if kind.get_int_min_value() <= value <= kind.get_int_max_value():
            return kind
    raise PromotionError(f"the integer {value} does not fit 64 bits")


def arithmetic(a: dtype, a_weak: bool, b: dtype, b_weak: bool, division: bool) -> dtype:
    """The type that +, -, *, /, %, comparisons compute in; `weak` marks a Python number."""
    if a_weak != b_weak:
        number, tile = (a, b) if a_weak else (b, a)
        if _RANK[number.kind] <= _RANK[tile.kind]:
            half = tile in (dtypes.float16, dtypes.bfloat16)
            return dtypes.float32 if division and half else tile
    if a.is_floating() or b.is_floating():
        return _floats(a, b, division)
    if division and a.is_int_signed() != b.is_int_signed():
        raise PromotionError(f"cannot divide {a} by {b}: the signedness differs")
    return integers(a, b)


def _floats(a: dtype, b: dtype, division: bool) -> dtype:
    kinds = {x for x in (a, b) if x.is_floating()}
    if dtypes.float64 in kinds:
        return dtypes.float64
    if dtypes.float32 in kinds:
        return dtypes.float32
    if dtypes.float16 in kinds:
        return dtypes.float32 if division else dtypes.float16
    if a == b == dtypes.bfloat16:
        return dtypes.float32 if division else dtypes.bfloat16
    if dtypes.bfloat16 in kinds:
        return dtypes.float32
    if a.is_fp8() and b.is_fp8():
        return a if a == b else dtypes.float16
    raise PromotionError(f"cannot combine {a} and {b}")


def integers(a: dtype, b: dtype) -> dtype:
    """C's usual conversions: the wider wins, at equal width the unsigned one."""
    if a.signed == b.signed:
        return a if a.primitive_bitwidth > b.primitive_bitwidth else b
    unsigned, signed = (b, a) if a.signed else (a, b)
    return unsigned if unsigned.primitive_bitwidth >= signed.primitive_bitwidth else signed


def widest_float(a: dtype, b: dtype) -> dtype:
    """The type that `/` of two promoted operands gives."""
    if not a.is_floating() and not b.is_floating():
        return dtypes.float32
    if a.is_floating() and b.is_floating():
        return a if a.mantissa_bits >= b.mantissa_bits else b
    return a if a.is_floating() else b
