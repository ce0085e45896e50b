"""Microkernels, right and wrong ones, and kernels that call them."""

from __future__ import annotations

import dsalang as dsa
import dsalang.language as tl


@dsa.jit
def product(x, w, y, f: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """y[i] = f(x, w[i], None) for three i in a loop, per program."""
    rows = tl.arange(0, M)[:, None]
    columns = tl.arange(0, N)[None, :]
    depth = tl.arange(0, K)
    base = tl.program_id(0) * 3
    for i in range(3):
        a = tl.load(x + rows * K + depth[None, :])
        b = tl.load(w + (base + i) * K * N + depth[:, None] * N + columns)
        tl.store(y + (base + i) * M * N + rows * N + columns, f(a, b, None))


@dsa.microkernel(reference=dsa.dot, in_place="acc")
def plain(k, a, b, acc):
    k.matmul(k.result, a, b, accumulate=acc is not None)


@dsa.microkernel(reference=dsa.dot, flags="own")
def ordered(k, a, b, acc):
    ready = k.semaphore()
    copy = k.scratch(a.shape, a.fmt, "copy")
    k.vector(copy, lambda v, x: x * 1.0, a)
    k.set("VE", ready)
    k.wait("MM", ready)
    k.matmul(k.result, copy, b)


@dsa.microkernel(reference=dsa.dot, flags="own")
def racy(k, a, b, acc):
    copy = k.scratch(a.shape, a.fmt, "copy")
    k.vector(copy, lambda v, x: x * 1.0, a)
    k.matmul(k.result, copy, b)  # RACE


@dsa.microkernel(reference=dsa.dot, flags="own")
def deadlocked(k, a, b, acc):
    never = k.semaphore()
    k.wait("MM", never)  # DEADLOCK
    k.matmul(k.result, a, b)
    k.set("MM", never)


@dsa.microkernel(reference=dsa.dot, flags="own")
def overflowing(k, a, b, acc):
    k.matmul(k.result, a, b)
    k.set("MM", k.semaphore(15))  # OVERFLOW


@dsa.microkernel(reference=dsa.dot)
def leaving(k, a, b, acc):
    (m, depth), n = a.shape, b.shape[1]
    k.isa.mma(
        a=a, b=b, d=k.result, fmt_a="fp32", fmt_b="fp32", fmt_d="fp32",
        batch=1, m=m + 1, n=n, k=depth, lda=depth * 4, ldb=n * 4, ldd=n * 4,
    )  # fmt: skip


@dsa.microkernel(reference=dsa.dot)
def overwriting(k, a, b, acc):
    k.vector(a, lambda v, x: x + 1.0, a)  # WRITES


@dsa.microkernel(reference=dsa.dot)
def swapped(k, a, b, acc):
    k.matmul(k.result, b, a)  # SHAPES


@dsa.microkernel(reference=dsa.dot)
def crashing(k, a, b, acc):
    k.nothing()  # CRASH


@dsa.microkernel(reference=dsa.dot)
def silent(k, a, b, acc):
    """Writes nothing at all."""


@dsa.microkernel(reference=dsa.dot)
def wrong(k, a, b, acc):
    k.matmul(k.result, a, b)
    k.vector(k.result, lambda v, x: x * 1.0001, k.result)


STEP = 16


@dsa.microkernel(results=lambda x, w, N: dsa.TileSpec((x.shape[0], N), "fp32"))
def stream(k, x, w, N):
    """x · w for a pointer w to [K, N] fp32, in blocks of STEP rows that are loaded ahead."""
    (m, depth), out = x.shape, k.result
    k.fill(out, 0.0)
    blocks = k.ring((STEP, N), "fp32", slots=3, label="block")
    pieces = k.scratch((depth // STEP, m, STEP), "fp32", "pieces")
    k.copy(pieces, x.reshape(m, depth // STEP, STEP).permute(1, 0, 2))
    for i in range(depth // STEP):
        tile = k.scratch((STEP, N), "fp32") if i else blocks.next()
        k.load(tile, w + i * STEP * N * 4, (N * 4, 4))
        k.matmul(out, pieces[i], tile, accumulate=True)


@dsa.microkernel(results=lambda x, w, N: dsa.TileSpec((x.shape[0], N), "fp32"), flags="own")
def repeat(k, x, w, N):
    """The sum over i of x[:, :STEP] · w[i * STEP : (i + 1) * STEP], with flags of its own around a ring."""
    depth, out, slots = x.shape[1], k.result, 3
    full, empty, cleared = k.semaphore(), k.semaphore(slots), k.semaphore()
    k.fill(out, 0.0)
    k.set("VE", cleared)
    k.wait("MM", cleared)
    blocks = k.ring((STEP, N), "fp32", slots=slots, label="block")
    with k.loop(depth // STEP) as i:
        tile = blocks.next()
        k.wait("LD", empty)
        k.load(tile, w + i * (STEP * N * 4), (N * 4, 4))
        k.set("LD", full)
        k.wait("MM", full)
        k.matmul(out, x[:, :STEP], tile, accumulate=True)
        k.set("MM", empty)


@dsa.jit
def streamed(x, w, y, f: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """y[p] = f(x, &w[p], N) in program p."""
    rows = tl.arange(0, M)[:, None]
    program = tl.program_id(0)
    found = f(tl.load(x + rows * K + tl.arange(0, K)[None, :]), w + program * K * N, N)
    tl.store(y + program * M * N + rows * N + tl.arange(0, N)[None, :], found)


@dsa.jit
def doubled(x):
    """An op in the language."""
    return x + x


@dsa.jit
def calls_doubled(x, y, N: tl.constexpr):
    """y = doubled(x)."""
    n = tl.arange(0, N)
    tl.store(y + n, doubled(tl.load(x + n)))
