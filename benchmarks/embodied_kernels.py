"""Kernels of embodied models at batch 1: chains of products, a flow-matching action head, decode attention."""

from __future__ import annotations

import dsalang as dsa


@dsa.jit
def chain(
    x, w, y, PAIRS: dsa.constexpr, D: dsa.constexpr, H: dsa.constexpr, BLOCK: dsa.constexpr
):  # fmt: skip
    """One row through 2 · PAIRS matrices: x → relu(x @ w[p, 0]) @ w[p, 1]; the hidden row is never whole."""
    d, n = dsa.arange(0, D), dsa.arange(0, BLOCK)
    h = dsa.load(x + d)[None, :]
    for p in range(PAIRS):
        up, down = w + p * 2 * D * H, w + (p * 2 + 1) * D * H
        acc = dsa.zeros((1, D), dsa.float32)
        for j in range(0, H, BLOCK):
            hidden = dsa.dot(h, dsa.load(up + d[:, None] * H + (j + n)[None, :]))
            hidden = dsa.maximum(hidden, 0.0).to(dsa.float16)
            acc = dsa.dot(hidden, dsa.load(down + (j + n)[:, None] * D + d[None, :]), acc)
        h = acc.to(dsa.float16)
    dsa.store(y + d[None, :], h)


@dsa.jit
def trunk(
    h, w_up, w_down,
    LAYERS: dsa.constexpr, M: dsa.constexpr, D: dsa.constexpr, H: dsa.constexpr, BLOCK: dsa.constexpr,
):  # fmt: skip
    """Residual MLPs: h += silu(h @ up) @ down, tile by tile of the hidden layer."""
    d, n = dsa.arange(0, D), dsa.arange(0, BLOCK)
    for layer in range(LAYERS):
        acc = dsa.zeros((M, D), dsa.float32)
        rounded = h.to(dsa.float16)
        for j in range(0, H, BLOCK):
            up = dsa.load(w_up + layer * D * H + d[:, None] * H + (j + n)[None, :])
            hidden = dsa.dot(rounded, up)
            hidden = hidden * dsa.sigmoid(hidden)
            down = dsa.load(w_down + layer * D * H + (j + n)[:, None] * D + d[None, :])
            acc = dsa.dot(hidden.to(dsa.float16), down, acc)
        h += acc
    return h


@dsa.jit
def flow_head(
    noise, condition, w_in, w_up, w_down, w_out, actions,
    STEPS: dsa.constexpr, LAYERS: dsa.constexpr, M: dsa.constexpr, A: dsa.constexpr,
    D: dsa.constexpr, H: dsa.constexpr, BLOCK: dsa.constexpr,
):  # fmt: skip
    """All steps of a flow-matching head: x += v(x, t) / STEPS, where v is an MLP over a chunk of M actions."""
    m, a, d = dsa.arange(0, M), dsa.arange(0, A), dsa.arange(0, D)
    chunk = m[:, None] * A + a[None, :]
    x = dsa.load(noise + chunk)
    seen = dsa.load(condition + d)[None, :]
    to_hidden = dsa.load(w_in + a[:, None] * D + d[None, :])
    to_actions = dsa.load(w_out + d[:, None] * A + a[None, :])
    for step in range(STEPS):
        t = step.to(dsa.float32) / STEPS
        h = dsa.dot(x.to(dsa.float16), to_hidden) + seen * (1.0 + t)
        h = trunk(h, w_up, w_down, LAYERS, M, D, H, BLOCK)
        x += dsa.dot(h.to(dsa.float16), to_actions) * (1.0 / STEPS)
    dsa.store(actions + chunk, x)


@dsa.jit
def flow_step(
    x, condition, t, dt, w_in, w_up, w_down, w_out, actions, action_dim,
    LAYERS: dsa.constexpr, M: dsa.constexpr, A: dsa.constexpr,
    D: dsa.constexpr, H: dsa.constexpr, BLOCK: dsa.constexpr,
):  # fmt: skip
    """One step of a head as a kernel of its own; arrays of actions have `action_dim` columns, at most A."""
    m, a, d = dsa.arange(0, M), dsa.arange(0, A), dsa.arange(0, D)
    chunk = m[:, None] * action_dim + a[None, :]
    real = a < action_dim
    now = dsa.load(x + chunk, mask=real[None, :], other=0.0)
    to_hidden = dsa.load(w_in + a[:, None] * D + d[None, :], mask=real[:, None], other=0.0)
    h = dsa.dot(now.to(dsa.float16), to_hidden)
    h += dsa.load(condition + d)[None, :] * (1.0 + t)
    h = trunk(h, w_up, w_down, LAYERS, M, D, H, BLOCK)
    to_actions = dsa.load(
        w_out + d[:, None] * action_dim + a[None, :], mask=real[None, :], other=0.0
    )
    now += dsa.dot(h.to(dsa.float16), to_actions) * dt
    dsa.store(actions + chunk, now, mask=real[None, :])


@dsa.jit
def decode_attention(
    q, k, v, out, scale, length,
    GROUP: dsa.constexpr, HEAD: dsa.constexpr, CACHE: dsa.constexpr, BLOCK: dsa.constexpr,
    FULL: dsa.constexpr = False,
):  # fmt: skip
    """One new token: GROUP query heads share each key-value head; caches are [heads, CACHE, HEAD].

    With FULL the loop is over the whole cache, however long it is: its blocks can stay in SRAM.
    """
    head = dsa.program_id(0)
    g, d, n = dsa.arange(0, GROUP), dsa.arange(0, HEAD), dsa.arange(0, BLOCK)
    queries = head * GROUP * HEAD + g[:, None] * HEAD + d[None, :]
    q_tile = dsa.load(q + queries)
    top = dsa.full((GROUP,), -float("inf"), dsa.float32)
    total = dsa.zeros((GROUP,), dsa.float32)
    acc = dsa.zeros((GROUP, HEAD), dsa.float32)
    end = CACHE if FULL else length
    for start in range(0, end, BLOCK):
        rows = start + n
        at = head * CACHE * HEAD + rows[:, None] * HEAD + d[None, :]
        here = rows < length
        scores = dsa.dot(q_tile, dsa.trans(dsa.load(k + at, mask=here[:, None], other=0.0)))
        scores = dsa.where(here[None, :], scores * scale, -1.0e30)
        new_top = dsa.maximum(top, dsa.max(scores, 1))
        p = dsa.exp(scores - new_top[:, None])
        alpha = dsa.exp(top - new_top)
        total = total * alpha + dsa.sum(p, 1)
        values = dsa.load(v + at, mask=here[:, None], other=0.0)
        acc = dsa.dot(p.to(dsa.float16), values, acc * alpha[:, None])
        top = new_top
    dsa.store(out + queries, acc / total[:, None])
