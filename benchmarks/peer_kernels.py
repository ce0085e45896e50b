"""The kernels that `peers.py` compares: one text, for dsalang and for Triton.

`tl` is `dsalang.language` or `triton.language`, whichever the text is executed with.
"""

# ruff: noqa: F821


def add(x, y, out, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = offs < n
    tl.store(out + offs, tl.load(x + offs, mask=keep) + tl.load(y + offs, mask=keep), mask=keep)


def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    keep = offs < columns
    value = tl.load(x + row * columns + offs, mask=keep, other=-float("inf"))
    value = value - tl.max(value, axis=0)
    top = tl.exp(value)
    tl.store(out + row * columns + offs, top / tl.sum(top, axis=0), mask=keep)


def layer_norm(x, out, weight, bias, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    keep = offs < columns
    value = tl.load(x + row * columns + offs, mask=keep, other=0.0)
    mean = tl.sum(value, axis=0) / columns
    centred = tl.where(keep, value - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    w = tl.load(weight + offs, mask=keep, other=0.0)
    b = tl.load(bias + offs, mask=keep, other=0.0)
    tl.store(out + row * columns + offs, centred * scale * w + b, mask=keep)


def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    left = a + rows[:, None] * K + inner[None, :]
    right = b + inner[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(left), tl.load(right), acc)
        left += BK
        right += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], acc.to(c.dtype.element_ty))


def any_matmul(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """For any sizes and strides, as matmuls are written: rows wrap, the last block of K is masked."""
    pid = tl.program_id(0)
    across = tl.cdiv(N, BN)
    rows = ((pid // across) * BM + tl.arange(0, BM)) % M
    columns = ((pid % across) * BN + tl.arange(0, BN)) % N
    inner = tl.arange(0, BK)
    left = a + rows[:, None] * stride_am + inner[None, :] * stride_ak
    right = b + inner[:, None] * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        x = tl.load(left, mask=inner[None, :] < K - k * BK, other=0.0)
        y = tl.load(right, mask=inner[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        left += BK * stride_ak
        right += BK * stride_bk
    rows = (pid // across) * BM + tl.arange(0, BM)
    columns = (pid % across) * BN + tl.arange(0, BN)
    out = c + stride_cm * rows[:, None] + stride_cn * columns[None, :]
    tl.store(out, acc.to(tl.float16), mask=(rows[:, None] < M) & (columns[None, :] < N))


def attention(q, k, v, out, scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(1) * N * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    d = tl.arange(0, D)
    query = tl.load(q + head + rows[:, None] * D + d[None, :])
    top = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, N, BN):
        key = tl.load(k + head + (start + columns)[None, :] * D + d[:, None])
        score = tl.dot(query, key) * scale
        highest = tl.maximum(top, tl.max(score, axis=1))
        weight = tl.exp(score - highest[:, None])
        shrink = tl.exp(top - highest)
        total = total * shrink + tl.sum(weight, axis=1)
        value = tl.load(v + head + (start + columns)[:, None] * D + d[None, :])
        acc = tl.dot(weight.to(value.dtype), value, acc * shrink[:, None])
        top = highest
    tl.store(out + head + rows[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.float16))


def any_attention(
    q, k, v, out, scale, N, stride_h, stride_n, stride_d,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """For any length and strides: the last blocks are masked."""
    head = tl.program_id(1) * stride_h
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    keep = rows[:, None] < N
    at = head + rows[:, None] * stride_n + d[None, :] * stride_d
    query = tl.load(q + at, mask=keep, other=0.0)
    top = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, N, BN):
        columns = start + tl.arange(0, BN)
        key = tl.load(
            k + head + columns[None, :] * stride_n + d[:, None] * stride_d,
            mask=columns[None, :] < N, other=0.0,
        )  # fmt: skip
        score = tl.where(columns[None, :] < N, tl.dot(query, key) * scale, -float("inf"))
        highest = tl.maximum(top, tl.max(score, axis=1))
        weight = tl.exp(score - highest[:, None])
        shrink = tl.exp(top - highest)
        total = total * shrink + tl.sum(weight, axis=1)
        value = tl.load(
            v + head + columns[:, None] * stride_n + d[None, :] * stride_d,
            mask=columns[:, None] < N, other=0.0,
        )  # fmt: skip
        acc = tl.dot(weight.to(value.dtype), value, acc * shrink[:, None])
        top = highest
    tl.store(out + at, (acc / total[:, None]).to(tl.float16), mask=keep)
