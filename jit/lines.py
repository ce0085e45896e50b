"""The lines of a function, by what Python knows of its code: `inspect` reads the text token by token, which takes
longer than the rest of making a kernel.
"""

from __future__ import annotations

import inspect
import linecache
import re
import types
from collections.abc import Sequence

_STARTS = re.compile(r"\s*(@|(async\s+)?def\s)")


def written_lines(function: types.FunctionType) -> list[str] | None:
    """The lines of a function in its file, as `block_of` finds them."""
    if hasattr(function, "__wrapped__"):  # stands for another one
        return None
    code = function.__code__
    linecache.checkcache(code.co_filename)
    return block_of(linecache.getlines(code.co_filename, function.__globals__), code)


def shown_as(function: types.FunctionType) -> str:
    """The file name under which `linecache` has the text of a function that `inspect` finds.

    Python 3.14 keeps what was typed at the prompt or given to `python -c` by code, not by name.
    """
    file = function.__code__.co_filename
    if linecache.getlines(file, function.__globals__):
        return file
    lines, _ = inspect.findsource(function)
    name = "<python -c>" if file == "<string>" else file
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    return name


def block_of(lines: Sequence[str], code: types.CodeType) -> list[str] | None:
    """The lines of a function in those of its file; None when they are not there.

    They are too few, and no Python then, when lines of a bracket or a string after the last line with code stand
    further left than the function.
    """
    start = code.co_firstlineno - 1
    if not 0 <= start < len(lines) or not _STARTS.match(lines[start]):
        return None
    indent = _indent(lines[start])
    end = min(_last_line(code), len(lines))
    while end < len(lines) and (_indent(lines[end]) > indent or _is_empty(lines[end])):
        end += 1
    while _is_empty(lines[end - 1]):
        end -= 1
    return list(lines[start:end])


def _last_line(code: types.CodeType) -> int:
    """The last line that code comes from, that of functions inside included."""
    last = max((line for _, _, line in code.co_lines() if line), default=0)
    inside = (_last_line(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return max(code.co_firstlineno, last, *inside)


def _indent(line: str) -> int:
    wide = line.expandtabs()
    return len(wide) - len(wide.lstrip())


def _is_empty(line: str) -> bool:
    text = line.lstrip()
    return not text or text.startswith("#")
