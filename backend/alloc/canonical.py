"""The exact search: which buffers of given lifetimes fit a capacity, and where.

Depth-first over *canonical* solutions: buffers are placed in order of non-decreasing offset, each at the lowest
offset that the buffers placed before allow. Every feasible problem has a canonical solution (one whose sum of
offsets is least), and these facts cut the tree:

- a buffer whose lowest offset lies below the current one has to wait until another one raises it;
- a buffer is not placed at or above the top that an unplaced one would have at its own lowest offset:
  that one could move down, so the sum would not be least;
- of two buffers at one offset the one that is first in the order is placed first;
- in each section (a time in which nothing begins or ends) the least offset of what is left plus its total
  size must fit;
- when no unplaced buffer spans a boundary between sections, both sides are separate problems.

The idea of canonical search with sections is from MiniMalloc (Moffitt, "MiniMalloc: A Lightweight Memory
Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023); the bounds here are our own.
The search is plain Python, compiled to host code by `llvm/subset.py`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ..llvm.subset import NativeModule

SOLVED, INFEASIBLE, GAVE_UP = 1, 0, -1


@dataclass
class State:
    """Everything the search works on; section s lies between the s-th and the next event time."""

    capacity: int
    nodes: int  # nodes visited so far
    node_limit: int
    free: int  # first unused element of scratch
    first: list[int]  # per buffer: first section alive
    end: list[int]  # per buffer: one past the last section alive
    size: list[int]  # per buffer
    rank: list[int]  # per buffer: its place in the order of trial
    lowest: list[int]  # per buffer: lowest offset that the placed ones allow
    offset: list[int]  # per buffer: where it was placed
    placed: list[int]  # per buffer: 0 or 1
    neighbour_start: list[int]  # per buffer: where its neighbours start in `neighbours`
    neighbours: list[int]  # buffers alive at the same time
    floor: list[int]  # per section: top of what is placed
    total: list[int]  # per section: bytes not placed
    least: list[int]  # per section: scratch of `bound`
    crossed: list[int]  # per section boundary: scratch of `split`
    scratch: list[int]  # a stack for what a node keeps


def search(s: State, items: int, count: int, lo: int, hi: int, current: int, last: int) -> int:
    """Place the buffers scratch[items : items + count], all within sections lo to hi.

    `current` is the offset and `last` the rank of the buffer placed last. Returns SOLVED, INFEASIBLE or GAVE_UP.
    """
    s.nodes += 1
    if s.nodes > s.node_limit:
        return -1
    limit = bound(s, items, count, lo, hi, current)
    if limit < 0:
        return 0
    mark = s.free
    candidates = mark
    found = collect(s, items, count, candidates, current, last, limit)
    saved = candidates + found
    rest = save(s, items, count, lo, hi, saved)
    for c in range(found):
        buffer = s.scratch[candidates + c]
        if fits(s, buffer):
            s.free = rest
            place(s, buffer)
            result = split(s, items, count, lo, hi, buffer)
            if result != 0:
                s.free = mark
                return result
            restore(s, items, count, lo, hi, saved)
    s.free = mark
    return 0


def bound(s: State, items: int, count: int, lo: int, hi: int, current: int) -> int:
    """The lowest top that an unplaced buffer can have; -1 when some section cannot hold what is left."""
    limit = 1 << 60
    for t in range(lo, hi):
        s.least[t] = 1 << 60
    for q in range(items, items + count):
        j = s.scratch[q]
        limit = min(limit, s.lowest[j] + s.size[j])
        at = max(s.lowest[j], current)
        for t in range(s.first[j], s.end[j]):
            if at < s.least[t]:
                s.least[t] = at
    for t in range(lo, hi):
        if s.total[t] > 0 and max(s.least[t], s.floor[t]) + s.total[t] > s.capacity:
            return -1
    return limit


def collect(s: State, items: int, count: int, out: int, current: int, last: int, limit: int) -> int:
    """Write the candidates to scratch[out:], by offset and then rank; returns their number."""
    found = 0
    for q in range(items, items + count):
        j = s.scratch[q]
        low = s.lowest[j]
        if low < current or low >= limit or (low == current and s.rank[j] < last):
            continue
        k = out + found
        while k > out and s.lowest[s.scratch[k - 1]] > low:
            s.scratch[k] = s.scratch[k - 1]
            k -= 1
        s.scratch[k] = j
        found += 1
    return found


def save(s: State, items: int, count: int, lo: int, hi: int, at: int) -> int:
    """Keep what placing may change; returns the end of the copy."""
    for t in range(lo, hi):
        s.scratch[at] = s.floor[t]
        s.scratch[at + 1] = s.total[t]
        at += 2
    for q in range(items, items + count):
        s.scratch[at] = s.lowest[s.scratch[q]]
        at += 1
    return at


def restore(s: State, items: int, count: int, lo: int, hi: int, at: int) -> int:
    """Undo to the copy made by `save`; all buffers of the node are unplaced again."""
    for t in range(lo, hi):
        s.floor[t] = s.scratch[at]
        s.total[t] = s.scratch[at + 1]
        at += 2
    for q in range(items, items + count):
        j = s.scratch[q]
        s.lowest[j] = s.scratch[at]
        s.placed[j] = 0
        at += 1
    return 0


def fits(s: State, buffer: int) -> int:
    """1 when every section of a buffer can still hold what is left once it stands at its lowest offset."""
    room = s.capacity - s.lowest[buffer]
    for t in range(s.first[buffer], s.end[buffer]):
        if s.total[t] > room:
            return 0
    return 1


def place(s: State, buffer: int) -> int:
    """Put a buffer at its lowest offset and raise its neighbours."""
    offset = s.lowest[buffer]
    top = offset + s.size[buffer]
    s.placed[buffer] = 1
    s.offset[buffer] = offset
    for t in range(s.first[buffer], s.end[buffer]):
        s.floor[t] = top
        s.total[t] -= s.size[buffer]
    for k in range(s.neighbour_start[buffer], s.neighbour_start[buffer + 1]):
        j = s.neighbours[k]
        if s.placed[j] == 0 and s.lowest[j] < top:
            s.lowest[j] = top
    return 0


def split(s: State, items: int, count: int, lo: int, hi: int, buffer: int) -> int:
    """Search the rest after `buffer` was placed, part by part between uncrossed boundaries."""
    for t in range(lo, hi + 1):
        s.crossed[t] = 0
    for q in range(items, items + count):
        j = s.scratch[q]
        if j != buffer:
            for t in range(s.first[j] + 1, s.end[j]):
                s.crossed[t] = 1
    boundaries = s.free
    parts = 0
    for t in range(lo + 1, hi + 1):
        if t == hi or s.crossed[t] == 0:
            s.scratch[boundaries + parts] = t
            parts += 1
    s.free = boundaries + parts
    start = lo
    for p in range(parts):
        stop = s.scratch[boundaries + p]
        part = s.free
        size = 0
        for q in range(items, items + count):
            j = s.scratch[q]
            if j != buffer and s.first[j] >= start and s.end[j] <= stop:
                s.scratch[part + size] = j
                size += 1
        if size > 0:
            s.free = part + size
            result = search(s, part, size, start, stop, s.offset[buffer], s.rank[buffer])
            s.free = part
            if result != 1:
                return result
        start = stop
    return 1


@functools.cache
def compiled() -> NativeModule:
    """The search as host code."""
    return NativeModule(State, [search, bound, collect, save, restore, fits, place, split])
