"""Kernels of the suite whose weights are in block formats, as a user would write them.

Activations are x[M, K], weights w[N, K] with the numbers of an output column side by side, two per byte where they have
4 bits. M, N and K are multiples of the blocks but for M and N, which are masked.
"""

import dsalang as dsa
import dsalang.language as tl


@dsa.jit
def matmul_channels(
    x, x_scale, w, w_scale, y, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """int8 with a scale per row of x and per row of w: the products are exact, the scales come last."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    keep = (rows[:, None] < M) & (columns[None, :] < N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, K, BLOCK_K):
        inner = k + tl.arange(0, BLOCK_K)
        x_tile = tl.load(x + rows[:, None] * K + inner[None, :], mask=rows[:, None] < M, other=0)
        w_at = w + columns[None, :] * K + inner[:, None]
        w_tile = tl.load(w_at, mask=columns[None, :] < N, other=0)
        acc = tl.dot(x_tile, w_tile, acc, out_dtype=tl.int32)
    left = tl.load(x_scale + rows, mask=rows < M, other=0.0)
    right = tl.load(w_scale + columns, mask=columns < N, other=0.0)
    value = acc.to(tl.float32) * left[:, None] * right[None, :]
    tl.store(y + rows[:, None] * N + columns[None, :], value.to(y.dtype.element_ty), mask=keep)


@dsa.jit
def matmul_int4(
    x, w, scale, y, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """4-bit weights with the zero point 8 and a scale per GROUP of them, dequantised to the type of x."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    keep_m, keep_n = rows[:, None] < M, columns[:, None] < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        inner = k + tl.arange(0, BLOCK_K)
        pairs = k // 2 + tl.arange(0, BLOCK_K // 2)
        groups = k // GROUP + tl.arange(0, BLOCK_K // GROUP)
        x_tile = tl.load(x + rows[:, None] * K + inner[None, :], mask=keep_m, other=0.0)
        bytes = tl.load(w + columns[:, None] * (K // 2) + pairs[None, :], mask=keep_n, other=0)
        scale_at = scale + columns[:, None] * (K // GROUP) + groups[None, :]
        factors = tl.load(scale_at, mask=keep_n, other=0.0)
        codes = tl.interleave(bytes & 15, bytes >> 4).reshape(BLOCK_N, BLOCK_K // GROUP, GROUP)
        zeros = (-8.0 * factors)[:, :, None]  # exact, so (code - 8) * factor is one fma
        weights = tl.fma(codes.to(x.dtype.element_ty), factors[:, :, None], zeros)
        acc = tl.dot(x_tile, tl.trans(weights.reshape(BLOCK_N, BLOCK_K)), acc)
    y_at = y + rows[:, None] * N + columns[None, :]
    tl.store(y_at, acc.to(y.dtype.element_ty), mask=keep_m & (columns[None, :] < N))


@dsa.jit
def matmul_int4_sums(
    x, w, scale, y, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Signed 4-bit weights that the tensor engine reads as they are, beside x: a group's scale meets its sum."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    keep_m, keep_n = rows[:, None] < M, columns[None, :] < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        inner = k + tl.arange(0, BLOCK_K)
        pairs = k // 2 + tl.arange(0, BLOCK_K // 2)
        groups = k // GROUP + tl.arange(0, BLOCK_K // GROUP)
        x_tile = tl.load(x + rows[:, None] * K + inner[None, :], mask=keep_m, other=0.0)
        bytes = tl.load(w + columns[None, :] * (K // 2) + pairs[:, None], mask=keep_n, other=0)
        at = scale + columns[None, :] * (K // GROUP) + groups[:, None]
        factors = tl.load(at, mask=keep_n, other=0.0)
        for g in tl.static_range(BLOCK_K // GROUP):
            part = x_tile[:, g * GROUP : (g + 1) * GROUP]
            packed = bytes[g * GROUP // 2 : (g + 1) * GROUP // 2, :]
            total = tl.dot_scaled(part, None, "bf16", packed, None, "int4")
            acc += total * factors[g, :].to(tl.float32)[None, :]
    y_at = y + rows[:, None] * N + columns[None, :]
    tl.store(y_at, acc.to(y.dtype.element_ty), mask=keep_m & keep_n)


@dsa.jit
def matmul_mx(
    x, x_scale, w, w_scale, y, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    X: tl.constexpr, W: tl.constexpr, PER_BYTE_X: tl.constexpr, PER_BYTE_W: tl.constexpr,
):  # fmt: skip
    """Microscaling formats: E8M0 exponents x_scale[M, K / 32] and w_scale[N, K / 32]."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    keep_m, keep_n = rows[:, None] < M, columns[:, None] < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x_at = rows[:, None] * (K // PER_BYTE_X) + k // PER_BYTE_X
        x_tile = tl.load(
            x + x_at + tl.arange(0, BLOCK_K // PER_BYTE_X)[None, :], mask=keep_m, other=0
        )
        w_at = columns[:, None] * (K // PER_BYTE_W) + k // PER_BYTE_W
        w_tile = tl.load(
            w + w_at + tl.arange(0, BLOCK_K // PER_BYTE_W)[None, :], mask=keep_n, other=0
        )
        blocks = k // 32 + tl.arange(0, BLOCK_K // 32)[None, :]
        left = tl.load(x_scale + rows[:, None] * (K // 32) + blocks, mask=keep_m, other=0)
        right = tl.load(w_scale + columns[:, None] * (K // 32) + blocks, mask=keep_n, other=0)
        acc = tl.dot_scaled(x_tile, left, X, tl.trans(w_tile), right, W, acc)
    y_at = y + rows[:, None] * N + columns[None, :]
    tl.store(y_at, acc.to(y.dtype.element_ty), mask=keep_m & (columns[None, :] < N))


@dsa.jit
def matmul_rows(
    x, w, y, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Plain formats, accumulated in ACC."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    keep_m, keep_n = rows[:, None] < M, columns[None, :] < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
    for k in range(0, K, BLOCK_K):
        inner = k + tl.arange(0, BLOCK_K)
        x_tile = tl.load(x + rows[:, None] * K + inner[None, :], mask=keep_m, other=0.0)
        w_tile = tl.load(w + columns[None, :] * K + inner[:, None], mask=keep_n, other=0.0)
        acc = tl.dot(x_tile, w_tile, acc, out_dtype=ACC)
    y_at = y + rows[:, None] * N + columns[None, :]
    tl.store(y_at, acc.to(y.dtype.element_ty), mask=keep_m & keep_n)
