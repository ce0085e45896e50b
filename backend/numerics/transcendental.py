"""exp, exp2, log, log2, tanh, erf, sin, cos in fp32: range reduction and polynomials with fma.

Every step is one fp32 operation (or integer operation) in the order written; the constants, in
hexadecimal, are part of the machine's definition. Only sine and cosine leave fp32: their reduction is
a 64-bit integer product and one fp64 multiplication.

The reductions are the textbook ones (Muller, *Elementary Functions*; Cody and Waite 1980; Payne and
Hanek 1983 for the trigonometric one). The coefficients are our own minimax fits, made for relative
error and rounded to fp32 one after the other, the lowest degree first.

NaN operands give NaN. Errors measured over all of fp32 stand in `docs/numerics.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .fma import fma32

F32 = npt.NDArray[np.float32]
Array = npt.NDArray[Any]

_BLOCK = 1 << 15
"""Elements worked on at a time, so that intermediates stay in the host's cache."""


def _constants(text: str) -> tuple[np.float32, ...]:
    return tuple(np.float32(float.fromhex(word)) for word in text.split())


_NAN, _INF = np.float32(np.nan), np.float32(np.inf)
_ZERO, _HALF, _ONE, _TWO = (np.float32(v) for v in (0, 0.5, 1, 2))
_LOG2_E, _LOG2_E_LOW = _constants("0x1.715476p+0 0x1.4ae0cp-26")
# ln 2 with a high part of 16 bits, so that its product with an exponent is exact
_LN2_HIGH, _LN2_LOW = _constants("0x1.62e4p-1 0x1.7f7d1cp-20")
_EXP_MIN, _EXP_MAX = np.float32(-104), np.float32(89)
_EXP2_MIN, _EXP2_MAX = np.float32(-151), np.float32(129)

# (e^r - 1 - r) / r^2 for |r| <= ln(2)/2
_EXP = _constants("0x1.fffffcp-2 0x1.555492p-3 0x1.5558aep-5 0x1.12397ep-7 0x1.6a4f14p-10")
# (2^r - 1) / r for |r| <= 1/2
_EXP2 = _constants(
    "0x1.62e43p-1 0x1.ebfbep-3 0x1.c6b06ep-5 0x1.3b2a5cp-7 0x1.5da594p-10 0x1.440e5ap-13"
    " 0x1.e087ap-17"
)
# (ln(1 + f) - f + f^2/2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2)
_LOG = _constants(
    "0x1.555548p-2 -0x1.000006p-2 0x1.99a476p-3 -0x1.555c46p-3 0x1.233ba8p-3 -0x1.fc2886p-4"
    " 0x1.e6bf3ap-4 -0x1.de02bcp-4 0x1.14760cp-4"
)
# (tanh(a) / a - 1) / a^2 in z = a^2 for a <= 0.7
_TANH_SPLIT = np.float32(0.6875)
_TANH = _constants(
    "-0x1.55555p-2 0x1.110f52p-3 -0x1.b9bb3cp-5 0x1.617fecp-6 -0x1.02972ap-7 0x1.f2551cp-10"
)
# erf(a) / a - 1 in z = a^2 for a <= 0.93
_ERF_SPLIT = np.float32(0.92578125)
_ERF = _constants(
    "0x1.06eba8p-3 -0x1.81274p-2 0x1.ce2d64p-4 -0x1.b8011ap-6 0x1.544a1ap-8 -0x1.a60a2ep-11"
    " 0x1.4f676p-14"
)
# ln(1 - erf(a)) for 0.92 <= a <= 3.95
_ERF_TAIL = _constants(
    "0x1.6e57b8p-13 -0x1.2127e4p+0 -0x1.44460cp-1 -0x1.bb83ep-4 0x1.9b8e66p-6 -0x1.115a98p-8"
    " 0x1.c7903ep-12 -0x1.61e8eap-16"
)
# (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2/2) / r^4 in z = r^2 for |r| <= pi/4
_SIN = _constants("-0x1.555556p-3 0x1.111174p-7 -0x1.a0595cp-13 0x1.7c3274p-19")
_COS = _constants("0x1.55554ap-5 -0x1.6c0c2ap-10 0x1.99e91p-16")
_QUARTER_PI = np.float32(float.fromhex("0x1.921fb6p-1"))
_QUADRANT = float.fromhex("0x1.921fb54442d18p-64")  # pi/2 * 2^-64, fp64

TWO_OVER_PI = 0xA2F9836E_4E441529_FC2757D1_F534DDC0_DB629599_3C439041_FE5163AB_DEBBC561
"""floor(2/pi * 2^256)."""


def _two_over_pi_words() -> npt.NDArray[np.uint64]:
    """Row E: floor(2/pi * 2^(E - 56)) mod 2^96 as three 32-bit words, the highest first."""
    windows = [(TWO_OVER_PI >> (312 - e)) & ((1 << 96) - 1) for e in range(256)]
    mask = (1 << 32) - 1
    words = [[window >> 64, (window >> 32) & mask, window & mask] for window in windows]
    return np.array(words, np.uint64)


_TWO_OVER_PI_WORDS = _two_over_pi_words()


def _polynomial(x: F32, coefficients: Sequence[np.float32]) -> F32:
    """Horner's scheme, one fma per step; `coefficients` start with the constant one."""
    result: F32 = np.broadcast_to(coefficients[-1], x.shape)
    for coefficient in coefficients[-2::-1]:
        result = fma32(result, x, coefficient)
    return result


def _scale(x: F32, n: F32) -> F32:
    """x * 2^n for whole n in [-151, 129], in two steps so that only the last one can be inexact."""
    whole = n.astype(np.int32)
    first = whole >> 1
    for part in (first, whole - first):
        x = x * ((part + 127) << 23).view(np.float32)
    return x


def _clamp(x: F32, low: np.float32, high: np.float32) -> F32:
    return np.where(x > high, high, np.where(x < low, low, x))


def _exp(x: F32) -> F32:
    x = _clamp(x, _EXP_MIN, _EXP_MAX)
    n = np.rint(x * _LOG2_E)
    r = fma32(n, -_LN2_LOW, fma32(n, -_LN2_HIGH, x))
    power: F32 = fma32(r * r, _polynomial(r, _EXP), r) + _ONE
    return _scale(power, n)


def _exp2(x: F32) -> F32:
    x = _clamp(x, _EXP2_MIN, _EXP2_MAX)
    n = np.rint(x)
    r = x - n
    return _scale(fma32(r, _polynomial(r, _EXP2), _ONE), n)


def _split_log(x: F32) -> tuple[F32, F32]:
    """Positive finite x = 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)): (e, f), both exact."""
    tiny = x < np.float32(2.0**-126)
    pattern = np.where(tiny, x * np.float32(2.0**23), x).view(np.int32)
    e = (pattern - np.int32(0x3F3504F3)) >> 23
    mantissa = (pattern - (e << 23)).view(np.float32)
    return (e - np.where(tiny, np.int32(23), np.int32(0))).astype(np.float32), mantissa - _ONE


def _log_rest(f: F32) -> F32:
    """ln(1 + f) - f."""
    return fma32(_HALF * f, -f, f * f * f * _polynomial(f, _LOG))


def _log_special(x: F32, result: F32) -> F32:
    """The logarithm's values outside the positive finite numbers."""
    result = np.where(x == _INF, _INF, result)
    result = np.where(x == _ZERO, -_INF, result)
    return np.where(x < _ZERO, _NAN, result)


def _usual_log_operand(x: F32) -> F32:
    return np.where((x > _ZERO) & (x < _INF), x, _ONE)


def _log(x: F32) -> F32:
    e, f = _split_log(_usual_log_operand(x))
    rest = fma32(e, _LN2_LOW, _log_rest(f))
    return _log_special(x, fma32(e, _LN2_HIGH, f + rest))


def _log2(x: F32) -> F32:
    e, f = _split_log(_usual_log_operand(x))
    rest = fma32(_log_rest(f), _LOG2_E, f * _LOG2_E_LOW)
    return _log_special(x, e + fma32(f, _LOG2_E, rest))


def _with_sign(magnitude: F32, x: F32) -> F32:
    sign = x.view(np.uint32) & np.uint32(0x8000_0000)
    result: F32 = (magnitude.view(np.uint32) ^ sign).view(np.float32)
    return result


def _tanh(x: F32) -> F32:
    a = _clamp(np.abs(x), _ZERO, np.float32(10))
    z = a * a
    small = fma32(a * z, _polynomial(z, _TANH), a)
    large = _ONE - _TWO / (_exp(_TWO * a) + _ONE)
    return _with_sign(np.where(a < _TANH_SPLIT, small, large), x)


def _erf(x: F32) -> F32:
    a = _clamp(np.abs(x), _ZERO, np.float32(4))
    small = fma32(a, _polynomial(a * a, _ERF), a)
    large = _ONE - _exp(_polynomial(a, _ERF_TAIL))
    return _with_sign(np.where(a < _ERF_SPLIT, small, large), x)


def _reduce_quadrant(a: F32) -> tuple[npt.NDArray[np.int32], F32, F32]:
    """a >= 0 finite as q * pi/2 + r + r_low with |r| <= pi/4: (q mod 4, r, r_low).

    The significand times the 96 bits of 2/pi that matter at its exponent is a * 2/pi mod 4 in fixed
    point with 62 fraction bits, its error below 2^-61. No fp32 comes
    closer to a multiple of pi/2 than 2^-30 times pi/2.
    """
    pattern = a.view(np.uint32)
    exponent = pattern >> np.uint32(23)
    m = ((pattern & np.uint32(0x7F_FFFF)) | np.uint32(0x80_0000)).astype(np.uint64)
    high, middle, low = (_TWO_OVER_PI_WORDS[exponent, k] for k in range(3))
    fixed = ((m * high) << np.uint64(32)) + m * middle + ((m * low) >> np.uint64(32))
    quadrant = ((fixed + np.uint64(1 << 61)) >> np.uint64(62)).astype(np.int32)
    fraction = (fixed << np.uint64(2)).view(np.int64)
    exact = fraction.astype(np.float64) * _QUADRANT
    r = exact.astype(np.float32)
    r_low = (exact - r.astype(np.float64)).astype(np.float32)
    near = a <= _QUARTER_PI
    return (
        np.where(near, np.int32(0), quadrant),
        np.where(near, a, r),
        np.where(near, _ZERO, r_low),
    )


def _sine_of(quadrant: npt.NDArray[np.int32], r: F32, r_low: F32) -> F32:
    """sin(quadrant * pi/2 + r + r_low)."""
    z = r * r
    sine = r + fma32(r * z, _polynomial(z, _SIN), r_low)
    half = _HALF * z
    base = _ONE - half
    rest = fma32(-r, r_low, (_ONE - base) - half)
    cosine = base + fma32(z * z, _polynomial(z, _COS), rest)
    result = np.where((quadrant & 1) != 0, cosine, sine)
    return np.where((quadrant & 2) != 0, -result, result)


def _sin(x: F32) -> F32:
    quadrant, r, r_low = _reduce_quadrant(np.abs(x))
    result = _with_sign(_sine_of(quadrant, r, r_low), x)
    return np.where(np.abs(x) < _INF, result, _NAN)


def _cos(x: F32) -> F32:
    quadrant, r, r_low = _reduce_quadrant(np.abs(x))
    return np.where(np.abs(x) < _INF, _sine_of(quadrant + 1, r, r_low), _NAN)


@np.errstate(all="ignore")
def _blockwise(function: Callable[[F32], F32], x: F32) -> F32:
    """`function` on blocks of x; NaN never enters it (0 stands in) and comes out as it should."""
    flat = np.ascontiguousarray(x).reshape(-1)
    result = np.empty_like(flat)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        nan = block != block
        value = function(np.where(nan, _ZERO, block))
        result[start : start + _BLOCK] = np.where(nan, _NAN, value)
    return result.reshape(np.shape(x))


def exp(x: F32) -> F32:
    """e^x: overflow to infinity, gradual underflow."""
    return _blockwise(_exp, x)


def exp2(x: F32) -> F32:
    """2^x: overflow to infinity, gradual underflow; exact for whole x."""
    return _blockwise(_exp2, x)


def log(x: F32) -> F32:
    """Natural logarithm; -inf at zeros, NaN below."""
    return _blockwise(_log, x)


def log2(x: F32) -> F32:
    """Binary logarithm; -inf at zeros, NaN below; exact for powers of two."""
    return _blockwise(_log2, x)


def tanh(x: F32) -> F32:
    """Hyperbolic tangent; odd, zeros keep their sign."""
    return _blockwise(_tanh, x)


def erf(x: F32) -> F32:
    """Error function; odd, zeros keep their sign."""
    return _blockwise(_erf, x)


def sin(x: F32) -> F32:
    """Sine of any finite x; NaN for infinities, zeros keep their sign."""
    return _blockwise(_sin, x)


def cos(x: F32) -> F32:
    """Cosine of any finite x; NaN for infinities."""
    return _blockwise(_cos, x)
