"""`import dsalang`: what it offers and what it costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import dsalang as dsa
from dsalang._jit.builtin import Builtin


def python(code: str) -> str:
    """Output of a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


HEAVY = ("xdsl", "llvmlite", "unicorn", "rich", "torch", "hypothesis")


def test_import_loads_nothing_heavy():
    code = f"import dsalang, sys, json; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    assert json.loads(python(code)) == []


def test_defining_and_interpreting_a_kernel_needs_no_compiler(tmp_path):
    path = tmp_path / "defines.py"
    path.write_text(
        "import sys, numpy as np, dsalang as dsa\n"
        "@dsa.jit(interpret=True)\n"
        "def kernel(x):\n"
        "    dsa.store(x, 1.0)\n"
        "x = np.zeros(1, np.float32)\n"
        "kernel[1](x)\n"
        "assert x[0] == 1\n"
        f"print([m for m in {HEAVY} if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_import_costs_little_more_than_numpy():
    code = (
        "import time, numpy, ml_dtypes; a = time.process_time(); import dsalang as dsa; dsa.jit; dsa.load; "
        "print(time.process_time() - a)"
    )
    assert min(float(python(code)) for _ in range(3)) < 0.5


def test_names():
    names = dir(dsa)
    for name in ("jit", "constexpr", "Target", "target", "set_target", "load", "store", "arange", "float16",
                 "bfloat16", "language", "UserError", "CompileError", "LaunchError", "JITFunction"):  # fmt: skip
        assert name in names
        assert getattr(dsa, name) is not None
    assert dsa.load is dsa.language.load
    for name in ("annotations", "import_module", "SimpleNamespace"):
        assert name not in dsa._language_names()


def test_every_builtin_is_at_the_top_level():
    for name, value in vars(dsa.language).items():
        if isinstance(value, Builtin) and not name.startswith("_"):
            assert getattr(dsa, name) is value


def test_star_import_of_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        dsa.nope  # noqa: B018
    with pytest.raises(ImportError):
        from dsalang import nope  # noqa: F401


def test_host_functions():
    assert dsa.cdiv(7, 3) == 3
    assert dsa.next_power_of_2(100) == 128
    with pytest.raises(dsa.UserError, match="outside a kernel"):
        dsa.load(3)
