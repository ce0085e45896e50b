"""The microkernels that ship: right against their ops on random shapes, and chosen where they are faster."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang import microkernels

BF16 = ml_dtypes.bfloat16


@pytest.mark.parametrize("fmt", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(("k", "n"), [(64, 16), (96, 17), (256, 80)])
@pytest.mark.parametrize("acc", [True, False])
def test_batch1(fmt, k, n, acc):
    microkernels.batch1_matmul.self_test(
        f"{fmt}[1, {k}]", f"{fmt}[{k}, {n}]", f"fp32[1, {n}]" if acc else None
    )


@pytest.mark.parametrize("fmt", ["bf16", "fp16"])
@pytest.mark.parametrize(("m", "n", "d"), [(1, 32, 16), (16, 128, 64), (5, 7, 9)])
def test_softmax_step(fmt, m, n, d):
    microkernels.softmax_step.self_test(
        f"fp32[{m}, {n}]", f"{fmt}[{n}, {d}]", f"fp32[{m}]", f"fp32[{m}]", f"fp32[{m}, {d}]"
    )


def test_softmax_step_from_nothing():
    """The first block: the peak so far is -inf."""
    scores = np.random.default_rng(0).standard_normal((8, 32)).astype(np.float32) * 5
    values = np.random.default_rng(1).standard_normal((32, 16)).astype(BF16)
    microkernels.softmax_step.self_test(
        scores, values, np.full(8, -np.inf, np.float32), np.zeros(8, np.float32), np.zeros((8, 16), np.float32)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("m", "k", "n", "groups", "fmt", "scale"),
    [(1, 128, 32, 2, "bf16", "fp32"), (16, 128, 24, 4, "fp16", "bf16"), (3, 60, 8, 5, "bf16", "fp32"), (2, 64, 8, 1, "bf16", "fp16")],
)  # fmt: skip
def test_int4(m, k, n, groups, fmt, scale):
    microkernels.int4_dot_packed.self_test(
        f"{fmt}[{m}, {k}]", f"uint8[{k // 2}, {n}]", f"{scale}[{groups}, {n}]", f"fp32[{m}, {n}]"
    )


@dsa.jit
def recurrence(x, w, y, STEPS, N: tl.constexpr):
    n = tl.arange(0, N)
    weights = tl.load(w + n[:, None] * N + n[None, :])
    state = tl.load(x + n)[None, :]
    for _ in range(STEPS):
        state = tl.tanh(tl.dot(state, weights))
    tl.store(y + n, tl.reshape(state, (N,)))


def test_batch1_is_chosen_and_faster(monkeypatch):
    random, n = np.random.default_rng(0), 128
    x, w = (
        random.standard_normal(n).astype(np.float32),
        random.standard_normal((n, n)).astype(np.float32) / 12,
    )
    cycles = {}
    for mode in ("off", "auto"):
        monkeypatch.setenv("DSA_MICROKERNELS", mode)
        y = np.zeros(n, np.float32)
        cycles[mode] = recurrence[(1,)](x, w, y, 6, N=n).cycles
        expected = x.astype(np.float64)
        for _ in range(6):
            expected = np.tanh(expected @ w)
        np.testing.assert_allclose(y, expected, atol=1e-4)
    assert cycles["auto"] < 0.9 * cycles["off"]
    (choice,) = recurrence.warmup(x, w, y, 6, N=n, grid=(1,)).microkernels
    assert choice.ran and choice.kernel.endswith("batch1_matmul")


@pytest.mark.parametrize("engine", ["reference", "adversarial", "riscv"])
def test_every_engine_gives_the_same_bits(monkeypatch, engine):
    random, n = np.random.default_rng(0), 96
    x, w = (
        random.standard_normal(n).astype(np.float32),
        random.standard_normal((n, n)).astype(np.float32) / 10,
    )
    found = []
    for name in ("fast", engine):
        monkeypatch.setenv("DSA_EMULATOR", name)
        found.append(np.zeros(n, np.float32))
        recurrence[(1,)](x, w, found[-1], 3, N=n)
    assert (found[0] == found[1]).all()
