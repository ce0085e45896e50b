"""Operations of `arith` on integers, built directly: xdsl's constructors look every argument up in the declaration."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Operation, SSAValue

from .attributes import i64_attribute, integer

PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""Of `arith.cmpi`, by number."""


def constant(value: int, type_: Attribute) -> Operation:
    """An integer constant."""
    return _made(arith.ConstantOp, (), type_, value=integer(value, type_))


def binary(kind: type[Operation], a: SSAValue, b: SSAValue) -> Operation:
    """An operation on two values of one type, whose result has that type, too."""
    return _made(kind, (a, b), a.type)


def compare(predicate: str, a: SSAValue, b: SSAValue) -> Operation:
    """A comparison by one of PREDICATES."""
    return _made(arith.CmpiOp, (a, b), i1, predicate=i64_attribute(PREDICATES.index(predicate)))


def select(condition: SSAValue, a: SSAValue, b: SSAValue) -> Operation:
    """`a` where the condition holds, else `b`."""
    return _made(arith.SelectOp, (condition, a, b), a.type)


def convert(kind: type[Operation], value: SSAValue, type_: Attribute) -> Operation:
    """A value in another type."""
    return _made(kind, (value,), type_)


def _made(
    kind: type[Operation], operands: Sequence[SSAValue], type_: Attribute, **properties: Attribute
) -> Operation:
    op: Operation = kind.create(operands=operands, result_types=(type_,), properties=properties)
    return op
