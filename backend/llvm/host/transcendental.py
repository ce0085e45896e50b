"""exp, log, tanh, erf, sin, cos as vector code: the steps of `numerics/transcendental.py`, one for one.

Each is one internal function per module, vector width and format (fp32, fp64), made when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...numerics.transcendental_tables import FP32, FP64, Tables
from .. import ir
from . import quadrant
from .build import F64, I16, I32, I64, Code, Value, constant, suffix, vector
from .lanes import is_nan

_CURRENT_ROUNDING = 4
"""Operand of x86 intrinsics: round as the processor is set, to nearest even."""


def call(code: Code, name: str, x: Value) -> Value:
    """The transcendental function `name` of a vector of fp32 or fp64."""
    return code.b.call(_function(code, name, x.type), [x])


def _function(caller: Code, name: str, type_: Any) -> ir.Function:
    full = f"dsa.{name}.{suffix(type_)}"
    if (known := caller.module.functions.get(full)) is not None:
        return known
    function = ir.Function(caller.module, type_, [type_], full)
    function.linkage = "internal"
    code = Code(function, caller.host)
    (x,) = function.args
    nan = is_nan(code, x)
    # a NaN goes through the scaling instruction; what stands in for it converts to an integer, which NaN must not
    through = name in _SCALED and _scaling(code, x) is not None
    if through:
        # short, and around a call a loop would save all its vectors
        function.attributes.append("alwaysinline")
    result = _BODIES[name](code, x if through else code.b.select(nan, constant(type_, 0.0), x))
    code.b.ret(code.b.select(nan, constant(type_, float("nan")), result))
    return function


def _c(x: Value, value: Any) -> Value:
    return constant(x.type, float(value))


def _tables(x: Value) -> Tables:
    return FP64 if x.type.element == F64 else FP32


def _word(x: Value) -> Any:
    """The integers of a float vector's bits."""
    return vector(I64 if x.type.element == F64 else I32, x.type.count)


def _fma(code: Code, a: Value, b: Value, c: Value) -> Value:
    return code.math("fma", a, b, c)


def _polynomial(code: Code, x: Value, coefficients: Sequence[Any]) -> Value:
    result = _c(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = _fma(code, result, x, _c(x, coefficient))
    return result


def _scaling(code: Code, x: Value) -> str | None:
    """The host's instruction for `_scale`."""
    return dict(code.host.scales).get(x.type.count) if _tables(x) is FP32 else None


def _scale(code: Code, x: Value, n: Value) -> Value:
    b, t = code.b, _tables(x)
    known = _scaling(code, x)
    if known is not None:
        # one rounding, as in the definition, whose first product is exact
        return code.call(
            known, x.type, x, n, x, constant(I16, -1), constant(I32, _CURRENT_ROUNDING)
        )
    whole = b.fptosi(n, _word(x))
    first = b.ashr(whole, constant(whole.type, 1))
    mantissa = constant(whole.type, t.mantissa_bits)
    for part in (first, b.sub(whole, first)):
        exponent = b.shl(b.add(part, constant(part.type, t.bias)), mantissa)
        x = b.fmul(x, b.bitcast(exponent, x.type))
    return x


def _clamp(code: Code, x: Value, low: Any, high: Any) -> Value:
    """x between two limits; NaN stays NaN."""
    b = code.b
    limits = dict(code.host.limits).get(x.type.count) if _tables(x) is FP32 else None
    if limits is not None:
        # LLVM makes comparisons of what follows
        for name, limit in zip(limits, (low, high)):
            x = code.call(name, x.type, _c(x, limit), x, constant(I32, _CURRENT_ROUNDING))
        return x
    lower = b.select(b.fcmp_ordered("<", x, _c(x, low)), _c(x, low), x)
    return b.select(b.fcmp_ordered(">", x, _c(x, high)), _c(x, high), lower)


def _exp(code: Code, x: Value) -> Value:
    t, b = _tables(x), code.b
    x = _clamp(code, x, t.exp_min, t.exp_max)
    n = code.math("rint", b.fmul(x, _c(x, t.log2_e)))
    r = _fma(code, n, _c(x, -t.ln2_high), x)
    r = _fma(code, n, _c(x, -t.ln2_low), r)
    power = _fma(code, b.fmul(r, r), _polynomial(code, r, t.exp), r)
    return _scale(code, b.fadd(power, _c(x, 1)), n)


def _exp2(code: Code, x: Value) -> Value:
    t = _tables(x)
    x = _clamp(code, x, t.exp2_min, t.exp2_max)
    n = code.math("rint", x)
    r = code.b.fsub(x, n)
    return _scale(code, _fma(code, r, _polynomial(code, r, t.exp2), _c(x, 1)), n)


def _split_log(code: Code, x: Value) -> tuple[Value, Value]:
    b, t = code.b, _tables(x)
    zero, infinity = _c(x, 0), _c(x, float("inf"))
    usual = b.and_(b.fcmp_ordered(">", x, zero), b.fcmp_ordered("<", x, infinity))
    x = b.select(usual, x, _c(x, 1))
    tiny = b.fcmp_ordered("<", x, _c(x, 2.0 ** (1 - t.bias)))
    scaled = b.select(tiny, b.fmul(x, _c(x, 2.0**t.mantissa_bits)), x)
    word = _word(x)
    pattern, bits = b.bitcast(scaled, word), constant(word, t.mantissa_bits)
    e = b.ashr(b.sub(pattern, constant(word, t.sqrt_half)), bits)
    mantissa = b.bitcast(b.sub(pattern, b.shl(e, bits)), x.type)
    e = b.sub(e, b.select(tiny, bits, constant(word, 0)))
    return b.sitofp(e, x.type), b.fsub(mantissa, _c(x, 1))


def _log_rest(code: Code, f: Value) -> Value:
    b = code.b
    cubic = b.fmul(b.fmul(b.fmul(f, f), f), _polynomial(code, f, _tables(f).log))
    return _fma(code, b.fmul(_c(f, 0.5), f), b.fneg(f), cubic)


def _log_special(code: Code, x: Value, result: Value) -> Value:
    b = code.b
    infinity = _c(x, float("inf"))
    result = b.select(b.fcmp_ordered("==", x, infinity), infinity, result)
    result = b.select(b.fcmp_ordered("==", x, _c(x, 0)), _c(x, float("-inf")), result)
    return b.select(b.fcmp_ordered("<", x, _c(x, 0)), _c(x, float("nan")), result)


def _log(code: Code, x: Value) -> Value:
    t = _tables(x)
    e, f = _split_log(code, x)
    rest = _fma(code, e, _c(x, t.ln2_low), _log_rest(code, f))
    result = _fma(code, e, _c(x, t.ln2_high), code.b.fadd(f, rest))
    return _log_special(code, x, result)


def _log2(code: Code, x: Value) -> Value:
    t = _tables(x)
    e, f = _split_log(code, x)
    low = code.b.fmul(f, _c(x, t.log2_e_low))
    rest = _fma(code, _log_rest(code, f), _c(x, t.log2_e), low)
    result = code.b.fadd(e, _fma(code, f, _c(x, t.log2_e), rest))
    return _log_special(code, x, result)


def _with_sign(code: Code, magnitude: Value, x: Value) -> Value:
    b, word = code.b, _word(x)
    sign = b.and_(b.bitcast(x, word), constant(word, -(1 << (word.element.width - 1))))
    return b.bitcast(b.xor(b.bitcast(magnitude, word), sign), x.type)


def _exp_call(code: Code, x: Value) -> Value:
    return call(code, "exp", x)


def _tanh(code: Code, x: Value) -> Value:
    t, b = _tables(x), code.b
    a = _clamp(code, code.math("fabs", x), 0, t.tanh_max)
    z = b.fmul(a, a)
    small = _fma(code, b.fmul(a, z), _polynomial(code, z, t.tanh), a)
    power = b.fadd(_exp_call(code, b.fmul(_c(x, 2), a)), _c(x, 1))
    large = b.fsub(_c(x, 1), b.fdiv(_c(x, 2), power))
    below = b.fcmp_ordered("<", a, _c(x, t.tanh_split))
    return _with_sign(code, b.select(below, small, large), x)


def _erf(code: Code, x: Value) -> Value:
    t, b = _tables(x), code.b
    a = _clamp(code, code.math("fabs", x), 0, t.erf_max)
    small = _fma(code, a, _polynomial(code, b.fmul(a, a), t.erf), a)
    large = b.fsub(_c(x, 1), _exp_call(code, _polynomial(code, a, t.erf_tail)))
    below = b.fcmp_ordered("<", a, _c(x, t.erf_split))
    return _with_sign(code, b.select(below, small, large), x)


def _sine_of(code: Code, turns: Value, r: Value, r_low: Value) -> Value:
    """The sine of `turns` (i32) quarter turns and r + r_low."""
    t, b, word = _tables(r), code.b, turns.type
    z = b.fmul(r, r)
    sine = b.fadd(r, _fma(code, b.fmul(r, z), _polynomial(code, z, t.sin), r_low))
    half = b.fmul(_c(r, 0.5), z)
    base = b.fsub(_c(r, 1), half)
    rest = _fma(code, b.fneg(r), r_low, b.fsub(b.fsub(_c(r, 1), base), half))
    cosine = b.fadd(base, _fma(code, b.fmul(z, z), _polynomial(code, z, t.cos), rest))
    odd = b.icmp_signed("!=", b.and_(turns, constant(word, 1)), constant(word, 0))
    result = b.select(odd, cosine, sine)
    turned = b.icmp_signed("!=", b.and_(turns, constant(word, 2)), constant(word, 0))
    return b.select(turned, b.fneg(result), result)


def _finite_only(code: Code, x: Value, result: Value) -> Value:
    finite = code.b.fcmp_ordered("<", code.math("fabs", x), _c(x, float("inf")))
    return code.b.select(finite, result, _c(x, float("nan")))


def _sin(code: Code, x: Value) -> Value:
    result = _sine_of(code, *quadrant.reduce(code, code.math("fabs", x)))
    return _finite_only(code, x, _with_sign(code, result, x))


def _cos(code: Code, x: Value) -> Value:
    turns, r, r_low = quadrant.reduce(code, code.math("fabs", x))
    following = code.b.add(turns, constant(turns.type, 1))
    return _finite_only(code, x, _sine_of(code, following, r, r_low))


_SCALED = ("exp", "exp2")
"""Functions that end in `_scale` and convert to integers nowhere else."""

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
