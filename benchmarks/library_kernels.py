"""The kernels that `peers.py` holds beside calls of numpy and torch: the same math, several rows or blocks per program.

`tl` is `dsalang.language`.
"""

# ruff: noqa: F821


def add_chunks(x, y, out, n, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * CHUNK
    for start in range(first, first + CHUNK, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        keep = offs < n
        tl.store(out + offs, tl.load(x + offs, mask=keep) + tl.load(y + offs, mask=keep), mask=keep)


def matmul_panels(a, b, c, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Some rows of A stay in SRAM, B goes past them; all of K in one product."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inner = tl.arange(0, K)
    left = tl.load(a + rows[:, None] * K + inner[None, :])
    for start in range(0, N, BN):
        columns = start + tl.arange(0, BN)
        right = tl.load(b + inner[:, None] * N + columns[None, :])
        found = tl.dot(left, right).to(c.dtype.element_ty)
        tl.store(c + rows[:, None] * N + columns[None, :], found)


def softmax_rows(x, out, columns, BLOCK: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr):
    first = tl.program_id(0) * CHUNK
    for row in range(first, first + CHUNK, ROWS):
        rows = row + tl.arange(0, ROWS)
        offs = rows[:, None] * columns + tl.arange(0, BLOCK)[None, :]
        value = tl.load(x + offs)
        top = tl.exp(value - tl.max(value, axis=1)[:, None])
        tl.store(out + offs, top * (1.0 / tl.sum(top, axis=1))[:, None])


def layer_norm_rows(
    x, out, weight, bias, columns, eps, BLOCK: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr
):
    first = tl.program_id(0) * CHUNK
    inner = tl.arange(0, BLOCK)
    w = tl.load(weight + inner)
    b = tl.load(bias + inner)
    for row in range(first, first + CHUNK, ROWS):
        rows = row + tl.arange(0, ROWS)
        offs = rows[:, None] * columns + inner[None, :]
        value = tl.load(x + offs)
        mean = tl.sum(value, axis=1) / columns
        centred = value - mean[:, None]
        scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / columns + eps)
        # one multiplication and addition per element, as in torch: `centred` is not kept
        normed = value * scale[:, None] - (mean * scale)[:, None]
        tl.store(out + offs, normed * w[None, :] + b[None, :])
