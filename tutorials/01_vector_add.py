# %% [markdown]
# # 01 · Vector add
#
# A kernel is a Python function that works on *tiles*. The machine runs it once per *program*; each
# program picks its piece of the data by `program_id`. What makes an accelerator different from a GPU
# is hidden from you here: a small SRAM, DMA engines that run on their own, flags between the engines.
# The compiler places the buffers, overlaps the copies with the compute, and proves there is no race.

# %%
import numpy as np

import dsalang as dsa


@dsa.jit
def add(x, y, out, n, BLOCK: dsa.constexpr):
    offs = dsa.program_id(0) * BLOCK + dsa.arange(0, BLOCK)
    keep = offs < n  # the last program may stick out over the end
    total = dsa.load(x + offs, mask=keep) + dsa.load(y + offs, mask=keep)
    dsa.store(out + offs, total, mask=keep)


# %% [markdown]
# Launch it on plain numpy arrays. The result is written in place; what comes back is the report of the
# emulated run. `cdiv` rounds up, so that 1,000,003 elements are covered by 62 programs.

# %%
n = 1_000_003
rng = np.random.default_rng(0)
x = rng.standard_normal(n, dtype=np.float32)
y = rng.standard_normal(n, dtype=np.float32)
out = np.zeros_like(x)

run = add[(dsa.cdiv(n, 16384),)](x, y, out, n, BLOCK=16384)
assert np.array_equal(out, x + y)
print(run.summary())

# %% [markdown]
# Vector add is limited by HBM: 12 bytes move for each addition. How close are we to what the memory
# can do, and how does the block size matter? A DMA has a set-up cost, so small tiles are slow; the
# first tile cannot be hidden, so one huge tile is slow as well.

# %%
peak = dsa.Target.by_name("edge").hbm.bytes_per_second / 1e6  # bytes per microsecond
for block in (1024, 4096, 16384, 65536):
    run = add[(dsa.cdiv(n, block),)](x, y, out, n, BLOCK=block)
    share = 3 * 4 * n / (run.microseconds * peak)
    print(f"BLOCK={block:6d}: {run.microseconds:8.1f} µs, {share:.0%} of HBM bandwidth")

# %% [markdown]
# What did the compiler make of it? The rings are the double buffers: 2 slots for each loaded tile.

# %%
compiled = add.compile("*fp32,*fp32,*fp32,i32", constants={"BLOCK": 16384})
print(compiled.text["asm"])

# %% [markdown]
# **Exercise.** Write `scaled_add(x, y, out, alpha, n, BLOCK)`: `out = alpha * x + y` for a float
# argument `alpha`, in its own file, and check it with
#
#     dsa exercise 01 my_answer.py
#
# The checker tries lengths that are not multiples of the block and looks for writes past the end.
