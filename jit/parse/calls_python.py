"""Calls of Python's own functions: those that mean something on run-time values, and those that may run at compile time."""

from __future__ import annotations

import builtins
import math
import operator
import types
from collections.abc import Callable
from typing import Any, TypeVar

from dsalang._backend.errors import CompileError

from .. import dtypes, habits, semantics
from ..constexpr import ConstexprFunction, constexpr
from ..lowering import blocks
from ..lowering import math as math_lowering
from ..lowering.control import device_print
from ..names import BUILTINS
from ..values import (
    NONE,
    Operand,
    Record,
    Static,
    Value,
    describe,
    fail,
    items_of,
    static,
    static_dtype,
    to_python,
    wrap,
)
from .context import Context

T = TypeVar("T")


def lookup(table: dict[Any, T], key: object) -> T | None:
    """What a table says of a function; nothing where it cannot be a key."""
    try:
        return table.get(key)
    except TypeError:  # unhashable
        return None


def host_call(target: Any, args: tuple[Operand, ...], kwargs: dict[str, Operand]) -> Operand:
    """Call a harmless Python function at compile time."""
    name = getattr(target, "__qualname__", None) or repr(target)
    if not callable(target):
        fail(f"{describe(Static(target))} cannot be called")
    if not _is_harmless(target):
        fail(
            f"{name}() is a plain Python function, which kernels cannot call",
            habits.of_function(target, BUILTINS),
        )
    values = [static(arg, f"an argument of {name}()") for arg in args]
    named = {key: static(arg, f"the argument {key} of {name}()") for key, arg in kwargs.items()}
    try:
        return wrap(target(*values, **named))
    except Exception as error:
        fail(f"{name}() failed at compile time: {type(error).__name__}: {error}")


def _is_harmless(target: Any) -> bool:
    if isinstance(target, ConstexprFunction) or lookup(HARMLESS, target):
        return True
    if isinstance(target, types.BuiltinFunctionType | types.MethodType):
        owner = getattr(target, "__self__", None)
        if owner is math or owner is operator:
            return getattr(target, "__name__", "") not in ("factorial", "comb", "perm", "pow")
        simple = dtypes.dtype | dtypes.pointer_type | dtypes.block_type | bool | int | float | str
        return isinstance(owner, simple)
    return getattr(target, "__module__", "") == dtypes.__name__


def _two_or_more(
    name: str, pick: Callable[[Any], Any], lower: Callable[..., Operand]
) -> Callable[[Context, tuple[Operand, ...]], Operand]:
    def handle(ctx: Context, args: tuple[Operand, ...]) -> Operand:
        if len(args) == 1:
            args = items_of(args[0]) or fail(
                f"{name}() of one value takes a tuple, not {describe(args[0])}",
                f"reduce a tile with tl.{name}(x, axis)",
            )
        if not args:
            fail(f"{name}() takes at least one argument")
        known, values = to_python(args)
        if known:
            try:
                return wrap(pick(values))
            except Exception as error:
                fail(f"{name}() failed at compile time: {error}")
        result = args[0]
        for arg in args[1:]:
            result = lower(ctx.em, x=result, y=arg, propagate_nan=NONE)
        return result

    return handle


def _one(args: tuple[Operand, ...], name: str) -> Operand:
    if len(args) != 1:
        fail(f"{name}() takes one argument, not {len(args)}")
    return args[0]


def _abs(ctx: Context, args: tuple[Operand, ...]) -> Operand:
    return math_lowering.absolute(ctx.em, _one(args, "abs"))


def _len(ctx: Context, args: tuple[Operand, ...]) -> Operand:
    value = _one(args, "len")
    items = items_of(value)
    if items is not None:
        return Static(len(items))
    if isinstance(value, Value) and value.shape:
        return Static(value.shape[0])
    known, python = to_python(value)
    if known and hasattr(python, "__len__"):
        return Static(len(python))
    fail(f"len() does not apply to {describe(value)}")


def _convert(
    name: str, python: Callable[[Any], Any], element: dtypes.dtype
) -> Callable[[Context, tuple[Operand, ...]], Operand]:
    def handle(ctx: Context, args: tuple[Operand, ...]) -> Operand:
        value = _one(args, name)
        if isinstance(value, Value):
            if name == "int" and isinstance(value.dtype, dtypes.dtype) and value.dtype.is_int():
                return value
            return semantics.cast(ctx.em, value, element)
        known, number = to_python(value)
        if not known:
            fail(f"{name}() does not apply to {describe(value)}")
        try:
            return wrap(python(number))
        except Exception as error:
            fail(f"{name}({number!r}) failed: {error}")

    return handle


def _isinstance(ctx: Context, args: tuple[Operand, ...]) -> Operand:
    if len(args) != 2:
        fail(f"isinstance() takes two arguments, not {len(args)}")
    value, wanted = args
    known, classes = to_python(wanted)
    if not known:
        fail("the second argument of isinstance() must be a class")
    options = classes if isinstance(classes, tuple) else (classes,)
    if isinstance(value, Value):
        return Static(dtypes.tensor in options)
    if isinstance(value, Record):
        wanted_kind = dtypes.tensor_descriptor
        return Static(value.kind == blocks.DESCRIPTOR and wanted_kind in options)
    if constexpr in options and isinstance(value, Static):
        return Static(True)
    known, python = to_python(value)
    try:
        return Static(isinstance(python if known else value, classes))
    except TypeError as error:
        fail(f"isinstance(): {error}")


def _print(ctx: Context, args: tuple[Operand, ...]) -> Operand:
    prefix = ""
    if args and isinstance(args[0], Static) and isinstance(args[0].value, str):
        prefix, args = args[0].value, args[1:]
    return device_print(ctx.em, prefix=Static(prefix), args=args, hex=Static(False))


def _getattr(ctx: Context, args: tuple[Operand, ...]) -> Operand:
    if len(args) not in (2, 3):
        fail(f"getattr() takes two or three arguments, not {len(args)}")
    name = _attribute_name(args[1])
    if len(args) == 2 or _has(ctx, args[0], name):
        return ctx.attribute(ctx, args[0], name)
    return args[2]


def _hasattr(ctx: Context, args: tuple[Operand, ...]) -> Operand:
    if len(args) != 2:
        fail(f"hasattr() takes two arguments, not {len(args)}")
    return Static(_has(ctx, args[0], _attribute_name(args[1])))


def _attribute_name(operand: Operand) -> str:
    name = static(operand, "the name of an attribute")
    if not isinstance(name, str):
        fail(f"the name of an attribute is a string, not {describe(operand)}")
    return name


def _has(ctx: Context, owner: Operand, name: str) -> bool:
    try:
        ctx.attribute(ctx, owner, name)
    except CompileError:
        return False
    return True


def _range(ctx: Context, args: tuple[Operand, ...]) -> Operand:
    fail("range() can only be used in for", "for i in range(...):")


def _tuple(ctx: Context, args: tuple[Operand, ...]) -> Operand:
    if not args:
        return ()
    items = items_of(_one(args, "tuple"))
    if items is None:
        fail(f"tuple() does not apply to {describe(args[0])}")
    return items


def _constexpr(ctx: Context, args: tuple[Operand, ...]) -> Operand:
    return wrap(static(_one(args, "constexpr"), "the argument of constexpr()"))


def _dtype(ctx: Context, args: tuple[Operand, ...]) -> Operand:
    return Static(static_dtype(_one(args, "dtype"), "the argument of dtype()"))


PYTHON: dict[Any, Callable[[Context, tuple[Operand, ...]], Operand]] = {
    builtins.min: _two_or_more("min", builtins.min, math_lowering.minimum),
    builtins.max: _two_or_more("max", builtins.max, math_lowering.maximum),
    builtins.abs: _abs,
    builtins.len: _len,
    builtins.int: _convert("int", int, dtypes.int32),
    builtins.float: _convert("float", float, dtypes.float32),
    builtins.bool: _convert("bool", bool, dtypes.int1),
    builtins.isinstance: _isinstance,
    builtins.getattr: _getattr,
    builtins.hasattr: _hasattr,
    builtins.print: _print,
    builtins.range: _range,
    builtins.tuple: _tuple,
    builtins.list: _tuple,
    constexpr: _constexpr,
    dtypes.dtype: _dtype,
}
"""Python's builtins that mean something on run-time values."""

HARMLESS: dict[Any, bool] = dict.fromkeys(
    (
        str, repr, round, divmod, sum, any, all, ord, chr, sorted, issubclass, type,
        dtypes.pointer_type, dtypes.block_type, id,
    ),
    True,
)  # fmt: skip
"""Python's functions that may run at compile time."""
