# %% [markdown]
# # 05 · A flow-matching action head: weights that stay
#
# At batch 1 a matrix product reads every weight for one row of activations, so HBM sets the pace. A flow-matching
# head runs the same small network ten times in a row: ten times the same weights. They fit into SRAM, so nine of
# the ten reads are waste. First one row through an MLP: the tensor engine idles, HBM does not.

# %%
import numpy as np

import dsalang as dsa


@dsa.jit
def mlp(x, w_up, w_down, y, D: dsa.constexpr, H: dsa.constexpr, BLOCK: dsa.constexpr):
    d, n = dsa.arange(0, D), dsa.arange(0, BLOCK)
    row = dsa.load(x + d)[None, :]
    acc = dsa.zeros((1, D), dtype=dsa.float32)
    for j in range(0, H, BLOCK):
        hidden = dsa.dot(row, dsa.load(w_up + d[:, None] * H + (j + n)[None, :]))
        hidden = dsa.maximum(hidden, 0.0).to(dsa.float16)
        acc = dsa.dot(hidden, dsa.load(w_down + (j + n)[:, None] * D + d[None, :]), acc)
    dsa.store(y + d[None, :], acc)


rng = np.random.default_rng(0)


def weights(*shape):
    return (rng.standard_normal(shape) / np.sqrt(shape[-2])).astype(np.float16)


D, H, BLOCK = 256, 1024, 256
up, down = weights(D, H), weights(H, D)
x, y = rng.standard_normal(D).astype(np.float16), np.zeros(D, np.float32)
run = mlp[(1,)](x, up, down, y, D, H, BLOCK)
exact = np.maximum(x.astype(np.float64) @ up, 0) @ down.astype(np.float64)
assert np.abs(y - exact).max() < 1e-2
print(
    f"one row: {run.microseconds:.1f} µs, HBM busy {run.hbm_utilisation:.0%}, MM {run.utilisation('MM'):.0%}"
)

# %% [markdown]
# ## Ten steps in one kernel
#
# The head moves a chunk of actions along a learned velocity: `x += v(x, t) / 10`, from noise to actions. The loads
# of the weights stand in the innermost loop, as anybody would write them. Their boxes repeat in every step, so the
# compiler loads all of them before the steps into one buffer each, and the loop takes its tiles from there. With
# `resident=False` it does not.


# %%
@dsa.jit
def head(
    noise, w_in, w_up, w_down, w_out, actions, STEPS: dsa.constexpr, LAYERS: dsa.constexpr,
    M: dsa.constexpr, A: dsa.constexpr, D: dsa.constexpr, H: dsa.constexpr, BLOCK: dsa.constexpr,
):  # fmt: skip
    m, a, d, n = dsa.arange(0, M), dsa.arange(0, A), dsa.arange(0, D), dsa.arange(0, BLOCK)
    chunk = m[:, None] * A + a[None, :]
    x = dsa.load(noise + chunk)
    to_hidden = dsa.load(w_in + a[:, None] * D + d[None, :])
    to_actions = dsa.load(w_out + d[:, None] * A + a[None, :])
    for step in range(STEPS):
        t = step.to(dsa.float32) / STEPS
        h = dsa.dot(x.to(dsa.float16), to_hidden) + t
        for layer in range(LAYERS):
            acc = dsa.zeros((M, D), dtype=dsa.float32)
            rounded = h.to(dsa.float16)
            for j in range(0, H, BLOCK):
                tile = dsa.load(w_up + layer * D * H + d[:, None] * H + (j + n)[None, :])
                hidden = dsa.dot(rounded, tile)
                hidden = (hidden * dsa.sigmoid(hidden)).to(dsa.float16)
                tile = dsa.load(w_down + layer * D * H + (j + n)[:, None] * D + d[None, :])
                acc = dsa.dot(hidden, tile, acc)
            h += acc
        x += dsa.dot(h.to(dsa.float16), to_actions) * (1.0 / STEPS)
    dsa.store(actions + chunk, x)


STEPS, LAYERS, M, A = 10, 3, 16, 32
sizes = (STEPS, LAYERS, M, A, D, H, BLOCK)
w_in, w_up, w_down, w_out = (
    weights(A, D),
    weights(LAYERS, D, H),
    weights(LAYERS, H, D),
    weights(D, A),
)
noise = rng.standard_normal((M, A)).astype(np.float32)


def exact_head(x):
    x = x.astype(np.float64)
    for step in range(STEPS):
        h = x @ w_in.astype(np.float64) + step / STEPS
        for one, two in zip(w_up.astype(np.float64), w_down.astype(np.float64)):
            u = h @ one
            h = h + u / (1 + np.exp(-u)) @ two
        x = x + h @ w_out.astype(np.float64) / STEPS
    return x


actions = np.zeros_like(noise)
runs = {}
for name, option in (("loaded in each step", False), ("resident", None)):
    runs[name] = head[(1,)](noise, w_in, w_up, w_down, w_out, actions, *sizes, resident=option)
    assert np.abs(actions - exact_head(noise)).max() < 2e-2
    read = runs[name].hbm["w_up"].read / w_up.nbytes
    print(
        f"{name:20} {runs[name].microseconds:6.1f} µs, {runs[name].hbm_bytes:11,} bytes, w_up read {read:.0f}×"
    )
before, after = runs.values()
assert before.hbm_bytes > 8 * after.hbm_bytes and before.cycles > 3 * after.cycles

# %% [markdown]
# ## Launch after launch
#
# A robot asks for the next chunk again and again. `with dsa.resident(w_up, w_down):` keeps the tiles from one launch
# to the next: the first one loads them, the others find them. Whoever writes the weights in between (you, a
# copy, another kernel) makes the next launch load them again; nothing stale is ever used.

# %%
with dsa.resident(w_up, w_down):
    for chunk in range(4):
        if chunk == 2:
            w_up *= np.float16(0.9)  # new weights arrive
        run = head[(1,)](noise, w_in, w_up, w_down, w_out, actions, *sizes)
        assert np.abs(actions - exact_head(noise)).max() < 2e-2
        print(f"chunk {chunk}: {run.microseconds:6.1f} µs, {run.hbm_bytes:9,} bytes")
    assert run.hbm_bytes < 100_000

# %% [markdown]
# ## Real-time chunking
#
# While the arm executes a chunk, the next one is computed. Two streams with a buffer each overlap the copies of one
# chunk with the kernel of the other; the weights stay through all of it.

# %%
device = dsa.Device()
streams = [dsa.Stream(device, "even"), dsa.Stream(device, "odd")]
on_device = [device.to_device(w) for w in (w_in, w_up, w_down, w_out)]
buffers = [device.empty((M, A), np.float32) for _ in streams]
with dsa.resident(*on_device[1:3]):
    launches, results = [], []
    for chunk in range(6):
        stream, out = streams[chunk % 2], buffers[chunk % 2]
        start = device.to_device(noise + np.float32(chunk), stream)
        launches.append(head[(1,)](start, *on_device, out, *sizes, stream=stream))
        results.append(out.to_host_async(stream))
    for chunk, result in enumerate(results):
        assert np.abs(result.result() - exact_head(noise + np.float32(chunk))).max() < 5e-2
loads = [launch.result().hbm_bytes > w_up.nbytes for launch in launches]
assert loads == [True] + [False] * 5
kernels = [launch.span for launch in launches]
hidden = sum(
    max(0.0, min(k.end, c.end) - max(k.start, c.start))
    for c in device.clock.spans if c.resource != "cores"
    for k in kernels if k.stream != c.stream
)  # fmt: skip
print(
    f"6 chunks in {kernels[-1].end:.0f} µs, {hidden:.2f} µs of copies under the other stream's kernel"
)

# %% [markdown]
# **Exercise.** Write `mlp_steps(x, w, y, STEPS, D)`: STEPS times x = relu(x @ w), for one row of D values, w of D×D,
# all fp16, D a power of two, in one kernel that reads w from HBM once.
#
#     dsa exercise 05 my_answer.py
