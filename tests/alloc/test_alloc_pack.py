"""Packing: every answer passes the validator, infeasible problems are refused, and the validator can fail."""

from __future__ import annotations

import random

import pytest

from dsalang._backend.alloc.model import Buffer, lower_bound
from dsalang._backend.alloc.pack import pack, pack_fast, peak
from dsalang._backend.alloc.search import search
from dsalang._backend.alloc.validate import validate


def tiling(seed: int, capacity: int = 64, steps: int = 12) -> list[Buffer]:
    """Buffers cut from a full rectangle: a packing without a gap exists."""
    source = random.Random(seed)
    pieces = [(0, steps, 0, capacity)]
    for _ in range(14):
        lower, upper, low, high = pieces.pop(source.randrange(len(pieces)))
        if source.random() < 0.5 and upper - lower > 1:
            cut = source.randrange(lower + 1, upper)
            pieces += [(lower, cut, low, high), (cut, upper, low, high)]
        elif high - low > 1:
            cut = source.randrange(low + 1, high)
            pieces += [(lower, upper, low, cut), (lower, upper, cut, high)]
        else:
            pieces.append((lower, upper, low, high))
    source.shuffle(pieces)
    return [Buffer(f"b{n}", a, b, high - low) for n, (a, b, low, high) in enumerate(pieces)]


@pytest.mark.parametrize("seed", range(40))
def test_full_rectangles_are_packed_without_a_gap(seed: int) -> None:
    buffers = tiling(seed)
    assert lower_bound(buffers) == 64
    offsets = pack(buffers, 64)
    assert offsets is not None
    assert validate(buffers, offsets, 64) == []
    assert pack(buffers, 63) is None


@pytest.mark.parametrize("seed", range(40))
def test_first_fit_is_valid_whatever_its_peak(seed: int) -> None:
    buffers = tiling(seed)
    offsets = pack_fast(buffers)
    assert validate(buffers, offsets, peak(buffers, offsets)) == []


def test_search_finds_what_first_fit_does_not() -> None:
    found = [b for b in map(tiling, range(40)) if peak(b, pack_fast(b)) > 64]
    assert found, "no hard problem among the seeds"
    for buffers in found:
        offsets = search(buffers, 64)
        assert offsets is not None and validate(buffers, offsets, 64) == []


def test_search_proves_that_nothing_fits() -> None:
    """Within the live-range bound of 4, but a step needs the two middle ones apart and together."""
    buffers = [
        Buffer("a", 0, 2, 2),
        Buffer("b", 0, 1, 2),
        Buffer("c", 1, 3, 1),
        Buffer("d", 2, 4, 2),
        Buffer("e", 1, 2, 1),
        Buffer("f", 2, 3, 1),
        Buffer("g", 3, 4, 2),
    ]
    capacity = lower_bound(buffers)
    best = min(
        (c for c in range(capacity, capacity + 4) if search(buffers, c) is not None), default=None
    )
    assert best is not None
    for c in range(capacity, best):
        assert pack(buffers, c) is None


def test_no_buffers() -> None:
    assert pack([], 10) == {}


def test_the_validator_sees_overlap_overflow_and_absence() -> None:
    buffers = [Buffer("a", 0, 2, 4), Buffer("b", 1, 3, 4), Buffer("c", 2, 4, 4)]
    assert validate(buffers, {"a": 0, "b": 4, "c": 0}, 8) == []
    assert validate(buffers, {"a": 0, "b": 3, "c": 7}, 20) == [
        "a and b overlap in memory while both are alive"
    ]
    assert validate(buffers, {"a": 0, "b": 4}, 8) == ["c has no offset"]
    assert validate(buffers, {"a": 0, "b": 4, "c": 5}, 8)[0].startswith("c at 5 does not lie")
    assert validate(buffers, {"a": -1, "b": 4, "c": 0}, 8)[0].startswith("a at -1 does not lie")
