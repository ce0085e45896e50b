# %% [markdown]
# # 02 · Fused softmax
#
# Softmax of a row needs its maximum, the exponentials and their sum. As separate operations the row
# travels to HBM and back between them; as one kernel it is read once and written once.

# %%
import numpy as np

import dsalang as dsa


@dsa.jit
def softmax(x, out, stride, columns, BLOCK: dsa.constexpr):
    row = dsa.program_id(0)
    cols = dsa.arange(0, BLOCK)
    keep = cols < columns
    values = dsa.load(x + row * stride + cols, mask=keep, other=-float("inf"))
    top = dsa.exp(values - dsa.max(values, axis=0))
    dsa.store(out + row * stride + cols, top / dsa.sum(top, axis=0), mask=keep)


@dsa.jit
def row_max(x, out, stride, columns, BLOCK: dsa.constexpr):
    row = dsa.program_id(0)
    cols = dsa.arange(0, BLOCK)
    values = dsa.load(x + row * stride + cols, mask=cols < columns, other=-float("inf"))
    dsa.store(out + row, dsa.max(values, axis=0))


@dsa.jit
def exp_minus(x, top, out, stride, columns, BLOCK: dsa.constexpr):
    row = dsa.program_id(0)
    cols = dsa.arange(0, BLOCK)
    keep = cols < columns
    values = dsa.load(x + row * stride + cols, mask=keep)
    dsa.store(out + row * stride + cols, dsa.exp(values - dsa.load(top + row)), mask=keep)


@dsa.jit
def normalise(x, stride, columns, BLOCK: dsa.constexpr):
    row = dsa.program_id(0)
    cols = dsa.arange(0, BLOCK)
    keep = cols < columns
    values = dsa.load(x + row * stride + cols, mask=keep, other=0.0)
    dsa.store(x + row * stride + cols, values / dsa.sum(values, axis=0), mask=keep)


# %%
rows, columns = 256, 1000
x = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
expected = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
expected /= expected.sum(1, keepdims=True)

fused = np.zeros_like(x)
one = softmax[(rows,)](x, fused, columns, columns, BLOCK=1024)
assert np.allclose(fused, expected, atol=1e-6)

top, separate = np.zeros(rows, np.float32), np.zeros_like(x)
steps = [
    row_max[(rows,)](x, top, columns, columns, BLOCK=1024),
    exp_minus[(rows,)](x, top, separate, columns, columns, BLOCK=1024),
    normalise[(rows,)](separate, columns, columns, BLOCK=1024),
]
assert np.allclose(separate, expected, atol=1e-6)

print(
    f"separate: {sum(s.microseconds for s in steps):7.1f} µs, {sum(s.hbm_bytes for s in steps):9,} bytes"
)
print(f"fused:    {one.microseconds:7.1f} µs, {one.hbm_bytes:9,} bytes")
assert one.hbm_bytes < 0.6 * sum(s.hbm_bytes for s in steps)

# %% [markdown]
# Each program handles one row and has no loop, and still the copy of the next row runs under the
# compute of this one: the grid itself is a loop on the core, and the rings persist across programs.
#
# **Exercise.** Write `log_softmax(x, out, stride, columns, BLOCK)`: x - max - log(Σ exp(x - max)), one
# row per program, each element read once and written once.
#
#     dsa exercise 02 my_answer.py
