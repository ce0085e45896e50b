"""Special functions from CUDA's libdevice, written in the language: error functions, gamma functions, their inverses."""

from __future__ import annotations

from typing import Any

from . import builtins as tl
from . import dtypes
from .builtin import defined
from .libdevice import _like, _polynomial, _real, copysign, isnan

INF = float("inf")
NAN = float("nan")
PI = 3.141592653589793
SQRT_HALF_PI = 1.2533141373155003
# ln(erfc(x) e^(x^2) / t) in t - 7/16, t = 1 / (1 + x/2), for x >= 0.5, in fp64: a minimax fit
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
# ln(gamma(y)) - ((y - 1/2) ln y - y + ln(2 pi)/2) = y^-1 * P(y^-2): Stirling's series
STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)
HALF_LOG_2PI = 0.9189385332046728


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
def erfcx(x: Any) -> Any:
    """erfc(x) e^(x^2); computed in fp64."""
    a = tl.cast(x, dtypes.float64)
    z = tl.maximum(a, 0.5)
    t = 1.0 / (1.0 + 0.5 * z)
    tail = t * tl.exp(_polynomial(t - 0.4375, ERFC))
    tail = tl.where(z > 1.0e8, 0.5641895835477563 / z, tail)
    return _like(
        tl.where(a < 0.5, tl.exp(a * a) * (1.0 - tl.erf(a)), tl.where(isnan(a), a, tail)), x
    )


@defined()
def erfcinv(x: Any) -> Any:
    """Inverse of erfc; computed in fp64."""
    y = tl.cast(x, dtypes.float64)
    small = tl.where(y > 1.0, 2.0 - y, y)
    safe = tl.where((small > 0.0) & (small < 1.0), small, 0.5)
    # e^(-r^2) / (r sqrt(pi)) = y to start with, then Newton's steps on the logarithm of erfc
    log = -tl.log(safe)
    root = tl.sqrt(tl.maximum(log - 0.5 * tl.log(PI * tl.maximum(log, 0.4)), 0.01))
    for _ in range(6):
        scaled = erfcx(root)
        error = tl.log(scaled) - root * root + log
        root = root + error * scaled * 0.8862269254527579
    inside = tl.where(
        small == 1.0, 0.0, tl.where(small == 0.0, INF, tl.where(small > 0.0, root, NAN))
    )
    return _like(tl.where(y > 1.0, -inside, inside), x)


@defined()
def normcdfinv(x: Any) -> Any:
    """Inverse of the normal distribution function; computed in fp64."""
    return _like(erfcinv(tl.cast(x, dtypes.float64) * 2.0) * -1.4142135623730951, x)


@defined()
def _log_gamma(y: Any) -> Any:
    """ln(gamma(y)) of fp64 y >= 0.5: moved up to 10 where Stirling's series is good."""
    low = tl.where(y < 10.0, y, 1.0)
    product = low
    for k in range(1, 10):
        product = product * (low + k)
    above = tl.where(y < 10.0, y + 10.0, y)
    inverse = 1.0 / above
    series = inverse * _polynomial(inverse * inverse, STIRLING)
    stirling = (above - 0.5) * tl.log(above) - above + HALF_LOG_2PI + series
    return tl.where(y == INF, INF, stirling - tl.where(y < 10.0, tl.log(product), 0.0))


@defined()
def _sine_of_pi(a: Any) -> Any:
    """sin(pi a) of fp64, exactly 0 at whole numbers."""
    return tl.sin((a - 2.0 * tl.rint(a * 0.5)) * PI) * (tl.rint(a) != a).to(dtypes.float64)


@defined()
def lgamma(x: Any) -> Any:
    """Logarithm of |gamma(x)|; computed in fp64, near its zeros up to 5e-15."""
    a = tl.cast(x, dtypes.float64)
    upper = _log_gamma(tl.where(a < 0.5, 1.0 - a, a))
    finite = tl.where(tl.abs(a) == INF, 0.25, a)
    mirrored = tl.log(PI / tl.abs(_sine_of_pi(finite))) - upper
    result = tl.where(a < 0.5, tl.where(a == -INF, INF, mirrored), upper)
    return _like(tl.where(a != a, a, result), x)


@defined()
def tgamma(x: Any) -> Any:
    """The gamma function; computed in fp64, where large results have a relative error up to 1e-13."""
    a = tl.cast(x, dtypes.float64)
    upper = tl.exp(_log_gamma(tl.where(a < 0.5, 1.0 - a, a)))
    finite = tl.where(tl.abs(a) == INF, 0.25, a)
    mirrored = PI / (_sine_of_pi(finite) * upper)
    pole = (a == tl.floor(a)) & (a < 0.0)
    result = tl.where(a < 0.5, tl.where(pole, NAN, mirrored), upper)
    result = tl.where(a == 0.0, 1.0 / a, result)
    return _like(tl.where(a != a, a, result), x)
