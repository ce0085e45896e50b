# %% [markdown]
# # 04 · Fused matmul + bias + gelu
#
# `gelu(x @ W + b)` as three kernels writes the product to HBM, reads it, writes it, reads it and writes
# it again: 4 T of intermediates for a result of T bytes. Fused, the tile never leaves SRAM: 0.

# %%
import math

import numpy as np

import dsalang as dsa


@dsa.jit
def gelu(x):
    return 0.5 * x * (1.0 + dsa.erf(x * 0.7071067811865476))


@dsa.jit
def linear(
    x, w, bias, y, M, N, K,
    BM: dsa.constexpr, BN: dsa.constexpr, BK: dsa.constexpr, FUSED: dsa.constexpr,
):  # fmt: skip
    offs_m = dsa.program_id(0) * BM + dsa.arange(0, BM)
    offs_n = dsa.program_id(1) * BN + dsa.arange(0, BN)
    acc = dsa.zeros((BM, BN), dtype=dsa.float32)
    for k in range(0, K, BK):
        offs_k = k + dsa.arange(0, BK)
        x_tile = dsa.load(x + offs_m[:, None] * K + offs_k[None, :])
        w_tile = dsa.load(w + offs_k[:, None] * N + offs_n[None, :])
        acc = dsa.dot(x_tile, w_tile, acc)
    if FUSED:
        acc = gelu(acc + dsa.load(bias + offs_n).to(dsa.float32)[None, :])
    dsa.store(y + offs_m[:, None] * N + offs_n[None, :], acc.to(dsa.float16))


@dsa.jit
def add_bias(x, bias, N, BM: dsa.constexpr, BN: dsa.constexpr):
    rows = dsa.program_id(0) * BM + dsa.arange(0, BM)
    cols = dsa.program_id(1) * BN + dsa.arange(0, BN)
    at = x + rows[:, None] * N + cols[None, :]
    dsa.store(at, dsa.load(at) + dsa.load(bias + cols)[None, :])


@dsa.jit
def apply_gelu(x, N, BM: dsa.constexpr, BN: dsa.constexpr):
    rows = dsa.program_id(0) * BM + dsa.arange(0, BM)
    cols = dsa.program_id(1) * BN + dsa.arange(0, BN)
    at = x + rows[:, None] * N + cols[None, :]
    dsa.store(at, gelu(dsa.load(at).to(dsa.float32)).to(dsa.float16))


# %%
m, n, k = 256, 512, 256
rng = np.random.default_rng(0)
x = rng.standard_normal((m, k)).astype(np.float16)
w = (rng.standard_normal((k, n)) / math.sqrt(k)).astype(np.float16)
bias = rng.standard_normal(n).astype(np.float16)
z = x.astype(np.float64) @ w.astype(np.float64) + bias
exact = 0.5 * z * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))

blocks = {"BM": 128, "BN": 128}
grid = (m // 128, n // 128)
shapes = (m, n, k)
fused, separate = np.zeros((m, n), np.float16), np.zeros((m, n), np.float16)
one = linear[grid](x, w, bias, fused, *shapes, **blocks, BK=128, FUSED=True)
three = [
    linear[grid](x, w, bias, separate, *shapes, **blocks, BK=128, FUSED=False),
    add_bias[grid](separate, bias, n, **blocks),
    apply_gelu[grid](separate, n, **blocks),
]
assert np.abs(fused - exact).max() < 4e-3
assert np.abs(separate - exact).max() < 1e-2  # rounded to fp16 three times

tile_bytes = fused.nbytes
bias_bytes = sum(run.hbm_bytes for run in three) - one.hbm_bytes - 4 * tile_bytes
print(
    f"three kernels: {sum(r.microseconds for r in three):6.1f} µs, {sum(r.hbm_bytes for r in three):9,} bytes"
)
print(f"fused:         {one.microseconds:6.1f} µs, {one.hbm_bytes:9,} bytes")
print(f"intermediates: 4 T = {4 * tile_bytes:,} bytes before, 0 after (difference {bias_bytes:+,})")
assert bias_bytes == 0

# %% [markdown]
# **Exercise.** Write `linear_silu(x, w, bias, residual, y, M, N, K, BM, BN, BK)`: y = silu(x @ w + bias) +
# residual with silu(z) = z · sigmoid(z), fp16 in and out, contiguous, any sizes, in one kernel.
#
#     dsa exercise 04 my_answer.py
