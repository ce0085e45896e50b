# %% [markdown]
# # 07 · Microkernels: writing the instructions yourself
#
# A policy that runs at batch 1 multiplies one row with a matrix, again and again. With the weights in SRAM, HBM is out of
# the way, and the tensor engine is what is left. It is made for matrices: one row uses one of its 16 native rows.

# %%
import numpy as np

import dsalang as dsa


@dsa.jit
def recurrent(x, w, y, steps, N: dsa.constexpr):
    n = dsa.arange(0, N)
    weights = dsa.load(w + n[:, None] * N + n[None, :])
    state = dsa.load(x + n)[None, :]
    for _ in range(steps):
        state = dsa.tanh(dsa.dot(state, weights))
    dsa.store(y + n, dsa.reshape(state, (N,)))


rng = np.random.default_rng(0)
N, STEPS = 256, 20
x = rng.standard_normal(N).astype(np.float32)
w = (rng.standard_normal((N, N)) / np.sqrt(N)).astype(np.float32)
y = np.zeros(N, np.float32)
exact = x.astype(np.float64)
for _ in range(STEPS):
    exact = np.tanh(exact @ w)

generated = recurrent[(1,)](x, w, y, STEPS, N=N)
assert np.abs(y - exact).max() < 1e-5
print(f"generated: {generated.cycles:,} cycles")

# %% [markdown]
# The vector engine passes over 512 bytes a cycle: 128 fp32 weights, where the tensor engine takes in 64. A microkernel says
# how. It is a Python function that runs when the kernel is compiled: its first argument writes instructions, the
# others are the tiles of the call. Four weights of a column are multiplied and added per point, so that one program
# has all eight inputs that a vector program can have; a reduction adds what is left.
#
# `reference` says what it means. The self-test runs it on the reference engine, on random data, and compares.


# %%
@dsa.microkernel(reference=dsa.dot)
def row_times_matrix(k, a, b, acc):
    depth, n = b.shape
    sums = k.scratch((depth // 4, n), "fp32")
    rows = [b[j::4] for j in range(4)]
    factors = [a[0, j::4][:, None] for j in range(4)]

    def chain(v, w0, w1, w2, w3, x0, x1, x2, x3):
        return v.ffma(w3, x3, v.ffma(w2, x2, v.ffma(w1, x1, w0 * x0)))

    k.vector(sums, chain, *rows, *factors)
    k.reduce(k.result[0], sums, "fsum", 0)


row_times_matrix.self_test("fp32[1, 256]", "fp32[256, 256]", None)

# %% [markdown]
# Registered for `dot`, it is a candidate wherever `when` says so. The kernel is not touched. The cost model compares both and
# takes the faster one; the profile tells.

# %%
dsa.register_microkernel(
    row_times_matrix,
    op="dot",
    when=lambda a, b, acc: a.shape[0] == 1 and a.fmt == "fp32" and acc is None,
)
written = recurrent[(1,)](x, w, y, STEPS, N=N)
assert np.abs(y - exact).max() < 1e-5
(choice,) = recurrent.warmup(x, w, y, STEPS, N=N, grid=(1,)).microkernels
print(f"hand-written: {written.cycles:,} cycles ({choice.reason})")
assert choice.ran and written.cycles < 0.9 * generated.cycles
print(recurrent.profile(x, w, y, STEPS, N=N, grid=(1,), show=False).text)

# %% [markdown]
# Rings, addresses and flags came from the compiler. `flags="own"` takes the flags over as well, and then the checker
# has to be convinced: here the tensor engine does not wait for the copy.


# %%
@dsa.microkernel(reference=dsa.dot, flags="own")
def careless(k, a, b, acc):
    copy = k.scratch(a.shape, "fp32", "copy")
    k.copy(copy, a)
    k.matmul(k.result, copy, b)


try:
    careless.self_test("fp32[1, 64]", "fp32[64, 64]", None)
except dsa.MicrokernelError as error:
    print(error)
else:
    raise AssertionError("nobody has noticed")


@dsa.microkernel(reference=dsa.dot, flags="own")
def careful(k, a, b, acc):
    copied = k.semaphore()
    copy = k.scratch(a.shape, "fp32", "copy")
    k.copy(copy, a)
    k.set("VE", copied)
    k.wait("MM", copied)
    k.matmul(k.result, copy, b)


careful.self_test("fp32[1, 64]", "fp32[64, 64]", None)

# %% [markdown]
# docs/microkernels.md has the contract; `dsalang.microkernels` has a product that uses both engines at once, a step of
# online softmax and a product with int4 weights.
#
# **Exercise.** Write a microkernel `rms_norm(k, x, weight)`: x [M, N] fp32 times weight [N] over the root of the mean
# square of its row, without an epsilon. At most three vector instructions pass over the whole tile. Give it a numpy
# reference and `results`.
#
#     dsa exercise 07 my_answer.py
