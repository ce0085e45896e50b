# %% [markdown]
# # 06 · Decode attention, and one image for every robot
#
# A new token attends to everything before it: each key and each value is read once, for a handful of products.
# Nothing can be faster than the cache at HBM's bandwidth. The kernel below walks the cache in blocks with a running
# maximum (softmax without a second pass); four query heads share each key-value head.

# %%
import numpy as np

import dsalang as dsa


@dsa.jit
def decode(
    q, k, v, out, scale, length, GROUP: dsa.constexpr, HEAD: dsa.constexpr, CACHE: dsa.constexpr,
    BLOCK: dsa.constexpr, FULL: dsa.constexpr,
):  # fmt: skip
    head = dsa.program_id(0)
    g, d, n = dsa.arange(0, GROUP), dsa.arange(0, HEAD), dsa.arange(0, BLOCK)
    queries = head * GROUP * HEAD + g[:, None] * HEAD + d[None, :]
    q_tile = dsa.load(q + queries)
    top = dsa.full((GROUP,), -float("inf"), dsa.float32)
    total = dsa.zeros((GROUP,), dtype=dsa.float32)
    acc = dsa.zeros((GROUP, HEAD), dtype=dsa.float32)
    for start in range(0, CACHE if FULL else length, BLOCK):
        rows = start + n
        at = (head * CACHE + rows[:, None]) * HEAD + d[None, :]
        keep = rows < length
        keys = dsa.load(k + at, mask=keep[:, None], other=0.0)
        scores = dsa.where(keep[None, :], dsa.dot(q_tile, dsa.trans(keys)) * scale, -1e30)
        new_top = dsa.maximum(top, dsa.max(scores, 1))
        p = dsa.exp(scores - new_top[:, None])
        shrink = dsa.exp(top - new_top)
        total = total * shrink + dsa.sum(p, 1)
        values = dsa.load(v + at, mask=keep[:, None], other=0.0)
        acc = dsa.dot(p.to(dsa.float16), values, acc * shrink[:, None])
        top = new_top
    dsa.store(out + queries, acc / total[:, None])


def exact(q, k, v, length):
    k, v = k[:, :length].astype(np.float64), v[:, :length].astype(np.float64)
    s = np.einsum("hgd,hnd->hgn", q.astype(np.float64), k) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hgn,hnd->hgd", p / p.sum(-1, keepdims=True), v)


rng = np.random.default_rng(0)
heads, group, dim, cache, block = 8, 4, 64, 2048, 512
k, v = (rng.standard_normal((heads, cache, dim)).astype(np.float16) for _ in "kv")
q = rng.standard_normal((heads, group, dim)).astype(np.float16)
out = np.zeros(q.shape, np.float32)
for length in (500, 1000, 2000):
    run = decode[(heads,)](q, k, v, out, dim**-0.5, length, group, dim, cache, block, FULL=False)
    assert np.abs(out - exact(q, k, v, length)).max() < 1e-3
    moved = 2 * heads * length * dim * 2
    least = moved / run.target.hbm.bytes_per_second * 1e6
    print(
        f"{length:4} tokens: {run.microseconds:5.1f} µs, the cache alone {least:5.1f} µs "
        f"({least / run.microseconds:.0%}); {moved / run.hbm_bytes:.1%} of the traffic is the cache"
    )
assert least > 0.9 * run.microseconds

# %% [markdown]
# ## A prefix that stays
#
# In a vision-language-action model the ten steps of the action head attend to the same prefix: images and the
# instruction. Its keys and values are a block that can stay in SRAM. Which tiles a kernel loads must be known when it
# starts, so the loop is over the whole prefix (`FULL`), and `length` only masks. Without a `with`, a decorator
# says the same: `resident=("k", "v")` keeps them for as long as no other kernel needs the memory.

# %%
prefix = dsa.jit(resident=("k", "v"))(decode.fn)
k, v = (rng.standard_normal((4, 512, dim)).astype(np.float16) for _ in "kv")
out = np.zeros((4, group, dim), np.float32)
for step in range(3):
    q = rng.standard_normal((4, group, dim)).astype(np.float16)
    run = prefix[(4,)](q, k, v, out, dim**-0.5, 450, group, dim, 512, block, FULL=True)
    assert np.abs(out - exact(q, k, v, 450)).max() < 1e-3
    print(f"step {step}: {run.microseconds:5.1f} µs, {run.hbm_bytes:7,} bytes")
assert run.hbm_bytes < 10_000

# %% [markdown]
# ## Robots of different sizes
#
# An arm has 7 joints, two arms 14, a humanoid 24 or 32. One kernel serves all of them: tiles have the size of the
# largest, `state_dim` and `action_dim` come with the launch, and masks cut what is not there. `do_not_specialize`
# keeps the compiler from making an image of its own for dims that are multiples of 16. So nothing is compiled when
# the robot changes, and the weights of the trunk stay in SRAM.


# %%
@dsa.jit(do_not_specialize=["state_dim", "action_dim"])
def policy(
    state, w_in, w_trunk, w_out, action, state_dim, action_dim,
    MAX: dsa.constexpr, D: dsa.constexpr, LAYERS: dsa.constexpr,
):  # fmt: skip
    s, d, e = dsa.arange(0, MAX), dsa.arange(0, D), dsa.arange(0, D)
    sees, acts = s < state_dim, s < action_dim
    now = dsa.load(state + s, mask=sees, other=0.0)[None, :]
    h = dsa.dot(now, dsa.load(w_in + s[:, None] * D + d[None, :], mask=sees[:, None], other=0.0))
    for layer in range(LAYERS):
        tile = dsa.load(w_trunk + layer * D * D + e[:, None] * D + d[None, :])
        h += dsa.dot(dsa.maximum(h, 0.0).to(dsa.float16), tile)
    to_action = dsa.load(
        w_out + d[:, None] * action_dim + s[None, :], mask=acts[None, :], other=0.0
    )
    dsa.store(action + s[None, :], dsa.dot(h.to(dsa.float16), to_action), mask=acts[None, :])


D, LAYERS, MAX = 256, 4, 64
trunk = (rng.standard_normal((LAYERS, D, D)) / 16).astype(np.float16)
images = set()
with dsa.resident(trunk):
    for name, state_dim, action_dim in (("arm", 14, 7), ("two arms", 28, 14), ("humanoid", 64, 32)):
        w_in = (rng.standard_normal((state_dim, D)) / np.sqrt(state_dim)).astype(np.float16)
        w_out = (rng.standard_normal((D, action_dim)) / 16).astype(np.float16)
        state = rng.standard_normal(state_dim).astype(np.float16)
        action = np.zeros(action_dim, np.float32)
        arguments = (state, w_in, trunk, w_out, action, state_dim, action_dim, MAX, D, LAYERS)
        run = policy[(1,)](*arguments)
        h = state.astype(np.float64) @ w_in.astype(np.float64)
        for layer in trunk.astype(np.float64):
            h = h + np.maximum(h, 0) @ layer
        assert np.abs(action - h @ w_out.astype(np.float64)).max() < 2e-2
        images.add(policy[(1,)].warmup(*arguments).image.code)
        print(
            f"{name:9} {state_dim:2} → {action_dim:2}: {run.microseconds:5.2f} µs, {run.hbm_bytes:7,} bytes"
        )
assert len(images) == 1 and run.hbm_bytes < trunk.nbytes

# %% [markdown]
# **Exercise.** Write `decode_one(q, k, v, out, length, HEAD, BLOCK)`: attention of one fp16 query of HEAD values over
# `length` fp16 keys and values of a contiguous cache, scaled by HEAD to the power of -0.5, fp32 out, any length. Each
# key and value is read once.
#
#     dsa exercise 06 my_answer.py
