# %% [markdown]
# # 03 · Matmul: tiles against SRAM
#
# The tensor engine multiplies tiles that lie in SRAM. A tile of C needs a row of tiles of A and a column
# of tiles of B; the larger the tile, the fewer times A and B are read, and the more SRAM it takes.

# %%
import numpy as np

import dsalang as dsa


@dsa.jit
def matmul(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: dsa.constexpr, BN: dsa.constexpr, BK: dsa.constexpr,
):  # fmt: skip
    offs_m = dsa.program_id(0) * BM + dsa.arange(0, BM)
    offs_n = dsa.program_id(1) * BN + dsa.arange(0, BN)
    offs_k = dsa.arange(0, BK)
    a_ptrs = a + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = dsa.zeros((BM, BN), dtype=dsa.float32)
    for k in range(0, K, BK):
        left = K - k
        a_tile = dsa.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < left), other=0.0)
        b_tile = dsa.load(b_ptrs, mask=(offs_k[:, None] < left) & (offs_n[None, :] < N), other=0.0)
        acc = dsa.dot(a_tile, b_tile, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    c_ptrs = c + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    dsa.store(c_ptrs, acc.to(dsa.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def launch(a, b, c, bm, bn, bk, how=matmul.run):
    (m, k), n = a.shape, b.shape[1]
    strides = [s // v.itemsize for v in (a, b, c) for s in v.strides]
    grid = (dsa.cdiv(m, bm), dsa.cdiv(n, bn))
    return how(a, b, c, m, n, k, *strides, BM=bm, BN=bn, BK=bk, grid=grid)


# %%
size = 512
rng = np.random.default_rng(0)
a = rng.standard_normal((size, size)).astype(np.float16)
b = rng.standard_normal((size, size)).astype(np.float16)
exact = a.astype(np.float64) @ b.astype(np.float64)

for block in (64, 128, 256):
    c = np.zeros((size, size), np.float16)
    run = launch(a, b, c, block, block, block)
    assert np.allclose(c, exact, atol=0.1)
    kib = 2 * block * block * 2 // 1024 + block * block * 4 // 1024
    print(
        f"{block:3d}³ tiles: {kib:4d} KiB for one A, B and fp32 C tile; {run.microseconds:6.1f} µs, "
        f"tensor engine {run.utilisation('MM'):.0%} busy, {run.hbm_bytes / 1e6:.1f} MB of HBM traffic"
    )

# %% [markdown]
# A 256³ fp16 tile with an fp32 accumulator takes 512 KiB once and 1 MiB double-buffered. The compiler's map of
# SRAM says so (`warmup` compiles without running):

# %%
for block in (64, 256, 512):
    rings = {
        ring.label: ring for ring in launch(a, b, c, block, block, block, matmul.warmup).image.rings
    }
    kib = sum(rings[name].slot_bytes for name in ("a_tile", "b_tile", "acc")) // 1024
    slots = ", ".join(f"{name} × {ring.slots}" for name, ring in rings.items())
    print(f"{block:3d}³: {kib:4d} KiB single, {2 * kib:4d} KiB double-buffered; chosen: {slots}")

# %% [markdown]
# Where does the time go? `profile` launches and tells which engine waited for which tile, and its `.html(path)` is
# one file with the timeline, the SRAM map and the roofline as pictures. A notebook shows it by itself.

# %%
profile = launch(a, b, c, 128, 128, 128, matmul.profile)

# %% [markdown]
# A tile that does not fit is an error that shows what takes the room:

# %%
try:
    launch(a, b, c, 1024, 1024, 512)
except dsa.SramOverflowError as error:
    print(error)

# %% [markdown]
# Any strides work, so a transposed operand is only another pair of numbers; the DMA walks them.

# %%
c = np.zeros((size, size), np.float16)
launch(a, b.T, c, 128, 128, 128)
assert np.allclose(c, a.astype(np.float64) @ b.T.astype(np.float64), atol=0.1)

# %% [markdown]
# **Exercise.** Write `matmul_nt(a, b, c, M, N, K, BM, BN, BK)` for contiguous fp16 arrays: C = A·Bᵀ with
# B stored as [N, K]; load B tiles as they lie (`[BN, BK]`) and use `dsa.trans`. It has to be right for sizes
# that are no multiple of the blocks.
#
#     dsa exercise 03 my_answer.py
