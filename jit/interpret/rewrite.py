"""Python that means something else in a kernel, rewritten into calls; everything else stays as written.

`and`, `or`, `not` work on tiles; a number that a loop or a run-time `if` changes is a run-time value from
there on; `range`, `min`, `float`, … have their meaning in kernels. Line numbers stay, so breakpoints work.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from ..source import KernelSource
from .registry import METHODS

PYTHON_NAMES = (
    "range",
    "min",
    "max",
    "abs",
    "float",
    "int",
    "bool",
    "print",
    "isinstance",
    "hasattr",
    "getattr",
)
"""Python's functions that kernels may call and that mean something else there."""


def rewrite(source: KernelSource) -> ast.Module:
    """The function of a source as a module that defines it, ready to compile under the user's file name."""
    function = copy.deepcopy(source.tree)
    function.decorator_list = []
    function.returns = None
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    # Callers bind every parameter, so defaults are not evaluated a second time.
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    rewritten = _Rewriter().visit(function)
    module = ast.Module([rewritten], [])
    for node in ast.walk(module):
        if hasattr(node, "col_offset"):
            node.col_offset += source.indent
            if getattr(node, "end_col_offset", None) is not None:
                node.end_col_offset += source.indent  # type: ignore[attr-defined]
    ast.increment_lineno(module, source.first_line - 1)
    return module


class _Rewriter(ast.NodeTransformer):
    def __init__(self) -> None:
        self._tests = 0

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        name = "__dsa_and" if isinstance(node.op, ast.And) else "__dsa_or"
        result = node.values[0]
        for value in node.values[1:]:
            result = _call(name, [result, _later(value)], node)
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call("__dsa_not", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        parts: list[ast.expr] = []
        left = node.left
        for op, right in zip(node.ops, node.comparators):
            parts.append(ast.copy_location(ast.Compare(left, [op], [right]), node))
            left = right
        result = parts[0]
        for part in parts[1:]:
            result = _call("__dsa_and", [result, _later(part)], node)
        return result

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return _call("__dsa_select", [node.test, _later(node.body), _later(node.orelse)], node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in PYTHON_NAMES:
            node.args.insert(0, node.func)
            node.func = _name("__dsa_call", node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and (
            node.attr in ("value", "dtype") or node.attr in METHODS
        ):
            name = ast.copy_location(ast.Constant(node.attr), node)
            return _call("__dsa_attribute", [node.value, name], node)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        values = [node.test] + ([node.msg] if node.msg else [])
        return ast.copy_location(ast.Expr(_call("__dsa_assert", values, node)), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        changed = _assigned([*node.body, *node.orelse])
        self.generic_visit(node)
        if not changed:
            return [node]
        self._tests += 1
        test = f"__dsa_test_{self._tests}"
        store = ast.Assign([_name(test, node, ast.Store())], node.test)
        node.test = _name(test, node)
        joins = [_replace(name, "__dsa_join", [test, name], node) for name in changed]
        return [ast.copy_location(store, node), node, *joins]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        unrolled = _is_static_range(node.iter)
        changed = [] if unrolled else _assigned(node.body)
        self.generic_visit(node)
        return [*_carries(changed, node), node]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        changed = _assigned(node.body)
        self.generic_visit(node)
        return [*_carries(changed, node), node]


def _carries(names: Sequence[str], at: ast.AST) -> list[ast.stmt]:
    return [_replace(name, "__dsa_carry", [name], at) for name in names]


def _replace(name: str, function: str, arguments: Sequence[str], at: ast.AST) -> ast.stmt:
    """`name = function(arguments)`, and nothing when the name is not set."""
    values: list[ast.expr] = [_name(argument, at) for argument in arguments]
    assign = ast.Assign([_name(name, at, ast.Store())], _call(function, values, at))
    unset = ast.ExceptHandler(_name("NameError", at), None, [ast.copy_location(ast.Pass(), at)])
    guarded = ast.Try(
        [ast.copy_location(assign, at)], [ast.copy_location(unset, at)], orelse=[], finalbody=[]
    )
    return ast.copy_location(guarded, at)


def _is_static_range(node: ast.expr) -> bool:
    target = node.func if isinstance(node, ast.Call) else None
    name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
    return name == "static_range"


def _assigned(body: Sequence[ast.stmt]) -> list[str]:
    """Names that statements assign, constexpr declarations and comprehensions aside, in order."""
    found: dict[str, None] = {}
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, (ast.AnnAssign, ast.Lambda, ast.ListComp, ast.SetComp)):
            continue
        if isinstance(node, (ast.DictComp, ast.GeneratorExp, ast.FunctionDef)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        pending.extend(ast.iter_child_nodes(node))
    return list(found)


def _name(name: str, at: ast.AST, ctx: Any = None) -> ast.Name:
    return ast.copy_location(ast.Name(name, ctx or ast.Load()), at)


def _call(name: str, values: list[ast.expr], at: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Call(_name(name, at), values, []), at)


def _later(value: ast.expr) -> ast.expr:
    none = ast.arguments([], [], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(none, value), value)
