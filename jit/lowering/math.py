"""Elementwise functions."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from .. import dtypes
from ..dtypes import dtype
from ..parse.emit import Emitter
from ..semantics import (
    broadcast,
    cast,
    common_shape,
    materialise,
    numeric,
    shape_of_operand,
    to_dtype_and_shape,
    unify,
)
from ..semantics_operators import binary, logical, logical_not
from ..values import (
    Operand,
    Static,
    Value,
    describe,
    fail,
    is_number,
    static,
    static_int,
    to_python,
    wrap,
)


def _float(em: Emitter, operand: Operand, name: str) -> Value:
    """A float value; Python numbers become fp32."""
    if is_number(operand):
        return materialise(em, operand, name, dtypes.float32)
    value = materialise(em, operand, f"the argument of {name}")
    if not (isinstance(value.dtype, dtype) and value.dtype.is_floating()):
        fail(f"{name} takes floats, not {value.type}", "convert with .to(tl.float32)")
    return value


def _float_function(name: str, fn: str) -> Callable[..., Operand]:
    def lower(em: Emitter, x: Operand) -> Operand:
        return em.map(fn, [_float(em, x, name)])

    return lower


def sigmoid(em: Emitter, x: Operand) -> Operand:
    """1 / (1 + exp(-x)), computed in fp32 for narrower floats."""
    value = _float(em, x, "sigmoid")
    real = dtypes.float64 if value.dtype == dtypes.float64 else dtypes.float32
    wide = cast(em, value, real)
    one = em.constant(1.0, real, wide.shape)
    power = em.map("fexp", [em.map("fneg", [wide])])
    return cast(em, em.map("fdiv", [one, em.map("fadd", [one, power])]), value.dtype)


def absolute(em: Emitter, x: Operand) -> Operand:
    """Absolute value of ints and floats."""
    known, number = to_python(x)
    if known and is_number(x):
        return wrap(builtins.abs(number))
    value = materialise(em, x, "the argument of abs")
    if not isinstance(value.dtype, dtype):
        fail(f"abs takes numbers, not {value.type}")
    if value.dtype.is_floating():
        return em.map("fabs", [value])
    return em.map("iabs", [value]) if value.dtype.signed else value


def where(em: Emitter, condition: Operand, x: Operand, y: Operand) -> Operand:
    """Choose element by element."""
    mask = cast(em, materialise(em, condition, "the condition of where"), dtypes.int1)
    a, b = numeric(x, "the second argument of where"), numeric(y, "the third argument of where")
    shape = common_shape(mask.shape, common_shape(shape_of_operand(a), shape_of_operand(b)))
    values = [broadcast(em, v, shape) for v in unify_scalars(em, [a, b], shape)]
    return em.map("select", [broadcast(em, mask, shape), *values])


def unify_scalars(
    em: Emitter, operands: list[Value | Static], shape: tuple[int, ...]
) -> list[Value]:
    """Operands of one promoted type; numbers directly in the final shape, so they are one constant."""
    if all(isinstance(operand, Static) for operand in operands):
        element = unify(em, operands)[0].dtype
        return [to_dtype_and_shape(em, operand, element, shape) for operand in operands]
    return unify(em, operands)


def _propagates(propagate_nan: Operand) -> bool:
    value = static(propagate_nan, "propagate_nan")
    text = str(getattr(value, "name", value)).lower()
    if value is not None and text not in ("all", "none"):
        fail(f"propagate_nan is PropagateNan.ALL or NONE, not {describe(propagate_nan)}")
    return text == "all"


def _extreme(name: str, short: str) -> Callable[..., Operand]:
    def lower(em: Emitter, x: Operand, y: Operand, propagate_nan: Operand) -> Operand:
        operands = [
            numeric(x, f"the first argument of {name}"),
            numeric(y, f"the second argument of {name}"),
        ]
        if all(isinstance(o, Static) for o in operands):
            pick = builtins.min if short == "min" else builtins.max
            return wrap(pick(o.value for o in operands if isinstance(o, Static)))
        return extreme_of(em, short, unify(em, operands), _propagates(propagate_nan))

    return lower


def extreme_of(em: Emitter, short: str, values: list[Value], propagates: bool) -> Value:
    """`min` or `max` of values of one type and shape."""
    element = values[0].dtype
    if not isinstance(element, dtype):
        fail(f"{short}imum does not apply to {element}")
    if element.is_floating():
        return em.map(f"f{short}" if propagates else f"f{short}num", values)
    return em.map(("s" if element.signed else "u") + short, values)


maximum = _extreme("maximum", "max")
minimum = _extreme("minimum", "min")


def clamp(em: Emitter, x: Operand, min: Operand, max: Operand, propagate_nan: Operand) -> Operand:
    """X limited to an interval."""
    operands = [numeric(o, "an argument of clamp") for o in (x, min, max)]
    value, low, high = unify(em, operands)
    propagates = _propagates(propagate_nan)
    raised = extreme_of(em, "max", [value, low], propagates)
    return extreme_of(em, "min", [raised, high], propagates)


def fma(em: Emitter, x: Operand, y: Operand, z: Operand) -> Operand:
    """X * y + z; one rounding on floats."""
    a, b, c = unify(em, [numeric(o, "an argument of fma") for o in (x, y, z)])
    if isinstance(a.dtype, dtype) and a.dtype.is_floating():
        return em.map("ffma", [a, b, c])
    return binary(em, "+", binary(em, "*", a, b), c)


def fdiv(em: Emitter, x: Operand, y: Operand, ieee_rounding: Operand) -> Operand:
    """Division of floats."""
    return div_rn(em, x, y)


def div_rn(em: Emitter, x: Operand, y: Operand) -> Operand:
    """Division of floats; the machine's division is correctly rounded."""
    a, b = numeric(x, "the dividend"), numeric(y, "the divisor")
    values = unify(em, [a, b])
    element = values[0].dtype
    if not (isinstance(element, dtype) and element.is_floating()):
        fail(f"fdiv takes floats, not {element}", "use x / y, or convert with .to(tl.float32)")
    return em.map("fdiv", values)


def umulhi(em: Emitter, x: Operand, y: Operand) -> Operand:
    """High half of an unsigned product."""
    a, b = unify(em, [numeric(o, "an argument of umulhi") for o in (x, y)])
    if not (isinstance(a.dtype, dtype) and a.dtype.is_int() and a.dtype.primitive_bitwidth >= 32):
        fail(f"umulhi takes 32- or 64-bit integers, not {a.type}")
    return em.map("umulhi", [a, b])


def cdiv(em: Emitter, x: Operand, div: Operand) -> Operand:
    """X / div rounded up."""
    known_x, a = to_python(x)
    known_d, b = to_python(div)
    if known_x and known_d:
        if not (isinstance(a, int) and isinstance(b, int)) or b == 0:
            fail(f"cdiv takes integers and a divisor that is not 0, not {a!r} and {b!r}")
        return Static(-(-a // b))
    above = binary(em, "-", binary(em, "+", x, div), Static(1))
    return binary(em, "//", above, div)


def next_power_of_2(em: Emitter, n: Operand) -> Operand:
    """Of a compile-time integer."""
    number = static_int(n, "the argument of next_power_of_2")
    return Static(1 << (number - 1).bit_length() if number > 1 else 1)


def _logical(symbol: str) -> Callable[..., Operand]:
    def lower(em: Emitter, x: Operand, y: Operand) -> Operand:
        return logical(em, symbol, x, y)

    return lower


def _not(em: Emitter, x: Operand) -> Operand:
    return logical_not(em, x)


_FLOAT: dict[str, str] = {
    "exp": "fexp", "exp2": "fexp2", "log": "flog", "log2": "flog2", "sqrt": "fsqrt",
    "sqrt_rn": "fsqrt", "rsqrt": "frsqrt", "sin": "fsin", "cos": "fcos", "tanh": "ftanh",
    "erf": "ferf", "floor": "ffloor", "ceil": "fceil", "rint": "fround", "trunc": "ftrunc",
}  # fmt: skip

TABLE: dict[str, Callable[..., Any]] = {
    **{name: _float_function(name, fn) for name, fn in _FLOAT.items()},
    "sigmoid": sigmoid, "abs": absolute, "where": where, "maximum": maximum, "minimum": minimum,
    "clamp": clamp, "fma": fma, "fdiv": fdiv, "div_rn": div_rn, "umulhi": umulhi, "cdiv": cdiv,
    "next_power_of_2": next_power_of_2, "logical_and": _logical("and"),
    "logical_or": _logical("or"), "logical_not": _not,
}  # fmt: skip
