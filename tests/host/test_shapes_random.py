"""Random chains of shape operations: the machine against the interpreter."""

from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest
from test_interpreter_agrees_shapes import SETUP, kernel_of, run

SHAPES = [(12,), (3, 4), (2, 3, 2), (5,), (1, 6), (8, 2), (7, 1), (2, 2, 2, 2)]


class Chain:
    """An expression and the shape of its value, made longer step by step."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.shape: tuple[int, ...] = self.random.choice(SHAPES)
        self.n = prod(self.shape)
        self.text = f"x.reshape({self.shape})"
        for _ in range(self.random.randrange(2, 6)):
            step = self.random.choice(STEPS)
            if prod(self.shape) <= 64:
                step(self)

    def axis(self) -> int:
        return self.random.randrange(len(self.shape))

    def set(self, text: str, shape: tuple[int, ...]) -> None:
        self.text, self.shape = text, shape


def index(c: Chain) -> None:
    keys, shape = [], []
    for n in c.shape:
        kind = c.random.randrange(6)
        if kind == 0 and len(c.shape) > 1:
            keys.append(str(c.random.randrange(-n, n)))
            continue
        if kind == 1 and len(c.shape) > 1:
            keys.append(f"tl.program_id(0) + {c.random.randrange(n)}")
            continue
        if kind == 2:
            keys.append("None")
            shape.append(1)
        start, stop = sorted(c.random.sample(range(n + 1), 2))
        step = c.random.choice((1, 1, 2, -1))
        if step < 0:
            text = f"{stop - 1}:{start - 1 if start else ''}:-1"
        else:
            text = f"{start}:{stop}:{step}"
        keys.append(text)
        shape.append(len(range(start, stop, abs(step))))
    if shape:
        c.set(f"{c.text}[{', '.join(keys)}]", tuple(shape))


def flip(c: Chain) -> None:
    c.set(f"tl.flip({c.text}, {c.axis()})", c.shape)


def permute(c: Chain) -> None:
    order = list(range(len(c.shape)))
    c.random.shuffle(order)
    c.set(f"tl.permute({c.text}, {tuple(order)})", tuple(c.shape[d] for d in order))


def flatten(c: Chain) -> None:
    n = prod(c.shape)
    shape = c.random.choice([(n,), (1, n), (n, 1)] + [(k, n // k) for k in (2, 3, 4) if n % k == 0])
    c.set(f"{c.text}.reshape({shape})", shape)


def join(c: Chain) -> None:
    c.set(f"tl.join({c.text}, {c.text} + 1)", (*c.shape, 2))


def interleave(c: Chain) -> None:
    c.set(f"tl.interleave({c.text}, -{c.text})", (*c.shape[:-1], 2 * c.shape[-1]))


def split(c: Chain) -> None:
    if c.shape[-1] == 2 and len(c.shape) > 1:
        c.set(f"tl.split({c.text})[{c.random.randrange(2)}]", c.shape[:-1])


def cat(c: Chain) -> None:
    axis = c.axis()
    shape = [2 * n if d == axis else n for d, n in enumerate(c.shape)]
    c.set(f"tl.cat({c.text}, {c.text} * 2, dim={axis})", tuple(shape))


def scan(c: Chain) -> None:
    axis = c.axis()
    name = c.random.choice(
        ["tl.cumsum({}, {})", "tl.associative_scan({}, {}, keep_right)", "tl.sort({}, {})",
         "tl.associative_scan({}, {}, lambda a, b: a + b, reverse=True)"]
    )  # fmt: skip
    c.set(name.format(c.text, axis), c.shape)


def fold(c: Chain) -> None:
    axis = c.axis()
    name = c.random.choice(["tl.sum", "tl.max", "tl.min"])
    if len(c.shape) > 1:
        rest = c.shape[:axis] + c.shape[axis + 1 :]
        c.set(f"{name}({c.text}, {axis})", rest)
    else:
        c.set(f"tl.reduce({c.text}, 0, keep_right, keep_dims=True)", (1,))


def gather(c: Chain) -> None:
    axis = c.axis()
    picks = f"({c.text} * 1.5).to(tl.int32) % {c.shape[axis] + 1}"
    c.set(f"tl.gather({c.text}, {picks}, {axis})", c.shape)


def spread(c: Chain) -> None:
    shape = tuple(3 if n == 1 else n for n in c.shape)
    c.set(f"tl.broadcast_to({c.text}, {shape})", shape)


def arithmetic(c: Chain) -> None:
    other = c.random.choice(["x[1]", "0.5", f"tl.arange(0, {c.shape[-1]})", c.text])
    c.set(f"({c.text} {c.random.choice('+-*')} {other})", c.shape)


STEPS = [
    index, index, index, flip, permute, flatten, join, interleave, split, cat, scan, fold, gather, spread,
    arithmetic, arithmetic,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_random_chain(seed, monkeypatch):
    chain = Chain(seed)
    count = prod(chain.shape)
    kernel = kernel_of(chain.text, chain.n, count, SETUP)
    source = np.random.default_rng(seed).integers(-4, 5, chain.n).astype(np.float32)
    expected = run(kernel, source, count, monkeypatch, True)
    found = run(kernel, source, count, monkeypatch, False)
    np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=chain.text)
