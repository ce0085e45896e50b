"""One small kernel for each bug that random kernels have found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_VERIFY", "1")
    monkeypatch.setenv("DSA_CACHE", "0")


def agree(
    kernel: Any, *arrays: Any, grid: tuple[int, ...] = (1,), **options: Any
) -> tuple[Any, ...]:
    """Run compiled and interpreted; equal results are returned."""
    copies = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arrays)
    kernel[grid](*arrays, **options)
    dsa.jit(kernel.fn, interpret=True)[grid](*copies)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    return arrays


def test_position_of_an_extreme_alone_decides_a_branch():
    """The extreme value that nobody used had a ring, which the skew pass left without an acquire."""

    @dsa.jit
    def kernel(out):
        if tl.argmin(tl.arange(0, 3), 0):
            tl.store(out, 1)
        if tl.argmax(tl.arange(0, 3), 0) == 2:
            tl.store(out + 1, 7)
        tl.store(out + 2, tl.max(tl.arange(0, 3), 0, return_indices=True)[0])

    (out,) = agree(kernel, np.zeros(3, np.int32), grid=(2,))
    assert out.tolist() == [0, 7, 2]


TYPES = (tl.int1, tl.int8, tl.uint16, tl.int64, tl.float8e5, tl.float16, tl.bfloat16, tl.float32)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_types_of_reductions_and_scans(kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Compiler and interpreter gave different types to extremes, sums and products of narrow types."""

    @dsa.jit
    def kernel(KIND: tl.constexpr):
        x = tl.full((4,), 1, KIND)
        tl.static_print(tl.sum(x, 0).dtype, tl.max(x, 0).dtype, tl.min(x).dtype)
        tl.static_print(tl.max(x, 0, return_indices=True)[0].dtype, tl.argmin(x, 0).dtype)
        tl.static_print(tl.cumsum(x, 0).dtype, tl.cumprod(x, 0).dtype)

    kernel[1](kind)
    compiled = capsys.readouterr().out
    dsa.jit(kernel.fn, interpret=True)[1](kind)
    assert compiled == capsys.readouterr().out


def test_an_extreme_of_unsigned_shorts_is_signed():
    @dsa.jit
    def kernel(x, out):
        least = tl.min(tl.load(x + tl.arange(0, 3)), 0)
        tl.store(out, tl.where(least == 0, tl.full((), -4, tl.int32), least))
        tl.store(out + 1 + tl.arange(0, 3), tl.cumprod(tl.load(x + tl.arange(0, 3)), 0))

    _, out = agree(kernel, np.array([0, 300, 7], np.uint16), np.ones(4, np.float32))
    assert out.tolist() == [-4, 0, 0, 0]
