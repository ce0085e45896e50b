"""Calls: builtins of the language, jitted functions (inlined) and what is allowed of plain Python."""

from __future__ import annotations

import ast
import builtins
import math
import operator
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from dsalang._backend.errors import CompileError, UserError

from .. import dtypes, lowering, semantics
from ..aggregate import aggregate_replace
from ..builtin import Builtin
from ..builtins import cast as cast_builtin
from ..constexpr import ConstexprFunction, constexpr
from ..lowering import blocks
from ..lowering import math as math_lowering
from ..lowering.control import device_print
from ..micro.function import MicrokernelFunction, op_parameters
from ..source import EMPTY, KernelSource, Param, body_of, source_of
from ..values import (
    NONE,
    Bound,
    Closure,
    Method,
    Operand,
    Record,
    Static,
    Undefined,
    Value,
    describe,
    fail,
    is_named_tuple,
    items_of,
    like,
    static,
    static_dtype,
    to_python,
    wrap,
)
from .context import RESULT, Context, Scope, assigned_names
from .micro import call_microkernel, served

T = TypeVar("T")

MAX_CALL_DEPTH = 100


def call(
    ctx: Context, function: Operand, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> Operand:
    """`function(*args, **kwargs)`."""
    if isinstance(function, Method):
        return call_builtin(ctx, function.builtin, (function.receiver, *args), kwargs)
    if isinstance(function, Bound):
        return call(ctx, Static(function.function), (function.receiver, *args), kwargs)
    if not isinstance(function, Static):
        fail(f"{describe(function)} cannot be called")
    target = function.value
    if isinstance(target, Builtin):
        return call_builtin(ctx, target, args, kwargs)
    if isinstance(target, MicrokernelFunction):
        return _call_microkernel(ctx, target, args, kwargs)
    if isinstance(target, Closure):
        return inline_closure(ctx, target, args, kwargs)
    source = source_of(target)
    if source is not None:
        return inline(ctx, source, args, kwargs)
    if isinstance(target, dtypes.dtype):
        return call_builtin(ctx, cast_builtin, (*args, function), kwargs)
    if is_named_tuple(target):
        return _named_tuple(target, args, kwargs)
    if target is aggregate_replace:
        return _replaced(args, kwargs)
    handler = _lookup(PYTHON, target)
    if handler is not None:
        if kwargs:
            fail(f"{target.__name__}() takes no keyword arguments in kernels")
        return handler(ctx, args)
    return _host_call(target, args, kwargs)


def _named_tuple(
    target: Any, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> tuple[Operand, ...]:
    """A NamedTuple or aggregate of the user's, whose fields hold operands."""
    if hasattr(target, "__aggregate__"):
        return _aggregate(target, args, kwargs)
    try:
        made: tuple[Any, ...] = target(*args, **kwargs)
    except TypeError as error:
        fail(f"{target.__name__}(): {error}", f"its fields are ({', '.join(target._fields)})")
    given = {id(value) for value in (*args, *kwargs.values())}
    return like(made, [v if id(v) in given else wrap(v) for v in made])  # defaults are wrapped


def _aggregate(
    target: Any, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> tuple[Operand, ...]:
    """An aggregate; an `__init__` of its own gets compile-time arguments as plain values."""
    named = {name: _plain(value) for name, value in kwargs.items()}
    try:
        made = target(*map(_plain, args), **named)
    except UserError:
        raise
    except Exception as error:
        fail(f"{target.__name__}(): {error}", f"its fields are ({', '.join(target._fields)})")
    return like(made, map(_operand, made))


def _plain(operand: Operand) -> Any:
    return operand.value if isinstance(operand, Static) else operand


def _operand(value: Any) -> Operand:
    """What an `__init__` leaves in a field: an operand, or a plain value."""
    if isinstance(value, Value | Static | Method | Bound | Record):
        return value
    return like(value, map(_operand, value)) if isinstance(value, tuple) else wrap(value)


def _replaced(args: tuple[Operand, ...], changes: dict[str, Operand]) -> Operand:
    """`aggregate_replace(instance, field=value)`."""
    if len(args) != 1 or not hasattr(type(args[0]), "__aggregate__"):
        fail("aggregate_replace() takes an aggregate, and its new fields by name")
    instance: Any = args[0]
    unknown = next((name for name in changes if name not in instance._fields), None)
    if unknown is not None:
        fail(f"{type(instance).__name__} has no field {unknown!r}")
    return _aggregate(type(instance), (), {**instance._asdict(), **changes})


def _call_microkernel(
    ctx: Context, micro: MicrokernelFunction, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> Operand:
    """A call of a microkernel by its name; its op says what it gives where it does not say itself."""
    params = [
        p if p.default is EMPTY else replace(p, default=wrap(p.default)) for p in micro.params
    ]
    env = bind_names(micro.fn.__name__, params, args, kwargs)
    operands = [env[param.name] for param in params]
    op, source = micro.reference, source_of(micro.reference)
    generate: Callable[[], Operand] | None = None
    if isinstance(op, Builtin):
        generate = partial(call_builtin, ctx, op, (), dict(zip(op_parameters(op), operands)))
    elif source is not None:
        generate = partial(inline, ctx, source, tuple(operands), {})
    return call_microkernel(ctx, micro, operands, generate)


def _lookup(table: dict[Any, T], key: object) -> T | None:
    try:
        return table.get(key)
    except TypeError:  # unhashable
        return None


def bind_builtin(
    builtin: Builtin, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> dict[str, Operand]:
    """The arguments of a builtin by parameter name, defaults filled in."""
    plainly = _bind_plainly(builtin, args, kwargs)
    if plainly is not None:
        return plainly
    try:
        bound = builtin.signature.bind(*args, **kwargs)
    except TypeError as error:
        fail(f"{builtin.name}(): {error}", f"its signature is {builtin.usage}")
    arguments: dict[str, Operand] = {}
    for name, parameter in builtin.signature.parameters.items():
        if name in bound.arguments:
            arguments[name] = bound.arguments[name]
        elif parameter.kind is parameter.VAR_POSITIONAL:
            arguments[name] = ()
        else:
            arguments[name] = wrap(parameter.default)
    return arguments


def _bind_plainly(
    builtin: Builtin, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> dict[str, Operand] | None:
    """The same for the usual call, without `inspect`, which is slow; None for one that is unusual or wrong."""
    defaults = builtin.plain
    if defaults is None or len(args) > len(defaults):
        return None
    arguments = dict(zip(defaults, args))
    for name, value in kwargs.items():
        if name in arguments or name not in defaults:
            return None
        arguments[name] = value
    for name, default in defaults.items():
        if name not in arguments:
            if default is EMPTY:
                return None
            arguments[name] = wrap(default)
    return arguments


def call_builtin(
    ctx: Context, builtin: Builtin, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> Operand:
    """Lower a call of a builtin."""
    if builtin.refused:
        fail(f"{builtin.name} is not available on this machine", builtin.refused)
    arguments = bind_builtin(builtin, args, kwargs)
    lower = lowering.TABLE.get(builtin.name)
    if lower is None and builtin.body is None:
        fail(f"{builtin.name}() cannot be used here")

    def generate() -> Operand:
        if lower is None:
            return _inline_builtin(ctx, builtin, args, kwargs)
        return lower(ctx.em, **arguments)

    return served(ctx, builtin, [arguments[n] for n in op_parameters(builtin)], generate)


def _inline_builtin(
    ctx: Context, builtin: Builtin, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> Operand:
    """Parse the body of a builtin; what is wrong in it is wrong with the call."""
    try:
        return inline(ctx, body_of(builtin), args, kwargs)
    except CompileError as error:
        error.loc = ctx.loc()
        raise


def inline(
    ctx: Context, source: KernelSource, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> Operand:
    """A call of a jitted function: its body in place of the call, or the microkernel that is to run for it."""
    operands = list(bind_function(source, args, kwargs).values())
    return served(ctx, source, operands, lambda: _inline(ctx, source, args, kwargs))


def _inline(
    ctx: Context, source: KernelSource, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> Operand:
    """Parse the body of a jitted function in place of the call; gives what it returns."""
    if any(scope.source is source for scope in ctx.stack):
        fail(f"{source.name}() calls itself: recursion is not supported", "use a loop")
    if len(ctx.stack) > MAX_CALL_DEPTH:
        fail("calls are nested too deeply")
    env = bind_function(source, args, kwargs)
    body = source.tree.body
    scope = Scope(source, env, frozenset(assigned_names(body)) | set(env), ctx.loc())
    env[RESULT] = NONE
    with ctx.inside(scope):
        ctx.run_body(ctx, body)
    result = scope.env[RESULT]
    if isinstance(result, Undefined):
        fail(f"the result of {source.name}() {result.reason}", "return one type on every path")
    return result


def bind_function(
    source: KernelSource, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> dict[str, Operand]:
    """The parameters of a jitted function as variables."""
    params = [
        param if param.default is EMPTY else replace(param, default=wrap(param.default))
        for param in source.params
    ]
    return bind_names(source.name, params, args, kwargs)


def bind_names(
    label: str,
    params: Sequence[Param],
    args: tuple[Operand, ...],
    kwargs: dict[str, Operand],
) -> dict[str, Operand]:
    """Arguments by the names of parameters, whose defaults are operands."""
    names = [param.name for param in params]
    usage = f"its parameters are ({', '.join(names)})"
    if len(args) > len(names):
        fail(f"{label}() takes {len(names)} arguments, not {len(args)}", usage)
    given = dict(zip(names, args))
    for name, value in kwargs.items():
        if name not in names:
            fail(f"{label}() has no parameter {name!r}", usage)
        if name in given:
            fail(f"{label}() got two values for {name!r}", usage)
        given[name] = value
    env: dict[str, Operand] = {}
    for param in params:
        if param.name not in given:
            if param.default is EMPTY:
                fail(f"{label}() misses the argument {param.name!r}", usage)
            given[param.name] = param.default
        value = given[param.name]
        known, python = to_python(value)
        # as in Triton, a run-time value may bind to a constexpr parameter: it fails where it is used
        env[param.name] = wrap(python) if known and param.constexpr else value
    return env


def inline_closure(
    ctx: Context, function: Closure, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> Operand:
    """Parse the body of a function defined inside the kernel; it sees the variables around it."""
    if len(ctx.stack) > MAX_CALL_DEPTH:
        fail("calls are nested too deeply")
    node, outer = function.node, function.scope
    if any(node is scope.node for scope in ctx.stack):
        fail(f"{function.name}() calls itself: recursion is not supported", "use a loop")
    arguments = node.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        fail(f"{function.name}() has parameters with *", "write the parameters out")
    params = [
        Param(a.arg, False, function.defaults.get(a.arg, EMPTY))
        for a in (*arguments.posonlyargs, *arguments.args)
    ]
    env = {**outer.env, **bind_names(function.name, params, args, kwargs)}
    body: list[ast.stmt]
    body = (
        node.body
        if isinstance(node, ast.FunctionDef)
        else [ast.copy_location(ast.Return(node.body), node)]
    )
    own = frozenset(assigned_names(body)) | {param.name for param in params}
    for name in own - {param.name for param in params}:
        env.pop(name, None)
    env[RESULT] = NONE
    scope = Scope(outer.source, env, own | outer.locals, ctx.loc(), node=node)
    with ctx.inside(scope):
        ctx.run_body(ctx, body)
    result = scope.env[RESULT]
    if isinstance(result, Undefined):
        fail(f"the result of {function.name}() {result.reason}", "return one type on every path")
    return result


def _host_call(target: Any, args: tuple[Operand, ...], kwargs: dict[str, Operand]) -> Operand:
    """Call a harmless Python function at compile time."""
    name = getattr(target, "__qualname__", None) or repr(target)
    if not callable(target):
        fail(f"{describe(Static(target))} cannot be called")
    if not _is_harmless(target):
        fail(
            f"{name}() is a plain Python function, which kernels cannot call",
            "decorate it with @jit, or compute its value outside and pass it as a constexpr",
        )
    values = [static(arg, f"an argument of {name}()") for arg in args]
    named = {key: static(arg, f"the argument {key} of {name}()") for key, arg in kwargs.items()}
    try:
        return wrap(target(*values, **named))
    except Exception as error:
        fail(f"{name}() failed at compile time: {type(error).__name__}: {error}")


def _is_harmless(target: Any) -> bool:
    if isinstance(target, ConstexprFunction) or _lookup(HARMLESS, target):
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
