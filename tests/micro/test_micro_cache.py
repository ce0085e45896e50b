"""The cache key of a kernel changes with what its microkernels do."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
import sys, numpy as np
sys.path.insert(0, {folder!r})
import dsalang as dsa
from written import kernel
x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
kernel[(1,)](x, y)
print(y[0])
"""

WRITTEN = """
import dsalang as dsa

FACTOR = {factor}

def helper():
    return {helper}

@dsa.jit
def op(x):
    return x * {whole}

@dsa.microkernel(reference=op)
def micro(k, x):
    k.vector(k.result, lambda v, a: a * float(FACTOR * helper()), x)

@dsa.jit
def kernel(x, y):
    n = dsa.arange(0, 64)
    dsa.store(y + n, micro(dsa.load(x + n)))
"""


def python(code: str, cache: str) -> str:
    environment = {**os.environ, "DSA_CACHE_DIR": cache}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize(("factor", "helper"), [(2.0, 3.0), (5.0, 3.0), (2.0, 7.0)])
def test_globals_and_helpers_count(tmp_path_factory, factor, helper):
    folder = tmp_path_factory.getbasetemp() / "micro-cache"
    folder.mkdir(exist_ok=True)
    text = WRITTEN.format(factor=factor, helper=helper, whole=factor * helper)
    (folder / "written.py").write_text(textwrap.dedent(text))
    assert (
        float(python(SCRIPT.format(folder=str(folder)), str(folder / "cache"))) == factor * helper
    )
