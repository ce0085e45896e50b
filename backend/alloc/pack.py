"""Packing buffers into a memory: fast orders first, then search."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence

from .model import Buffer, Offsets, lower_bound
from .search import search


def pack(buffers: Sequence[Buffer], capacity: int, seconds: float | None = None) -> Offsets | None:
    """Offsets at which buffers that are alive together do not overlap and all end within `capacity` bytes.

    None when there are no such offsets. Tries first-fit in several orders, then an exact search, which gives
    up after about `seconds` (None: never).
    """
    if not buffers:
        return {}
    if lower_bound(list(buffers)) > capacity:
        return None
    best = pack_fast(buffers)
    if peak(buffers, best) <= capacity:
        return best
    return search(buffers, capacity, seconds)


def pack_fast(buffers: Sequence[Buffer]) -> Offsets:
    """First-fit in several orders; the result with the lowest peak, which may exceed any capacity."""
    bound = lower_bound(list(buffers))
    best: Offsets | None = None
    for order in ORDERS:
        offsets = first_fit(sorted(buffers, key=order))
        if best is None or peak(buffers, offsets) < peak(buffers, best):
            best = offsets
        if peak(buffers, best) <= bound:
            break
    assert best is not None
    return best


ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.lower),
    lambda b: (-(b.size * (b.upper - b.lower)), b.lower),
    lambda b: (-(b.upper - b.lower), -b.size),
    lambda b: (b.lower, -b.size),
    lambda b: (-b.upper, -b.size),
)


def first_fit(buffers: Sequence[Buffer]) -> Offsets:
    """Give each buffer, in the order given, the lowest offset that is free during its life."""
    offsets: Offsets = {}
    placed: list[tuple[int, int, int, int]] = []  # offset, end, and life, by offset
    for buffer in buffers:
        at, lower, upper = 0, buffer.lower, buffer.upper
        end = buffer.size
        for offset, over, start, stop in placed:
            if start < upper and lower < stop:
                if offset >= end:
                    break
                if over > at:
                    at, end = over, over + buffer.size
        offsets[buffer.id] = at
        insort(placed, (at, end, lower, upper))
    return offsets


def peak(buffers: Sequence[Buffer], offsets: Offsets) -> int:
    """One past the last byte in use."""
    return max((offsets[b.id] + b.size for b in buffers), default=0)
