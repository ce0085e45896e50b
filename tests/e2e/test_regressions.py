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
