"""The kernels of `microkernels.py`: each calls an op that a shipped microkernel implements."""

from __future__ import annotations

import dsalang as dsa
import dsalang.language as tl
from dsalang.microkernels import online_softmax_step


@dsa.jit
def recurrence(x, w, y, steps, N: tl.constexpr):
    """state = tanh(state · w), some steps, with w [N, N] in SRAM: a batch-1 recurrent layer."""
    n = tl.arange(0, N)
    weights = tl.load(w + n[:, None] * N + n[None, :])
    state = tl.load(x + n)[None, :]
    for _ in range(steps):
        state = tl.tanh(tl.dot(state, weights)).to(weights.dtype)
    tl.store(y + n, tl.reshape(state, (N,)))


@dsa.jit
def row_product(x, w, y, depth, columns, BK: tl.constexpr, BN: tl.constexpr):
    """y = x · w for one row and weights that come from HBM once: bound by HBM."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((1, BN), tl.float32)
    for k in range(0, depth, BK):
        at = k + tl.arange(0, BK)
        acc = tl.dot(tl.load(x + at)[None, :], tl.load(w + at[:, None] * columns + n[None, :]), acc)
    tl.store(y + n, tl.reshape(acc, (BN,)))


@dsa.jit
def attention(q, k, v, o, keys, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """softmax(q · kᵀ) · v, a block of N keys at a time; q is scaled."""
    n, d = tl.arange(0, N), tl.arange(0, D)
    rows = tl.program_id(0) * M + tl.arange(0, M)
    query = tl.load(q + rows[:, None] * D + d[None, :])
    peak = tl.full((M,), float("-inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, keys, N):
        at = (start + n)[:, None] * D + d[None, :]
        scores = tl.dot(query, tl.trans(tl.load(k + at)))
        peak, total, acc = online_softmax_step(scores, tl.load(v + at), peak, total, acc)
    tl.store(o + rows[:, None] * D + d[None, :], acc / total[:, None])


@dsa.jit
def dequantised_dot(x, packed, scales, acc):
    """The op `int4_dot` as kernels for GPUs have it: weights become numbers of x's type, with their scales."""
    rows: tl.constexpr = x.shape[0]
    half: tl.constexpr = packed.shape[0]
    columns: tl.constexpr = packed.shape[1]
    groups: tl.constexpr = scales.shape[0]
    signed = packed.to(tl.int8, bitcast=True)
    factors = scales.to(x.dtype)[:, None, :]
    low = tl.reshape(((signed << 4) >> 4).to(x.dtype), (groups, half // groups, columns)) * factors
    high = tl.reshape((signed >> 4).to(x.dtype), (groups, half // groups, columns)) * factors
    even, odd = tl.split(tl.reshape(x, (rows, half, 2)))
    acc = tl.dot(even, tl.reshape(low, (half, columns)), acc)
    return tl.dot(odd, tl.reshape(high, (half, columns)), acc)


@dsa.jit
def int4_linear(
    x, w, s, y, depth, columns,
    M: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr, product: tl.constexpr,
):  # fmt: skip
    """y [M, N] = x · (int4 w * s), a scale per G weights along K; `product` is the op of a block."""
    m, k = tl.arange(0, M), tl.arange(0, BK)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    pairs, groups = tl.arange(0, BK // 2), tl.arange(0, BK // G)
    acc = tl.zeros((M, BN), tl.float32)
    for start in range(0, depth, BK):
        a = tl.load(x + m[:, None] * depth + (start + k)[None, :])
        packed = tl.load(w + (start // 2 + pairs)[:, None] * columns + n[None, :])
        scales = tl.load(s + (start // G + groups)[:, None] * columns + n[None, :])
        acc = product(a, packed, scales, acc)
    tl.store(y + m[:, None] * columns + n[None, :], acc)
