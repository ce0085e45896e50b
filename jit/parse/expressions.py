"""Expressions: one function per kind of syntax node, in one table."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from xdsl.ir import OpResult

from dsalang._backend.errors import CompileError

from .. import dtypes, habits, library_descriptors, semantics, semantics_operators
from ..aggregate import method_of
from ..builtin import Builtin
from ..builtins import load_tensor_descriptor, store_tensor_descriptor
from ..lowering import blocks
from ..lowering.indexing import index_tile
from ..names import METHODS
from ..values import (
    NONE,
    Bound,
    Closure,
    Method,
    Operand,
    Record,
    Static,
    Value,
    describe,
    fail,
    is_number,
    items_of,
    to_python,
    wrap,
)
from .calls import call
from .context import Context
from .merge import choose

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip
CONTAINERS = (str, bytes, tuple, list, dict, set, frozenset, range)
"""Python containers that may be indexed and searched at compile time."""
CONVERSIONS: dict[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}


def expression(ctx: Context, node: ast.expr) -> Operand:
    """Parse an expression."""
    handler = HANDLERS.get(type(node))
    if handler is None:
        what, hint = UNSUPPORTED.get(type(node), (type(node).__name__, ""))
        ctx.refuse(node, f"{what} is not supported in kernels", hint)
    outer, ctx.node = ctx.node, node  # as `ctx.at`, without its cost
    try:
        return handler(ctx, node)
    except CompileError as error:
        if error.loc is None:
            error.loc = ctx.scope.loc(node)
        raise
    finally:
        ctx.node = outer


def _constant(ctx: Context, node: ast.Constant) -> Operand:
    return Static(node.value)


def _name(ctx: Context, node: ast.Name) -> Operand:
    return ctx.read(node.id)


def _tuple(ctx: Context, node: ast.Tuple | ast.List) -> Operand:
    return _expand(ctx, node.elts)


def _expand(ctx: Context, nodes: list[ast.expr]) -> tuple[Operand, ...]:
    items: list[Operand] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            value = expression(ctx, node.value)
            parts = items_of(value)
            if parts is None:
                ctx.refuse(node, f"* takes a tuple, not {describe(value)}")
            items.extend(parts)
        else:
            items.append(expression(ctx, node))
    return tuple(items)


def _binary(ctx: Context, node: ast.BinOp) -> Operand:
    left = expression(ctx, node.left)
    right = expression(ctx, node.right)
    for side, operand in ((node.left, left), (node.right, right)):
        if isinstance(side, ast.Name) and isinstance(operand, Static) and operand.value is None:
            _refuse_none(ctx, side.id, BINARY[type(node.op)])
    return operate(ctx, node.op, left, right)


def _refuse_none(ctx: Context, name: str, symbol: str) -> NoReturn:
    is_argument = any(param.name == name for param in ctx.scope.source.params)
    what = f"the argument {name!r}" if is_argument else repr(name)
    fail(
        f"{what} is None, which {symbol} does not take",
        f"pass a value, or ask first: if {name} is not None",
    )


def operate(ctx: Context, op: ast.operator, left: Operand, right: Operand) -> Operand:
    """A binary operator of the source; notes divisions at run time."""
    symbol = BINARY[type(op)]
    result = semantics_operators.binary(ctx.em, symbol, left, right)
    if symbol in ("//", "%") and isinstance(result, Value) and isinstance(result.ssa, OpResult):
        ctx.em.divisions.append(result.ssa.op)
    return result


def _unary(ctx: Context, node: ast.UnaryOp) -> Operand:
    operand = expression(ctx, node.operand)
    if not isinstance(node.op, ast.Not):
        return semantics_operators.unary(ctx.em, UNARY[type(node.op)], operand)
    if isinstance(operand, Value):
        return semantics_operators.logical_not(ctx.em, operand)
    condition = semantics.as_condition(ctx.em, operand, "the operand of not")
    assert isinstance(condition, Static)
    return Static(not condition.value)


def _bool_op(ctx: Context, node: ast.BoolOp) -> Operand:
    """Compile-time operands short-circuit as in Python; run-time ones are all evaluated."""
    is_and = isinstance(node.op, ast.And)
    symbol = "and" if is_and else "or"
    result: Operand | None = None
    for part in node.values:
        value = expression(ctx, part)
        if isinstance(value, Value):
            result = (
                semantics_operators.logical(ctx.em, symbol, result, value)
                if isinstance(result, Value)
                else value
            )
            continue
        condition = semantics.as_condition(ctx.em, value, f"an operand of {symbol}")
        assert isinstance(condition, Static)
        if isinstance(result, Value):
            if condition.value != is_and:  # x and False, x or True
                return Static(not is_and)
            continue
        result = value
        if condition.value != is_and:
            return value
    if isinstance(result, Value) and len(node.values) > 1:
        return semantics_operators.truth(ctx.em, result, symbol)
    return result if result is not None else NONE


def _compare(ctx: Context, node: ast.Compare) -> Operand:
    left = expression(ctx, node.left)
    result: Operand | None = None
    for op, right_node in zip(node.ops, node.comparators):
        right = expression(ctx, right_node)
        step = _compare_pair(ctx, op, left, right)
        if result is None:
            result = step
        elif isinstance(result, Static) and isinstance(step, Static):
            result = Static(bool(result.value) and bool(step.value))
        else:
            result = semantics_operators.logical(ctx.em, "and", result, step)
        left = right
    assert result is not None
    return result


def _compare_pair(ctx: Context, op: ast.cmpop, left: Operand, right: Operand) -> Operand:
    if isinstance(op, ast.Is | ast.IsNot):
        known_left, a = to_python(left)
        known_right, b = to_python(right)
        if known_left and known_right:
            same = a is b or (
                isinstance(a, bool | int | str | type(None)) and a == b and type(a) is type(b)
            )
        else:
            same = left is right
        return Static(same == isinstance(op, ast.Is))
    if isinstance(op, ast.In | ast.NotIn):
        known_left, a = to_python(left)
        known_right, b = to_python(right)
        if not (known_left and known_right):
            fail("'in' needs compile-time values", "compare with == and combine with |")
        if not isinstance(b, CONTAINERS):
            fail(f"'in' needs a tuple, a string or a dict, not {describe(right)}")
        try:
            return Static((a in b) == isinstance(op, ast.In))
        except Exception as error:
            fail(f"cannot test membership at compile time: {error}")
    symbol = COMPARE[type(op)]
    if isinstance(left, Value) != isinstance(right, Value) and symbol in ("==", "!="):
        known = right if isinstance(left, Value) else left
        if not is_number(known) and isinstance(known, Static):
            return Static(symbol == "!=")  # a run-time value never equals None or a string
    return semantics_operators.binary(ctx.em, symbol, left, right)


def _if_expression(ctx: Context, node: ast.IfExp) -> Operand:
    condition = semantics.as_condition(ctx.em, expression(ctx, node.test), "the condition")
    if isinstance(condition, Static):
        return expression(ctx, node.body if condition.value else node.orelse)
    if all(_is_cheap(side) for side in (node.body, node.orelse)):
        sides = [expression(ctx, node.body), expression(ctx, node.orelse)]
        if all(is_number(s) or (isinstance(s, Value) and not s.shape) for s in sides):
            a, b = semantics.unify(ctx.em, [s for s in sides if isinstance(s, Value | Static)])
            return ctx.em.map("select", [condition, a, b])
    return choose(
        ctx,
        condition,
        lambda: expression(ctx, node.body),
        lambda: expression(ctx, node.orelse),
    )


def _is_cheap(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_cheap(node.operand)
    return isinstance(node, ast.Name | ast.Constant)


def _call(ctx: Context, node: ast.Call) -> Operand:
    function = expression(ctx, node.func)
    args = _expand(ctx, node.args)
    kwargs: dict[str, Operand] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            ctx.refuse(node, "** in a call is not supported in kernels", "write the arguments out")
        kwargs[keyword.arg] = expression(ctx, keyword.value)
    return call(ctx, function, args, kwargs)


def _attribute(ctx: Context, node: ast.Attribute) -> Operand:
    owner = expression(ctx, node.value)
    return attribute(ctx, owner, node.attr)


def attribute(ctx: Context, owner: Operand, name: str) -> Operand:
    """`owner.name`."""
    if isinstance(owner, Value):
        return _value_attribute(ctx, owner, name)
    if isinstance(owner, Record):
        if name in owner.fields:
            return owner.fields[name]
        if name == "block_shape":
            return Static(owner.meta)
        if name in ("dtype", "type"):
            return Static(blocks.element_type(owner))
        method = RECORD_METHODS[owner.kind].get(name)
        if method is not None:
            return Method(owner, method)
        fail(f"a {owner.kind} has no attribute {name!r}")
    if isinstance(owner, tuple) and name in getattr(owner, "_fields", ()):
        field: Operand = getattr(owner, name)
        return field
    if isinstance(owner, tuple) and (function := method_of(owner, name)) is not None:
        return Bound(owner, function)
    if not isinstance(owner, Static):
        hint = habits.of_list(name) if isinstance(owner, tuple) else ""
        fail(f"{describe(owner)} has no attribute {name!r}", hint)
    value = owner.value
    if name == "value" and isinstance(value, bool | int | float | str | dtypes.dtype | None):
        return owner  # a constexpr parameter, already unwrapped
    if is_number(owner) and name in METHODS:
        return Method(owner, METHODS[name])
    if is_number(owner) and name in ("dtype", "type"):  # an argument that a launch made a constant
        return Static(semantics.literal_dtype(value))
    try:
        return wrap(getattr(value, name))
    except AttributeError:
        names = [n for n in dir(value) if n[0] != "_"]
        where = getattr(value, "__name__", None) or describe(owner)
        meant = habits.of_module(name, names, METHODS if isinstance(value, ModuleType) else ())
        fail(f"{where} has no attribute {name!r}", meant)
    except Exception as error:
        fail(f"reading attribute {name!r} of {describe(owner)} failed: {error}")


def _value_attribute(ctx: Context, owner: Value, name: str) -> Operand:
    if name == "dtype":
        return Static(owner.dtype)
    if name == "type":
        return Static(owner.type)
    if name == "shape":
        return tuple(Static(size) for size in owner.shape)
    if name == "numel":
        count = 1
        for size in owner.shape:
            count *= size
        return Static(count)
    if name == "T":
        return call(ctx, Method(owner, METHODS["trans"]), (), {})
    if name in ("handle", "value"):
        fail(f"a run-time value has no attribute {name!r}")
    builtin = METHODS.get(name)
    if builtin is not None:
        return Method(owner, builtin)
    names = ["dtype", "type", "shape", "numel", "T", *METHODS]
    hint = habits.of_value(name, names, owner.is_pointer)
    fail(f"a value of type {owner.type} has no attribute {name!r}", hint)


def _subscript(ctx: Context, node: ast.Subscript) -> Operand:
    owner = expression(ctx, node.value)
    index = _index(ctx, node.slice)
    if isinstance(owner, Value):
        return index_tile(ctx.em, owner, index if isinstance(index, tuple) else (index,))
    known, key = to_python(index)
    items = items_of(owner)
    if not known:
        fail(f"an index of {describe(owner)} must be known at compile time")
    try:
        if items is not None:
            picked: Operand = items[key]
            return picked
        if isinstance(owner, Static) and _is_container(owner.value):
            container: Any = owner.value
            return wrap(container[key])
    except Exception as error:
        scalar = isinstance(node.value, ast.Attribute) and node.value.attr == "shape" and not items
        hint = habits.POINTER_SIZE if scalar else ""
        fail(f"cannot index {describe(owner)} with {key!r}: {error}", hint)
    fail(f"{describe(owner)} cannot be indexed")


def _is_container(value: object) -> bool:
    return isinstance(value, CONTAINERS)


def _index(ctx: Context, node: ast.expr) -> Operand:
    if isinstance(node, ast.Slice):
        bounds: list[Any] = []
        for part in (node.lower, node.upper, node.step):
            value = NONE if part is None else expression(ctx, part)
            known, number = to_python(value)
            if not known:
                ctx.refuse(node, "the bounds of a slice must be known at compile time")
            bounds.append(number)
        return Static(slice(*bounds))
    if isinstance(node, ast.Tuple):
        return tuple(_index(ctx, item) for item in node.elts)
    return expression(ctx, node)


def _joined(ctx: Context, node: ast.JoinedStr) -> Operand:
    parts: list[str] = []
    for piece in node.values:
        if isinstance(piece, ast.Constant):
            parts.append(str(piece.value))
            continue
        assert isinstance(piece, ast.FormattedValue)
        value = expression(ctx, piece.value)
        known, python = to_python(value)
        spec = to_python(expression(ctx, piece.format_spec))[1] if piece.format_spec else ""
        if piece.conversion != -1 and known:
            python = CONVERSIONS[chr(piece.conversion)](python)
        try:
            parts.append(format(python, spec) if known else describe(value))
        except Exception as error:
            fail(f"cannot format {describe(value)}: {error}")
    return Static("".join(parts))


def closure(ctx: Context, node: ast.FunctionDef | ast.Lambda) -> Static:
    """A function defined inside the kernel; defaults are evaluated here, as in Python."""
    positional = (*node.args.posonlyargs, *node.args.args)
    defaults = node.args.defaults
    named = positional[len(positional) - len(defaults) :]
    values = {a.arg: expression(ctx, d) for a, d in zip(named, defaults)}
    return Static(Closure(node, ctx.scope, values))


def _walrus(ctx: Context, node: ast.NamedExpr) -> Operand:
    value = expression(ctx, node.value)
    ctx.write(node.target.id, value)
    return value


RECORD_METHODS: dict[str, dict[str, Builtin]] = {
    blocks.BLOCK: {
        "load": METHODS["load"],
        "store": METHODS["store"],
        "advance": METHODS["advance"],
    },
    blocks.DESCRIPTOR: {
        "load": load_tensor_descriptor,
        "store": store_tensor_descriptor,
        "gather": library_descriptors.gather_tensor_descriptor,
        "scatter": library_descriptors.scatter_tensor_descriptor,
        "atomic_add": library_descriptors.atomic_add_tensor_descriptor,
        "atomic_min": library_descriptors.atomic_min_tensor_descriptor,
        "atomic_max": library_descriptors.atomic_max_tensor_descriptor,
        "atomic_and": library_descriptors.atomic_and_tensor_descriptor,
        "atomic_or": library_descriptors.atomic_or_tensor_descriptor,
        "atomic_xor": library_descriptors.atomic_xor_tensor_descriptor,
    },
}

HANDLERS: dict[type[ast.expr], Callable[[Context, Any], Operand]] = {
    ast.Constant: _constant, ast.Name: _name, ast.Tuple: _tuple, ast.List: _tuple,
    ast.BinOp: _binary, ast.UnaryOp: _unary, ast.BoolOp: _bool_op, ast.Compare: _compare,
    ast.IfExp: _if_expression, ast.Call: _call, ast.Attribute: _attribute,
    ast.Subscript: _subscript, ast.JoinedStr: _joined, ast.NamedExpr: _walrus,
    ast.Lambda: closure,
}  # fmt: skip

UNSUPPORTED: dict[type[ast.expr], tuple[str, str]] = {
    ast.ListComp: ("a list comprehension", "write the tuple out, or use tl.static_range"),
    ast.SetComp: ("a set comprehension", "write a tuple"),
    ast.DictComp: ("a dict comprehension", "use separate variables"),
    ast.GeneratorExp: ("a generator expression", "use a for loop"),
    ast.Dict: ("a dict", "use separate variables or a tuple"),
    ast.Set: ("a set", "use a tuple"),
    ast.Await: ("await", "kernels are plain functions"),
    ast.Yield: ("yield", "kernels are plain functions"),
    ast.YieldFrom: ("yield from", "kernels are plain functions"),
    ast.Starred: ("* here", "write the items out"),
    ast.Slice: ("a slice here", ""),
}
"""What messages call the syntax that kernels cannot use, and what to do instead."""
