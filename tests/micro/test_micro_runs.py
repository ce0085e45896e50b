"""Microkernels that are right: on every engine, with flags of the compiler's and of their own, in a schedule."""

from __future__ import annotations

import linecache

import numpy as np
import pytest
from micro.micro_kernels import STEP, ordered, plain, product, repeat, stream, streamed

M, N, K = 8, 48, 64
ENGINES = ("fast", "reference", "adversarial", "riscv")


def operands(count):
    random = np.random.default_rng(0)
    x = random.standard_normal((M, K)).astype(np.float32)
    w = random.standard_normal((count, K, N)).astype(np.float32)
    return x, w, np.zeros((count, M, N), np.float32)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("micro", [plain, ordered], ids=lambda m: m.fn.__name__)
def test_tiles(monkeypatch, micro, engine):
    monkeypatch.setenv("DSA_EMULATOR", engine)
    x, w, y = operands(6)
    product[(2,)](x, w, y, micro, M, N, K)
    np.testing.assert_allclose(y, x @ w, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
def test_loads_of_its_own(monkeypatch, engine):
    monkeypatch.setenv("DSA_EMULATOR", engine)
    x, w, y = operands(3)
    report = streamed[(3,)](x, w, y, stream, M, N, K)
    np.testing.assert_allclose(y, x @ w, rtol=1e-5, atol=1e-4)
    assert report.hbm["w"].read == w.nbytes  # the address is known to come from w


@pytest.mark.parametrize("engine", ENGINES)
def test_a_ring_in_a_loop_with_flags_of_its_own(monkeypatch, engine):
    monkeypatch.setenv("DSA_EMULATOR", engine)
    x, w, y = operands(5)
    streamed[(5,)](x, w, y, repeat, M, N, K)
    folded = w.reshape(5, K // STEP, STEP, N).sum(1)
    np.testing.assert_allclose(y, x[:, :STEP] @ folded, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("micro", [stream, repeat], ids=lambda m: m.fn.__name__)
def test_in_a_static_schedule(micro):
    x, w, y = operands(3)
    dynamic = streamed[(3,)](x, w, y, micro, M, N, K)
    expected = y.copy()
    y[:] = 0
    static = streamed[(3,)](x, w, y, micro, M, N, K, schedule="static")
    assert (y == expected).all() and static.cycles <= dynamic.cycles


def test_the_author_says_how_many_slots():
    x, w, y = operands(3)
    rings = {r.label: r for r in streamed.warmup(x, w, y, repeat, M, N, K, grid=(3,)).image.rings}
    assert rings["block"].slots == 3 and rings["block"].shape == (STEP, N)


def test_the_prediction_is_exact():
    x, w, y = operands(3)
    compiled = streamed.warmup(x, w, y, repeat, M, N, K, grid=(3,))
    assert compiled.predict(3).cycles == streamed[(3,)](x, w, y, repeat, M, N, K).cycles


def test_instructions_have_the_lines_of_the_microkernel():
    x, w, y = operands(6)
    image = product.warmup(x, w, y, ordered, M, N, K, grid=(2,)).image
    (mma,) = [t for t in image.templates if t.instruction.op == "mma"]
    assert mma.loc.file.endswith("micro_kernels.py")
    caller = mma.loc.caller
    assert caller is not None and "f(a, b, None)" in linecache.getline(caller.file, caller.line)
