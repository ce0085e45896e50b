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
#
# The kernel gets a pointer to an array's first element, and `x + offs` counts elements of memory: of a view such as
# `x[::2]` element i is at `x + 2 * i`. Names are Triton's; where a message says `tl.load`, it is `dsa.load` here.

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
# What did the compiler make of it? The SRAM map has the double buffers, rings of two slots or more for each tile: those
# loaded from `x` and `y`, and the sums that wait for the store.

# %%
compiled = add.compile("*fp32,*fp32,*fp32,i32", constants={"BLOCK": 16384})
print(compiled.text["asm"])

# %% [markdown]
# Why two slots? Take ten tiles whose copy takes 60 µs and whose arithmetic takes 100 µs, on a machine where nothing
# else costs anything. With one slot the copy of a tile has to wait until the last one is used up: 10 · (60 + 100).
# With two, all copies but the first run under the arithmetic: 60 + 10 · 100. When the copy takes 120 µs, it is the other
# way round: 10 · 120 + 100. A machine is data, so such a one is made in a few lines.

# %%
import dataclasses

TILE, SQUARES = 6000, 24


@dsa.jit
def ten_tiles(x, out, TILE: dsa.constexpr, SQUARES: dsa.constexpr):
    at = dsa.arange(0, TILE)
    total = dsa.zeros((TILE,), dsa.float32)
    for i in range(10):
        y = dsa.load(x + i * TILE + at)
        for _ in dsa.static_range(0, SQUARES):
            y = y * y
        total = total + y
    dsa.store(out + at, total, mask=at < 0)  # masked off: only the ten tiles count


edge = dsa.Target.by_name("edge")
for copy_us in (60, 120):
    bytes_per_second = 4 * TILE * 1_000_000 // copy_us
    ideal = dataclasses.replace(
        edge,
        hbm=dataclasses.replace(
            edge.hbm, bytes_per_second=bytes_per_second, latency_cycles=0, burst_bytes=1
        ),
        dma=dataclasses.replace(edge.dma, setup_cycles=0),
        vector=dataclasses.replace(
            edge.vector, startup_cycles=0, bytes_per_cycle=4 * TILE * (SQUARES + 1) // 100_000
        ),
        scalar=dataclasses.replace(edge.scalar, issue_cycles=0, operand_cycles=0, read_cycles=0),
    )
    tiles, result = np.zeros(10 * TILE, np.float32), np.zeros(TILE, np.float32)
    for slots in (1, 2):
        run = ten_tiles[(1,)](
            tiles, result, TILE=TILE, SQUARES=SQUARES, num_stages=slots, target=ideal
        )
        print(f"copy {copy_us} µs, compute 100 µs, {slots} slot(s): {run.microseconds:g} µs")

# %% [markdown]
# **Exercise.** Write `scaled_add(x, y, out, alpha, n, BLOCK)`: `out = alpha * x + y` for a float
# argument `alpha`, in its own file, and check it with
#
#     dsa exercise 01 my_answer.py
#
# The checker tries lengths that are not multiples of the block and looks for writes past the end.
