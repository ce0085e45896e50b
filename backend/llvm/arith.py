"""Integer `arith` ops in LLVM IR, with the machine's semantics where LLVM has none.

As in `isa/vector_ops.py`: x / 0 is 0, x % 0 is x, MIN / -1 is MIN, a shift by the width or more gives 0
(the sign for an arithmetic right shift). The guards are left out for constants that make them needless.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation

from ..errors import InternalError
from . import ir

Builder = Any
Value = Any

I64 = ir.I64


def int_type(type_: Attribute) -> Any:
    """The LLVM type of a glue value: integers keep their width, index and slots are i64."""
    if isinstance(type_, IntegerType):
        return ir.IntType(type_.width.data)
    return I64


def constant(value: Value) -> int | None:
    """The signed value (0 or 1 for i1) of an LLVM constant, None for anything else."""
    if not isinstance(value, ir.Constant):
        return None
    bits = int(value.type.text[1:])
    number = value.number & ((1 << bits) - 1)
    return number - (1 << bits) if bits > 1 and number >> (bits - 1) else number


def widen(b: Builder, value: Value) -> Value:
    """A value as i64: sign-extended, i1 zero-extended."""
    width = value.type.width
    if width == 64:
        return value
    if (known := constant(value)) is not None:
        return I64(known)
    return b.zext(value, I64) if width == 1 else b.sext(value, I64)


def narrow(b: Builder, value: Value, type_: Any) -> Value:
    """An i64 cut to an integer type."""
    return value if type_.width == 64 else b.trunc(value, type_)


def _resize(b: Builder, value: Value, type_: Any, signed: bool) -> Value:
    known = constant(value)
    if known is not None:
        if value.type.width == 1 and signed:
            known = -known
        if not signed:
            known &= (1 << value.type.width) - 1
        return type_(known)
    if type_.width <= value.type.width:
        return value if type_.width == value.type.width else b.trunc(value, type_)
    return b.sext(value, type_) if signed else b.zext(value, type_)


def _division(b: Builder, x: Value, y: Value, signed: bool, remainder: bool) -> Value:
    divide = {
        (True, False): b.sdiv,
        (True, True): b.srem,
        (False, False): b.udiv,
        (False, True): b.urem,
    }[signed, remainder]
    if constant(y) not in (None, 0, -1, 1):
        return divide(x, y)
    zero, one = y.type(0), y.type(1)
    is_zero = b.icmp_unsigned("==", y, zero)
    unsafe = is_zero
    if signed:
        is_minus_one = b.icmp_unsigned("==", y, y.type(-1))
        unsafe = b.or_(is_zero, is_minus_one)
    result = divide(x, b.select(unsafe, one, y))
    if signed and not remainder:
        result = b.select(is_minus_one, b.sub(zero, x), result)
    return b.select(is_zero, x if remainder else zero, result)


def _shift(b: Builder, x: Value, y: Value, op: str) -> Value:
    width = y.type.width
    shift = {"shl": b.shl, "lshr": b.lshr, "ashr": b.ashr}[op]
    known = constant(y)
    if known is not None and 0 <= known < width:
        return shift(x, y)
    in_range = b.icmp_unsigned("<", y, y.type(width))
    if op == "ashr":
        return shift(x, b.select(in_range, y, y.type(width - 1)))
    return b.select(in_range, shift(x, y), y.type(0))


def _choose(b: Builder, x: Value, y: Value, signed: bool, sign: str) -> Value:
    compare = b.icmp_signed if signed else b.icmp_unsigned
    return b.select(compare(sign, x, y), x, y)


_BINARY: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "arith.addi": lambda b, x, y: b.add(x, y),
    "arith.subi": lambda b, x, y: b.sub(x, y),
    "arith.muli": lambda b, x, y: b.mul(x, y),
    "arith.andi": lambda b, x, y: b.and_(x, y),
    "arith.ori": lambda b, x, y: b.or_(x, y),
    "arith.xori": lambda b, x, y: b.xor(x, y),
    "arith.divsi": lambda b, x, y: _division(b, x, y, True, False),
    "arith.divui": lambda b, x, y: _division(b, x, y, False, False),
    "arith.remsi": lambda b, x, y: _division(b, x, y, True, True),
    "arith.remui": lambda b, x, y: _division(b, x, y, False, True),
    "arith.shli": lambda b, x, y: _shift(b, x, y, "shl"),
    "arith.shrui": lambda b, x, y: _shift(b, x, y, "lshr"),
    "arith.shrsi": lambda b, x, y: _shift(b, x, y, "ashr"),
    "arith.minsi": lambda b, x, y: _choose(b, x, y, True, "<"),
    "arith.maxsi": lambda b, x, y: _choose(b, x, y, True, ">"),
    "arith.minui": lambda b, x, y: _choose(b, x, y, False, "<"),
    "arith.maxui": lambda b, x, y: _choose(b, x, y, False, ">"),
}
_CASTS = {
    "arith.extsi": True,
    "arith.extui": False,
    "arith.trunci": True,
    "arith.index_cast": True,
}
_PREDICATES = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
_FIRST_UNSIGNED = 6


def _extended_multiply(b: Builder, operands: list[Value], signed: bool) -> tuple[Value, Value]:
    x, y = operands
    wide = ir.IntType(2 * x.type.width)
    product = b.mul(_resize(b, x, wide, signed), _resize(b, y, wide, signed))
    return b.trunc(product, x.type), b.trunc(b.lshr(product, wide(x.type.width)), x.type)


def lower_arith(b: Builder, op: Operation, operands: list[Value]) -> tuple[Value, ...]:
    """The LLVM values of an arith op's results. Raises InternalError for an op that is no glue."""
    if isinstance(op, arith.ConstantOp):
        return (_literal(op),)
    name = op.name
    if name in _BINARY:
        return (_BINARY[name](b, *operands),)
    if name in _CASTS:
        return (_resize(b, operands[0], int_type(op.results[0].type), _CASTS[name]),)
    if isinstance(op, arith.CmpiOp):
        predicate = op.predicate.value.data
        compare = b.icmp_signed if predicate < _FIRST_UNSIGNED else b.icmp_unsigned
        return (compare(_PREDICATES[predicate], *operands),)
    if isinstance(op, arith.SelectOp):
        return (b.select(*operands),)
    if name in ("arith.mulsi_extended", "arith.mului_extended"):
        return _extended_multiply(b, operands, name == "arith.mulsi_extended")
    raise InternalError(f"lower: {name} cannot run on the control core")


def _literal(op: arith.ConstantOp) -> Value:
    type_ = op.result.type
    if not isinstance(op.value, IntegerAttr) or not isinstance(type_, IntegerType | IndexType):
        raise InternalError(f"lower: constant {op.value} cannot live in the control core")
    llvm_type = int_type(type_)
    return llvm_type(op.value.value.data & ((1 << llvm_type.width) - 1))
