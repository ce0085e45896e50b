"""From a kernel's source and a launch's types to tile IR."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Region

from dsalang._backend.dialects.tile import i64_array
from dsalang._backend.errors import CompileError, InternalError, UserError

from .. import dtypes, knobs
from ..composite import Composite, composites
from ..dtypes import ElementType, pointer_type
from ..lowering.blocks import put_together
from ..micro.plan import Plan
from ..source import EMPTY, Facts, KernelSource
from ..values import NONE, Operand, Value, ir_type, wrap
from . import division, statements
from .calls import call
from .context import RESULT, Context, Scope, assigned_names
from .expressions import attribute


def parse(
    source: KernelSource,
    signature: Mapping[str, str],
    constants: Mapping[str, Any] | None = None,
    facts: Facts | None = None,
    plan: Plan | None = None,
) -> ModuleOp:
    """Parse a kernel into a module of tile IR (docs/architecture.md).

    Args:
        source: the kernel.
        signature: the types of the run-time parameters: `*fp16`, `i32`, … (`dtypes.from_name`).
        constants: the values of the parameters that are compile-time: constexprs, and run-time ones
            that a launch fixes (None, a bool, an integer that is 1).
        facts: divisibility and aliasing of the run-time arguments.
        plan: which calls run microkernels; calls that could are noted there.

    Raises:
        CompileError: the kernel is not valid; has the place.
        InternalError: a bug in the parser; has the place too.
    """
    context: Context | None = None
    try:
        module, context = _start(source, signature, dict(constants or {}), facts or Facts())
        context.plan = plan
        with context.at(source.tree):
            statements.run(context, source.tree.body)
            context.node = source.tree
            context.em.add(func.ReturnOp())
        if knobs.WARN.get():
            division.warn(context.em.divisions)
        return module
    except UserError as error:
        raise error.with_traceback(None) from error.__cause__
    except RecursionError:
        raise source.too_deep() from None
    except Exception as error:
        where = f" at {context.loc()}" if context is not None else ""
        raise InternalError(
            f"while parsing {source.name}(){where}: {type(error).__name__}: {error}"
        ) from error
    finally:
        if context is not None and context.em.messages:
            sys.stdout.write("".join(context.em.messages))


def _start(
    source: KernelSource, signature: Mapping[str, str], constants: dict[str, Any], facts: Facts
) -> tuple[ModuleOp, Context]:
    loc = source.loc(source.tree)
    types: dict[str, ElementType] = {}
    env: dict[str, Operand] = {RESULT: NONE}
    for param in source.params:
        if isinstance(whole := constants.get(param.name), Composite):
            inside = [n for n in signature if n.startswith(f"{param.name}.")]
            types.update((n, _type_of(signature[n], n, source)) for n in inside)
        elif param.name in constants:
            env[param.name] = wrap(whole)
        elif param.name in signature and not param.constexpr:
            types[param.name] = _type_of(signature[param.name], param.name, source)
        elif param.default is not EMPTY:
            env[param.name] = wrap(param.default)
        else:
            kind = "constexpr parameter" if param.constexpr else "parameter"
            raise CompileError(f"the {kind} {param.name!r} of {source.name}() has no value", loc)
    scope = Scope(source, env, frozenset(assigned_names(source.tree.body)))
    arguments = [ir_type(t, ()) for t in types.values()]
    block = Block(arg_types=arguments)
    for (name, element), argument in zip(types.items(), block.args):
        argument.name_hint = name
        env[name] = Value(argument, element)
    for name, composite in composites(constants).items():
        known = {n: wrap(v) for n, v in constants.items()} | env
        env[name] = composite.build(known.__getitem__, put_together)
    for name in types:
        if "." in name:
            del env[name]
    function = func.FuncOp(source.name, (arguments, []), Region(block))
    context = Context(scope, block, statements.run, attribute)
    context.em.call = lambda function, args: call(context, function, args, {})
    function.attributes.update(
        {
            "dsa.args": ArrayAttr([StringAttr(name) for name in types]),
            "dsa.formats": ArrayAttr([StringAttr(_format_name(t)) for t in types.values()]),
            "dsa.divisible": i64_array([facts.divisible.get(name, 1) for name in types]),
            "dsa.alias": i64_array(
                [
                    facts.alias.get(name, 0) if isinstance(t, pointer_type) else -1
                    for name, t in types.items()
                ]
            ),
        }
    )
    module = ModuleOp([function])
    return module, context


def _type_of(text: str, name: str, source: KernelSource) -> ElementType:
    loc = source.loc(source.tree)
    try:
        element = dtypes.from_name(text)
        ir_type(element, ())
    except KeyError:
        raise CompileError(f"unknown type {text!r} of the parameter {name!r}", loc) from None
    except CompileError as error:
        error.loc = loc
        raise
    return element


def _format_name(element: ElementType) -> str:
    if isinstance(element, pointer_type):
        return "*" + _format_name(element.element_ty)
    return element.format.name
