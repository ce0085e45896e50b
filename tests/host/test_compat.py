"""`import triton` after `dsalang.compat.install()`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types

import numpy as np
import pytest

import dsalang as dsa
from dsalang import compat

LIBRARY = """
import triton
import triton.language as tl
from triton.language.extra.libdevice import tanh, pow
from triton.language.extra import libdevice
from triton.runtime import driver
import triton.testing

@triton.autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=4)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tanh(x) + pow(x, 2.0) + libdevice.rsqrt(x + 1.0), mask=at < n)

def call(x, out):
    kernel[lambda meta: (triton.cdiv(x.size, meta["BLOCK"]),)](x, out, x.size)
"""


@pytest.fixture
def installed():
    kept = {n: m for n, m in sys.modules.items() if n == "triton" or n.startswith("triton.")}
    for name in kept:
        del sys.modules[name]
    yield compat.install()
    compat.uninstall()
    assert "triton" not in sys.modules
    sys.modules.update(kept)


def test_a_library(installed, tmp_path, monkeypatch):
    (tmp_path / "strange_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    library = importlib.import_module("strange_library")
    x = np.linspace(0, 2, 300, dtype=np.float32)
    out = np.zeros_like(x)
    library.call(x, out)
    np.testing.assert_allclose(out, np.tanh(x) + x**2 + 1 / np.sqrt(x + 1), rtol=1e-5)
    del sys.modules["strange_library"]


def test_names(installed):
    import triton
    import triton.language.math
    from triton.compiler.errors import CompilationError
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.errors import OutOfResources

    assert triton.jit is dsa.jit and triton.next_power_of_2(100) == 128
    assert triton.language.float32 is dsa.float32
    assert issubclass(OutOfResources, dsa.UserError) and issubclass(CompilationError, dsa.UserError)
    assert Autotuner.__name__ == "Autotuner"
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    assert properties["multiprocessor_count"] >= 1 and properties["max_shared_mem"] > 0
    assert triton.runtime.driver.active.get_current_target().backend == "cpu"
    assert compat.install() is installed
    spec = importlib.util.find_spec("triton.language.extra.libdevice")
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    assert again.rsqrt is triton.language.extra.libdevice.rsqrt
    from triton.tools.ragged_tma import create_ragged_descriptor

    with pytest.raises(dsa.UserError, match="create_ragged_descriptor is not available") as error:
        create_ragged_descriptor(None, [1, 1])
    assert "mask loads" in error.value.hint
    assert hasattr(triton.language.standard, "_elementwise_max")
    assert triton.language.tuple_type((dsa.int32,)).types == (dsa.int32,)
    with pytest.raises(dsa.UserError, match=r"triton\.compile") as error:
        triton.compile("source")
    assert "kernel.compile" in error.value.hint


def test_another_triton_is_not_replaced_unasked(installed):
    sys.modules["triton"] = types.ModuleType("triton")
    with pytest.raises(dsa.LaunchError, match="has been imported already"):
        compat.install()
    assert compat.install(force=True).jit is dsa.jit


def test_the_text_of_a_function_is_that_from_def_on():
    @dsa.jit
    @dsa.jit
    def shown(x):  # def in a comment
        dsa.store(x, 1.0)

    assert shown.__globals__ is globals()
    assert shown.src.splitlines()[0] == "def shown(x):  # def in a comment"
    assert shown.src.splitlines()[1] == "    dsa.store(x, 1.0)"
