"""Python's operators on kernel values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dsalang._backend.dialects import tile

from . import dtypes, libdevice
from .dtypes import dtype
from .semantics import (
    broadcast,
    cast,
    common_shape,
    constant,
    materialise,
    numeric,
    shape_of_operand,
    unify,
)
from .values import Operand, Static, Value, describe, fail, is_number, to_python, wrap

if TYPE_CHECKING:
    from .parse.emit import Emitter

MAX_STATIC_BITS = 1 << 16
"""Compile-time integers stay below this many bits."""

MAX_TUPLE = 1 << 16
"""Tuples that an operator makes stay below this many values."""

PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "<<": operator.lshift,
    ">>": operator.rshift, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip

ARITHMETIC = {"+": ("fadd", "iadd"), "-": ("fsub", "isub"), "*": ("fmul", "imul")}
BITWISE = {"&": "iand", "|": "ior", "^": "ixor"}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def binary(em: Emitter, symbol: str, left: Operand, right: Operand) -> Operand:
    """`left symbol right` for arithmetic, bitwise and comparison operators."""
    known_left, a = to_python(left)
    known_right, b = to_python(right)
    if known_left and known_right:
        return fold(symbol, a, b)
    if isinstance(left, tuple) or isinstance(right, tuple):
        return _of_tuples(symbol, left, right)
    if symbol == "**":
        return _power(em, left, right)
    x = numeric(left, f"the left side of {symbol}")
    y = numeric(right, f"the right side of {symbol}")
    if any(isinstance(v, Value) and v.is_pointer for v in (x, y)):
        return _pointer(em, symbol, x, y)
    if symbol in ARITHMETIC:
        values = unify(em, [x, y])
        return em.map(ARITHMETIC[symbol][not _is_float(values[0])], values)
    if symbol in COMPARISONS:
        return compare(em, symbol, *unify(em, [x, y]))
    if symbol in BITWISE:
        values = unify(em, [x, y])
        _need_ints(symbol, values)
        return em.map(BITWISE[symbol], values)
    if symbol == "/":
        return true_divide(em, x, y)
    if symbol in ("<<", ">>"):
        return _shift(em, symbol, x, y)
    if symbol in ("//", "%"):
        return _divide(em, symbol, x, y)
    fail(f"the operator {symbol} is not supported in kernels", "matrix products are tl.dot")


def _of_tuples(symbol: str, left: Operand, right: Operand) -> Operand:
    """Tuples are joined by + and repeated by *, as in Python; aggregates are no tuples to the user."""
    plain = not any(hasattr(type(operand), "__aggregate__") for operand in (left, right))
    if plain and isinstance(left, tuple) and isinstance(right, tuple) and symbol == "+":
        return left + right
    items, (known, count) = (left, to_python(right))
    if not isinstance(items, tuple):
        items, (known, count) = right, to_python(left)
    if plain and symbol == "*" and isinstance(items, tuple) and known and type(count) is int:
        if len(items) * count <= MAX_TUPLE:
            return tuple(items) * count
        fail(f"a tuple of {len(items) * count} values is too long for a kernel")
    side = "left" if isinstance(left, tuple) else "right"
    fail(
        f"the {side} side of {symbol} must be a number or a tile, not "
        f"{describe(left if side == 'left' else right)}"
    )


def fold(symbol: str, a: Any, b: Any) -> Operand:
    """An operator on compile-time values, with Python's meaning."""
    if symbol not in PYTHON:
        fail(f"the operator {symbol} is not supported in kernels", "matrix products are tl.dot")
    too_big = False
    if isinstance(a, int) and isinstance(b, int):
        if symbol == "**":
            too_big = a.bit_length() * max(b, 0) > MAX_STATIC_BITS
        elif symbol == "<<":
            too_big = a.bit_length() + max(b, 0) > MAX_STATIC_BITS
        elif symbol == "*":
            too_big = a.bit_length() + b.bit_length() > MAX_STATIC_BITS
    elif symbol in ("*", "%"):
        sized = next((v for v in (a, b) if isinstance(v, str | bytes | tuple | list)), None)
        count = b if sized is a else a
        too_big = (
            sized is not None
            and symbol == "*"
            and isinstance(count, int)
            and (len(sized) * max(count, 0) > MAX_STATIC_BITS)
        )
    if too_big:
        fail(f"the compile-time result of {symbol} is too large")
    try:
        return wrap(PYTHON[symbol](a, b))
    except Exception as error:
        fail(f"cannot compute {a!r} {symbol} {b!r} at compile time: {error}")


def _is_float(value: Value) -> bool:
    return isinstance(value.dtype, dtype) and value.dtype.is_floating()


def _need_ints(symbol: str, values: list[Value]) -> None:
    for value in values:
        if not (isinstance(value.dtype, dtype) and value.dtype.is_int()):
            fail(
                f"invalid operands of type {value.type}: {symbol} takes integers",
                "convert with .to(tl.int32)",
            )


def compare(em: Emitter, symbol: str, a: Value, b: Value) -> Value:
    """A comparison of values of one type and shape."""
    if a.is_pointer:
        a, b = cast(em, a, dtypes.uint64), cast(em, b, dtypes.uint64)
    name = COMPARISONS[symbol]
    assert isinstance(a.dtype, dtype)
    if a.dtype.is_floating():
        prefix = "f"
    elif name in ("eq", "ne"):
        prefix = "i"
    else:
        prefix = "s" if a.dtype.signed else "u"
    return em.map(prefix + name, [a, b], dtypes.int1)


def true_divide(em: Emitter, x: Value | Static, y: Value | Static) -> Value:
    """Division of floats; integers are converted (to fp32 when both are integers)."""
    a, b = unify(em, [x, y], division=True)
    if not _is_float(a):
        a, b = cast(em, a, dtypes.float32), cast(em, b, dtypes.float32)
    return em.map("fdiv", [a, b])


def _divide(em: Emitter, symbol: str, x: Value | Static, y: Value | Static) -> Value:
    a, b = unify(em, [x, y], division=True)
    assert isinstance(a.dtype, dtype)
    if a.dtype.is_floating():
        if symbol == "%":
            return em.map("frem", [a, b])
        fail(f"// takes integers, not {a.type}", "use tl.floor(x / y)")
    fn = ("s" if a.dtype.signed else "u") + ("div" if symbol == "//" else "rem")
    return em.map(fn, [a, b])


def _shift(em: Emitter, symbol: str, x: Value | Static, y: Value | Static) -> Value:
    a, b = unify(em, [x, y])
    _need_ints(symbol, [a, b])
    if symbol == "<<":
        return em.map("shl", [a, b])
    signed = x.dtype.signed if isinstance(x, Value) else a.dtype.signed
    return em.map("ashr" if signed else "lshr", [a, b])


def _power(em: Emitter, left: Operand, right: Operand) -> Operand:
    if not (is_number(right) and isinstance(right, Static) and isinstance(right.value, int)):
        return em.call(Static(libdevice.pow), (left, right))
    base = numeric(left, "the left side of **")
    exponent = right.value
    if not 0 <= exponent <= 64 and isinstance(base, Value) and _is_float(base):
        return em.call(Static(libdevice.pow), (base, right))
    if not 0 <= exponent <= 64:
        fail(f"** takes an exponent from 0 to 64, not {exponent}", "write x ** -n as 1 / x ** n")
    result: Operand = Static(1)
    square: Operand = base
    while exponent:
        if exponent & 1:
            result = square if isinstance(result, Static) else binary(em, "*", result, square)
        exponent >>= 1
        if exponent:
            square = binary(em, "*", square, square)
    if isinstance(result, Static) and isinstance(base, Value):
        return constant(em, 1, base.dtype, base.shape)
    return result


def _pointer(em: Emitter, symbol: str, x: Value | Static, y: Value | Static) -> Value:
    both = all(isinstance(v, Value) and v.is_pointer for v in (x, y))
    if both and symbol in COMPARISONS:
        shape = common_shape(shape_of_operand(x), shape_of_operand(y))
        assert isinstance(x, Value) and isinstance(y, Value)
        return compare(em, symbol, broadcast(em, x, shape), broadcast(em, y, shape))
    if both:
        fail(f"cannot compute pointer {symbol} pointer", "add an integer offset to a pointer")
    if isinstance(y, Value) and y.is_pointer and symbol == "+":
        x, y = y, x
    if symbol not in ("+", "-") or not (isinstance(x, Value) and x.is_pointer):
        fail(
            f"cannot compute {describe(x)} {symbol} {describe(y)}",
            "a pointer takes + and - with an integer offset",
        )
    if isinstance(y, Static) and symbol == "-":
        y, symbol = Static(-y.value), "+"
    offset = materialise(em, y, "the offset of a pointer")
    assert isinstance(offset.dtype, dtype)
    if not offset.dtype.is_int():
        fail(f"the offset of a pointer must be an integer, not {offset.type}")
    if not offset.dtype.signed:  # offsets are signed in the IR
        wide = dtypes.int64 if offset.dtype.primitive_bitwidth >= 32 else dtypes.int32
        offset = cast(em, offset, wide)
    elif offset.dtype.primitive_bitwidth < 32:
        offset = cast(em, offset, dtypes.int32)
    if symbol == "-":
        assert isinstance(offset.dtype, dtype)
        zero = em.constant(0, offset.dtype, offset.shape)
        offset = em.map("isub", [zero, offset])
    shape = common_shape(x.shape, offset.shape)
    pointer, offset = broadcast(em, x, shape), broadcast(em, offset, shape)
    op = em.add(tile.AddPtrOp(pointer.ssa, offset.ssa))
    return Value(op.result, x.dtype, shape)


def unary(em: Emitter, symbol: str, operand: Operand) -> Operand:
    """`-x`, `+x` or `~x`."""
    known, number = to_python(operand)
    if known:
        functions: dict[str, Callable[[Any], Any]] = {
            "-": operator.neg, "+": operator.pos, "~": operator.invert,
        }  # fmt: skip
        try:
            return wrap(functions[symbol](int(number) if isinstance(number, bool) else number))
        except Exception as error:
            fail(f"cannot compute {symbol}{number!r} at compile time: {error}")
    value = numeric(operand, f"the operand of {symbol}")
    assert isinstance(value, Value)
    if not isinstance(value.dtype, dtype):
        fail(f"{symbol} does not apply to {value.type}")
    if symbol == "+":
        return value
    if symbol == "~":
        _need_ints("~", [value])
        ones = -1 if value.dtype.signed else value.dtype.get_int_max_value()
        return em.map("ixor", [value, em.constant(ones, value.dtype, value.shape)])
    if value.dtype.is_floating():
        return em.map("fneg", [value])
    return em.map("isub", [em.constant(0, value.dtype, value.shape), value])


def logical(em: Emitter, symbol: str, left: Operand, right: Operand) -> Value:
    """`and` / `or` of truth values, element by element on tiles."""
    x = truth(em, left, symbol)
    y = truth(em, right, symbol)
    shape = common_shape(x.shape, y.shape)
    return em.map(
        "iand" if symbol == "and" else "ior", [broadcast(em, x, shape), broadcast(em, y, shape)]
    )


def truth(em: Emitter, operand: Operand, what: str) -> Value:
    """A number or a tile as int1."""
    return cast(em, materialise(em, operand, f"an operand of {what}"), dtypes.int1)


def logical_not(em: Emitter, operand: Operand) -> Value:
    """Element by element: true where the operand is zero."""
    value = truth(em, operand, "not")
    return em.map("ixor", [value, em.constant(1, dtypes.int1, value.shape)])
