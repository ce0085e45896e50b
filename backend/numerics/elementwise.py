"""Semantics of every row of `isa/vector_ops.py`: one numpy function per operation.

Arrays hold the storage dtype of their format. IR integers are signless, so `sdiv` and the like read
their operands as signed or unsigned whatever the storage dtype says. int1 is one byte, 0 or 1, and
-1 where it is read as signed. Float operations widen to fp32 exactly (fp64 stays as it is), compute
there, and round once to the format of the operation; a NaN they produce is canonical.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..formats import Format
from . import convert, transcendental
from .convert import Real, as_signed, as_unsigned, bits, from_bits, to_integer_format
from .fma import fma

Array = npt.NDArray[Any]
Semantics = Callable[..., Array]
"""(format of the op, format of its last operand, operands...) -> result."""


@np.errstate(all="ignore")
def apply(op_name: str, fmt: Format, src_fmt: Format, *arrays: Array) -> Array:
    """The result of a vector operation on arrays that broadcast against each other.

    Args:
        op_name: a name of `vector_ops.VECTOR_OPS`.
        fmt: format of the result.
        src_fmt: format of the last operand.
        arrays: operands in the storage dtype of their formats.

    >>> from dsalang._backend.formats import by_name
    >>> fp32 = by_name("fp32")
    >>> apply("fadd", fp32, fp32, np.ones(2, np.float32), np.ones(2, np.float32)).tolist()
    [2.0, 2.0]
    """
    operands = [np.atleast_1d(a) for a in arrays]
    shape = np.broadcast_shapes(*(np.shape(a) for a in arrays))
    result = SEMANTICS[op_name](fmt, src_fmt, *operands)
    return np.asarray(result).reshape(shape)


def _float_op(function: Callable[..., Real]) -> Semantics:
    def run(fmt: Format, _src: Format, *arrays: Array) -> Array:
        return convert.narrow(function(*(convert.widen(a) for a in arrays)), fmt)

    return run


def _float_compare(function: Callable[[Real, Real], Array]) -> Semantics:
    def run(_fmt: Format, _src: Format, a: Array, b: Array) -> Array:
        return function(convert.widen(a), convert.widen(b))

    return run


def _int_op(view: Callable[[Array], Array], function: Callable[..., Array]) -> Semantics:
    """`function` on operands read as signed or unsigned; the result wraps to the format's width."""

    def run(fmt: Format, _src: Format, *arrays: Array) -> Array:
        return to_integer_format(function(*(view(a) for a in arrays)), fmt)

    return run


def _int_compare(
    view: Callable[[Array], Array], function: Callable[[Array, Array], Array]
) -> Semantics:
    def run(_fmt: Format, _src: Format, a: Array, b: Array) -> Array:
        return function(view(a), view(b))

    return run


def fmin(a: Real, b: Real) -> Real:
    """Minimum of floats: NaN if either is NaN, -0 below +0."""
    result = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where((a != a) | (b != b), a.dtype.type(np.nan), result)


def fmax(a: Real, b: Real) -> Real:
    """Maximum of floats: NaN if either is NaN, -0 below +0."""
    result = np.where((a > b) | ((a == b) & np.signbit(b)), a, b)
    return np.where((a != a) | (b != b), a.dtype.type(np.nan), result)


def fminnum(a: Real, b: Real) -> Real:
    """Minimum of floats: the other operand if one is NaN, -0 below +0."""
    return np.where(a != a, b, np.where(b != b, a, fmin(a, b)))


def fmaxnum(a: Real, b: Real) -> Real:
    """Maximum of floats: the other operand if one is NaN, -0 below +0."""
    return np.where(a != a, b, np.where(b != b, a, fmax(a, b)))


def _rsqrt(a: Real) -> Real:
    result: Real = a.dtype.type(1) / np.sqrt(a)
    return result


def _flip_sign(fmt: Format, _src: Format, a: Array) -> Array:
    pattern = bits(a)
    return from_bits(pattern ^ pattern.dtype.type(1 << (fmt.bits - 1)), fmt)


def _clear_sign(fmt: Format, _src: Format, a: Array) -> Array:
    pattern = bits(a)
    return from_bits(pattern & pattern.dtype.type((1 << (fmt.bits - 1)) - 1), fmt)


def _magnitude(a: Array) -> Array:
    """|a| as unsigned, so that |MIN| is representable."""
    pattern = bits(a)
    return np.where(a < 0, np.zeros_like(pattern) - pattern, pattern)


def _divide(a: Array, b: Array) -> Array:
    """a / b of unsigned operands; x / 0 is 0."""
    zero = b == 0
    return np.where(zero, np.zeros_like(a), a // np.where(zero, np.ones_like(b), b))


def _remainder(a: Array, b: Array) -> Array:
    """a % b of unsigned operands; x % 0 is x."""
    zero = b == 0
    return np.where(zero, a, a % np.where(zero, np.ones_like(b), b))


def _signed_divide(a: Array, b: Array) -> Array:
    quotient = _divide(_magnitude(a), _magnitude(b))
    return np.where((a < 0) != (b < 0), np.zeros_like(quotient) - quotient, quotient)


def _signed_remainder(a: Array, b: Array) -> Array:
    rest = _remainder(_magnitude(a), _magnitude(b))
    return np.where(a < 0, np.zeros_like(rest) - rest, rest)


def _unsigned_high(a: Array, b: Array) -> Array:
    """High half of a 64-bit unsigned product, from four 32-bit ones."""
    low, word = np.uint64(0xFFFF_FFFF), np.uint64(32)
    a_low, a_high, b_low, b_high = a & low, a >> word, b & low, b >> word
    cross = a_high * b_low + ((a_low * b_low) >> word)
    cross_low = a_low * b_high + (cross & low)
    high: Array = a_high * b_high + (cross >> word) + (cross_low >> word)
    return high


def _umulhi(fmt: Format, _src: Format, a: Array, b: Array) -> Array:
    a, b = as_unsigned(a).astype(np.uint64), as_unsigned(b).astype(np.uint64)
    high = _unsigned_high(a, b) if fmt.bits == 64 else (a * b) >> np.uint64(fmt.bits)
    return to_integer_format(high, fmt)


def _smulhi(fmt: Format, _src: Format, a: Array, b: Array) -> Array:
    a, b = as_signed(a).astype(np.int64), as_signed(b).astype(np.int64)
    if fmt.bits < 64:
        return to_integer_format((a * b) >> np.int64(fmt.bits), fmt)
    zero = np.uint64(0)
    high = _unsigned_high(a.view(np.uint64), b.view(np.uint64))
    correction = np.where(a < 0, bits(b), zero) + np.where(b < 0, bits(a), zero)
    return to_integer_format(high - correction, fmt)


def _shift(view: Callable[[Array], Array], left: bool) -> Semantics:
    """Shift by `b` read as unsigned; a count past the width shifts everything out."""

    def run(fmt: Format, _src: Format, a: Array, b: Array) -> Array:
        value, count = view(a), as_unsigned(b)
        past = count >= fmt.bits
        count = np.where(past, np.zeros_like(count), count).astype(value.dtype)
        shifted = np.left_shift(value, count) if left else np.right_shift(value, count)
        # all that is left of a signed number shifted out to the right is its sign
        rest = np.zeros_like(value) if left else np.where(value < 0, -1, 0).astype(value.dtype)
        return to_integer_format(np.where(past, rest, shifted), fmt)

    return run


def _select(fmt: Format, _src: Format, condition: Array, a: Array, b: Array) -> Array:
    return from_bits(np.where(condition, bits(a), bits(b)), fmt)


def _int_to_float(signed: bool) -> Semantics:
    return lambda fmt, _src, a: convert.int_to_float(a, fmt, signed)


def _float_to_int(signed: bool) -> Semantics:
    return lambda fmt, _src, a: convert.float_to_int(a, fmt, signed)


def _fcvt(fmt: Format, _src: Format, a: Array) -> Array:
    return convert.float_to_float(a, fmt)


def _bitcast(fmt: Format, _src: Format, a: Array) -> Array:
    return convert.bitcast(a, fmt)


def _identity(a: Array) -> Array:
    return a


SEMANTICS: dict[str, Semantics] = {
    "fadd": _float_op(np.add),
    "fsub": _float_op(np.subtract),
    "fmul": _float_op(np.multiply),
    "fdiv": _float_op(np.divide),
    "frem": _float_op(np.fmod),
    "ffma": _float_op(fma),
    "fneg": _flip_sign,
    "fabs": _clear_sign,
    "fmin": _float_op(fmin),
    "fmax": _float_op(fmax),
    "fminnum": _float_op(fminnum),
    "fmaxnum": _float_op(fmaxnum),
    "ffloor": _float_op(np.floor),
    "fceil": _float_op(np.ceil),
    "fround": _float_op(np.rint),
    "ftrunc": _float_op(np.trunc),
    "fsqrt": _float_op(np.sqrt),
    "frsqrt": _float_op(_rsqrt),
    "fexp": _float_op(transcendental.exp),
    "fexp2": _float_op(transcendental.exp2),
    "flog": _float_op(transcendental.log),
    "flog2": _float_op(transcendental.log2),
    "ftanh": _float_op(transcendental.tanh),
    "ferf": _float_op(transcendental.erf),
    "fsin": _float_op(transcendental.sin),
    "fcos": _float_op(transcendental.cos),
    "iadd": _int_op(as_unsigned, np.add),
    "isub": _int_op(as_unsigned, np.subtract),
    "imul": _int_op(as_unsigned, np.multiply),
    "sdiv": _int_op(as_signed, _signed_divide),
    "udiv": _int_op(as_unsigned, _divide),
    "srem": _int_op(as_signed, _signed_remainder),
    "urem": _int_op(as_unsigned, _remainder),
    "smulhi": _smulhi,
    "umulhi": _umulhi,
    "smin": _int_op(as_signed, np.minimum),
    "smax": _int_op(as_signed, np.maximum),
    "umin": _int_op(as_unsigned, np.minimum),
    "umax": _int_op(as_unsigned, np.maximum),
    "iabs": _int_op(as_signed, _magnitude),
    "iand": _int_op(as_unsigned, np.bitwise_and),
    "ior": _int_op(as_unsigned, np.bitwise_or),
    "ixor": _int_op(as_unsigned, np.bitwise_xor),
    "shl": _shift(as_unsigned, left=True),
    "ashr": _shift(as_signed, left=False),
    "lshr": _shift(as_unsigned, left=False),
    "feq": _float_compare(np.equal),
    "fne": _float_compare(np.not_equal),
    "flt": _float_compare(np.less),
    "fle": _float_compare(np.less_equal),
    "fgt": _float_compare(np.greater),
    "fge": _float_compare(np.greater_equal),
    "ieq": _int_compare(as_unsigned, np.equal),
    "ine": _int_compare(as_unsigned, np.not_equal),
    "slt": _int_compare(as_signed, np.less),
    "sle": _int_compare(as_signed, np.less_equal),
    "sgt": _int_compare(as_signed, np.greater),
    "sge": _int_compare(as_signed, np.greater_equal),
    "ult": _int_compare(as_unsigned, np.less),
    "ule": _int_compare(as_unsigned, np.less_equal),
    "ugt": _int_compare(as_unsigned, np.greater),
    "uge": _int_compare(as_unsigned, np.greater_equal),
    "select": _select,
    "sitofp": _int_to_float(signed=True),
    "uitofp": _int_to_float(signed=False),
    "fptosi": _float_to_int(signed=True),
    "fptoui": _float_to_int(signed=False),
    "fcvt": _fcvt,
    "sext": _int_op(as_signed, _identity),
    "zext": _int_op(as_unsigned, _identity),
    "trunc": _int_op(as_unsigned, _identity),
    "bitcast": _bitcast,
}
