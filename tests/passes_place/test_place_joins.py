"""Parts of a concatenation are made where they belong, and only where nothing reads what they overwrite."""

from __future__ import annotations

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl


@dsa.jit
def halves(x, out, N: tl.constexpr):
    pairs = tl.load(x + tl.arange(0, N))
    codes = tl.interleave(pairs & 15, pairs >> 4)
    tl.store(out + tl.arange(0, 2 * N), codes)


@dsa.jit
def halves_used_twice(x, out, N: tl.constexpr):
    pairs = tl.load(x + tl.arange(0, N))
    low = pairs & 15
    codes = tl.interleave(low, pairs >> 4)
    tl.store(out + tl.arange(0, 2 * N), codes)
    tl.store(x + tl.arange(0, N), low)


@dsa.jit
def turned(x, out, n, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, 2 * N))
    for _ in range(n):
        tile = tl.cat(tile[N:] * 3 + 1, tile[:N] * 5 - 2, can_reorder=False)
    tl.store(out + tl.arange(0, 2 * N), tile)


@dsa.jit
def overwritten(x, out, N: tl.constexpr):
    places = tl.arange(0, N)
    tile = tl.load(x + places)
    first = tile * 3
    other = tile + 7  # may take the place of `tile`, which `first` still has to read
    tl.store(x + places, other * other)
    tl.store(out + tl.arange(0, 2 * N), tl.cat(first, first, can_reorder=False))


def vexecs(kernel, *args, **meta) -> int:
    compiled = kernel.warmup(*args, grid=(1,), target="edge", **meta)
    return compiled.text["dsa"].count('op = "vexec"')


def test_no_copies() -> None:
    x, out = np.arange(40, dtype=np.uint8) * 5, np.zeros(80, np.uint8)
    assert vexecs(halves, x, out, N=40) == 2
    halves[(1,)](x, out, N=40)
    np.testing.assert_array_equal(out, np.stack([x & 15, x >> 4], 1).ravel())


def test_a_part_with_another_reader_is_copied() -> None:
    x, out = np.arange(40, dtype=np.uint8) * 5, np.zeros(80, np.uint8)
    want = np.stack([x & 15, x >> 4], 1).ravel()
    assert vexecs(halves_used_twice, x, out, N=40) == 3
    halves_used_twice[(1,)](x, out, N=40)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(x, want[::2])


@pytest.mark.parametrize("engine", ("reference", "fast"))
def test_parts_that_read_what_the_result_replaces(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSA_EMULATOR", engine)
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    turned[(1,)](x, out, 5, N=16)
    want = x
    for _ in range(5):
        want = np.concatenate([want[16:] * 3 + 1, want[:16] * 5 - 2])
    np.testing.assert_array_equal(out, want)


def test_operands_live_until_the_part_is_made() -> None:
    x, out = np.arange(32, dtype=np.int32), np.zeros(64, np.int32)
    old = x.copy()
    overwritten[(1,)](x, out, N=32)
    np.testing.assert_array_equal(out, np.tile(old * 3, 2))
    np.testing.assert_array_equal(x, (old + 7) ** 2)
