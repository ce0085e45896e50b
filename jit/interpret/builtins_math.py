"""Interpreted builtins: elementwise functions and the matrix product."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import dtypes
from ..dtypes import dtype
from . import numeric, promote
from .errors import fail
from .registry import IMPLEMENTATIONS, METHODS, implements
from .tile import (
    InterpTile,
    add,
    bitwise,
    broadcast_shapes,
    broadcast_to,
    cast,
    floor_divide,
    is_number,
    multiply,
    number_type,
    operands,
    subtract,
    to_tile,
    unwrap,
)  # fmt: skip

Array = NDArray[Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])
_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "sqrt_rn": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": _erf,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "trunc": np.trunc,
}


def float_operand(x: Any, what: str) -> tuple[InterpTile, dtype]:
    """An operand that must be a float, and its type."""
    value = to_tile(x)
    kind = number_type(value)
    if not kind.is_floating():
        raise fail(f"{what} needs floats, not {kind}", f"convert first: {what}(x.to(dsa.float32))")
    return value, kind


def _real(name: str, function: Callable[[Array], Array]) -> Callable[[Any], InterpTile]:
    def run(x: Any) -> InterpTile:
        value, kind = float_operand(x, name)
        with numeric.quiet():
            return InterpTile(numeric.real(function, kind, value.data), kind)

    run.__name__ = run.__qualname__ = name
    return run


for _name, _function in _FUNCTIONS.items():
    IMPLEMENTATIONS[_name] = _real(_name, _function)
    METHODS.add(_name)


@implements("rsqrt", method=True)
def rsqrt(x: Any) -> InterpTile:
    """Two steps, each rounded to fp32."""
    value, kind = float_operand(x, "rsqrt")
    with numeric.quiet():
        return InterpTile(numeric.floats(lambda a: 1 / np.sqrt(a), kind, value.data), kind)


@implements("abs", method=True)
def absolute(x: Any) -> InterpTile:
    """See the language."""
    value = to_tile(x)
    kind = number_type(value)
    if kind.is_int_unsigned():
        return value
    with numeric.quiet():
        return InterpTile(np.asarray(np.abs(value.data), value.data.dtype), kind)


@implements("where")
def where(condition: Any, x: Any, y: Any) -> InterpTile:
    """See the language."""
    test = to_tile(condition)
    left, right = to_tile(x), to_tile(y)
    if left.dtype.is_ptr() or right.dtype.is_ptr():
        if left.dtype != right.dtype:
            raise fail(f"where of {left.dtype} and {right.dtype}")
        kind: Any = left.dtype
    else:
        left, right, kind = operands(x, y)
    shape = broadcast_shapes(test.shape, left.shape, right.shape)
    picked = np.where(
        np.broadcast_to(test.data != 0, shape),
        broadcast_to(left, shape).data,
        broadcast_to(right, shape).data,
    )
    return InterpTile(picked, kind)


def _keeps_nan(propagate_nan: Any) -> bool:
    return str(unwrap(propagate_nan)).lower().endswith("all")


def _extreme(x: Any, y: Any, propagate_nan: Any, largest: bool) -> InterpTile:
    left, right, kind = operands(x, y)
    picked = numeric.minimum(left.data, right.data, _keeps_nan(propagate_nan), largest)
    return InterpTile(np.asarray(picked, left.data.dtype), kind)


@implements("maximum")
def maximum(x: Any, y: Any, propagate_nan: Any = None) -> InterpTile:
    """See the language."""
    return _extreme(x, y, propagate_nan, True)


@implements("minimum")
def minimum(x: Any, y: Any, propagate_nan: Any = None) -> InterpTile:
    """See the language."""
    return _extreme(x, y, propagate_nan, False)


@implements("clamp")
def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = None) -> InterpTile:
    """See the language."""
    return minimum(maximum(x, min, propagate_nan), max, propagate_nan)


@implements("fma")
def fma(x: Any, y: Any, z: Any) -> InterpTile:
    """See the language."""
    _, _, first = operands(x, y)
    a, b, c = (to_tile(v) for v in (x, y, z))
    try:
        kind = promote.arithmetic(
            first, False, number_type(c), not isinstance(unwrap(z), InterpTile), False
        )
    except promote.PromotionError as error:
        raise fail(str(error)) from None
    a, b, c = (
        to_tile(v, kind) if is_number(unwrap(v)) else cast(to_tile(v), kind) for v in (x, y, z)
    )
    broadcast_shapes(a.shape, b.shape, c.shape)
    if not kind.is_floating():
        return add(multiply(a, b), c)
    with numeric.quiet():
        return InterpTile(numeric.fma(a.data, b.data, c.data, kind), kind)


@implements("fdiv")
def fdiv(x: Any, y: Any, ieee_rounding: Any = False) -> InterpTile:
    """See the language."""
    return div_rn(x, y)


@implements("div_rn")
def div_rn(x: Any, y: Any) -> InterpTile:
    """See the language."""
    left, right, kind = operands(x, y)
    if not kind.is_floating():
        raise fail(f"division of floats needs floats, not {kind}", "use /")
    with numeric.quiet():
        return InterpTile(numeric.floats(np.divide, kind, left.data, right.data), kind)


@implements("umulhi")
def umulhi(x: Any, y: Any) -> InterpTile:
    """See the language."""
    left, right, kind = operands(x, y)
    if not kind.is_int() or kind.primitive_bitwidth < 32:
        raise fail(f"umulhi needs 32- or 64-bit integers, not {kind}")
    bits = kind.primitive_bitwidth
    unsigned = np.dtype(f"u{bits // 8}")
    a, b = (v.data.astype(unsigned).astype(object) for v in (left, right))
    high = np.asarray((a * b) >> bits).astype(unsigned)
    return InterpTile(high.astype(left.data.dtype), kind)


@implements("cdiv", method=True)
def cdiv(x: Any, div: Any) -> Any:
    """See the language."""
    x, div = unwrap(x), unwrap(div)
    if isinstance(x, int) and isinstance(div, int):
        return -(-x // div)
    return floor_divide(subtract(add(x, div), 1), div)


@implements("next_power_of_2")
def next_power_of_2(n: Any) -> int:
    """See the language."""
    n = unwrap(n)
    if not isinstance(n, int):
        raise fail("next_power_of_2 needs a compile-time integer")
    return 1 << (n - 1).bit_length() if n > 1 else 1


def _truth(x: Any) -> InterpTile:
    return cast(to_tile(x), dtypes.int1)


@implements("logical_and", method=True)
def logical_and(x: Any, y: Any) -> InterpTile:
    """See the language."""
    return bitwise(_truth(x), _truth(y), np.bitwise_and)


@implements("logical_or", method=True)
def logical_or(x: Any, y: Any) -> InterpTile:
    """See the language."""
    return bitwise(_truth(x), _truth(y), np.bitwise_or)


@implements("logical_not", method=True)
def logical_not(x: Any) -> InterpTile:
    """See the language."""
    value = _truth(x)
    return InterpTile(~value.data, dtypes.int1)


def _check_accumulator(operand: dtype, acc: dtype) -> None:
    floats = (dtypes.float32, dtypes.bfloat16, dtypes.float16)
    allowed = {dtypes.int8: (dtypes.int32,), dtypes.float64: (dtypes.float64,)}.get(operand, floats)
    if acc not in allowed:
        names = " or ".join(str(kind) for kind in allowed)
        raise fail(f"dot of {operand} accumulates in {names}, not {acc}", "convert acc first")


@implements("dot")
def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = dtypes.float32,
) -> InterpTile:
    """acc + input · other; the sum is made in float64 (exact integers) and rounded once."""
    a, b = to_tile(input), to_tile(other)
    kind_a, kind_b = number_type(a), number_type(b)
    if kind_a != kind_b and not (kind_a.is_fp8() and kind_b.is_fp8()):
        raise fail(f"dot of {kind_a} and {kind_b}: the types must be equal")
    if len(a.shape) != len(b.shape) or len(a.shape) not in (2, 3):
        raise fail(f"dot takes two tiles of rank 2 or two of rank 3, not {a.shape} and {b.shape}")
    if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        raise fail(f"dot of shapes {a.shape} and {b.shape}: the inner dims differ")
    if kind_a.is_int() and kind_a != dtypes.int8:
        raise fail(f"dot takes int8 or floats, not {kind_a}", "convert with .to(...)")
    wanted = dtypes.int32 if kind_a.is_int() else unwrap(out_dtype)
    if kind_a == dtypes.float64:
        wanted = dtypes.float64
    shape = (*a.shape[:-1], b.shape[-1])
    start = unwrap(acc)
    if start is not None and not isinstance(start, InterpTile):
        start = to_tile(start)
    if start is not None:
        if isinstance(unwrap(acc), InterpTile):
            _check_accumulator(kind_a, number_type(start))
            wanted = number_type(start)
        if start.shape not in ((), shape):
            raise fail(f"dot: the accumulator has shape {start.shape}, the product {shape}")
    with numeric.quiet():
        if kind_a.is_int():
            total = a.data.astype(np.int64) @ b.data.astype(np.int64)
            total = total + (0 if start is None else start.data.astype(np.int64))
            return InterpTile(total.astype(np.int32), dtypes.int32)
        exact = a.data.astype(np.float64) @ b.data.astype(np.float64)
        exact = exact + (0.0 if start is None else start.data.astype(np.float64))
        return InterpTile(numeric.narrow64(exact, wanted), wanted)
