"""What a name in a kernel can stand for while the kernel is parsed."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NoReturn

import numpy as np
from xdsl.ir import Attribute, SSAValue

from dsalang._backend.dialects.types import PtrType, scalar_type, with_shape
from dsalang._backend.errors import CompileError

from .builtin import Builtin
from .constexpr import ConstexprFunction, constexpr
from .dtypes import ElementType, block_type, dtype, pointer_type
from .source import source_of


@dataclass(frozen=True, eq=False)
class Value:
    """A run-time scalar (shape ()) or tile. The dtype knows the signedness that the IR type lacks."""

    ssa: SSAValue
    dtype: ElementType
    shape: tuple[int, ...] = ()

    @property
    def type(self) -> ElementType | block_type:
        """The type as kernels see it and messages show it."""
        return block_type(self.dtype, self.shape) if self.shape else self.dtype

    @property
    def is_pointer(self) -> bool:
        """True for a pointer or a tile of pointers."""
        return isinstance(self.dtype, pointer_type)


@dataclass(frozen=True, eq=False)
class Static:
    """A value known at compile time: a number, a string, a dtype, a module, a function, …"""

    value: Any


@dataclass(frozen=True, eq=False)
class Closure:
    """A function defined inside a kernel (def or lambda): its syntax, and the scope it stands in."""

    node: ast.FunctionDef | ast.Lambda
    scope: Any
    defaults: dict[str, Operand]

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.node.name if isinstance(self.node, ast.FunctionDef) else "lambda"


@dataclass(frozen=True, eq=False)
class Method:
    """A builtin looked up on a value: `x.sum`."""

    receiver: Operand
    builtin: Builtin


@dataclass(frozen=True, eq=False)
class Bound:
    """A function of an aggregate, looked up on it: `pair.first_of`."""

    receiver: tuple[Any, ...]
    function: Any


@dataclass(frozen=True, eq=False)
class Record:
    """A value made of several, such as a block pointer: `fields` by name, plus compile-time `meta`."""

    kind: str
    fields: dict[str, Operand]
    meta: Any = None


@dataclass(frozen=True)
class Undefined:
    """A variable without a usable value; `reason` says why and is shown when it is read."""

    reason: str


Operand = Value | Static | Method | Bound | Record | Undefined | tuple[Any, ...]
"""Any of the above, or a tuple of operands."""

NONE = Static(None)


def fail(message: str, hint: str = "") -> NoReturn:
    """Refuse the kernel; the parser adds the place."""
    raise CompileError(message, None, hint)


def wrap(value: Any) -> Operand:
    """A Python object met while parsing, as an operand."""
    if isinstance(value, constexpr):
        inner = value.value
        value = ConstexprFunction(inner) if isinstance(inner, types.FunctionType) else inner
    if isinstance(value, np.generic):
        value = value.item()
    return Static(value)


def is_number(operand: Operand) -> bool:
    """True for a compile-time bool, int or float."""
    return isinstance(operand, Static) and isinstance(operand.value, bool | int | float)


def items_of(operand: Operand) -> tuple[Operand, ...] | None:
    """The elements of a tuple, compile-time lists and tuples included; None for anything else."""
    if isinstance(operand, tuple):
        return operand
    if isinstance(operand, Static) and isinstance(operand.value, tuple | list):
        return tuple(wrap(v) for v in operand.value)
    return None


def is_named_tuple(value: object) -> bool:
    """True for a class made with NamedTuple."""
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def like(original: tuple[Any, ...], items: Iterable[Any]) -> tuple[Any, ...]:
    """A tuple of the same class (a NamedTuple stays one) with other items."""
    kind = type(original)
    made: tuple[Any, ...] = kind._make(items) if is_named_tuple(kind) else tuple(items)  # type: ignore[attr-defined]
    return made


def to_python(operand: Operand) -> tuple[bool, Any]:
    """(True, Python value) when all of an operand is known at compile time, else (False, None)."""
    if isinstance(operand, Static):
        return True, operand.value
    if isinstance(operand, tuple):
        parts = [to_python(item) for item in operand]
        if all(known for known, _ in parts):
            return True, like(operand, [value for _, value in parts])
    return False, None


def describe(operand: Operand) -> str:
    """An operand's type as messages show it."""
    if isinstance(operand, Value):
        return str(operand.type)
    if isinstance(operand, Static):
        value = operand.value
        if isinstance(value, Builtin):
            return f"the builtin {value.name}"
        if isinstance(value, Closure):
            return f"the function {value.name}"
        if (source := source_of(value)) is not None:
            return f"the function {source.name}"
        text = repr(value)
        return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
    if isinstance(operand, tuple):
        return f"({', '.join(describe(item) for item in operand)})"
    if isinstance(operand, Method):
        return f"the method {operand.builtin.name}"
    if isinstance(operand, Bound):
        return f"a method of {type(operand.receiver).__name__}"
    if isinstance(operand, Record):
        return f"a {operand.kind}"
    return "an undefined value"


@cache
def ir_scalar(element: ElementType) -> Attribute:
    """The IR type of a scalar of this type. Fails for types that the machine lacks."""
    if isinstance(element, pointer_type):
        return PtrType(ir_scalar(element.element_ty))
    try:
        return scalar_type(element.format)
    except KeyError:
        fail(
            f"the machine has no {element.name}",
            "convert to a type of the machine, such as float32 or float8e5",
        )


@lru_cache(maxsize=4096)
def ir_type(element: ElementType, shape: tuple[int, ...]) -> Attribute:
    """The IR type of a scalar or tile."""
    return with_shape(ir_scalar(element), shape)


def static(operand: Operand, what: str) -> Any:
    """The compile-time value of an operand; fails, naming `what`, when it is only known at run time."""
    known, value = to_python(operand)
    if not known:
        fail(
            f"{what} must be known at compile time, but is {describe(operand)}",
            "use a literal or a parameter annotated with constexpr",
        )
    return value


def static_int(operand: Operand, what: str) -> int:
    """A compile-time integer."""
    value = static(operand, what)
    if isinstance(value, bool) or not isinstance(value, int):
        fail(f"{what} must be an int, not {describe(operand)}")
    return value


def static_bool(operand: Operand, what: str) -> bool:
    """A compile-time truth value."""
    return bool(static(operand, what))


def static_ints(operand: Operand, what: str) -> tuple[int, ...]:
    """A compile-time tuple or list of integers; one integer counts as a tuple of one."""
    items = items_of(operand)
    if items is None:
        return (static_int(operand, what),)
    if len(items) == 1 and items_of(items[0]) is not None:
        return static_ints(items[0], what)  # f(x, (4, 8)) where f takes *shape
    return tuple(static_int(item, what) for item in items)


MAX_TILE_ELEMENTS = 1 << 32


def static_shape(operand: Operand, what: str) -> tuple[int, ...]:
    """A compile-time shape of positive sizes; () is that of a scalar."""
    shape = static_ints(operand, what)
    count = 1
    for size in shape:
        if size <= 0:
            fail(f"{what} must have positive sizes, not {shape}")
        count *= size
    if count > MAX_TILE_ELEMENTS:
        fail(f"a tile of shape {shape} is too large")
    return shape


def static_dtype(operand: Operand, what: str) -> ElementType:
    """A compile-time dtype."""
    value = static(operand, what)
    if isinstance(value, str):
        with suppress(ValueError):
            value = dtype(value)
    if not isinstance(value, dtype | pointer_type):
        fail(f"{what} must be a dtype, not {describe(operand)}", "for example tl.float32")
    return value


def static_axis(operand: Operand, rank: int, what: str) -> int:
    """A compile-time axis of a tile of rank `rank`; negative ones count from the end."""
    axis = static_int(operand, what)
    if not -rank <= axis < rank:
        fail(f"{what} {axis} is out of range for a tile of rank {rank}")
    return axis % rank


def tile(operand: Operand, what: str) -> Value:
    """A tile (rank >= 1)."""
    if not isinstance(operand, Value) or not operand.shape:
        fail(f"{what} must be a tile, not {describe(operand)}")
    return operand


def shape_text(shape: Sequence[int]) -> str:
    """A shape as messages show it.

    >>> shape_text((4, 8)), shape_text(())
    ('[4, 8]', 'a scalar')
    """
    return f"[{', '.join(map(str, shape))}]" if shape else "a scalar"
