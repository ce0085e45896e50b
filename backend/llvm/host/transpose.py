"""Squares of elements transposed in vector registers."""

from __future__ import annotations

from collections.abc import Sequence

from .build import Code, Value


def transposed(code: Code, values: Sequence[Value]) -> list[Value]:
    """The columns of a square as vectors: swap off-diagonal blocks of half the size, then of a quarter, …"""
    count = len(values)
    rows = list(values)
    size = count // 2
    while size:
        low = [(0 if lane & size == 0 else count) + (lane & ~size) for lane in range(count)]
        high = [(0 if lane & size == 0 else count) + (lane | size) for lane in range(count)]
        for i in range(count):
            if i & size == 0:
                x, y = rows[i], rows[i + size]
                rows[i], rows[i + size] = code.shuffle(x, y, low), code.shuffle(x, y, high)
        size //= 2
    return rows
