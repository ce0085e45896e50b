"""Kernels typed at Python's own prompt, on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pty = pytest.importorskip("pty")
pytest.importorskip("readline")

TYPED = """
import numpy as np
import dsalang as dsa
@dsa.jit
def twice(x, out, BLOCK: dsa.constexpr):
    offs = dsa.arange(0, BLOCK)
    dsa.store(out + offs, 2 * dsa.load(x + offs))

x = np.arange(8, dtype=np.float32); out = np.zeros_like(x)
run = twice[(1,)](x, out, BLOCK=8)
print("SUM", out.sum())
@dsa.jit
def wrong(x, BLOCK: dsa.constexpr):
    dsa.store(x + dsa.arange(0, BLOCK), nothing)

wrong[(1,)](x, BLOCK=8)
print("DO" + "NE")
"""


def test_kernels_typed_at_the_prompt(tmp_path: Path) -> None:
    terminal, its_end = pty.openpty()
    prompt = subprocess.Popen(
        [sys.executable, "-q", "-i"],
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        cwd=tmp_path,
        env={**os.environ, "TERM": "dumb", "PYTHON_BASIC_REPL": "1"},
        start_new_session=True,
    )
    os.close(its_end)
    shown = b""
    deadline = time.monotonic() + 120
    for line in TYPED.strip("\n").split("\n"):
        os.write(terminal, line.encode() + b"\n")
    while b"DONE" not in shown and time.monotonic() < deadline:
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            break
    os.write(terminal, b"exit()\n")
    prompt.wait(30)
    os.close(terminal)
    text = shown.decode(errors="replace")
    assert "SUM 56.0" in text
    assert ":3:41: " in text and "nothing" in text  # the place in what was typed
    assert "dsa.store(x + dsa.arange(0, BLOCK), nothing)" in text.split(":3:41: ", 1)[1]
