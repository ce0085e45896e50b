"""Walks over syntax trees: those of `ast` take a good part of a small kernel's compilation."""

from __future__ import annotations

import ast
from collections.abc import Iterable


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes below a node, in order; not those that only say something of it (`ast.Load`, `ast.Add`)."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [entry for entry in value if isinstance(entry, ast.AST)]
        elif isinstance(value, ast.AST) and value._fields:
            found.append(value)
    return found


def walk(*roots: ast.AST) -> Iterable[ast.AST]:
    """The roots and all nodes below them, breadth first."""
    found = list(roots)
    for node in found:
        found += children(node)
    return found
