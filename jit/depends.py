"""What the meaning of a function depends on beside its own text: the rest of a cache key."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dsalang._backend.errors import CompileError

from .builtin import Builtin
from .constexpr import ConstexprFunction, constexpr
from .source import HostFunction, KernelSource, is_code, source_of

_NOTHING: Mapping[str, object] = {}


def dependencies(
    source: KernelSource, host: bool = False, given: Mapping[str, object] = _NOTHING
) -> dict[str, object]:
    """Every outside value that a kernel's meaning depends on, by the path of names that leads to it.

    Data map to themselves, functions (followed transitively, in tuples, lists and dicts, too) to their place and
    source text, what else is code to its name. What a cache key needs beside the kernel's own text; cheap, nothing is
    compiled.

    Args:
        source: the kernel.
        host: it is a function that runs on the host, whose calls of plain functions are followed too.
        given: constants that the kernel is compiled with; functions among them are followed.
    """
    found: dict[str, object] = {}
    seen: dict[int, object] = {id(source): source}  # the objects, so that their ids stay theirs
    pending = [
        step
        for name, value in given.items()
        for step in _steps(found, seen, f"{source.name}({name})", value, host)
    ]
    pending.append((source.name, source, host))
    while pending:
        way, one, host = pending.pop()
        for path, value in one.read_values():
            pending += _steps(found, seen, f"{way}:{path}", value, host)
    return found


Step = tuple[str, KernelSource, bool]


def _steps(
    found: dict[str, object], seen: dict[int, object], way: str, value: object, host: bool
) -> list[Step]:
    """Note a value that is read by the way `way`; which functions to follow from there."""
    if isinstance(value, constexpr):
        value = value.value
    items = _items(value)
    if items is not None:
        found[way] = value
        if id(value) in seen:
            return []
        seen[id(value)] = value
        return [s for n, v in items for s in _steps(found, seen, f"{way}[{n}]", v, host)]
    more: list[Step] = []
    if isinstance(value, HostFunction):
        found[f"{way}()"] = value.options_text()
        for name, part in value.companions().items():
            more += _steps(found, seen, f"{way}.{name}", part, True)
    callee = followed(value, host)
    if callee is None:
        found[way] = _code_name(value) if is_code(value) else value
        return []
    # By the way there: two functions of one factory share file and name.
    found[way] = f"{callee.file}:{callee.first_line}\n{callee.text}"
    known = value.function if isinstance(value, ConstexprFunction) else source_of(value) or value
    if id(known) in seen:
        return more
    seen[id(known)] = known
    return [*more, (way, callee, host or isinstance(value, HostFunction | ConstexprFunction))]


def _items(value: object) -> list[tuple[object, object]] | None:
    """The values in a container with their places; None for what is none."""
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, tuple | list) else None


def followed(value: object, host: bool) -> KernelSource | None:
    """The source of a function whose references count as those of its caller; `host`: the caller runs on the host."""
    if isinstance(value, HostFunction):
        return value.code
    if isinstance(value, ConstexprFunction):
        return _python_source(value.function)
    if host and isinstance(value, types.FunctionType):
        return _python_source(value)
    return source_of(value)


def dependency_text(function: HostFunction) -> str:
    """The source of a host function and of everything that it depends on."""
    outside = dependencies(function.code, True, function.companions())
    code = function.code
    place = f"{code.file}:{code.first_line}"
    return "\0".join(
        [
            place,
            code.text,
            function.options_text(),
            *(f"{w}={outside[w]!r}" for w in sorted(outside)),
        ]
    )


def _python_source(function: Callable[..., Any]) -> KernelSource | None:
    """The source of a plain function; None for one that no kernel could be (a lambda, one with *args)."""
    try:
        return KernelSource.of(function)
    except CompileError:
        return None


def _code_name(value: object) -> str:
    """A text that differs when functions, classes or modules do, and not from process to process."""
    if isinstance(value, ConstexprFunction):
        value = value.function
    if isinstance(value, Builtin):
        return f"builtin {value.name} {getattr(value.body, '__module__', '')}.{getattr(value.body, '__qualname__', '')}"
    if isinstance(value, types.FunctionType):
        return " ".join(_function_parts(value, 0))
    home = getattr(value, "__module__", None) or ""
    return f"{type(value).__name__} {home}.{getattr(value, '__qualname__', None) or value.__name__}"  # type: ignore[attr-defined]


_DEEP = 4
"""How many functions that have no source a text follows into each other."""


def _function_parts(function: types.FunctionType, depth: int) -> Iterator[str]:
    """What a function without source does, as far as its code and the values that it reads say."""
    yield f"{function.__module__}.{function.__qualname__}"
    yield from _code_parts(function.__code__)
    names = {n: function.__globals__.get(n) for n in function.__code__.co_names}
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    for name, cell in cells:
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    for name, value in (*names.items(), ("()", function.__defaults__)):
        if isinstance(value, types.FunctionType):
            yield from _function_parts(value, depth + 1) if depth < _DEEP else (name,)
        elif not is_code(value):
            yield f"{name}={value!r}"


def _code_parts(code: types.CodeType) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names}"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_parts(constant)
        else:
            yield repr(constant)
