"""The allocation problem as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Buffer:
    """A buffer that needs one place in memory while it is alive."""

    id: str
    """A name, unique in the problem."""
    lower: int
    """The first step at which it is alive."""
    upper: int
    """The first step at which it is dead; greater than `lower`."""
    size: int
    """Bytes; positive. With sizes that are multiples of an alignment, so are all offsets."""


Offsets = dict[str, int]
"""The byte at which each buffer begins, by id."""


def lower_bound(buffers: list[Buffer]) -> int:
    """The most bytes that are alive at one step: no packing needs less.

    >>> lower_bound([Buffer("a", 0, 2, 10), Buffer("b", 1, 3, 5), Buffer("c", 2, 4, 7)])
    15
    """
    changes = sorted(
        [(b.lower, 1, b.size) for b in buffers] + [(b.upper, 0, -b.size) for b in buffers]
    )
    peak = total = 0
    for _, _, change in changes:
        total += change
        peak = max(peak, total)
    return peak
