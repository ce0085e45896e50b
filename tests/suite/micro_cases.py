"""A case of the suite whose products are a microkernel's, with flags of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import dsalang as dsa
import dsalang.language as tl

from .cases import F32, Case, case, f64, normal


@dsa.microkernel(reference=tl.dot, in_place="acc", flags="own")
def halves(k: Any, a: Any, b: Any, acc: Any) -> None:
    """acc + a·b, the first half of K on a copy that the vector engine makes meanwhile."""
    half = a.shape[1] // 2
    copied = k.semaphore()
    copy = k.scratch((a.shape[0], half), a.fmt, "first half")
    k.copy(copy, a[:, :half])
    k.set("VE", copied)
    k.matmul(k.result, a[:, half:], b[half:], accumulate=True)
    k.wait("MM", copied)
    k.matmul(k.result, copy, b[:half], accumulate=True)


@dsa.jit
def matmul_micro_kernel(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """c = a · b, all sizes masked."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(
            a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0
        )
        y = tl.load(
            b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0
        )
        acc = halves(x, y, acc)
    keep = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=keep)


@case
def matmul_micro() -> Case:
    m, n, k = 20, 70, 100
    a, b = normal("microa", m, k).astype(np.float16), normal("microb", k, n).astype(np.float16)
    c = np.zeros((m, n), F32)
    meta = {"BM": 16, "BN": 32, "BK": 32}
    return Case(
        "matmul_micro", matmul_micro_kernel, (math.ceil(m / 16), math.ceil(n / 32)),
        (a, b, c, m, n, k), meta, (c,), lambda: (f64(a) @ f64(b),),
    )  # fmt: skip
