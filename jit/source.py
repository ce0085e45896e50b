"""A kernel's source and everything its meaning depends on."""

from __future__ import annotations

import ast
import builtins
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from dsalang._backend.errors import CompileError, Loc

from .aggregate import members_of
from .annotations import plain, signature_of
from .builtin import Builtin
from .constexpr import ConstexprFunction, constexpr
from .dtypes import dtype, pointer_type
from .executed import executed_source, is_foreign
from .lines import shown_as, written_lines
from .prompt import typed_source
from .syntax import children

EMPTY = inspect.Parameter.empty
"""Default of a parameter that has none."""


@dataclass(frozen=True)
class Param:
    """A parameter of a kernel. `annotation` is the object, or its text under postponed annotations."""

    name: str
    constexpr: bool
    default: Any = EMPTY
    annotation: Any = EMPTY


@dataclass(frozen=True)
class Facts:
    """What a launch knows about run-time arguments, by argument name.

    `divisible`: the integer or the address in bytes is a multiple of this (1 when absent).
    `alias`: pointers with equal numbers may overlap (0 when absent, so all may).
    """

    divisible: Mapping[str, int] = field(default_factory=dict)
    alias: Mapping[str, int] = field(default_factory=dict)


_NO_SOURCE = (
    "define the kernel in a file, at a prompt or in a notebook cell (python -c keeps the source from 3.13 on); "
    "for exec, keep the text in a variable"
)


@dataclass(frozen=True, eq=False)
class KernelSource:
    """A Python function as the compiler sees it.

    An object that stands for a jitted function carries its KernelSource as attribute `source`; that is
    how kernels that call each other are recognised (`source_of`).
    """

    name: str
    text: str  # the source, first line not indented
    file: str
    first_line: int  # line in `file` of the first line of `text`, from 1
    indent: int  # columns that `text` was moved to the left
    params: tuple[Param, ...]
    globals: Mapping[str, Any] = field(repr=False)
    closure: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> KernelSource:
        """The source of a Python function defined in a file, a notebook cell, a REPL with history, or by
        `exec` of a text in a variable. Raises CompileError when Python cannot find the source.
        """
        if not isinstance(function, types.FunctionType) or function.__name__ == "<lambda>":
            what = f"{type(function).__name__} {function!r}"
            if isinstance(function, type | types.FunctionType):
                name = function.__name__
                what = f"the class {name}" if isinstance(function, type) else "a lambda"
            raise CompileError(
                f"a kernel is a function made with def, not {what}",
                hint="write def kernel(...): with @dsa.jit above it",
            )
        code = function.__code__
        file = code.co_filename
        foreign = is_foreign(function)
        quickly = None if foreign else written_lines(function)
        if quickly is not None:
            source = cls._made(function, file, quickly, code.co_firstlineno)
            with suppress(CompileError):
                _ = source.tree
                return source
        try:
            if foreign:
                raise OSError("the text of another module of that name")
            lines, first = inspect.getsourcelines(function)
            file = shown_as(function)
        except (OSError, TypeError, SyntaxError, IndexError):
            found = typed_source(function) or executed_source(function)
            if found is None:
                raise CompileError(
                    f"the source of {function.__name__}() is not available ({file})",
                    hint=_NO_SOURCE,
                ) from None
            file, lines, first = found
        return cls._made(function, file, lines, max(first, 1))

    @classmethod
    def _made(
        cls, function: types.FunctionType, file: str, lines: list[str], first: int
    ) -> KernelSource:
        indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        return cls(
            function.__name__,
            _shifted(lines, indent),
            file,
            first,
            indent,
            _params(function),
            function.__globals__,
            _Cells(cells),
        )

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The function's syntax tree (line and column numbers are those of `text`)."""
        try:
            module = ast.parse(self.text)
        except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
            loc = Loc(self.file, self.first_line, self.indent + 1)
            raise CompileError(f"cannot parse the source of {self.name}(): {error}", loc) from None
        for node in module.body:
            if isinstance(node, ast.FunctionDef):
                return node
        loc = Loc(self.file, self.first_line, self.indent + 1)
        kind = "async function" if "async def" in self.text else "source"
        raise CompileError(f"{self.name}() is not a plain function ({kind})", loc)

    def too_deep(self) -> CompileError:
        """The error of a function whose expressions or statements nest deeper than Python's stack."""
        return CompileError(
            f"{self.name}() is nested too deeply",
            Loc(self.file, self.first_line, self.indent + 1),
            "split the expression into several",
        )

    @cached_property
    def lines(self) -> list[str]:
        """The lines of `text`."""
        return self.text.splitlines()

    def loc(self, node: ast.AST, caller: Loc | None = None) -> Loc:
        """The place of a node in the user's file; columns count characters."""
        line = getattr(node, "lineno", 1)
        offset = getattr(node, "col_offset", 0)
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        column = len(text.encode()[:offset].decode(errors="ignore"))
        return Loc(self.file, self.first_line + line - 1, self.indent + column + 1, caller)

    def lookup(self, name: str) -> Any:
        """What `name` means outside the function: closure, module, Python builtin. KeyError when nothing."""
        if name in self.closure:
            return self.closure[name]
        if name in self.globals:
            return self.globals[name]
        return vars(builtins)[name]

    def visible_names(self) -> set[str]:
        """All names that `lookup` finds."""
        return {*self.closure, *self.globals, *vars(builtins)}

    @cached_property
    def _paths(self) -> list[tuple[str, ...]]:
        """Every outside name that the function reads, with the attributes after it; looked up at each launch."""
        read, assigned = _names(self.tree.body)
        local = {param.name for param in self.params} | assigned
        # defaults and annotations, which are no local's
        of_parameters, _ = _names([self.tree.args])
        return sorted(of_parameters | {path for path in read if path[0] not in local})

    def references(self) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Outside values that the function reads now, with the names that lead to them."""
        for path in self._paths:
            try:
                value = self.lookup(path[0])
                for attribute in path[1:]:
                    value = getattr(value, attribute)
            except (KeyError, AttributeError, NameError):
                continue
            yield path, value

    def read_values(self) -> Iterator[tuple[str, Any]]:
        """The same and what belongs to them, members of aggregates and defaults of parameters, by dotted names."""
        for path, value in self.references():
            way = ".".join(path)
            yield way, value
            if isinstance(value, type) and hasattr(value, "__aggregate__"):
                for name, member in members_of(value):
                    yield f"{way}.{name}", member
        for param in self.params:
            if param.default is not EMPTY:
                yield f"{param.name}=", param.default


class HostFunction:
    """A Python function that runs while a kernel is compiled, to say what is compiled: a microkernel.

    `code` is its source. It may call plain Python functions; what they do counts as its own.
    """

    code: KernelSource

    def options_text(self) -> str:
        """What else decides what it does."""
        return ""

    def companions(self) -> Mapping[str, object]:
        """Other functions that decide what it means, by what they are for."""
        return {}


class _Cells(Mapping[str, Any]):
    """Closure variables, read when asked: a cell may be filled or changed after the function is made."""

    def __init__(self, cells: dict[str, types.CellType]) -> None:
        self._cells = cells

    def __getitem__(self, name: str) -> Any:
        try:
            return self._cells[name].cell_contents
        except ValueError:  # an empty cell
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    def __contains__(self, name: object) -> bool:
        try:
            self[str(name)]
        except KeyError:
            return False
        return True


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _names(roots: Iterable[ast.AST]) -> tuple[set[tuple[str, ...]], set[str]]:
    """Names that are read, each with the attributes after it, and names that are a function's own because it assigns
    them (those of comprehensions are not)."""
    read: set[tuple[str, ...]] = set()
    assigned: set[str] = set()
    outside: set[str] = set()
    pending = list(roots)
    inside: list[ast.AST] = []  # comprehensions; looked at last
    own = True
    while pending or inside:
        if not pending:
            pending, inside, own = inside, [], False
        node = pending.pop()
        path: tuple[str, ...] = ()
        while isinstance(node, ast.Attribute):
            path = (node.attr, *path)
            node = node.value
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Store):
                read.add((node.id, *path))
            elif own:
                assigned.add(node.id)
        elif own and isinstance(node, _COMPREHENSIONS):
            inside.append(node)
        else:
            if isinstance(node, ast.Global | ast.Nonlocal):
                outside.update(node.names)
            pending += children(node)
    return read, assigned - outside


def _shifted(lines: list[str], indent: int) -> str:
    """The lines moved left. Lines that stand further left (comments, long strings) and empty ones stay as they are."""
    return "".join(line if line[:indent].strip(" \t") else line[indent:] for line in lines)


@cache
def body_of(builtin: Builtin) -> KernelSource:
    """The source of a builtin that is written in the language."""
    assert builtin.body is not None
    return KernelSource.of(builtin.body)


def source_of(value: Any) -> KernelSource | None:
    """The KernelSource of a jitted function, None for anything else."""
    if isinstance(value, type | types.ModuleType | Builtin | constexpr | dtype | pointer_type):
        return None
    try:
        found = getattr(value, "source", None)
    except Exception:  # a stranger's __getattr__ may raise anything
        return None
    return found if isinstance(found, KernelSource) else None


def is_code(value: object) -> bool:
    """True for what is the same in every run of a program: modules, classes, functions.

    Not for all that can be called: dtypes and constexprs can, too.
    """
    if isinstance(value, constexpr):
        return is_code(value.value)
    return isinstance(
        value,
        types.ModuleType
        | type
        | Builtin
        | ConstexprFunction
        | HostFunction
        | types.FunctionType
        | types.BuiltinFunctionType
        | types.MethodType,
    )


def _params(function: types.FunctionType) -> tuple[Param, ...]:
    params = []
    for name, param in signature_of(function).parameters.items():
        if param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD):
            code = function.__code__
            raise CompileError(
                f"{function.__name__}() takes *{name}: a kernel has a fixed list of parameters",
                Loc(code.co_filename, code.co_firstlineno, 1),
                "write the parameters out, or pass a tuple",
            )
        default = param.default
        if isinstance(default, constexpr):
            default = default.value
        annotation = plain(param.annotation)
        params.append(Param(name, is_constexpr(annotation), default, annotation))
    return tuple(params)


def is_constexpr(annotation: Any) -> bool:
    """True for `constexpr` as an annotation, also as text (`from __future__ import annotations`).

    >>> is_constexpr("tl.constexpr"), is_constexpr(constexpr), is_constexpr("int")
    (True, True, False)
    """
    if isinstance(annotation, str):
        return annotation.strip("'\"").split("[")[0].split(".")[-1] == "constexpr"
    return annotation is constexpr
