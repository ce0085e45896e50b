"""The copy of a box between HBM and SRAM: loops over its outer dims around rows, transposed tiles or elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from . import copies, helpers
from .build import I1, I64, Bool, Int, Value, constant
from .unit import Unit
from .walk import Space

STREAM_BYTES = 8 << 20
"""Arrays in HBM from this size on are written past the caches, which would not keep them anyway."""
_STREAM_ROW = 256
"""Rows of at least so many bytes; part of a cache line goes past the caches slowly."""
_SHORT_ROW = 16
"""Rows of less are copied in place: calling a function for them takes longer."""


@dataclass(frozen=True)
class Box:
    """What is copied.

    Attributes:
        space: its dims; strides[0] are those in HBM, strides[1] those in SRAM.
        step: by dims that go through an index vector, the HBM offset of an index.
        free: whether the order of elements does not matter.
        longest: elements of the longest dim, as far as it is known.
    """

    space: Space
    width: int
    step: Mapping[int, Callable[[Int], Value]]
    free: bool
    longest: int | None


class _Kind(Enum):
    """What is copied at once: an element, a row of bytes, several rows, a tile that is transposed on the way."""

    ELEMENT = "element"
    ROW = "row"
    ROWS = "rows"
    COLUMNS = "columns"


_DIMS = {_Kind.ELEMENT: 0, _Kind.ROW: 1, _Kind.ROWS: 2, _Kind.COLUMNS: 2}
"""How many of the innermost dims that covers."""


def copy(unit: Unit, box: Box, array: Value, tile: Value, into_hbm: bool) -> None:
    """Copy a box; `array` and `tile` point to its first element in HBM and in SRAM."""
    space = _ordered(box) if box.free else box.space
    kind = _kind(box, space)
    inner = len(space.sizes) - _DIMS[kind]
    rows = kind in (_Kind.ROW, _Kind.ROWS)
    past: Bool = _large(unit, box) if into_hbm and rows else False

    def move(there: Int, here: Int) -> None:
        target, source = unit.at(array, there), unit.at(tile, here)
        outer, steps = space.sizes[inner:], [row[inner:] for row in space.strides]
        if not into_hbm:
            target, source, steps = source, target, steps[::-1]
        _move(unit, box, kind, target, source, outer, steps, past)

    _nest(unit, box, space, inner, 0, 0, 0, move)


def _adjacent(box: Box, space: Space, place: int, side: int) -> bool:
    step = space.strides[side][place]
    return isinstance(step, int) and step == box.width


def _kind(box: Box, space: Space) -> _Kind:
    if not space.sizes or space.dims[-1] in box.step:
        return _Kind.ELEMENT
    two = len(space.sizes) > 1 and space.dims[-2] not in box.step
    if all(_adjacent(box, space, -1, side) for side in (0, 1)):
        size = space.sizes[-1]
        short = isinstance(size, int) and size * box.width < _SHORT_ROW
        return _Kind.ROWS if two and not short else _Kind.ROW
    crossed = two and _adjacent(box, space, -1, 0) and _adjacent(box, space, -2, 1)
    known = box.free and box.width in copies.WIDTHS
    return _Kind.COLUMNS if crossed and known else _Kind.ELEMENT


def _ordered(box: Box) -> Space:
    """The dim that is contiguous in HBM innermost, around it the one that is contiguous in SRAM."""
    space = box.space
    order = list(range(len(space.sizes)))
    for side in (1, 0):
        for place in range(len(order)):
            if space.dims[place] not in box.step and _adjacent(box, space, place, side):
                order.remove(place)
                order.append(place)
    return Space(
        [space.sizes[d] for d in order],
        [[row[d] for d in order] for row in space.strides],
        [space.dims[d] for d in order],
    )


def _move(
    unit: Unit,
    box: Box,
    kind: _Kind,
    target: Value,
    source: Value,
    sizes: list[Int],
    steps: list[list[Int]],
    past: Bool,
) -> None:
    """Copy what a kind covers; `steps` are the target's and the source's."""
    if kind is _Kind.ELEMENT:
        element = copies.element(box.width)
        unit.store(unit.load(element, source), target)
        return
    flag = constant(I1, 0) if past is False else past
    bytes_ = unit.i64(unit.mul(sizes[-1], box.width))
    if kind is _Kind.ROW and past is not False:
        function = helpers.stream(unit.module, unit.host.vector_bytes)
        unit.b.call(function, [target, source, bytes_, flag])
    elif kind is _Kind.ROW and isinstance(sizes[-1], int) and sizes[-1] * box.width < _STREAM_ROW:
        unit.copy(target, source, bytes_)
    elif kind is _Kind.ROW:
        # the C library copies rows of less than a page backwards, where they start in the same place of a page: that waits
        function = copies.rows(unit.module, unit.host.vector_bytes)
        nowhere = constant(I64, 0)
        unit.b.call(function, [target, nowhere, source, nowhere, constant(I64, 1), bytes_, flag])
    elif kind is _Kind.ROWS:
        function = copies.rows(unit.module, unit.host.vector_bytes)
        lead = [unit.i64(row[0]) for row in steps]
        count = unit.i64(sizes[0])
        unit.b.call(function, [target, lead[0], source, lead[1], count, bytes_, flag])
    else:
        function = copies.columns(unit.module, box.width, unit.host.vector_bytes)
        # the dim that is contiguous in the source counts rows of the target
        row = 0 if steps[1][0] == box.width else 1
        lead = [unit.i64(steps[0][row]), unit.i64(steps[1][1 - row])]
        counts = [unit.i64(sizes[row]), unit.i64(sizes[1 - row])]
        unit.b.call(function, [target, lead[0], source, lead[1], *counts])


def _large(unit: Unit, box: Box) -> Bool:
    """Whether the array is large; False where no row is long enough to care."""
    if box.longest is not None and box.longest * box.width < _STREAM_ROW:
        return False
    large: Bool = unit.b.call(
        helpers.large(unit.module), [unit.context, constant(I64, STREAM_BYTES)]
    )
    return large


def _nest(
    unit: Unit,
    box: Box,
    space: Space,
    inner: int,
    dim: int,
    there: Int,
    here: Int,
    move: Callable[[Int, Int], None],
) -> None:
    """Loops over the dims from `dim` to `inner` around a move."""
    if dim == inner:
        move(there, here)
        return
    steps = [row[dim] for row in space.strides]
    index_step = box.step.get(space.dims[dim])

    def turn(i: Int) -> None:
        step = unit.mul(i, steps[0]) if index_step is None else index_step(i)
        at = unit.add(there, step), unit.add(here, unit.mul(i, steps[1]))
        _nest(unit, box, space, inner, dim + 1, *at, move)

    unit.loop(0, space.sizes[dim], turn)
