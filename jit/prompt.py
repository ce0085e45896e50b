"""Kernels typed at Python's own prompt, which keeps no source before Python 3.13: their lines are in readline's history."""

from __future__ import annotations

import ast
import itertools
import linecache
import sys
import types

_NUMBERS = itertools.count(1)
_MOST_LINES = 2000


def typed_source(function: types.FunctionType) -> tuple[str, list[str], int] | None:
    """A function that was just typed: a file name that shows it in errors, its lines, the number of the first
    one; None when not found.

    The lines are taken only when they compile to the very code of the function.
    """
    readline = sys.modules.get("readline")
    if function.__code__.co_filename != "<stdin>" or readline is None:
        return None
    last = readline.get_current_history_length()
    history = [
        readline.get_history_item(n) or "" for n in range(max(1, last - _MOST_LINES), last + 1)
    ]
    for start in reversed(range(len(history))):
        if not history[start].startswith(("def ", "@")):
            continue
        if start and history[start - 1].startswith("@"):
            continue  # its decorators stand above
        lines = [line + "\n" for line in history[start:]]
        if _makes(lines, function):
            name = f"<prompt-{next(_NUMBERS)}>"
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
            return name, lines, 1
        if history[start].startswith("def ") and f"def {function.__name__}(" in history[start]:
            return None
    return None


def _makes(lines: list[str], function: types.FunctionType) -> bool:
    try:
        module = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return False
    if len(module.body) != 1 or not isinstance(module.body[0], ast.FunctionDef):
        return False
    module.body[0].decorator_list = []
    code = compile(module, "<stdin>", "exec")
    made = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    ours = function.__code__
    return any(
        (c.co_name, c.co_code, c.co_names, c.co_varnames)
        == (ours.co_name, ours.co_code, ours.co_names, ours.co_varnames)
        for c in made
    )
