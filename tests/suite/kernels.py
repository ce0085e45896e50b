"""Kernels of the suite, as a user would write them."""

import dsalang as dsa
import dsalang.language as tl


@dsa.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = offs < n
    tl.store(out + offs, tl.load(x + offs, mask=keep) + tl.load(y + offs, mask=keep), mask=keep)


@dsa.jit
def softmax(x, out, x_stride, out_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    keep = offs < columns
    values = tl.load(x + row * x_stride + offs, mask=keep, other=-float("inf")).to(tl.float32)
    values = values - tl.max(values, axis=0)
    top = tl.exp(values)
    tl.store(out + row * out_stride + offs, top / tl.sum(top, axis=0), mask=keep)


@dsa.jit
def matmul(
    a, b, c, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * blocks_n
    first_m = (pid // in_group) * GROUP_M
    group_m = min(blocks_m - first_m, GROUP_M)
    pid_m = first_m + (pid % in_group) % group_m
    pid_n = (pid % in_group) // group_m

    offs_am = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_bn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
    for k in range(tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        a_tile = tl.load(a_ptrs, mask=offs_k[None, :] < left, other=0)
        b_tile = tl.load(b_ptrs, mask=offs_k[:, None] < left, other=0)
        acc = tl.dot(a_tile, b_tile, acc, out_dtype=ACC)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(
        c_ptrs, acc.to(c.dtype.element_ty), mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    )


@dsa.jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@dsa.jit
def linear_gelu(
    x, w, bias, y, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    keep_m = offs_m[:, None] < M
    keep_n = offs_n[None, :] < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        x_tile = tl.load(
            x + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk,
            mask=keep_m & (offs_k[None, :] < K),
            other=0.0,
        )
        w_tile = tl.load(
            w + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn,
            mask=(offs_k[:, None] < K) & keep_n,
            other=0.0,
        )
        acc = tl.dot(x_tile, w_tile, acc)
    acc += tl.load(bias + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)[None, :]
    y_ptrs = y + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    tl.store(y_ptrs, gelu(acc).to(y.dtype.element_ty), mask=keep_m & keep_n)


@dsa.jit
def linear_gelu_parts(
    x, w, bias, y, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """A block of PARTS * BLOCK_N columns, whose last step ends part by part.

    The activation of a part runs under the product of the next one, so only the last part's is waited for.
    """
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    first_n = tl.program_id(1) * (PARTS * BLOCK_N)
    keep_m = offs_m[:, None] < M
    x_rows = x + offs_m[:, None] * stride_xm
    last = (tl.cdiv(K, BLOCK_K) - 1) * BLOCK_K
    accs = ()
    for _part in tl.static_range(PARTS):
        accs = accs + (tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32),)
    for k in range(0, last, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        x_tile = tl.load(x_rows + offs_k[None, :] * stride_xk, mask=keep_m, other=0.0)
        sums = ()
        for part in tl.static_range(PARTS):
            offs_n = first_n + part * BLOCK_N + tl.arange(0, BLOCK_N)
            w_ptrs = w + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn
            w_tile = tl.load(w_ptrs, mask=offs_n[None, :] < N, other=0.0)
            sums = sums + (tl.dot(x_tile, w_tile, accs[part]),)
        accs = sums
    offs_k = last + tl.arange(0, BLOCK_K)
    x_mask = keep_m & (offs_k[None, :] < K)
    x_tile = tl.load(x_rows + offs_k[None, :] * stride_xk, mask=x_mask, other=0.0)
    for part in tl.static_range(PARTS):
        offs_n = first_n + part * BLOCK_N + tl.arange(0, BLOCK_N)
        keep_n = offs_n[None, :] < N
        w_ptrs = w + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn
        w_tile = tl.load(w_ptrs, mask=(offs_k[:, None] < K) & keep_n, other=0.0)
        out = tl.dot(x_tile, w_tile, accs[part])
        out += tl.load(bias + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)[None, :]
        half = 0.5 * out
        out = half + half * tl.erf(out * 0.7071067811865476)
        y_ptrs = y + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
        tl.store(y_ptrs, out.to(y.dtype.element_ty), mask=keep_m & keep_n)


@dsa.jit
def layer_norm(x, out, weight, bias, mean, rstd, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    out += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x + cols, mask=cols < columns, other=0.0).to(tl.float32)
    average = tl.sum(total, axis=0) / columns
    spread = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + cols, mask=cols < columns, other=0.0).to(tl.float32)
        centred = tl.where(cols < columns, values - average, 0.0)
        spread += centred * centred
    scale = 1 / tl.sqrt(tl.sum(spread, axis=0) / columns + eps)
    tl.store(mean + row, average)
    tl.store(rstd + row, scale)
    for start in range(0, columns, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        keep = cols < columns
        w = tl.load(weight + cols, mask=keep)
        b = tl.load(bias + cols, mask=keep)
        values = tl.load(x + cols, mask=keep, other=0.0).to(tl.float32)
        tl.store(out + cols, (values - average) * scale * w + b, mask=keep)


@dsa.jit
def attention(
    q, k, v, out, scale, length,
    stride_h, stride_n, stride_d,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD)
    base = head * stride_h
    q_ptrs = q + base + offs_m[:, None] * stride_n + offs_d[None, :] * stride_d
    q_tile = tl.load(q_ptrs, mask=offs_m[:, None] < length, other=0.0)
    top = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD], dtype=tl.float32)
    end = length
    if CAUSAL:
        end = min((start_m + 1) * BLOCK_M, length)
    for start_n in range(0, end, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        kv = base + offs_n[:, None] * stride_n + offs_d[None, :] * stride_d
        k_tile = tl.load(k + kv, mask=offs_n[:, None] < length, other=0.0)
        scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
        keep = offs_n[None, :] < length
        if CAUSAL:
            keep = keep & (offs_m[:, None] >= offs_n[None, :])
        scores = tl.where(keep, scores, -1.0e6)
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp(scores - new_top[:, None])
        alpha = tl.exp(top - new_top)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v_tile = tl.load(v + kv, mask=offs_n[:, None] < length, other=0.0)
        acc = tl.dot(p.to(v_tile.dtype), v_tile, acc)
        top = new_top
    out_ptrs = out + base + offs_m[:, None] * stride_n + offs_d[None, :] * stride_d
    tl.store(
        out_ptrs, (acc / total[:, None]).to(out.dtype.element_ty), mask=offs_m[:, None] < length
    )


@dsa.jit
def embedding(table, ids, out, rows, width, table_stride, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = offs < rows
    cols = tl.arange(0, WIDTH)
    picked = tl.load(ids + offs, mask=keep, other=0)
    mask = keep[:, None] & (cols[None, :] < width)
    tile = tl.load(table + picked[:, None] * table_stride + cols[None, :], mask=mask)
    tl.store(out + offs[:, None] * width + cols[None, :], tile, mask=mask)


@dsa.jit
def histogram(x, bins, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = offs < n
    tl.atomic_add(bins + tl.load(x + offs, mask=keep, other=0), 1, mask=keep)


@dsa.jit
def running_length(x, out, limit, n):
    """How many leading elements of a row it takes to reach `limit`, and their sum."""
    row = tl.program_id(0)
    total = 0
    count = 0
    while (count < n) & (total < limit):
        total += tl.load(x + row * n + count)
        count += 1
    tl.store(out + row * 2, total)
    tl.store(out + row * 2 + 1, count)


@dsa.jit
def blocked_sum(x, out, A, B, C, BLOCK: tl.constexpr):
    """out[i] = Σ over a, b of x[a, b, i] by three nested loops, odd planes counted twice."""
    for c in range(0, C, BLOCK):
        cols = c + tl.arange(0, BLOCK)
        keep = cols < C
        acc = tl.zeros([BLOCK], dtype=tl.float32)
        for a in range(A):
            plane = tl.zeros([BLOCK], dtype=tl.float32)
            for b in range(B):
                plane += tl.load(x + (a * B + b) * C + cols, mask=keep, other=0.0)
            if a % 2 == 1:
                plane = plane * 2.0
            acc += plane
        tl.store(out + cols, acc, mask=keep)


@dsa.jit
def softmax_rows(x, out, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Softmax of contiguous rows, several rows per program."""
    at_row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    offs = at_row[:, None] * columns + cols[None, :]
    keep = (at_row[:, None] < rows) & (cols[None, :] < columns)
    values = tl.load(x + offs, mask=keep, other=-float("inf"))
    top = tl.exp(values - tl.max(values, axis=1, keep_dims=True))
    tl.store(out + offs, top * (1.0 / tl.sum(top, axis=1, keep_dims=True)), mask=keep)


@dsa.jit
def layer_norm_rows(
    x, out, weight, bias, rows, columns, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Layer norm of contiguous rows that fit a tile, several rows per program."""
    at_row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    offs = at_row[:, None] * columns + cols[None, :]
    keep_col = cols[None, :] < columns
    keep = (at_row[:, None] < rows) & keep_col
    w = tl.load(weight + cols, mask=cols < columns, other=0.0)[None, :]
    b = tl.load(bias + cols, mask=cols < columns, other=0.0)[None, :]
    values = tl.load(x + offs, mask=keep, other=0.0)
    mean = tl.sum(values, axis=1, keep_dims=True) / columns
    centred = tl.where(keep_col, values - mean, 0.0)
    variance = tl.sum(centred * centred, axis=1, keep_dims=True) / columns
    tl.store(out + offs, centred * tl.rsqrt(variance + eps) * w + b, mask=keep)


@dsa.jit
def rms_norm_rows(x, out, weight, rows, columns, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """RMS norm of contiguous rows that fit a tile, several rows per program."""
    at_row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    offs = at_row[:, None] * columns + cols[None, :]
    keep = (at_row[:, None] < rows) & (cols[None, :] < columns)
    w = tl.load(weight + cols, mask=cols < columns, other=0.0)[None, :]
    values = tl.load(x + offs, mask=keep, other=0.0)
    mean_square = tl.sum(values * values, axis=1, keep_dims=True) / columns
    tl.store(out + offs, values * tl.rsqrt(mean_square + eps) * w, mask=keep)


@dsa.jit
def softmax_long(x, out, columns, BLOCK: tl.constexpr):
    """Softmax of rows longer than a tile: one pass for maximum and sum, one for the result."""
    row = tl.program_id(0)
    base = row * columns
    peak = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + base + cols, mask=cols < columns, other=-float("inf"))
        new_peak = tl.maximum(peak, tl.max(values, axis=0))
        total = total * tl.exp(peak - new_peak) + tl.sum(tl.exp(values - new_peak), axis=0)
        peak = new_peak
    scale = 1.0 / total
    for start in range(0, columns, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        keep = cols < columns
        values = tl.load(x + base + cols, mask=keep, other=0.0)
        tl.store(out + base + cols, tl.exp(values - peak) * scale, mask=keep)


@dsa.jit
def matvec(x, w, y, N, K, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """y[1, N] = x[1, K] @ w[K, N]: a batch-1 linear layer, limited by the weights' bandwidth."""
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((1, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        inner = k + tl.arange(0, BLOCK_K)
        x_tile = tl.load(x + inner[None, :], mask=inner[None, :] < K, other=0.0)
        w_at = w + inner[:, None] * N + cols[None, :]
        w_tile = tl.load(w_at, mask=(inner[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(x_tile, w_tile, acc)
    tl.store(y + cols[None, :], acc.to(y.dtype.element_ty), mask=cols[None, :] < N)
