"""How a tile value walks memory: views are a root value plus a byte offset and strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from xdsl.ir import SSAValue

from ...dialects import tile
from ...dialects.types import format_of, shape_of

_VIEWS = frozenset(tile.VIEWS)


@dataclass(frozen=True)
class Walk:
    """A static walk of the memory of `root`: element (i0, …) is `offset` + Σ i_d * strides[d] bytes in."""

    root: SSAValue
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    elem_bytes: int

    @property
    def is_contiguous(self) -> bool:
        """True when the walk is the row-major one from the first byte of the root."""
        return self.offset == 0 and is_row_major(self.shape, self.strides, self.elem_bytes)


def row_major(shape: Sequence[int], elem_bytes: int) -> tuple[int, ...]:
    """Strides in bytes of a row-major tile.

    >>> row_major((2, 3, 4), 2)
    (24, 8, 2)
    """
    return _row_major(tuple(shape), elem_bytes)


@lru_cache(maxsize=4096)
def _row_major(shape: tuple[int, ...], elem_bytes: int) -> tuple[int, ...]:
    strides: list[int] = []
    step = elem_bytes
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def is_row_major(shape: Sequence[int], strides: Sequence[int], elem_bytes: int) -> bool:
    """True when the strides walk row-major; the stride of a dim of size 1 does not matter."""
    expected = row_major(shape, elem_bytes)
    return all(s == 1 or a == b for s, a, b in zip(shape, strides, expected))


def regroup(
    shape: Sequence[int], strides: Sequence[int], new_shape: Sequence[int], elem_bytes: int
) -> tuple[int, ...] | None:
    """Strides that walk the same elements in row-major order under another shape, None if there are none.

    >>> regroup((4, 6), (48, 8), (4, 2, 3), 8), regroup((6, 4), (8, 48), (24,), 8)
    ((48, 24, 8), None)
    """
    old = [(size, stride) for size, stride in zip(shape, strides) if size != 1]
    result: list[int] = []
    pending: list[int] = []  # new dims, innermost first, that walk the current run
    run, stride = 1, elem_bytes  # elements left in the current run of old dims, and its inner step
    for size in reversed(new_shape):
        while size != 1 and run == 1 and old:
            run, stride = old.pop()
            while old and old[-1][1] == run * stride:
                run *= old.pop()[0]
        if run % size:
            return None
        pending.append(stride)
        run //= size
        stride *= size
    result = pending[::-1]
    return tuple(result)


def resolve(value: SSAValue) -> Walk:
    """The walk of a tile or scalar: through views down to the value that owns memory.

    A reshape that no strides can express is a root of its own (the place pass copies).
    """
    shape, elem_bytes = shape_of(value.type), format_of(value.type).bytes
    op = value.owner
    if type(op) not in _VIEWS:
        return Walk(value, 0, shape, row_major(shape, elem_bytes), elem_bytes)
    if isinstance(op, tile.ExpandDimsOp):
        inner, axis = resolve(op.value), op.axis.value.data
        strides = (*inner.strides[:axis], 0, *inner.strides[axis:])
        return Walk(inner.root, inner.offset, shape, strides, elem_bytes)
    if isinstance(op, tile.PermuteOp):
        inner = resolve(op.value)
        strides = tuple(inner.strides[d] for d in tile.ints(op.order))
        return Walk(inner.root, inner.offset, shape, strides, elem_bytes)
    if isinstance(op, tile.BroadcastOp):
        inner = resolve(op.value)
        strides = tuple(
            s if size == grown else 0 for s, size, grown in zip(inner.strides, inner.shape, shape)
        )
        return Walk(inner.root, inner.offset, shape, strides, elem_bytes)
    if isinstance(op, tile.SliceOp):
        inner, steps = resolve(op.value), tile.ints(op.steps)
        offset = sum(i * s for i, s in zip(tile.ints(op.starts), inner.strides))
        strides = tuple(k * s for k, s in zip(steps, inner.strides))
        return Walk(inner.root, inner.offset + offset, shape, strides, elem_bytes)
    if isinstance(op, tile.ReshapeOp):
        inner = resolve(op.value)
        new = regroup(inner.shape, inner.strides, shape, elem_bytes)
        if new is not None:
            return Walk(inner.root, inner.offset, shape, new, elem_bytes)
    return Walk(value, 0, shape, row_major(shape, elem_bytes), elem_bytes)


def root_of(value: SSAValue) -> SSAValue:
    """The value that owns the memory of a tile or scalar."""
    return resolve(value).root if type(value.owner) in _VIEWS else value


def size_bytes(value: SSAValue) -> int:
    """Bytes of the value as a row-major tile."""
    return prod(shape_of(value.type)) * format_of(value.type).bytes


def is_view(value: SSAValue) -> bool:
    """True when the value only renames memory of another one."""
    return type(value.owner) in _VIEWS and resolve(value).root is not value
