"""exp, log, tanh, erf, sin, cos as vector code: the steps of `numerics/transcendental.py`, one for one.

Each is one internal function per module and vector width, made when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.ir as ir
import numpy as np

from ...numerics import transcendental as definition
from .build import F32, F64, I16, I32, I64, Code, Value, constant, list_constant, vector
from .lanes import is_nan

_CURRENT_ROUNDING = 4
"""Operand of x86 intrinsics: round as the processor is set, to nearest even."""


def call(code: Code, name: str, x: Value) -> Value:
    """The transcendental function `name` of a vector of fp32."""
    return code.b.call(_function(code, name, x.type), [x])


def _function(caller: Code, name: str, type_: Any) -> ir.Function:
    full = f"dsa.{name}.v{type_.count}"
    if (known := caller.module.globals.get(full)) is not None:
        return known
    function = ir.Function(caller.module, ir.FunctionType(type_, [type_]), full)
    function.linkage = "internal"
    code = Code(function, caller.host)
    (x,) = function.args
    nan = is_nan(code, x)
    result = _BODIES[name](code, code.b.select(nan, constant(type_, 0.0), x))
    code.b.ret(code.b.select(nan, constant(type_, float("nan")), result))
    return function


def _c(x: Value, value: Any) -> Value:
    return constant(vector(F32, x.type.count), float(value))


def _fma(code: Code, a: Value, b: Value, c: Value) -> Value:
    return code.math("fma", a, b, c)


def _polynomial(code: Code, x: Value, coefficients: Sequence[np.float32]) -> Value:
    result = _c(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = _fma(code, result, x, _c(x, coefficient))
    return result


def _scale(code: Code, x: Value, n: Value) -> Value:
    b = code.b
    known = dict(code.host.scales).get(x.type.count)
    if known is not None:
        # one rounding, as in the definition, whose first product is exact
        return code.call(
            known, x.type, x, n, x, constant(I16, -1), constant(I32, _CURRENT_ROUNDING)
        )
    whole = b.fptosi(n, vector(I32, x.type.count))
    first = b.ashr(whole, constant(whole.type, 1))
    for part in (first, b.sub(whole, first)):
        exponent = b.shl(b.add(part, constant(part.type, 127)), constant(part.type, 23))
        x = b.fmul(x, b.bitcast(exponent, x.type))
    return x


def _clamp(code: Code, x: Value, low: Any, high: Any) -> Value:
    b = code.b
    lower = b.select(b.fcmp_ordered("<", x, _c(x, low)), _c(x, low), x)
    return b.select(b.fcmp_ordered(">", x, _c(x, high)), _c(x, high), lower)


def _exp(code: Code, x: Value) -> Value:
    d, b = definition, code.b
    x = _clamp(code, x, d._EXP_MIN, d._EXP_MAX)
    n = code.math("rint", b.fmul(x, _c(x, d._LOG2_E)))
    r = _fma(code, n, _c(x, -d._LN2_HIGH), x)
    r = _fma(code, n, _c(x, -d._LN2_LOW), r)
    power = _fma(code, b.fmul(r, r), _polynomial(code, r, d._EXP), r)
    return _scale(code, b.fadd(power, _c(x, 1)), n)


def _exp2(code: Code, x: Value) -> Value:
    d = definition
    x = _clamp(code, x, d._EXP2_MIN, d._EXP2_MAX)
    n = code.math("rint", x)
    r = code.b.fsub(x, n)
    return _scale(code, _fma(code, r, _polynomial(code, r, d._EXP2), _c(x, 1)), n)


def _split_log(code: Code, x: Value) -> tuple[Value, Value]:
    b = code.b
    zero, infinity = _c(x, 0), _c(x, float("inf"))
    usual = b.and_(b.fcmp_ordered(">", x, zero), b.fcmp_ordered("<", x, infinity))
    x = b.select(usual, x, _c(x, 1))
    tiny = b.fcmp_ordered("<", x, _c(x, 2.0**-126))
    scaled = b.select(tiny, b.fmul(x, _c(x, 2.0**23)), x)
    pattern = b.bitcast(scaled, vector(I32, x.type.count))
    word = pattern.type
    e = b.ashr(b.sub(pattern, constant(word, 0x3F3504F3)), constant(word, 23))
    mantissa = b.bitcast(b.sub(pattern, b.shl(e, constant(word, 23))), x.type)
    e = b.sub(e, b.select(tiny, constant(word, 23), constant(word, 0)))
    return b.sitofp(e, x.type), b.fsub(mantissa, _c(x, 1))


def _log_rest(code: Code, f: Value) -> Value:
    b = code.b
    cubic = b.fmul(b.fmul(b.fmul(f, f), f), _polynomial(code, f, definition._LOG))
    return _fma(code, b.fmul(_c(f, 0.5), f), b.fneg(f), cubic)


def _log_special(code: Code, x: Value, result: Value) -> Value:
    b = code.b
    infinity = _c(x, float("inf"))
    result = b.select(b.fcmp_ordered("==", x, infinity), infinity, result)
    result = b.select(b.fcmp_ordered("==", x, _c(x, 0)), _c(x, float("-inf")), result)
    return b.select(b.fcmp_ordered("<", x, _c(x, 0)), _c(x, float("nan")), result)


def _log(code: Code, x: Value) -> Value:
    d = definition
    e, f = _split_log(code, x)
    rest = _fma(code, e, _c(x, d._LN2_LOW), _log_rest(code, f))
    result = _fma(code, e, _c(x, d._LN2_HIGH), code.b.fadd(f, rest))
    return _log_special(code, x, result)


def _log2(code: Code, x: Value) -> Value:
    d = definition
    e, f = _split_log(code, x)
    low = code.b.fmul(f, _c(x, d._LOG2_E_LOW))
    rest = _fma(code, _log_rest(code, f), _c(x, d._LOG2_E), low)
    result = code.b.fadd(e, _fma(code, f, _c(x, d._LOG2_E), rest))
    return _log_special(code, x, result)


def _with_sign(code: Code, magnitude: Value, x: Value) -> Value:
    b = code.b
    word = vector(I32, x.type.count)
    sign = b.and_(b.bitcast(x, word), constant(word, 0x8000_0000))
    return b.bitcast(b.xor(b.bitcast(magnitude, word), sign), x.type)


def _exp_call(code: Code, x: Value) -> Value:
    return call(code, "exp", x)


def _tanh(code: Code, x: Value) -> Value:
    d, b = definition, code.b
    a = _clamp(code, code.math("fabs", x), 0, 10)
    z = b.fmul(a, a)
    small = _fma(code, b.fmul(a, z), _polynomial(code, z, d._TANH), a)
    power = b.fadd(_exp_call(code, b.fmul(_c(x, 2), a)), _c(x, 1))
    large = b.fsub(_c(x, 1), b.fdiv(_c(x, 2), power))
    below = b.fcmp_ordered("<", a, _c(x, d._TANH_SPLIT))
    return _with_sign(code, b.select(below, small, large), x)


def _erf(code: Code, x: Value) -> Value:
    d, b = definition, code.b
    a = _clamp(code, code.math("fabs", x), 0, 4)
    small = _fma(code, a, _polynomial(code, b.fmul(a, a), d._ERF), a)
    large = b.fsub(_c(x, 1), _exp_call(code, _polynomial(code, a, d._ERF_TAIL)))
    below = b.fcmp_ordered("<", a, _c(x, d._ERF_SPLIT))
    return _with_sign(code, b.select(below, small, large), x)


def _words(code: Code, exponent: Value) -> list[Value]:
    """The words w0, w1, w2 for each lane's exponent (32-bit), as i64; any numbers below exponent 100.

    They are a window of 2/pi that starts at bit 312 - exponent: four neighbours of its 32-bit words, shifted.
    """
    b, lanes, word = code.b, exponent.type.count, exponent.type
    start = b.sub(constant(word, 312), exponent)
    first = b.lshr(start, constant(word, 5))
    shift = b.and_(start, constant(word, 31))
    four = [_word_of_two_over_pi(code, b.add(first, constant(word, k))) for k in range(4)]
    windows = [code.math("fshr", four[k + 1], four[k], shift) for k in (2, 1, 0)]
    return [b.zext(window, vector(I64, lanes)) for window in windows]


def _word_of_two_over_pi(code: Code, index: Value) -> Value:
    """32-bit word `index` of 2/pi in each lane, the lowest first; 0 from word 8 on."""
    b, word = code.b, index.type
    mask = (1 << 32) - 1
    words = [definition.TWO_OVER_PI >> 32 * k & mask for k in range(8)]
    few = b.icmp_unsigned("<", index, constant(word, 8))
    permute = dict(code.host.permutes).get(word.count)
    if permute is not None:
        table = list_constant(I32, (words + [0] * 8)[: word.count])
        found = code.call(permute, word, table, index)
        return found if word.count > 8 else b.select(few, found, constant(word, 0))
    result = constant(word, 0)
    for k, value in enumerate(words):
        here = b.icmp_unsigned("==", index, constant(word, k))
        result = b.select(here, constant(word, value), result)
    return result


def _reduce_quadrant(code: Code, a: Value) -> tuple[Value, Value, Value]:
    b, lanes = code.b, a.type.count
    word, wide, real = vector(I32, lanes), vector(I64, lanes), vector(F64, lanes)
    pattern = b.bitcast(a, word)
    exponent = b.lshr(pattern, constant(word, 23))
    m = b.or_(b.and_(pattern, constant(word, 0x7F_FFFF)), constant(word, 0x80_0000))
    m = b.zext(m, wide)
    high, middle, low = _words(code, exponent)
    fixed = b.add(b.shl(b.mul(m, high), constant(wide, 32)), b.mul(m, middle))
    fixed = b.add(fixed, b.lshr(b.mul(m, low), constant(wide, 32)))
    quadrant = b.lshr(b.add(fixed, constant(wide, 1 << 61)), constant(wide, 62))
    fraction = b.shl(fixed, constant(wide, 2))
    exact = b.fmul(b.sitofp(fraction, real), constant(real, definition._QUADRANT))
    r = b.fptrunc(exact, a.type)
    r_low = b.fptrunc(b.fsub(exact, b.fpext(r, real)), a.type)
    near = b.fcmp_ordered("<=", a, _c(a, definition._QUARTER_PI))
    return (
        b.select(near, constant(word, 0), b.trunc(quadrant, word)),
        b.select(near, a, r),
        b.select(near, _c(a, 0), r_low),
    )


def _sine_of(code: Code, quadrant: Value, r: Value, r_low: Value) -> Value:
    d, b, word = definition, code.b, quadrant.type
    z = b.fmul(r, r)
    sine = b.fadd(r, _fma(code, b.fmul(r, z), _polynomial(code, z, d._SIN), r_low))
    half = b.fmul(_c(r, 0.5), z)
    base = b.fsub(_c(r, 1), half)
    rest = _fma(code, b.fneg(r), r_low, b.fsub(b.fsub(_c(r, 1), base), half))
    cosine = b.fadd(base, _fma(code, b.fmul(z, z), _polynomial(code, z, d._COS), rest))
    odd = b.icmp_signed("!=", b.and_(quadrant, constant(word, 1)), constant(word, 0))
    result = b.select(odd, cosine, sine)
    turned = b.icmp_signed("!=", b.and_(quadrant, constant(word, 2)), constant(word, 0))
    return b.select(turned, b.fneg(result), result)


def _finite_only(code: Code, x: Value, result: Value) -> Value:
    finite = code.b.fcmp_ordered("<", code.math("fabs", x), _c(x, float("inf")))
    return code.b.select(finite, result, _c(x, float("nan")))


def _sin(code: Code, x: Value) -> Value:
    result = _sine_of(code, *_reduce_quadrant(code, code.math("fabs", x)))
    return _finite_only(code, x, _with_sign(code, result, x))


def _cos(code: Code, x: Value) -> Value:
    quadrant, r, r_low = _reduce_quadrant(code, code.math("fabs", x))
    following = code.b.add(quadrant, constant(quadrant.type, 1))
    return _finite_only(code, x, _sine_of(code, following, r, r_low))


_BODIES: dict[str, Callable[[Code, Value], Value]] = {
    "exp": _exp,
    "exp2": _exp2,
    "log": _log,
    "log2": _log2,
    "tanh": _tanh,
    "erf": _erf,
    "sin": _sin,
    "cos": _cos,
}
