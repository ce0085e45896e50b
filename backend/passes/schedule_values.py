"""The control core's arithmetic at compile time: integers, what stands for an argument, what is not known.

The semantics are those of `llvm/arith.py`. A value is an int (signed; i1 is 0 or 1), a `Symbol`, or an
`Unknown` that remembers which value of the kernel it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation

from ..dialects.locations import from_ir
from ..errors import InternalError, Loc


@dataclass(frozen=True, slots=True)
class Symbol:
    """The low `bits` of kernel argument `argument`, sign-extended, plus `offset`."""

    argument: int
    bits: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that compile time does not know: `why` completes the sentence "… is not known"."""

    why: str
    loc: Loc | None


Value = int | Symbol | Unknown


def width(type_: Attribute) -> int:
    """Bits of a glue value; index and slots have 64."""
    return type_.width.data if isinstance(type_, IntegerType) else 64


def wrap(value: int, bits: int) -> int:
    """The signed number that the low `bits` of a value hold; of one bit 0 or 1."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def _divide(x: int, y: int) -> int:
    if y == 0:
        return 0
    quotient = abs(x) // abs(y)
    return -quotient if (x < 0) != (y < 0) else quotient


def _remainder(x: int, y: int) -> int:
    return x if y == 0 else x - y * _divide(x, y)


_SIGNED: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda x, y: x + y,
    "arith.subi": lambda x, y: x - y,
    "arith.muli": lambda x, y: x * y,
    "arith.andi": lambda x, y: x & y,
    "arith.ori": lambda x, y: x | y,
    "arith.xori": lambda x, y: x ^ y,
    "arith.divsi": _divide,
    "arith.remsi": _remainder,
    "arith.minsi": min,
    "arith.maxsi": max,
}
_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "arith.divui": lambda x, y: x // y if y else 0,
    "arith.remui": lambda x, y: x % y if y else x,
    "arith.minui": min,
    "arith.maxui": max,
}
_COMPARE: tuple[Callable[[int, int], bool], ...] = (
    lambda x, y: x == y,
    lambda x, y: x != y,
    lambda x, y: x < y,
    lambda x, y: x <= y,
    lambda x, y: x > y,
    lambda x, y: x >= y,
)
_FIRST_UNSIGNED = 6


Function = Callable[..., tuple[int, ...]]
"""The results of an arith op from integer operands."""


def evaluate(op: Operation, function: Function, operands: Sequence[Value]) -> tuple[Value, ...]:
    """The results of an arith op whose `function` was made by `function_of`."""
    if isinstance(op, arith.SelectOp):
        condition, x, y = operands
        if isinstance(condition, int):
            return (x if condition else y,)
        return (x,) if x == y else (_lost(operands, op),)
    if all(type(operand) is int for operand in operands):
        return function(*operands)
    symbolic = _symbolic(op, operands)
    if symbolic is not None:
        return (symbolic,)
    return (_lost(operands, op),) * len(op.results)


def _lost(operands: Sequence[Value], op: Operation) -> Unknown:
    """What comes of operands one of which is not a number; the first cause is kept."""
    for operand in operands:
        if isinstance(operand, Unknown):
            return operand
    argument = next(operand.argument for operand in operands if isinstance(operand, Symbol))
    return Unknown(f"argument {argument}", from_ir(op.location))


def function_of(op: Operation) -> Function:
    """How to compute an arith op on integers. Raises InternalError for an op that is no glue."""
    name, to = op.name, width(op.results[0].type)
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, IntegerAttr)
        literal = (wrap(op.value.value.data, to),)
        return lambda: literal
    if isinstance(op, arith.SelectOp):
        return lambda condition, x, y: (x if condition else y,)
    bits = width(op.operands[0].type)
    mask = (1 << bits) - 1
    if name in _SIGNED:
        signed = _SIGNED[name]
        return lambda x, y: (wrap(signed(x, y), to),)
    if name in _UNSIGNED:
        unsigned = _UNSIGNED[name]
        return lambda x, y: (wrap(unsigned(x & mask, y & mask), to),)
    if isinstance(op, arith.CmpiOp):
        return _comparison(op.predicate.value.data, bits)
    if name in ("arith.extsi", "arith.index_cast"):
        return lambda x: (wrap(-x if bits == 1 else x, to),)
    if name == "arith.extui":
        return lambda x: (wrap(x & mask, to),)
    if name == "arith.trunci":
        return lambda x: (wrap(x, to),)
    if name in ("arith.shli", "arith.shrui", "arith.shrsi"):
        return lambda x, y: (wrap(_shift(name, x, x & mask, y & mask, bits), to),)
    if name == "arith.mulsi_extended":
        return lambda x, y: (wrap(x * y, bits), wrap(x * y >> bits, bits))
    if name == "arith.mului_extended":
        return lambda x, y: (wrap(x * y, bits), wrap((x & mask) * (y & mask) >> bits, bits))
    raise InternalError(f"schedule: {name} cannot run on the control core")


def _comparison(predicate: int, bits: int) -> Function:
    mask = (1 << bits) - 1
    if predicate >= _FIRST_UNSIGNED:
        below = _COMPARE[predicate - 4]
        return lambda x, y: (int(below(x & mask, y & mask)),)
    compare = _COMPARE[predicate]
    # One bit is -1 or 0 where it is compared as a signed number.
    sign = -1 if bits == 1 else 1
    return lambda x, y: (int(compare(sign * x, sign * y)),)


def _shift(name: str, signed: int, plain: int, amount: int, bits: int) -> int:
    if name == "arith.shrsi":
        return signed >> min(amount, bits - 1)
    if amount >= bits:
        return 0
    return plain << amount if name == "arith.shli" else plain >> amount


def _symbolic(op: Operation, operands: Sequence[Value]) -> Symbol | None:
    """Sums of a 64-bit symbol and numbers, and casts of an argument, stay symbols."""
    name, first = op.name, operands[0]
    second = operands[1] if len(operands) > 1 else None
    if width(op.results[0].type) == 64:
        if isinstance(first, Symbol) and isinstance(second, int):
            if name == "arith.addi":
                return Symbol(first.argument, first.bits, first.offset + second)
            if name == "arith.subi":
                return Symbol(first.argument, first.bits, first.offset - second)
        if isinstance(first, int) and isinstance(second, Symbol) and name == "arith.addi":
            return Symbol(second.argument, second.bits, second.offset + first)
    if not isinstance(first, Symbol) or first.offset:
        return None
    if name == "arith.extsi" and 1 < first.bits <= width(op.operands[0].type):
        return first
    if name == "arith.trunci":
        return Symbol(first.argument, min(first.bits, width(op.results[0].type)))
    return None
