"""Constants: reading them through splats, and evaluation of `tile.map`: exact integers, the machine's floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, SSAValue

from ..dialects import tile
from ..dialects.types import element_type
from ..formats import Format
from ..numerics import elementwise


def splatted(value: SSAValue) -> SSAValue:
    """The scalar behind a splat, or the value itself."""
    return value.owner.value if isinstance(value.owner, tile.SplatOp) else value


def int_constant(value: SSAValue) -> int | None:
    """The integer of a constant or a splat of one: signed, 0 or 1 for int1."""
    constant = _constant(value)
    if isinstance(constant, IntegerAttr):
        number: int = constant.value.data
        return number & 1 if _width(constant.type) == 1 else number
    return None


def float_constant(value: SSAValue) -> float | None:
    """The number of a float constant or a splat of one."""
    constant = _constant(value)
    return float(constant.value.data) if isinstance(constant, FloatAttr) else None


def _constant(value: SSAValue) -> Attribute | None:
    owner = value.owner
    if type(owner) is tile.SplatOp:
        owner = owner.value.owner
    return owner.properties["value"] if type(owner) is arith.ConstantOp else None


def _width(type_: Attribute) -> int:
    element = element_type(type_)
    return element.width.data if isinstance(element, IntegerType) else 0


def wrap(value: int, width: int) -> int:
    """Two's complement: the signed number with the same low bits (0 or 1 for width 1)."""
    value &= (1 << width) - 1
    return value - (1 << width) if width > 1 and value >> (width - 1) else value


def _quotient(a: int, b: int) -> int:
    if b == 0:
        return 0
    magnitude = abs(a) // abs(b)
    return magnitude if (a < 0) == (b < 0) else -magnitude


def _remainder(a: int, b: int) -> int:
    return a if b == 0 else a - _quotient(a, b) * b


Binary = Callable[[int, int], int]

_SIGNED: dict[str, Binary] = {
    "iadd": lambda a, b: a + b,
    "isub": lambda a, b: a - b,
    "imul": lambda a, b: a * b,
    "sdiv": _quotient,
    "srem": _remainder,
    "smin": min,
    "smax": max,
    "iand": lambda a, b: a & b,
    "ior": lambda a, b: a | b,
    "ixor": lambda a, b: a ^ b,
    "ieq": lambda a, b: int(a == b),
    "ine": lambda a, b: int(a != b),
    "slt": lambda a, b: int(a < b),
    "sle": lambda a, b: int(a <= b),
    "sgt": lambda a, b: int(a > b),
    "sge": lambda a, b: int(a >= b),
}
_UNSIGNED: dict[str, Binary] = {
    "udiv": _quotient,
    "urem": _remainder,
    "umin": min,
    "umax": max,
    "ult": lambda a, b: int(a < b),
    "ule": lambda a, b: int(a <= b),
    "ugt": lambda a, b: int(a > b),
    "uge": lambda a, b: int(a >= b),
}
_BIT_LOGIC = ("iand", "ior", "ixor", "ieq", "ine")


def _shift(fn: str, a: int, b: int, width: int) -> int | None:
    amount = b & ((1 << width) - 1)
    if fn == "shl":
        return 0 if amount >= width else a << amount
    if fn == "lshr":
        return 0 if amount >= width else (a & ((1 << width) - 1)) >> amount
    return a >> min(amount, width - 1)


def _high(fn: str, a: int, b: int, width: int) -> int:
    mask = (1 << width) - 1
    return ((a * b) if fn == "smulhi" else (a & mask) * (b & mask)) >> width


def fold(fn: str, args: Sequence[int], width: int, result_width: int) -> int | None:
    """The value of an integer operation on constants, None when it is not folded.

    `width` is the operands' width (of the last one for select), `result_width` that of the result.
    """
    value = _evaluate(fn, args, width)
    return None if value is None else wrap(value, result_width)


def _evaluate(fn: str, args: Sequence[int], width: int) -> int | None:
    mask = (1 << width) - 1
    if fn == "select":
        return args[1] if args[0] else args[2]
    if len(args) == 1:
        a = args[0]
        if fn == "sext":
            return -a if width == 1 else a
        if fn in ("zext", "trunc"):
            return a & mask
        return abs(a) if fn == "iabs" and width > 1 else None
    a, b = args
    if width == 1 and fn not in _BIT_LOGIC:
        return None
    if fn in _SIGNED:
        return _SIGNED[fn](a, b)
    if fn in _UNSIGNED:
        return _UNSIGNED[fn](a & mask, b & mask)
    if fn in ("shl", "ashr", "lshr"):
        return _shift(fn, a, b, width)
    if fn in ("smulhi", "umulhi"):
        return _high(fn, a, b, width)
    return None


def fold_float(
    fn: str, args: Sequence[int | float], formats: Sequence[Format], result: Format
) -> int | float | None:
    """The value of an operation with a float operand or result, as the machine computes it.

    None for a NaN, whose payload a constant does not keep.
    """
    arrays = [np.asarray(a, f.storage) for a, f in zip(args, formats, strict=True)]
    value = elementwise.apply(fn, result, formats[-1], *arrays).astype(result.storage)
    if not result.is_float:
        return int(value)
    number = float(value)
    return None if math.isnan(number) else number
