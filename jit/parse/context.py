"""The parser's state: which function it is in, what the variables are, where it is in the source."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from xdsl.ir import Block

from dsalang._backend.errors import CompileError, Loc, did_you_mean

from ..micro.plan import Plan
from ..source import KernelSource
from ..syntax import children
from ..values import Operand, Undefined, fail, wrap
from .emit import Emitter

RESULT = "return"
"""The variable that holds a function's result (a keyword, so no user variable has this name)."""
RETURNED = "return?"
"""The variable that says whether a loop ended by `return`."""


@dataclass
class Scope:
    """One function being parsed. `locals` are the names it assigns anywhere, as in Python."""

    source: KernelSource
    env: dict[str, Operand]
    locals: frozenset[str]
    caller: Loc | None = None
    node: ast.AST | None = None  # of a function defined inside the kernel
    locs: dict[ast.AST, Loc] = field(default_factory=dict)

    def loc(self, node: ast.AST) -> Loc:
        """The place of a node, with the chain of call sites."""
        loc = self.locs.get(node)
        if loc is None:
            loc = self.locs[node] = self.source.loc(node, self.caller)
        return loc


@dataclass
class Unrolled:
    """A loop that is unrolled. A `break` in the block where it stands ends it at compile time."""

    block: Block
    stopped: bool = False


class Context:
    """The parser's state. `run_body` parses a function's statements, `attribute` reads one of an operand (set
    once, they break import cycles).

    `loops` has an entry per open loop of the current function, innermost last: the variable that says
    the loop goes on, an Unrolled for a loop that is unrolled.
    """

    def __init__(
        self,
        scope: Scope,
        block: Block,
        run_body: Callable[[Context, list[ast.stmt]], object],
        attribute: Callable[[Context, Operand, str], Operand],
    ) -> None:
        self.scope = scope
        self.stack = [scope]
        self.node: ast.AST = scope.source.tree
        self.em = Emitter(block, self.loc)
        self.run_body, self.attribute = run_body, attribute
        self.loops: list[str | Unrolled] = []
        self.plan: Plan | None = None  # of microkernels

    def loc(self) -> Loc:
        """The place of the node being parsed."""
        return self.scope.loc(self.node)

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Parse `node`: operations and errors inside get its place."""
        outer = self.node
        self.node = node
        try:
            yield
        except CompileError as error:
            if error.loc is None:
                error.loc = self.scope.loc(node)
            raise
        finally:
            self.node = outer

    def refuse(self, node: ast.AST, message: str, hint: str = "") -> NoReturn:
        """A CompileError at `node`."""
        raise CompileError(message, self.scope.loc(node), hint)

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Parse an inlined function."""
        outer, node, loops = self.scope, self.node, self.loops
        self.stack.append(scope)
        self.scope, self.node, self.loops = scope, scope.node or scope.source.tree, []
        try:
            yield
        finally:
            self.stack.pop()
            self.scope, self.node, self.loops = outer, node, loops

    def read(self, name: str) -> Operand:
        """The value of a variable."""
        scope = self.scope
        if name in scope.env:
            value = scope.env[name]
            if isinstance(value, Undefined):
                fail(f"{name!r} {value.reason}")
            return value
        if name in scope.locals:
            fail(f"{name!r} is used before it is assigned")
        try:
            return wrap(scope.source.lookup(name))
        except KeyError:
            known = {*scope.env, *scope.source.visible_names()} - {RESULT}
            fail(f"{name!r} is not defined", did_you_mean(name, known))

    def write(self, name: str, value: Operand) -> None:
        """Assign to a variable."""
        self.scope.env[name] = value


def assigned_names(nodes: list[ast.stmt]) -> list[str]:
    """The names that statements assign, in order of first appearance (nested functions excluded)."""
    names: dict[str, None] = {}
    work: deque[ast.AST] = deque(nodes)  # breadth first, as `walk`
    while work:
        node = work.popleft()
        if isinstance(node, ast.FunctionDef):
            names.setdefault(node.name)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names.setdefault(node.id)
        work.extend(children(node))
    return list(names)
