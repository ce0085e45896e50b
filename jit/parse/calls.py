"""Calls: builtins of the language, jitted functions (inlined) and what is allowed of plain Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from dsalang._backend.errors import CompileError

from .. import dtypes, lowering
from ..aggregate import aggregate_replace
from ..builtin import Builtin
from ..builtins import cast as cast_builtin
from ..micro.function import MicrokernelFunction, op_parameters
from ..source import EMPTY, KernelSource, Param, body_of, source_of
from ..values import (
    NONE,
    Bound,
    Closure,
    Method,
    Operand,
    Static,
    Undefined,
    describe,
    fail,
    is_named_tuple,
    to_python,
    wrap,
)
from .calls_python import PYTHON, host_call, lookup
from .calls_records import named_tuple, replaced
from .context import RESULT, Context, Scope, assigned_names
from .micro import call_microkernel, served

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
        return named_tuple(target, args, kwargs)
    if target is aggregate_replace:
        return replaced(args, kwargs)
    handler = lookup(PYTHON, target)
    if handler is not None:
        if kwargs:
            fail(f"{target.__name__}() takes no keyword arguments in kernels")
        return handler(ctx, args)
    return host_call(target, args, kwargs)


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
