"""Runs a kernel as plain Python, one program after another."""

from __future__ import annotations

import builtins
import math
import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dsalang._backend.errors import CompileError, LaunchError

from .. import dtypes, habits
from ..arguments import bind
from ..builtin import Builtin, handled_by
from ..constexpr import constexpr
from ..names import METHODS as LANGUAGE_METHODS
from ..source import KernelSource, body_of
from . import builtins_blocks, builtins_combine, builtins_dot, builtins_math, builtins_shape  # noqa: F401 (they register)
from .builtins_blocks import InterpBlock
from .errors import MARK, explained, fail
from .memory import InterpMemory, Piece
from .registry import IMPLEMENTATIONS, METHODS
from .rewrite import rewrite
from .session import Session, active, current, enter, leave
from .tile import InterpTile, cast, is_integer, is_number, to_tile, unwrap

__all__ = ["active", "call", "interpret"]


def interpret(
    source: KernelSource,
    arguments: Mapping[str, Any],
    pieces: Sequence[Piece],
    grid: tuple[int, int, int],
    beyond: Callable[[], Sequence[Piece]] | None = None,
) -> None:
    """Run every program of a grid; program id 0 varies fastest.

    Args:
        source: the kernel.
        arguments: a value for each parameter: InterpTile, or a constant.
        pieces: the memory that the kernel may touch.
        grid: the three sizes, each at least 1.
        beyond: the memory with what pointers in memory lead to.
    """
    session = Session(InterpMemory(pieces, beyond), grid, calls=[source])
    function = _function(session, source)
    token = enter(session)
    try:
        with handled_by(_handle):
            for number in range(math.prod(grid)):  # itertools.product would keep lists of all ids
                rest, x = divmod(number, grid[0])
                session.program = (x, rest % grid[1], rest // grid[1])
                function(**arguments)
    except Exception as error:
        found = explained(error)
        raise found from found.__cause__
    finally:
        leave(token)


def call(source: KernelSource, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call another jitted function from a running kernel."""
    session = current()
    if source in session.calls:
        raise fail(f"{source.name}() calls itself: recursion is not supported", "use a loop")
    try:
        values = bind(source, args, kwargs)
    except LaunchError as error:
        raise fail(error.message, error.hint) from None
    session.calls.append(source)
    try:
        return _function(session, source)(**{n: unwrap(v) for n, v in values.items()})
    finally:
        session.calls.pop()


def _handle(builtin: Builtin, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if builtin.refused:
        raise fail(f"{builtin.name} is not available on this machine", builtin.refused)
    if builtin.body is not None:
        return call(body_of(builtin), args, kwargs)
    function = IMPLEMENTATIONS.get(builtin.name)
    if function is None:
        raise fail(f"{builtin.name}() has no meaning in the interpreter")
    try:
        builtin.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise fail(f"{builtin.name}(): {error}", f"its signature is {builtin.usage}") from None
    return function(*map(unwrap, args), **{name: unwrap(value) for name, value in kwargs.items()})


def _handle_method(builtin: Builtin, owner: Any, *args: Any, **kwargs: Any) -> Any:
    return _handle(builtin, (owner, *args), kwargs)


def _method(builtin: Builtin) -> Callable[..., Any]:
    return lambda *args, **kwargs: _handle(builtin, args, kwargs)


for _name, _builtin in LANGUAGE_METHODS.items():
    if _builtin.body is not None:
        IMPLEMENTATIONS[_name] = _method(_builtin)
        METHODS.add(_name)


def _function(session: Session, source: KernelSource) -> Callable[..., Any]:
    function = session.functions.get(source)
    if function is None:
        try:
            code = compile(rewrite(source), source.file, "exec")
        except (SyntaxError, RecursionError) as error:
            raise CompileError(f"cannot run {source.name}() as Python: {error}") from None
        outside = {**source.globals, **source.closure}
        scope = {name: unwrap(value) for name, value in outside.items()} | _HELPERS | {MARK: True}
        exec(code, scope)
        function = scope[source.tree.name]
        scope.update({source.name: outside.get(source.name, function)})
        session.functions[source] = function
    result: Callable[..., Any] = function
    return result


def _and(left: Any, right: Callable[[], Any]) -> Any:
    if isinstance(left, InterpTile):
        return IMPLEMENTATIONS["logical_and"](left, right())
    return left and right()


def _or(left: Any, right: Callable[[], Any]) -> Any:
    if isinstance(left, InterpTile):
        return IMPLEMENTATIONS["logical_or"](left, right())
    return left or right()


def _not(value: Any) -> Any:
    return IMPLEMENTATIONS["logical_not"](value) if isinstance(value, InterpTile) else not value


def _carry(value: Any) -> Any:
    """A number that changes at run time is a scalar."""
    if isinstance(value, tuple):
        items = [_carry(v) for v in value]
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    value = unwrap(value)
    return to_tile(value) if is_number(value) else value


def _join(test: Any, value: Any) -> Any:
    return _carry(value) if isinstance(test, InterpTile) else value


def _select(test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    return _join(test, yes() if test else no())


def _attribute(owner: Any, name: str) -> Any:
    """`x.value` of a constexpr, which is a plain value here, and methods of numbers (`1 .to(dsa.int8)`)."""
    owner = unwrap(owner)
    if name == "value" and not hasattr(owner, "value"):
        return owner
    if name == "dtype" and is_number(owner):
        return to_tile(owner).dtype
    if name in LANGUAGE_METHODS and (isinstance(owner, InterpTile) or is_number(owner)):
        return partial(_handle_method, LANGUAGE_METHODS[name], owner)
    try:
        return getattr(owner, name)
    except AttributeError as error:  # the kernel's mistake, though a frame of ours raises it
        raise fail(f"{type(error).__name__}: {error}", _instead(owner, name)) from None


def _instead(owner: Any, name: str) -> str:
    """What to write in place of an attribute that there is not."""
    if isinstance(owner, types.ModuleType):
        return habits.of_module(name, dir(owner), LANGUAGE_METHODS)
    return habits.of_list(name) if isinstance(owner, list | tuple) else ""


def _assert(condition: Any, message: Any = "") -> None:
    name = "device_assert" if isinstance(condition, InterpTile) else "static_assert"
    IMPLEMENTATIONS[name](condition, message)


def _python(function: Callable[..., Any], *values: Any) -> Any:
    """Python's own function of what a kernel gives it; what it says of that is the kernel's error."""
    try:
        return function(*map(unwrap, values))
    except (TypeError, ValueError, OverflowError) as error:
        raise fail(f"{type(error).__name__}: {error}") from None


def _extreme(name: str) -> Callable[..., Any]:
    python = getattr(builtins, name[:3])

    def run(*values: Any) -> Any:
        if not any(isinstance(v, InterpTile) for v in values):
            return _python(python, *values)
        result = values[0]
        for value in values[1:]:
            result = IMPLEMENTATIONS[name](result, value)
        return result

    return run


def _converted(python: Any, kind: dtypes.dtype) -> Callable[..., Any]:
    def run(value: Any = python()) -> Any:  # noqa: B008 (int() is 0)
        if not isinstance(value, InterpTile):
            return _python(python, value)
        if python is int and is_integer(value):  # int() of an integer keeps its width
            return value
        return cast(value, kind)

    return run


def _isinstance(value: Any, classes: Any) -> bool:
    """Tiles are `dsa.tensor`, everything else is a `constexpr`."""
    options = classes if isinstance(classes, tuple) else (classes,)
    if isinstance(value, InterpTile):
        return dtypes.tensor in options
    if isinstance(value, InterpBlock):
        return value.descriptor and dtypes.tensor_descriptor in options
    return constexpr in options or isinstance(unwrap(value), classes)


def _hasattr(owner: Any, name: str) -> bool:
    try:
        _attribute(owner, name)
    except (AttributeError, CompileError):
        return False
    return True


def _getattr(owner: Any, name: str, *default: Any) -> Any:
    return default[0] if default and not _hasattr(owner, name) else _attribute(owner, name)


_PYTHON: dict[Any, Callable[..., Any]] = {
    builtins.range: IMPLEMENTATIONS["range"],
    builtins.min: _extreme("minimum"),
    builtins.max: _extreme("maximum"),
    builtins.float: _converted(float, dtypes.float32),
    builtins.int: _converted(int, dtypes.int32),
    builtins.bool: _converted(bool, dtypes.int1),
    builtins.isinstance: _isinstance,
    builtins.hasattr: _hasattr,
    builtins.getattr: _getattr,
}


def _call(function: Any, *args: Any, **kwargs: Any) -> Any:
    meaning = (
        _PYTHON.get(function) if isinstance(function, (type, types.BuiltinFunctionType)) else None
    )
    return (meaning or function)(*args, **kwargs)


_HELPERS: dict[str, Any] = {
    "__dsa_and": _and,
    "__dsa_or": _or,
    "__dsa_not": _not,
    "__dsa_select": _select,
    "__dsa_carry": _carry,
    "__dsa_join": _join,
    "__dsa_attribute": _attribute,
    "__dsa_assert": _assert,
    "__dsa_call": _call,
}
