"""scan: inclusive, one element after the other along the axis; other dims in vectors where they are contiguous."""

from __future__ import annotations

from collections.abc import Sequence

from ... import formats
from ...isa.table import ReduceKind
from . import lanes
from .build import Int, Value
from .folds import Fold
from .unit import Unit
from .walk import Elements, injective, load_elements, mask_below, merge, store_elements


class _Scan:
    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        ndim, axis = unit.static("ndim"), unit.static("axis")
        self.fmt = formats.BY_CODE[unit.static("fmt")]
        self.fold = Fold(ReduceKind(unit.static("kind")), self.fmt)
        self.size = unit.entries("size", ndim)
        self.reverse = unit.static("reverse") != 0
        self.strides = [unit.entries(f"{name}_stride", ndim) for name in ("in", "out")]
        self.address = [unit.field(name) for name in ("in", "out")]
        self.ranges = [
            unit.check_sram(address, self.size, strides, self.fmt.bytes)
            for address, strides in zip(self.address, self.strides)
        ]
        self.length = self.size[axis]
        self.steps = [s[axis] for s in self.strides]
        self.others = [n for d, n in enumerate(self.size) if d != axis]
        self.rest = [[v for d, v in enumerate(s) if d != axis] for s in self.strides]
        self.pointers = [unit.at(unit.sram, address) for address in self.address]


def emit(unit: Unit) -> None:
    """The body of a scan."""
    s = _Scan(unit)
    exact = injective(s.size, s.strides[1], s.fmt.bytes)
    clash = unit.overlaps(*s.ranges)
    if exact and s.strides[0] == s.strides[1]:
        clash = unit.both(clash, unit.compare("!=", *s.address))
    own = s.pointers[1]
    s.pointers[1], kept = unit.redirect(clash, own, s.ranges[1], s.address[1], copy_in=False)
    space = merge(unit, s.others, s.rest)
    dim = None
    for d, size in enumerate(space.sizes):
        contiguous = all(isinstance(row[d], int) and row[d] == s.fmt.bytes for row in space.strides)
        if exact and contiguous and isinstance(size, int):
            dim = d
    if dim is None:
        unit.walk(space.sizes, space.strides, lambda at: _piece(s, at, None, 1))
    else:
        _lanes(s, space.sizes, space.strides, dim)
    unit.finish(kept, s.pointers[1], own, s.size, s.strides[1], lanes.storage(s.fmt))


def _lanes(s: _Scan, sizes: Sequence[Int], strides: Sequence[Sequence[Int]], dim: int) -> None:
    unit, size = s.unit, sizes[dim]
    count = unit.host.vector_bytes // max(s.fmt.bytes, 4)
    others = [n for d, n in enumerate(sizes) if d != dim]
    rest = [[v for d, v in enumerate(row) if d != dim] for row in strides]

    def piece(at: Sequence[Int], i: Int, valid: int) -> None:
        here = [unit.add(o, unit.mul(i, s.fmt.bytes)) for o in at]
        _piece(s, here, mask_below(unit, valid, count), count)

    def block(at: list[Int]) -> None:
        whole = size // count * count
        unit.loop(0, whole, lambda i: piece(at, i, count), step=count)
        if whole < size:
            piece(at, whole, size - whole)

    unit.walk(others, rest, block)


def _piece(s: _Scan, at: Sequence[Int], mask: Value | None, count: int) -> None:
    """The scans of one vector of places."""
    unit = s.unit
    source, target = (unit.at(p, offset) for p, offset in zip(s.pointers, at))

    def place(i: Int, pointer: Value, step: Int) -> Elements:
        index = unit.sub(unit.sub(s.length, 1), i) if s.reverse else i
        return Elements(unit.at(pointer, unit.mul(index, step)), s.fmt.bytes, count, mask)

    def load(i: Int) -> Value:
        return s.fold.value(unit, load_elements(unit, s.fmt, place(i, source, s.steps[0])))

    def store(i: Int, value: Value) -> None:
        bits = s.fold.result(unit, value)
        store_elements(unit, s.fmt, bits, place(i, target, s.steps[1]))

    first = load(0)
    store(0, first)

    def turn(i: Int, value: Value) -> list[Value]:
        value = s.fold.fold(unit, value, load(i))
        store(i, value)
        return [value]

    unit.loop(1, s.length, turn, carried=[first])
