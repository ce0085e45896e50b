"""Kernels whose weights can stay in SRAM, with data and what numpy says."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import dsalang as dsa

Array = NDArray[Any]


@dsa.jit
def mlp(x, w1, w2, y, t, M: dsa.constexpr, D: dsa.constexpr, H: dsa.constexpr, BN: dsa.constexpr):
    m, d, n = dsa.arange(0, M), dsa.arange(0, D), dsa.arange(0, BN)
    at = m[:, None] * D + d[None, :]
    h = dsa.load(x + at)
    acc = dsa.zeros((M, D), dsa.float32)
    for j in range(0, H, BN):
        a = dsa.dot(h, dsa.load(w1 + d[:, None] * H + (j + n)[None, :]))
        a = dsa.maximum(a + t, 0.0)
        acc = dsa.dot(a.to(dsa.float16), dsa.load(w2 + (j + n)[:, None] * D + d[None, :]), acc)
    dsa.store(y + at, acc.to(dsa.float16))


@dsa.jit
def gemv(x, w, y, N, K: dsa.constexpr, BN: dsa.constexpr, BK: dsa.constexpr):
    n = dsa.program_id(0) * BN + dsa.arange(0, BN)
    keep = n[None, :] < N
    acc = dsa.zeros((1, BN), dsa.float32)
    for k in range(0, K, BK):
        kk = k + dsa.arange(0, BK)
        tile = dsa.load(w + kk[:, None] * N + n[None, :], mask=keep, other=0.0)
        acc = dsa.dot(dsa.load(x + kk)[None, :], tile, acc)
    dsa.store(y + n[None, :], acc, mask=keep)


@dsa.jit
def scale(x, y, n, BLOCK: dsa.constexpr):
    offs = dsa.program_id(0) * BLOCK + dsa.arange(0, BLOCK)
    dsa.store(y + offs, dsa.load(x + offs, mask=offs < n) * 2.0, mask=offs < n)


@dsa.jit
def twice(x, w1, w2, y, t, M: dsa.constexpr, D: dsa.constexpr, H: dsa.constexpr, BN: dsa.constexpr):
    """x + x @ w1[:, :D], called as `mlp` is."""
    m, d, n = dsa.arange(0, M), dsa.arange(0, D), dsa.arange(0, D)
    at = m[:, None] * D + d[None, :]
    h = dsa.load(x + at)
    a = dsa.dot(h, dsa.load(w1 + d[:, None] * H + n[None, :]))
    dsa.store(y + at, (a + h.to(dsa.float32)).to(dsa.float16))


SHAPE = {"M": 16, "D": 64, "H": 256, "BN": 64}
WEIGHT_BYTES = 2 * 64 * 256 * 2


class Mlp:
    """One MLP: launches it, checks what comes out, tells what it moved."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.x = rng.standard_normal((16, 64)).astype(np.float16)
        self.w1 = (rng.standard_normal((64, 256)) / 8).astype(np.float16)
        self.w2 = (rng.standard_normal((256, 64)) / 16).astype(np.float16)
        self.y = np.zeros_like(self.x)

    def args(self, t: float) -> tuple[Any, ...]:
        return (self.x, self.w1, self.w2, self.y, t)

    def check(self, t: float) -> None:
        hidden = np.maximum(self.x.astype(float) @ self.w1.astype(float) + t, 0.0)
        assert np.abs(self.y - hidden @ self.w2.astype(float)).max() < 1e-2

    def run(self, t: float = 0.5, kernel: Any = mlp, **options: Any) -> bool:
        """Launch and check; whether it loaded the weights."""
        report = kernel[1](*self.args(t), **SHAPE, **options)
        self.check(t)
        loaded = report.hbm_bytes - self.x.nbytes - self.y.nbytes
        assert loaded in (0, WEIGHT_BYTES)
        return bool(loaded)
