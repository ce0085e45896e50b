"""What the operations of our dialects have in common: declared for xdsl, built and read without the declaration.

xdsl's own constructor sorts and checks its arguments by the declaration of the operation, which takes 50 µs, and each
operand or result by its name another one. Compiling is mostly that, so operations are built directly here (`verify`
checks them by the same declarations, between passes in tests), and names are properties that know their number.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, cast

from typing_extensions import Self
from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.core import SSAValues
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    OperandDef,
    OptionalDef,
    ResultDef,
    VariadicDef,
    irdl_op_definition,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .attributes import segment_starts, segments

_NOTHING: Mapping[str, Attribute] = {}
_SEGMENTS = AttrSizedOperandSegments.attribute_name

Values = Sequence[SSAValue | Sequence[SSAValue] | None]
Types = Sequence[Attribute | Sequence[Attribute]]
_Op = TypeVar("_Op", bound="DialectOp")


class _ByClass(ABCMeta):
    """`isinstance` as for any other class: xdsl's are abstract base classes, which ask Python code each time."""

    __instancecheck__ = type.__instancecheck__


class DialectOp(IRDLOperation, metaclass=_ByClass):
    """An operation of our dialects. No declaration has default values."""

    SEGMENTED: ClassVar[bool] = False
    """Whether the numbers of operands by name are a property."""

    def __init__(
        self,
        *,
        operands: Values = (),
        result_types: Types = (),
        properties: Mapping[str, Attribute | None] | None = None,
        regions: Sequence[Region] = (),
    ) -> None:
        """Build an operation.

        Args:
            operands: one entry per declared name: a value, a sequence of values, or None for an absent one.
            result_types: one entry per declared name.
            properties: those that are None are left out.
        """
        values: list[SSAValue] = []
        sizes: list[int] = []
        for entry in operands:
            before = len(values)
            if isinstance(entry, (list, tuple)):
                values += entry
            elif entry is not None:
                values.append(cast(SSAValue, entry))
            sizes.append(len(values) - before)
        types: list[Attribute] = []
        for type_ in result_types:
            types += type_ if isinstance(type_, (list, tuple)) else (type_,)
        given = {k: v for k, v in (properties or {}).items() if v is not None}
        if self.SEGMENTED:
            given[_SEGMENTS] = segments(tuple(sizes))
        self._build(values, types, given, {}, UNKNOWN_LOC, regions)

    def _build(
        self,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        properties: dict[str, Attribute],
        attributes: dict[str, Attribute],
        location: LocationAttr,
        regions: Sequence[Region],
    ) -> None:
        self.operands = operands
        self.results = SSAValues([OpResult(type_, self, k) for k, type_ in enumerate(result_types)])
        self.properties = properties
        self.attributes = attributes
        self.location = location
        self.regions = ()
        for region in regions:
            self.add_region(region)

    @classmethod
    def create(
        cls,
        *,
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute] = _NOTHING,
        attributes: Mapping[str, Attribute] = _NOTHING,
        location: LocationAttr | None = None,
        successors: Sequence[Block] = (),
        regions: Sequence[Region] = (),
    ) -> Self:
        """Build an operation from all its operands and result types, however they are named."""
        op = cls.__new__(cls)
        where = UNKNOWN_LOC if location is None else location
        op._build(operands, result_types, dict(properties), dict(attributes), where, regions)
        return op

    def __post_init__(self) -> None:
        """Nothing: xdsl fills in default values here."""


class PureOp(DialectOp):
    """An operation whose results depend on its operands and properties alone."""

    traits = traits_def(Pure())


def op_definition(cls: type[_Op]) -> type[_Op]:
    """Decorator of operations: xdsl's `irdl_op_definition`, and fast properties for operands and results."""
    cls = irdl_op_definition(cls)
    definition = cls.get_irdl_definition()
    cls.SEGMENTED = any(isinstance(o, AttrSizedOperandSegments) for o in definition.options)
    operands = _in_segments if cls.SEGMENTED else _by_number
    for name, get in operands(definition.operands, attrgetter("_operands")).items():
        setattr(cls, name, property(get))
    for name, get in _by_number(definition.results, attrgetter("results")).items():
        setattr(cls, name, property(get))
    return cls


def is_pure(op: Operation) -> bool:
    """Whether the results of an op depend on its operands and properties alone, and nothing else comes of it."""
    return _pure(type(op))


@cache
def _pure(kind: type[Operation]) -> bool:
    return kind.has_trait(Pure)


def operands_of(op: Operation) -> SSAValues[SSAValue]:
    """The operands of any op as a tuple: `op.operands`, without the view that lets one change them."""
    return op._operands


def require(condition: bool, message: str) -> None:
    """Raise a VerifyException unless the condition holds."""
    if not condition:
        raise VerifyException(message)


Declared = Sequence[tuple[str, OperandDef | ResultDef]]
Reader = Callable[[Any], Any]
_item = tuple.__getitem__  # xdsl's tuples of values have a slow one


def _by_number(declared: Declared, values: Reader) -> dict[str, Reader]:
    """How to read the declared names from all operands (or results), of which at most one varies in number."""
    readers: dict[str, Reader] = {}
    after = 0  # 1 behind the name that varies in number
    for k, (name, kind) in enumerate(declared):
        others = len(declared) - 1
        if isinstance(kind, VariadicDef):
            assert not after
            after = 1
            optional = isinstance(kind, OptionalDef)
            readers[name] = (_optional if optional else _variadic)(values, k, others)
        else:
            readers[name] = _single(values, k - len(declared) if after else k)
    return readers


def _single(values: Reader, k: int) -> Reader:
    return lambda op: _item(values(op), k)


def _optional(values: Reader, k: int, others: int) -> Reader:
    def get(op: Operation) -> Any:
        found = values(op)
        return _item(found, k) if len(found) > others else None

    return get


def _variadic(values: Reader, k: int, others: int) -> Reader:
    if others == 0:
        return values

    def get(op: Operation) -> Any:
        found = values(op)
        return found[k : len(found) - others + k]

    return get


def _in_segments(declared: Declared, values: Reader) -> dict[str, Reader]:
    """How to read the declared names from all operands, whose numbers by name are a property."""
    return {name: _segment(values, k, kind) for k, (name, kind) in enumerate(declared)}


def _segment(values: Reader, k: int, kind: OperandDef | ResultDef) -> Reader:
    optional, variadic = isinstance(kind, OptionalDef), isinstance(kind, VariadicDef)

    def get(op: Operation) -> Any:
        sizes: Any = op.properties[_SEGMENTS]
        starts = segment_starts(sizes.data.data)
        start, end = starts[k], starts[k + 1]
        if variadic and not optional:
            return values(op)[start:end]
        return _item(values(op), start) if end > start else None

    return get
