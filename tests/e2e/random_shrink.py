"""Makes a failing kernel smaller: drops statements and replaces expressions by their parts."""

from __future__ import annotations

import ast
import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from e2e.random_model import RandomKernel


def shrink(
    kernel: RandomKernel, fails: Callable[[RandomKernel], bool], seconds: float
) -> RandomKernel:
    """The smallest kernel found for which `fails` is still true."""
    end = time.monotonic() + seconds
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for candidate in _smaller(kernel):
            if time.monotonic() > end:
                break
            if len(candidate.text) < len(kernel.text) and fails(candidate):
                kernel, changed = candidate, True
                break
    if math.prod(kernel.grid) > 1 and fails(replace(kernel, grid=(1,))):
        kernel = replace(kernel, grid=(1,))
    return kernel


def _smaller(kernel: RandomKernel) -> Iterator[RandomKernel]:
    tree = ast.parse(kernel.text)
    for number in range(_count(tree, _statement_edits)):
        yield replace(kernel, text=_edited(tree, _statement_edits, number))
    for number in range(_count(tree, _expression_edits)):
        yield replace(kernel, text=_edited(tree, _expression_edits, number))


Edits = Callable[[ast.Module], Iterator[Callable[[], None]]]


def _count(tree: ast.Module, edits: Edits) -> int:
    return sum(1 for _ in edits(tree))


def _edited(tree: ast.Module, edits: Edits, number: int) -> str:
    changed = copy.deepcopy(tree)
    for k, edit in enumerate(edits(changed)):
        if k == number:
            edit()
            break
    return ast.unparse(ast.fix_missing_locations(changed)) + "\n"


def _statement_edits(tree: ast.Module) -> Iterator[Callable[[], None]]:
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if not isinstance(block, list):
                continue
            for at, statement in enumerate(block):
                if isinstance(statement, ast.Import) or getattr(statement, "name", "") == "k":
                    continue
                if isinstance(statement, ast.Pass):
                    continue
                inner = getattr(statement, "body", None) or []

                def drop(block: list[ast.stmt] = block, at: int = at, field: str = field) -> None:
                    block[at : at + 1] = [] if len(block) > 1 or field == "orelse" else [ast.Pass()]

                def flatten(block: list[ast.stmt] = block, at: int = at) -> None:
                    block[at : at + 1] = block[at].body  # type: ignore[attr-defined]

                yield drop
                if inner and not isinstance(statement, ast.FunctionDef):
                    yield flatten


def _expression_edits(tree: ast.Module) -> Iterator[Callable[[], None]]:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if isinstance(value, ast.expr) and _worth(value):
                for child in _parts(value):

                    def put(
                        parent: ast.AST = parent, name: str = name, child: ast.expr = child
                    ) -> None:
                        setattr(parent, name, child)

                    yield put
            elif isinstance(value, list):
                for at, item in enumerate(value):
                    if isinstance(item, ast.keyword):
                        yield lambda value=value, at=at: value.pop(at)  # type: ignore[misc]
                    if isinstance(item, ast.expr) and _worth(item):
                        for child in _parts(item):

                            def put_item(
                                value: list[ast.expr] = value, at: int = at, child: ast.expr = child
                            ) -> None:
                                value[at] = child

                            yield put_item


def _worth(node: ast.expr) -> bool:
    return not isinstance(node, ast.Constant | ast.Name | ast.Attribute) or isinstance(
        node, ast.Call
    )


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    yield ast.Constant(1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield node.func.value
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr) and not isinstance(child, ast.Attribute):
            yield child
        elif isinstance(child, ast.keyword):
            yield child.value
