"""The lines of a function are those that `inspect` finds, whatever stands in and behind them."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
import types
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsalang._jit.lines import block_of, written_lines
from dsalang._jit.source import KernelSource

ROOT = Path(__file__).parents[2]


def functions_in(code: types.CodeType) -> list[types.CodeType]:
    found = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    inner = itertools.chain.from_iterable(map(functions_in, found))
    return [*(c for c in found if c.co_name.isidentifier()), *inner]


def parsed(lines: list[str]) -> str | None:
    try:
        return ast.dump(ast.parse(textwrap.dedent("".join(lines))))
    except SyntaxError:
        return None


def blocks(text: str) -> list[tuple[list[str], list[str]]]:
    """Of each function in a text: the lines that are found, and those that `inspect` finds."""
    lines = text.splitlines(keepends=True)
    found = []
    for code in functions_in(compile(text, "text", "exec")):
        block = block_of(lines, code)
        if block is not None and not block[0].lstrip().startswith("class"):
            found.append((block, inspect.getblock(lines[code.co_firstlineno - 1 :])))
    return found


@pytest.mark.parametrize("folder", ["jit/parse", "backend/passes", "tests/suite"])
def test_as_inspect_in_the_files_of_this_project(folder: str) -> None:
    for path in sorted((ROOT / folder).glob("*.py")):
        for block, theirs in blocks(path.read_text()):
            if (mine := parsed(block)) is not None:  # else the long way is taken
                assert mine == parsed(theirs), (path, block[0])


STATEMENTS = [
    "pass", "return", "x = 1", "x: int", "global y", "'text'", "if x:\n    y = 2\nelse:\n    pass",
    "while True:\n    break", "x = f(1,\n2)", "x = '''a\nb\n  c'''", "x = (\n1\n)", "# comment", "",
    "def g(a):\n    return a\n# comment\n", "x = 1 + \\\n2", "@f\ndef g(): return lambda: [x for x in y]", "x = [\n]",
    "x = 1; y = 2", "\tx = 1", "async def g():\n    await f", "class C:\n    a = 1",
]  # fmt: skip


def indented(text: str, by: str) -> str:
    return "".join(by + line if line.strip() else line for line in text.splitlines(keepends=True))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=5),
    st.lists(st.sampled_from(STATEMENTS), max_size=2),
    st.sampled_from(["", "@f\n", "@f(\n1,\n2)\n", "async "]),
    st.sampled_from(["", "  "]),
)
def test_as_inspect(inside: list[str], behind: list[str], before: str, by: str) -> None:
    body = indented("\n".join([*inside, "pass"]) + "\n", "    ")
    text = f"{before}def k(x,\n  n=1):\n{body}" + "\n".join(behind) + "\n"
    if by:
        text = f"if f:\n{indented(text, by)}"
    try:
        compile(text, "text", "exec")
    except SyntaxError:
        return
    for block, theirs in blocks(text):
        if (mine := parsed(block)) is not None:
            assert mine == parsed(theirs), text


def test_lines_that_stand_further_left_are_found_the_long_way(tmp_path: Path) -> None:
    path = tmp_path / "left.py"
    path.write_text("def k(x):\n    return f(x,\n'''\na''',\n)\n\n\ny = 1\n")
    scope: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    function = scope["k"]
    assert isinstance(function, types.FunctionType)
    assert written_lines(function) == ["def k(x):\n", "    return f(x,\n", "'''\n"]
    assert KernelSource.of(function).text == "def k(x):\n    return f(x,\n'''\na''',\n)\n"
