"""Aggregates: classes of kernel values, compiled and interpreted."""

from __future__ import annotations

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang._backend.errors import CompileError
from dsalang._jit.depends import dependencies


@tl.core._aggregate
class Pair:
    first: tl.tensor
    second: tl.tensor

    @dsa.jit
    def swapped(self):
        return Pair(self.second, self.first)

    @dsa.jit
    def total(self, scale):
        return (self.first + self.second) * scale


@tl.aggregate
class Window:
    base: tl.tensor
    size: tl.constexpr
    step: tl.constexpr = 2

    def __init__(self, base, size, step=2):
        self.base = base
        self.size = tl.constexpr(size)
        self.step = tl.constexpr(step * 2)

    @dsa.jit
    def load(self, k):
        return tl.load(self.base + k * self.step + tl.arange(0, self.size))


@tl.aggregate
class Triple(Pair):
    third: tl.tensor

    @dsa.jit
    def product(self):
        return self.first * self.second * self.third


@dsa.jit
def total_of(pair):
    return pair.total(2.0)


@dsa.jit
def kernel(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    pair = Pair(a, second=a * 2.0)
    for k in range(n):
        pair = pair.swapped()
        pair = tl.aggregate_replace(pair, first=pair.first + k)
    if n > 2:
        pair = Pair(pair.first, pair.second + 1.0)
    tl.store(out + i, total_of(pair))
    tl.store(out + B + i, pair.first)
    window = Window(x, B, step=1)
    tl.static_assert(window.size == B)
    tl.store(out + 2 * B + i, window.load(3))
    triple = Triple(a, a + 1.0, third=a + 2.0)
    tl.store(out + 3 * B + i, triple.product() + triple.swapped().first)
    first, second = pair
    tl.store(out + 4 * B + i, second - first)


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_an_aggregate(interpret, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    x, out = np.arange(20, dtype=np.float32), np.zeros((5, 8), np.float32)
    kernel[1](x, out, 3, B=8)
    a, b = x[:8], x[:8] * 2
    for k in range(3):
        a, b = b + k, a
    b = b + 1
    np.testing.assert_array_equal(out[0], (a + b) * 2)
    np.testing.assert_array_equal(out[1], a)
    np.testing.assert_array_equal(out[2], x[6:14])
    np.testing.assert_array_equal(out[3], x[:8] * (x[:8] + 1) * (x[:8] + 2) + x[:8] + 1)
    np.testing.assert_array_equal(out[4], b - a)


@dsa.jit
def wrong(out):
    pair = Pair(1.0, third=2.0)
    tl.store(out, pair.first)


@dsa.jit
def unknown(out):
    pair = tl.aggregate_replace(Pair(1.0, 2.0), third=3.0)
    tl.store(out, pair.first)


@dsa.jit
def nothing(out):
    tl.store(out, Pair(1.0, 2.0).third)


@dsa.jit
def repeated(out):
    tl.store(out, (Pair(1.0, 2.0) * 2)[3])


@dsa.jit
def joined(out):
    tl.store(out, (Pair(1.0, 2.0) + Pair(3.0, 4.0))[3])


@dsa.jit
def assigned(out):
    pair = Pair(1.0, 2.0)
    pair.first = 3.0


@pytest.mark.parametrize("interpret", ["0", "1"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (wrong, "third"), (unknown, "no field 'third'"), (nothing, "third"), (repeated, r"\*"), (joined, r"\+"),
        (assigned, "attribute"),
    ],
)  # fmt: skip
def test_mistakes(bad, message, interpret, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    with pytest.raises(CompileError, match=message) as error:
        bad[1](np.zeros(1, np.float32))
    assert error.value.loc.file == __file__


def test_the_cache_sees_the_class():
    """What a kernel depends on: the methods, the `__init__`, the fields and defaults of an aggregate."""
    outside = dependencies(kernel.source)
    assert any(
        way.endswith("Pair.swapped") and "self.second" in str(text) for way, text in outside.items()
    )
    assert any(
        way.endswith("Window.__init__") and "step * 2" in str(text) for way, text in outside.items()
    )
    assert outside["kernel:Triple.fields"] == ("first", "second", "third")
    assert outside["kernel:Window.step"] == 2
