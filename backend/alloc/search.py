"""Exact search for a packing: orders of trial in turn, each independent part by itself.

The order in which the search tries candidates decides how long it takes, and no order is best on all problems:
several are tried in turn with growing limits on the number of nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from .canonical import INFEASIBLE, SOLVED, State, compiled
from .model import Buffer, Offsets

FIRST_NODE_LIMIT = 5_000
LIMIT_GROWTH = 4


def _orders(
    buffers: Sequence[Buffer], peak: Sequence[int]
) -> list[Callable[[int], tuple[int, ...]]]:
    """Orders of trial: sort keys, largest first. `peak` is each buffer's most crowded section."""

    def width(i: int) -> int:
        return buffers[i].upper - buffers[i].lower

    def area(i: int) -> int:
        return width(i) * buffers[i].size

    return [
        lambda i: (width(i), area(i)),
        lambda i: (peak[i], area(i)),
        lambda i: (peak[i], width(i)),
        lambda i: (area(i), width(i)),
    ]


def search(
    buffers: Sequence[Buffer], capacity: int, seconds: float | None = None
) -> Offsets | None:
    """Offsets such that buffers alive at the same time do not overlap and all end within `capacity` bytes.

    None when there are none, or none was found in about `seconds` (None: never give up).
    """
    if not buffers:
        return {}
    times = sorted({t for b in buffers for t in (b.lower, b.upper)})
    section = {t: k for k, t in enumerate(times)}
    first = [section[b.lower] for b in buffers]
    end = [section[b.upper] for b in buffers]
    total = [0] * len(times)
    for i, b in enumerate(buffers):
        for t in range(first[i], end[i]):
            total[t] += b.size
    if max(total) > capacity:
        return None
    deadline = None if seconds is None else time.monotonic() + seconds
    offsets: Offsets = {}
    for part in _parts(first, end):
        found = _solve_part(buffers, part, first, end, total, capacity, deadline)
        if found is None:
            return None
        for i in part:
            offsets[buffers[i].id] = found[i]
    return offsets


def _parts(first: Sequence[int], end: Sequence[int]) -> list[list[int]]:
    """Groups of buffers whose lifetimes are connected, in order of time."""
    parts: list[list[int]] = []
    reach = -1
    for i in sorted(range(len(first)), key=lambda i: first[i]):
        if first[i] >= reach:
            parts.append([])
        parts[-1].append(i)
        reach = max(reach, end[i])
    return parts


def _solve_part(
    buffers: Sequence[Buffer],
    part: Sequence[int],
    first: list[int],
    end: list[int],
    total: list[int],
    capacity: int,
    deadline: float | None,
) -> list[int] | None:
    count = len(buffers)
    peak = [max(total[first[i] : end[i]]) for i in range(count)]
    neighbour_start, neighbours = _neighbours(first, end)
    limit = FIRST_NODE_LIMIT
    while True:
        for key in _orders(buffers, peak):
            order = sorted(part, key=key, reverse=True)
            rank = [0] * count
            for place_, i in enumerate(order):
                rank[i] = place_
            state = State(
                capacity=capacity, nodes=0, node_limit=limit, free=len(order),
                first=first, end=end, size=[b.size for b in buffers], rank=rank,
                lowest=[0] * count, offset=[0] * count, placed=[0] * count,
                neighbour_start=neighbour_start, neighbours=neighbours,
                floor=[0] * len(total), total=list(total),
                least=[0] * len(total), crossed=[0] * (len(total) + 1),
                scratch=order + [0] * _scratch_size(len(order), len(total)),
            )  # fmt: skip
            lo, hi = min(first[i] for i in part), max(end[i] for i in part)
            result = compiled()(state, 0, len(order), lo, hi, 0, -1)
            if result == SOLVED:
                return state.offset
            if result == INFEASIBLE or (deadline is not None and time.monotonic() > deadline):
                return None
        limit *= LIMIT_GROWTH


def _scratch_size(items: int, sections: int) -> int:
    """Elements that the deepest path can need: candidates, copies and parts of each node on it."""
    return (items + 1) * (3 * items + 3 * sections + 4)


def _neighbours(first: Sequence[int], end: Sequence[int]) -> tuple[list[int], list[int]]:
    starts, flat = [0], []
    for i in range(len(first)):
        flat += [j for j in range(len(first)) if j != i and first[i] < end[j] and first[j] < end[i]]
        starts.append(len(flat))
    return starts, flat
