"""Kernels made by `exec`: Python forgets their text, but the caller of `exec` usually still has it in a variable."""

from __future__ import annotations
import __future__

import ast
import functools
import hashlib
import inspect
import linecache
import operator
import sys
import types

from .lines import block_of

_FUTURES = functools.reduce(
    operator.or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names)
)


def executed_source(function: types.FunctionType) -> tuple[str, list[str], int] | None:
    """The text around a function that `exec` is making right now: a file name that shows it in errors, its lines,
    and the number of the function's first line. None when no variable of exec's caller holds that text.

    A text is taken only when it compiles to the very code that is running.
    """
    module = _module_frame(function)
    if module is None or module.f_back is None:
        return None
    for value in list(module.f_back.f_locals.values()):
        if isinstance(value, str) and function.__name__ in value and _makes(value, module.f_code):
            name = f"<exec-{hashlib.sha256(value.encode()).hexdigest()[:12]}>"
            lines = value.splitlines(keepends=True)
            linecache.cache[name] = (len(value), None, lines, name)
            first = function.__code__.co_firstlineno
            block = block_of(lines, function.__code__)
            if block is None or not _parses("".join(block)):
                block = inspect.getblock(lines[first - 1 :])
            return name, block, first
    return None


def is_foreign(function: types.FunctionType) -> bool:
    """Whether the text that Python has for a function is that of another module.

    All that is executed from strings is called `<string>`, and from 3.13 on Python keeps the text of `python -c` under
    that name.
    """
    if function.__code__.co_filename != "<string>":
        return False
    try:
        text = "".join(inspect.findsource(function)[0])
    except (OSError, TypeError, SyntaxError, IndexError):
        return False  # there is none
    flags = function.__code__.co_flags & _FUTURES
    try:
        pending = [compile(text, "<string>", "exec", flags, dont_inherit=True)]
    except (SyntaxError, ValueError):
        return True
    while pending:
        code = pending.pop()
        if code == function.__code__:
            return False
        pending += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return True


def _module_frame(function: types.FunctionType) -> types.FrameType | None:
    """The frame of the executed text, if it is running."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        if (
            frame.f_globals is function.__globals__
            and frame.f_code.co_name == "<module>"
            and frame.f_code.co_filename == function.__code__.co_filename
        ):
            return frame
        frame = frame.f_back
    return None


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _makes(text: str, code: types.CodeType) -> bool:
    try:
        made = compile(text, code.co_filename, "exec", code.co_flags & _FUTURES, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return bool(made == code)
