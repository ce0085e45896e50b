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
# (atan(x) / x - 1) / z in z = x^2 for |x| <= tan(pi/8), and ln(erfc(x) e^(x^2) / t) in t - 7/16,
# t = 1 / (1 + x/2), for x >= 0.5; both for fp64, minimax fits for relative error of the result
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
ERFC = (
    -0.7550458267214988,
    1.317393369534841,
    0.2553566054958926,
    -0.32534922143584916,
    -0.2371328506217168,
    0.2167400806177182,
    0.23263252403882945,
    -0.23221304326814257,
    -0.23214805191143317,
    0.3162695158119209,
    0.1993989870300642,
    -0.4556044229719507,
    -0.0777771842829735,
    0.607748647886151,
    -0.19472835654182497,
    -0.6565063277468869,
    0.6186522331591958,
    0.4169376324250094,
    -1.0208638105121426,
    0.20323621205171927,
    1.0462080011923058,
    -0.8577586807020641,
    -0.5301669097492112,
    0.764540473586253,
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
def _erfc_tail(z: Any, x: Any) -> Any:
    """erfc of z >= 0.5 in fp64; NaN where x is NaN."""
    z = tl.where(z > 28.0, 28.0, z)
    t = 1.0 / (1.0 + 0.5 * z)
    square = z * z
    tail = t * tl.exp(_polynomial(t - 0.4375, ERFC) - square) * (1.0 - tl.fma(z, z, -square))
    return tl.where(x == x, tail, NAN)


@defined()
def erfc(x: Any) -> Any:
    """1 - erf(x), accurate where that is small."""
    a = _real(x)
    if a.dtype == dtypes.float64:
        return tl.where(a < 0.5, 1.0 - tl.erf(a), _erfc_tail(tl.maximum(a, 0.5), a))
    z = tl.abs(a)
    z = tl.where(z > 20.0, 20.0, z)
    t = 1.0 / (1.0 + 0.5 * z)
    p = 0.17087277 * t - 0.82215223
    p = p * t + 1.48851587
    p = p * t - 1.13520398
    p = p * t + 0.27886807
    p = p * t - 0.18628806
    p = p * t + 0.09678418
    p = p * t + 0.37409196
    p = p * t + 1.00002368
    p = p * t - 1.26551223
    square = z * z
    tail = t * tl.exp(p - square) * (1.0 - tl.fma(z, z, -square))
    return _like(tl.where(a < 1.0, 1.0 - tl.erf(a), tail), x)


@defined()
def erfinv(x: Any) -> Any:
    """Inverse of the error function (Giles, 2010)."""
    a = _real(x)
    w = -tl.log((1.0 - a) * (1.0 + a))
    u = w - 2.5
    p = 2.81022636e-08 * u + 3.43273939e-07
    p = p * u - 3.5233877e-06
    p = p * u - 4.39150654e-06
    p = p * u + 0.00021858087
    p = p * u - 0.00125372503
    p = p * u - 0.00417768164
    p = p * u + 0.246640727
    p = p * u + 1.50140941
    v = tl.sqrt(tl.maximum(w, 0.0)) - 3.0
    q = -0.000200214257 * v + 0.000100950558
    q = q * v + 0.00134934322
    q = q * v - 0.00367342844
    q = q * v + 0.00573950773
    q = q * v - 0.0076224613
    q = q * v + 0.00943887047
    q = q * v + 1.00167406
    q = q * v + 2.83297682
    inside = tl.where(w < 5.0, p, q) * a
    if a.dtype == dtypes.float64:  # Newton, where erfc is small on erfc
        for _ in tl.static_range(3):
            size = tl.abs(inside)
            error = tl.where(size < 0.5, tl.abs(a) - tl.erf(size), erfc(size) - (1.0 - tl.abs(a)))
            size = size + error * 0.8862269254527579 * tl.exp(size * size)
            inside = copysign(size, a)
    return _like(tl.where(tl.abs(a) == 1.0, a * INF, inside), x)


@defined()
def normcdf(x: Any) -> Any:
    """The normal distribution function."""
    return _like(0.5 * erfc(_real(x) * -0.7071067811865476), x)


@defined()
def ldexp(x: Any, exponent: Any) -> Any:
    """X times 2 to the exponent."""
    half = exponent >> 1
    value = _real(x)
    kind = value.dtype
    scaled = value * tl.exp2(tl.cast(half, kind))
    return _like(scaled * tl.exp2(tl.cast(exponent - half, kind)), x)


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
def llrint(x: Any) -> Any:
    """The nearest integer, ties to even, as int64."""
    return tl.rint(_real(x)).to(dtypes.int64)


@defined()
def rhypot(x: Any, y: Any) -> Any:
    """1 / hypot(x, y)."""
    return _like(1.0 / hypot(_real(x), _real(y)), x)
