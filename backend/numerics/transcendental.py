"""exp, exp2, log, log2, tanh, erf, sin, cos in fp32 and in fp64: range reduction and polynomials with fma.

Every step is one operation of the format (or an integer operation) in the order written. Both formats take the
same steps with their own constants (`transcendental_tables.py`); only the reduction of sine and cosine differs
(`quadrant.py`).

The reductions are the textbook ones (Muller, *Elementary Functions*; Cody and Waite 1980; Payne and
Hanek 1983 for the trigonometric one). NaN operands give NaN. Measured errors stand in `docs/numerics.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .convert import Real
from .fma import fma
from .quadrant import reduce_quadrant
from .transcendental_tables import BY_DTYPE, Tables

_BLOCK = 1 << 15
"""Elements worked on at a time, so that intermediates stay in the host's cache."""


def _polynomial(x: Real, coefficients: Sequence[Any]) -> Real:
    """Horner's scheme, one fma per step; `coefficients` start with the constant one."""
    result: Real = np.broadcast_to(coefficients[-1], x.shape)
    for coefficient in coefficients[-2::-1]:
        result = fma(result, x, coefficient)
    return result


def _scale(t: Tables, x: Real, n: Real) -> Real:
    """x * 2^n for whole n between the bounds of exp2, in two steps so that only the last one can be inexact."""
    whole = n.astype(t.word)
    first = whole >> 1
    for part in (first, whole - first):
        x = x * ((part + t.bias) << t.mantissa_bits).view(t.real)
    return x


def _clamp(x: Real, low: Any, high: Any) -> Real:
    return np.where(x > high, high, np.where(x < low, low, x))


def _exp(t: Tables, x: Real) -> Real:
    x = _clamp(x, t.exp_min, t.exp_max)
    n = np.rint(x * t.log2_e)
    r = fma(n, -t.ln2_low, fma(n, -t.ln2_high, x))
    power: Real = fma(r * r, _polynomial(r, t.exp), r) + t.real(1)
    return _scale(t, power, n)


def _exp2(t: Tables, x: Real) -> Real:
    x = _clamp(x, t.exp2_min, t.exp2_max)
    n = np.rint(x)
    r = x - n
    return _scale(t, fma(r, _polynomial(r, t.exp2), t.real(1)), n)


def _split_log(t: Tables, x: Real) -> tuple[Real, Real]:
    """Positive finite x = 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)): (e, f), both exact."""
    tiny = x < np.finfo(t.real).tiny
    normal = np.where(tiny, x * t.real(2.0**t.mantissa_bits), x)
    pattern = normal.view(t.word)
    e = (pattern - t.word(t.sqrt_half)) >> t.mantissa_bits
    mantissa = (pattern - (e << t.mantissa_bits)).view(t.real)
    lift = np.where(tiny, t.word(t.mantissa_bits), t.word(0))
    return (e - lift).astype(t.real), mantissa - t.real(1)


def _log_rest(t: Tables, f: Real) -> Real:
    """ln(1 + f) - f."""
    rest: Real = fma(t.real(0.5) * f, -f, f * f * f * _polynomial(f, t.log))
    return rest


def _log_special(t: Tables, x: Real, result: Real) -> Real:
    """The logarithm's values outside the positive finite numbers."""
    infinity = t.real(np.inf)
    result = np.where(x == infinity, infinity, result)
    result = np.where(x == 0, -infinity, result)
    return np.where(x < 0, t.real(np.nan), result)


def _usual_log_operand(t: Tables, x: Real) -> Real:
    return np.where((x > 0) & (x < t.real(np.inf)), x, t.real(1))


def _log(t: Tables, x: Real) -> Real:
    e, f = _split_log(t, _usual_log_operand(t, x))
    rest = fma(e, t.ln2_low, _log_rest(t, f))
    return _log_special(t, x, fma(e, t.ln2_high, f + rest))


def _log2(t: Tables, x: Real) -> Real:
    e, f = _split_log(t, _usual_log_operand(t, x))
    rest = fma(_log_rest(t, f), t.log2_e, f * t.log2_e_low)
    return _log_special(t, x, e + fma(f, t.log2_e, rest))


def _with_sign(t: Tables, magnitude: Real, x: Real) -> Real:
    sign = x.view(t.word) & np.iinfo(t.word).min
    result: Real = (magnitude.view(t.word) ^ sign).view(t.real)
    return result


def _tanh(t: Tables, x: Real) -> Real:
    a = _clamp(np.abs(x), t.real(0), t.tanh_max)
    z = a * a
    small = fma(a * z, _polynomial(z, t.tanh), a)
    large = t.real(1) - t.real(2) / (_exp(t, t.real(2) * a) + t.real(1))
    return _with_sign(t, np.where(a < t.tanh_split, small, large), x)


def _erf(t: Tables, x: Real) -> Real:
    a = _clamp(np.abs(x), t.real(0), t.erf_max)
    small = fma(a, _polynomial(a * a, t.erf), a)
    large = t.real(1) - _exp(t, _polynomial(a, t.erf_tail))
    return _with_sign(t, np.where(a < t.erf_split, small, large), x)


def _sine_of(t: Tables, quadrant: npt.NDArray[np.int32], r: Real, r_low: Real) -> Real:
    """sin(quadrant * pi/2 + r + r_low)."""
    one = t.real(1)
    z = r * r
    sine = r + fma(r * z, _polynomial(z, t.sin), r_low)
    half = t.real(0.5) * z
    base = one - half
    rest = fma(-r, r_low, (one - base) - half)
    cosine = base + fma(z * z, _polynomial(z, t.cos), rest)
    result: Real = np.where((quadrant & 1) != 0, cosine, sine)
    return np.where((quadrant & 2) != 0, -result, result)


def _sin(t: Tables, x: Real) -> Real:
    quadrant, r, r_low = reduce_quadrant(np.abs(x))
    result = _with_sign(t, _sine_of(t, quadrant, r, r_low), x)
    return np.where(np.abs(x) < t.real(np.inf), result, t.real(np.nan))


def _cos(t: Tables, x: Real) -> Real:
    quadrant, r, r_low = reduce_quadrant(np.abs(x))
    result = _sine_of(t, quadrant + 1, r, r_low)
    return np.where(np.abs(x) < t.real(np.inf), result, t.real(np.nan))


@np.errstate(all="ignore")
def _blockwise(function: Callable[[Tables, Real], Real], x: Real) -> Real:
    """`function` on blocks of x; NaN never enters it (0 stands in) and comes out as it should."""
    tables = BY_DTYPE[x.dtype]
    flat = np.ascontiguousarray(x).reshape(-1)
    result = np.empty_like(flat)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        nan = block != block
        value = function(tables, np.where(nan, tables.real(0), block))
        result[start : start + _BLOCK] = np.where(nan, tables.real(np.nan), value)
    return result.reshape(np.shape(x))


def exp(x: Real) -> Real:
    """e^x: overflow to infinity, gradual underflow."""
    return _blockwise(_exp, x)


def exp2(x: Real) -> Real:
    """2^x: overflow to infinity, gradual underflow; exact for whole x."""
    return _blockwise(_exp2, x)


def log(x: Real) -> Real:
    """Natural logarithm; -inf at zeros, NaN below."""
    return _blockwise(_log, x)


def log2(x: Real) -> Real:
    """Binary logarithm; -inf at zeros, NaN below; exact for powers of two."""
    return _blockwise(_log2, x)


def tanh(x: Real) -> Real:
    """Hyperbolic tangent; odd, zeros keep their sign."""
    return _blockwise(_tanh, x)


def erf(x: Real) -> Real:
    """Error function; odd, zeros keep their sign."""
    return _blockwise(_erf, x)


def sin(x: Real) -> Real:
    """Sine of any finite x; NaN for infinities, zeros keep their sign."""
    return _blockwise(_sin, x)


def cos(x: Real) -> Real:
    """Cosine of any finite x; NaN for infinities."""
    return _blockwise(_cos, x)
