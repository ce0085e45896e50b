"""Mathematical functions that kernels know from CUDA's libdevice, written in the language.

fp64 is computed in fp64, floats of any other type in fp32 and rounded once to their type; numbers count as fp32.
"""

from __future__ import annotations

from typing import Any

from . import builtins as tl
from . import dtypes
from .builtin import defined

LN2 = 0.6931471805599453
INF = float("inf")
NAN = float("nan")
PI = 3.141592653589793
# (atan(x) / x - 1) / z in z = x^2 for |x| <= tan(pi/8), for fp64: a minimax fit for relative error of the result
ATAN = (
    -0.333333333333332,
    0.19999999999954043,
    -0.14285714280244377,
    0.11111110785918671,
    -0.09090897829837516,
    0.07692061514691251,
    -0.06663118943284363,
    0.05847998110115557,
    -0.0503979547880799,
    0.0380770181329206,
    -0.017920820142044734,
)


@defined()
def _real(x: Any) -> Any:
    """What x is computed in: fp64 as it is, everything else as fp32."""
    kind = dtypes.float64 if x.dtype == dtypes.float64 else dtypes.float32
    return tl.cast(x, kind)


@defined()
def _polynomial(x: Any, coefficients: Any) -> Any:
    """Horner's scheme; the constant coefficient comes first."""
    result = x * 0.0 + coefficients[len(coefficients) - 1]
    for k in tl.static_range(len(coefficients) - 1):
        result = tl.fma(result, x, coefficients[len(coefficients) - 2 - k])
    return result


@defined()
def _like(value: Any, x: Any) -> Any:
    kind = x.dtype
    return value.to(kind) if kind.is_floating() else value


@defined()
def isnan(x: Any) -> Any:
    """True for NaN."""
    return x != x


@defined()
def isinf(x: Any) -> Any:
    """True for both infinities."""
    return tl.abs(_real(x)) == INF


@defined()
def isfinite(x: Any) -> Any:
    """True for everything but NaN and infinities."""
    return tl.abs(_real(x)) < INF


@defined()
def signbit(x: Any) -> Any:
    """True where the sign bit is set (-0.0 too)."""
    value = _real(x)
    kind = dtypes.int64 if value.dtype == dtypes.float64 else dtypes.int32
    return value.to(kind, bitcast=True) < 0


@defined()
def copysign(x: Any, y: Any) -> Any:
    """The magnitude of x with the sign of y."""
    size = tl.abs(_real(x))
    return _like(tl.where(signbit(y), -size, size), x)


@defined()
def round(x: Any) -> Any:
    """Round to the nearest integer, ties away from zero."""
    size = tl.abs(_real(x))
    whole = tl.trunc(size)
    return copysign(_like(tl.where(size - whole >= 0.5, whole + 1.0, whole), x), x)


@defined()
def fmod(x: Any, y: Any) -> Any:
    """Remainder of x / y with the sign of x."""
    return _like(_real(x) % _real(y), x)


@defined()
def fdim(x: Any, y: Any) -> Any:
    """X - y, or 0 where that is negative."""
    a, b = _real(x), _real(y)
    return _like(tl.where(a > b, a - b, tl.where(a <= b, 0.0, NAN)), x)


@defined()
def saturate(x: Any) -> Any:
    """X limited to [0, 1]; NaN gives 0."""
    return _like(tl.minimum(tl.maximum(_real(x), 0.0), 1.0), x)


@defined()
def rcp_rn(x: Any) -> Any:
    """1 / x, rounded to nearest even."""
    return _like(1.0 / _real(x), x)


@defined()
def add_rn(x: Any, y: Any) -> Any:
    """X + y, rounded to nearest even."""
    return x + y


@defined()
def sub_rn(x: Any, y: Any) -> Any:
    """X - y, rounded to nearest even."""
    return x - y


@defined()
def mul_rn(x: Any, y: Any) -> Any:
    """X * y, rounded to nearest even."""
    return x * y


@defined()
def log1p(x: Any) -> Any:
    """log(1 + x), accurate near 0."""
    a = _real(x)
    above = 1.0 + a
    step = above - 1.0
    plain = (step == 0.0) | (tl.abs(above) == INF)
    corrected = tl.log(above) * (a / tl.where(plain, 1.0, step))
    return _like(tl.where(plain, tl.where(step == 0.0, a, tl.log(above)), corrected), x)


@defined()
def expm1(x: Any) -> Any:
    """exp(x) - 1, accurate near 0."""
    a = _real(x)
    power = tl.exp(a)
    step = power - 1.0
    # where exp rounds to 1, below 2^-25, and where log is of no use
    plain = (power == 1.0) | (step == -1.0) | (power == INF)
    corrected = step * (a / tl.log(tl.where(plain, 2.0, power)))
    return _like(tl.where(plain, tl.where(power == 1.0, a, step), corrected), x)


@defined()
def log10(x: Any) -> Any:
    """Base-10 logarithm."""
    return _like(tl.log2(_real(x)) * 0.3010299956639812, x)


@defined()
def exp10(x: Any) -> Any:
    """10 to the x."""
    a = _real(x)
    if a.dtype == dtypes.float64:
        product = a * 3.321928094887362
        rest = tl.fma(a, 3.321928094887362, -product) + a * 1.661617516973592e-16
    else:
        product = a * 3.321928024291992
        rest = tl.fma(a, 3.321928024291992, -product) + a * 7.059542531678732e-08
    power = tl.exp2(product)
    fine = isfinite(power) & isfinite(rest)
    return _like(tl.where(fine, power + power * (rest * LN2), power), x)


@defined()
def _log2_parts(a: Any) -> Any:
    """Base-2 logarithm of a positive number as an integer and the logarithm of what is left, in [-0.5, 0.5]."""
    if a.dtype == dtypes.float64:
        tiny = a < 2.2250738585072014e-308
        pattern = tl.where(tiny, a * 18014398509481984.0, a).to(dtypes.int64, bitcast=True)
        power = (pattern - 0x3FE6A09E667F3BCD) >> 52
        rest = (pattern - (power << 52)).to(dtypes.float64, bitcast=True)
        return power.to(dtypes.float64) - tl.where(tiny, 54.0, 0.0), tl.log2(rest)
    small = a < 1.1754943508222875e-38
    bits = tl.where(small, a * 16777216.0, a).to(dtypes.int32, bitcast=True)
    shifted = bits - 0x3F3504F3  # sqrt(0.5)
    exponent = shifted >> 23
    mantissa = (bits - (exponent << 23)).to(dtypes.float32, bitcast=True)
    whole = exponent.to(dtypes.float32) - tl.where(small, 24.0, 0.0)
    return whole, tl.log2(mantissa)


@defined()
def pow(x: Any, y: Any) -> Any:
    """X to the y, as in C."""
    a, b = _real(x), _real(y)
    size = tl.abs(a)
    regular = (size > 0.0) & (size < INF)
    whole, part = _log2_parts(tl.where(regular, size, 1.0))
    high = b * whole
    low = b * part
    rest = tl.fma(b, whole, -high) + tl.fma(b, part, -low)
    total = high + low
    back = total - high
    rest = rest + ((high - (total - back)) + (low - back))  # what the sum has lost
    power = tl.exp2(total)
    fine = isfinite(power) & isfinite(rest)
    power = tl.where(fine, power + power * (rest * LN2), power)
    # 0, infinity and NaN
    edge = tl.where((size == 0.0) == (b < 0.0), INF, 0.0)
    power = tl.where(regular, power, tl.where(isnan(size), NAN, edge))
    odd = tl.abs(b - 2.0 * tl.floor(b * 0.5)) == 1.0
    integral = tl.floor(b) == b
    signed = tl.where(
        odd & (tl.abs(b) < (9007199254740992.0 if a.dtype == dtypes.float64 else 16777216.0)),
        -power,
        power,
    )
    invalid = (a < 0.0) & (size < INF) & (integral == 0)
    result = tl.where(signbit(a), tl.where(invalid, NAN, signed), power)
    huge = tl.where(size == 1.0, 1.0, tl.where((size > 1.0) == (b > 0.0), INF, 0.0))
    result = tl.where(isinf(b) & (size == size), huge, result)
    result = tl.where(isnan(b), NAN, result)
    return _like(tl.where((b == 0.0) | (a == 1.0), 1.0, result), x)


@defined()
def sinh(x: Any) -> Any:
    """Hyperbolic sine."""
    a = tl.abs(_real(x))
    above = expm1(a)
    half = tl.exp(a * 0.5)
    size = tl.where(a < 80.0, 0.5 * (above + above / (above + 1.0)), (0.5 * half) * half)
    return copysign(_like(size, x), x)


@defined()
def cosh(x: Any) -> Any:
    """Hyperbolic cosine."""
    half = tl.exp(tl.abs(_real(x)) * 0.5)
    return _like((0.5 * half) * half + (0.5 / half) / half, x)


@defined()
def asinh(x: Any) -> Any:
    """Inverse hyperbolic sine."""
    a = tl.abs(_real(x))
    near = log1p(a + a * a / (1.0 + tl.sqrt(a * a + 1.0)))
    return copysign(_like(tl.where(a < 1.0e18, near, tl.log(a) + LN2), x), x)


@defined()
def acosh(x: Any) -> Any:
    """Inverse hyperbolic cosine."""
    a = _real(x)
    over = a - 1.0
    near = log1p(over + tl.sqrt(2.0 * over + over * over))
    return _like(tl.where(a < 1.0e18, near, tl.log(a) + LN2), x)


@defined()
def atanh(x: Any) -> Any:
    """Inverse hyperbolic tangent."""
    a = tl.abs(_real(x))
    return copysign(_like(0.5 * log1p(2.0 * a / (1.0 - a)), x), x)


@defined()
def tan(x: Any) -> Any:
    """Tangent."""
    a = _real(x)
    return _like(tl.sin(a) / tl.cos(a), x)


@defined()
def _atan_positive(a: Any) -> Any:
    """Arc tangent of a number that is not negative: a polynomial on [0, tan(pi/8)]."""
    far = a > 2.414213562373095
    middle = (a > 0.4142135623730951) & (far == 0)
    reduced = tl.where(
        far, -1.0 / tl.where(far, a, 1.0), tl.where(middle, (a - 1.0) / (a + 1.0), a)
    )
    quarter = tl.cast(PI / 4, a.dtype)
    base = tl.where(far, quarter * 2.0, tl.where(middle, quarter, 0.0))
    z = reduced * reduced
    if a.dtype == dtypes.float64:
        series = _polynomial(z, ATAN)
    else:
        series = (
            (8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1
        ) * z - 3.33329491539e-1
    return base + (series * z * reduced + reduced)


@defined()
def atan(x: Any) -> Any:
    """Inverse tangent."""
    return copysign(_like(_atan_positive(tl.abs(_real(x))), x), x)


@defined()
def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), from -pi to pi."""
    a, b = tl.abs(_real(y)), tl.abs(_real(x))
    both = (a == INF) & (b == INF)
    ratio = tl.where(both, 1.0, tl.where((a == 0.0) & (b == 0.0), 0.0, a / b))
    angle = _atan_positive(ratio)
    angle = tl.where(signbit(x), PI - angle, angle)
    angle = tl.where(isnan(a) | isnan(b), NAN, angle)
    return copysign(_like(angle, y), y)


@defined()
def asin(x: Any) -> Any:
    """Inverse sine."""
    a = _real(x)
    return _like(atan2(a, tl.sqrt((1.0 - a) * (1.0 + a))), x)


@defined()
def acos(x: Any) -> Any:
    """Inverse cosine."""
    a = _real(x)
    return _like(atan2(tl.sqrt((1.0 - a) * (1.0 + a)), a), x)


@defined()
def sinpi(x: Any) -> Any:
    """sin(pi x)."""
    a = _real(x)
    return _like(tl.sin((a - 2.0 * tl.rint(a * 0.5)) * PI), x)


@defined()
def cospi(x: Any) -> Any:
    """cos(pi x)."""
    a = _real(x)
    return _like(tl.cos((a - 2.0 * tl.rint(a * 0.5)) * PI), x)


@defined()
def hypot(x: Any, y: Any) -> Any:
    """sqrt(x² + y²) without overflow on the way."""
    a, b = tl.abs(_real(x)), tl.abs(_real(y))
    large, small = tl.maximum(a, b), tl.minimum(a, b)
    plain = (large == 0.0) | (large == INF)
    ratio = small / tl.where(plain, 1.0, large)
    length = large * tl.sqrt(1.0 + ratio * ratio)
    bad = (isnan(a) | isnan(b)) & (large < INF)
    return _like(tl.where(bad, NAN, tl.where(plain, large, length)), x)


@defined()
def cbrt(x: Any) -> Any:
    """Cube root."""
    a = tl.abs(_real(x))
    plain = (a == 0.0) | (a == INF)
    safe = tl.where(plain, 1.0, a)
    root = tl.exp2(tl.log2(safe) * 0.3333333333333333)
    root = root - (root - safe / (root * root)) * 0.3333333333333333
    return copysign(_like(tl.where(plain, a, root), x), x)


@defined()
def rcbrt(x: Any) -> Any:
    """One over the cube root."""
    return _like(1.0 / cbrt(_real(x)), x)


@defined()
def ldexp(x: Any, exponent: Any) -> Any:
    """X times 2 to the exponent."""
    half = exponent >> 1
    value = _real(x)
    kind = value.dtype
    scaled = value * tl.exp2(tl.cast(half, kind))
    return _like(scaled * tl.exp2(tl.cast(exponent - half, kind)), x)


@defined()
def llrint(x: Any) -> Any:
    """The nearest integer, ties to even, as int64."""
    return tl.rint(_real(x)).to(dtypes.int64)


@defined()
def rhypot(x: Any, y: Any) -> Any:
    """1 / hypot(x, y)."""
    return _like(1.0 / hypot(_real(x), _real(y)), x)


@defined()
def llround(x: Any) -> Any:
    """The nearest integer, ties away from zero, as int64."""
    return round(_real(x)).to(dtypes.int64)


@defined()
def scalbn(x: Any, n: Any) -> Any:
    """X times 2 to the n."""
    return ldexp(x, n)


@defined()
def remainder(x: Any, y: Any) -> Any:
    """X - n y with n the integer nearest to x / y, ties to even."""
    a, b = _real(x), tl.abs(_real(y))
    rest = tl.abs(a) % tl.where(b == INF, INF, b)
    half = b * 0.5
    quotient_odd = (tl.abs(a) % (2.0 * b)) >= b
    up = (rest > half) | ((rest == half) & quotient_odd)
    size = tl.where(up & (b < INF), rest - b, rest)
    return _like(tl.where(a < 0.0, -size, size), x)


@defined()
def norm3d(x: Any, y: Any, z: Any) -> Any:
    """sqrt(x² + y² + z²) without overflow on the way."""
    return hypot(hypot(x, y), z)


@defined()
def norm4d(x: Any, y: Any, z: Any, t: Any) -> Any:
    """sqrt(x² + y² + z² + t²) without overflow on the way."""
    return hypot(hypot(x, y), hypot(z, t))


@defined()
def rnorm3d(x: Any, y: Any, z: Any) -> Any:
    """1 / norm3d(x, y, z)."""
    return _like(1.0 / norm3d(_real(x), _real(y), _real(z)), x)


@defined()
def rnorm4d(x: Any, y: Any, z: Any, t: Any) -> Any:
    """1 / norm4d(x, y, z, t)."""
    return _like(1.0 / norm4d(_real(x), _real(y), _real(z), _real(t)), x)
