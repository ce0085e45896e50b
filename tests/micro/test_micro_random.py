"""Random microkernels with flags of their own: ordered ones run alike under all delays, and what the checker lets
through after a pair of flags is gone is ordered all the same."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl

N = 16


@dataclass
class Author:
    """Writes random instructions, each after the one before by a pair of flags; pair number `drop` is left out."""

    k: object
    random: random.Random
    drop: int
    readable: list = field(default_factory=list)
    last: str | None = None
    pairs: int = 0

    def follow(self, engine):
        """Order the next instruction after the last one."""
        if self.last is not None and self.last != engine:
            if self.pairs != self.drop:
                flag = self.k.semaphore()
                self.k.set(self.last, flag)
                self.k.wait(engine, flag)
            self.pairs += 1
        self.last = engine

    def compute(self, engine, out, x, y):
        """An instruction of VE or MM."""
        if engine == "VE":
            self.k.vector(out, lambda v, p, q: p + q * 0.5, x, y)
        else:
            self.k.matmul(out, x, y)

    def step(self, out, w):
        """Any instruction that fills a tile."""
        engine = self.random.choice(("VE", "MM", "LD"))
        x, y = self.random.choice(self.readable), self.random.choice(self.readable)
        self.follow(engine)
        if engine == "LD":
            self.k.load(out, w + self.random.randint(0, 3) * N * N * 4, (N * 4, 4))
        else:
            self.compute(engine, out, x, y)
        self.readable.append(out)

    def loop(self, tile, b):
        """A loop in which two engines hand a tile to and fro."""
        one, other = self.last, "VE" if self.last == "MM" else "MM"
        empty, full, x = self.k.semaphore(1), self.k.semaphore(), self.readable[-1]
        with self.k.loop(3):
            self.k.wait(one, empty)
            self.compute(one, tile, x, b)
            self.k.set(one, full)
            self.k.wait(other, full)
            self.compute(other, self.k.result, tile, b)
            self.k.set(other, empty)
        self.last = other
        self.readable.append(tile)


def author(seed, drop=-1):
    """The microkernel of a seed."""

    def micro(k, a, b, w):
        writer = Author(k, random.Random(seed), drop, [a, b])
        tiles = [k.scratch((N, N), "fp32", f"s{i}") for i in range(writer.random.randint(1, 3))]
        for _ in range(writer.random.randint(2, 6)):
            writer.step(writer.random.choice(tiles), w)
        if writer.last != "LD" and writer.random.random() < 0.4:
            writer.loop(tiles[0], b)
        engine = writer.random.choice(("VE", "MM"))
        x = writer.readable[-1]
        writer.follow(engine)
        writer.compute(engine, k.result, x, b)

    return dsa.microkernel(results=lambda a, b, w: dsa.TileSpec((N, N), "fp32"), flags="own")(micro)


@dsa.jit
def kernel(x, w, y, f: tl.constexpr, STEPS: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a, b = tl.load(x + at), tl.load(x + N * N + at)
    acc = a
    for _ in range(STEPS):
        acc = f(acc, b, w) * 0.25
        b = f(tl.dot(acc, a), acc, w) * 0.1
    tl.store(y + tl.program_id(0) * N * N + at, acc + b)


def run(monkeypatch, micro, engine):
    monkeypatch.setenv("DSA_EMULATOR", engine)
    random_ = np.random.default_rng(0)
    x, w = (random_.standard_normal((n, N, N)).astype(np.float32) * 0.3 for n in (2, 4))
    y = np.zeros((2, N, N), np.float32)
    kernel[(2,)](x, w, y, micro, 2, N)
    return y


@pytest.mark.parametrize("seed", [0, 3, 7, 8, 20])
def test_ordered(monkeypatch, seed):
    micro = author(seed)
    found = [run(monkeypatch, micro, engine) for engine in ("reference", "adversarial", "fast")]
    assert all((one == found[0]).all() for one in found[1:])


@pytest.mark.parametrize(("seed", "drop"), [(1, 0), (4, 1), (7, 0), (9, 1), (12, 0), (20, 1)])
def test_without_a_pair(monkeypatch, seed, drop):
    """The reference engine looks for races, too: it must find none in what the checker has let through."""
    try:
        found = run(monkeypatch, author(seed, drop), "reference")
    except dsa.MicrokernelError as error:
        assert "race" in error.message
    else:
        assert (found == run(monkeypatch, author(seed), "reference")).all()
