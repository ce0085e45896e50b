"""DSA_WARN=1 points at `//` and `%` at run time that may differ from Python's."""

from __future__ import annotations

import linecache
import warnings

import numpy as np
import pytest

from dsalang._jit.parse.division import DivisionWarning

HEAD = """\
import dsalang as dsa
import dsalang.language as tl
@dsa.jit
def k(p, x, n, u: tl.uint32, N: tl.constexpr):
"""


def lines(body: str, monkeypatch: pytest.MonkeyPatch, level: str | None = "1") -> list[str]:
    """What is warned of in a kernel: line and message."""
    text = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    name = f"/division/{hash(body)}/{level}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, object] = {}
    exec(compile(text, name, "exec"), scope)
    if level is None:
        monkeypatch.delenv("DSA_WARN", raising=False)
    else:
        monkeypatch.setenv("DSA_WARN", level)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scope["k"][1](np.zeros(64, np.int32), np.ones(64, np.float32), 5, 7, N=4)
    found = [w for w in caught if w.category is DivisionWarning]
    assert all(w.filename == name for w in found)
    return [f"{w.lineno - 4}: {w.message}" for w in found]


MAY = [
    ("tl.store(p, n // 2)", "column 17: // at run time rounds towards zero"),
    ("tl.store(p, (n - 8) % 3)", "column 17: % at run time takes the sign of its left operand"),
    ("n //= 4\ntl.store(p, n)", "column 5: // at run time"),
    ("tl.store(p, tl.load(p) // 2)", "the left operand here may be negative"),
    ("tl.store(p, tl.program_id(0) // n)", "the right operand here may be negative"),
    ("tl.store(p, n % n)", "the operands here may be negative"),
    ("tl.store(x, tl.load(x) % 2.0)", "the left operand here"),
    ("tl.store(p + tl.arange(0, 4), (tl.arange(0, 4) - 2) // 2)", "the left operand"),
    ("a = 3\nfor i in range(4):\n    a -= 1\ntl.store(p, a // 2)", "the left operand"),
    ("for i in range(-2, n):\n    tl.store(p, i // 2)", "the left operand"),
    ("a = 1\nif n > 3:\n    a = -n\ntl.store(p, a // 2)", "the left operand"),
]
NEVER = [
    "tl.store(p, tl.program_id(0) // 4 + tl.num_programs(0) % 3)",
    "tl.store(p + tl.arange(0, 4), tl.arange(0, 4) // 2 + (tl.arange(0, 4)[:, None] % 3).ravel()[:4])",
    "tl.store(p, tl.maximum(n, 0) // 2 + tl.abs(n) % 3 + (n & 7) // 2)",
    "for i in range(0, n, 2):\n    tl.store(p, i // 2)",
    "a = 0\nfor i in range(n):\n    a += 3\ntl.store(p, a % 5)",
    "a = 1\nif n > 3:\n    a = 7\ntl.store(p, a // 2)",
    "tl.store(p, u // 2)",
    "tl.store(p, N // 3 + (-N) // 3)",
    "tl.store(p, tl.cdiv(n, 4))",
    "i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), n, n, 2)\ntl.store(p, i + j)",
]


@pytest.mark.parametrize(("body", "message"), MAY, ids=[b[:36] for b, _ in MAY])
def test_divisions_that_may_differ(body, message, monkeypatch):
    found = lines(body, monkeypatch)
    assert len(found) == 1, found
    number = next(k for k, line in enumerate(body.splitlines(), 1) if "//" in line or "%" in line)
    assert found[0].startswith(f"{number}: ") and message in found[0]


@pytest.mark.parametrize("body", NEVER, ids=[b[:36] for b in NEVER])
def test_divisions_that_cannot(body, monkeypatch):
    assert lines(body, monkeypatch) == []


def test_only_when_asked_for(monkeypatch):
    assert lines("tl.store(p, n // 2)", monkeypatch, None) == []
    assert lines("tl.store(p, n // 2)", monkeypatch, "0") == []
