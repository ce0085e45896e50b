"""dma.load and dma.store: boxes between HBM and SRAM.

The valid box is cut first, its extent in HBM checked once, then its rows are copied. Dims that are contiguous on
both sides are one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ... import formats
from . import dma_copy, helpers, lanes
from .abi import Fault, Slot
from .build import I64, Bool, Int, Value, constant, wrap
from .unit import FAR, Unit
from .walk import injective, merge

_UNSIGNED = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


def load(unit: Unit) -> None:
    """The body of a dma.load."""
    box = _Box(unit)
    keep = unit.static("keep") != 0
    filled: Bool = False if keep else unit.negate(box.full)
    unit.put(Slot.READ_BYTES, box.payload)
    delta = box.open_hbm(writes=False)
    ranges = box.check_tile(filled)
    clash: Bool = False
    for used in box.index_ranges:
        clash = unit.either(clash, unit.overlaps(ranges, used))
    tile = unit.at(unit.sram, box.sram)
    target, kept = unit.redirect(clash, tile, ranges, box.sram, copy_in=True)
    unit.when(filled, lambda: _fill(unit, box, target))

    start = unit.at(target, box.sram_offset)
    _copy(unit, box, unit.load(I64, delta), start, into_hbm=False)
    unit.finish(kept, target, tile, box.size, box.sram_stride, box.element)


def store(unit: Unit) -> None:
    """The body of a dma.store."""
    box = _Box(unit)
    unit.put(Slot.WRITTEN_BYTES, box.payload)
    box.check_tile(False)
    delta = box.open_hbm(writes=True)

    start = unit.at(unit.sram, unit.add(box.sram, box.sram_offset))
    _copy(unit, box, unit.load(I64, delta), start, into_hbm=True)


class _Box:
    """The operands of a box DMA, cut to the valid box. Makes the results about its cost on the way."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        ndim = unit.static("ndim")
        self.width = unit.static("elem_bytes")
        self.fmt = formats.by_name(_UNSIGNED[self.width])
        self.element = lanes.storage(self.fmt)
        self.size = unit.entries("size", ndim)
        self.hbm_stride = unit.entries("hbm_stride", ndim)
        self.sram_stride = unit.entries("sram_stride", ndim)
        self.index = unit.entries("index", ndim)
        self.hbm, self.sram = unit.field("hbm"), unit.field("sram")
        self.low: list[Int] = []
        self.length: list[Int] = []
        self.empty: Bool = False
        self.full: Bool = True
        for size, lo, hi in zip(self.size, unit.entries("lo", ndim), unit.entries("hi", ndim)):
            low = unit.least(unit.largest(lo, 0), size)
            length = unit.sub(unit.largest(low, unit.least(hi, size)), low)
            self.low.append(low)
            self.length.append(length)
            self.empty = unit.either(self.empty, unit.compare("==", length, 0))
            self.full = unit.both(self.full, unit.compare("==", length, size))
        self.payload = self._bytes()
        self.sram_offset = self._start(self.sram_stride, [False] * ndim)
        self.index_ranges = [self._index_range(d) for d in range(ndim) if self.indexed(d)]

    def indexed(self, dim: int) -> bool:
        """Whether a dim goes through an index vector."""
        return self.unit.present(self.index[dim])

    def _index_range(self, dim: int) -> tuple[Int, Int]:
        """The bytes of an index vector that the box uses."""
        unit, width = self.unit, formats.BY_CODE[self.unit.static("index_fmt")].bytes
        start = unit.add(self.index[dim], unit.mul(self.low[dim], width))
        return start, unit.add(start, unit.mul(self.length[dim], width))

    def _start(self, strides: Sequence[Int], skip: Sequence[bool]) -> Int:
        offset: Int = 0
        for low, stride, skipped in zip(self.low, strides, skip):
            if not skipped:
                offset = self.unit.add(offset, self.unit.mul(low, stride))
        return offset

    def _bytes(self) -> Int:
        """Payload bytes; stores the burst bytes as `cost.box_bytes` has them.

        Dims join a contiguous run in whatever order they fit.
        """
        unit = self.unit
        dims = range(len(self.length))
        left: dict[int, Bool] = {
            d: unit.compare(">", self.length[d], 1) for d in dims if not self.indexed(d)
        }
        joined: dict[int, Bool] = dict.fromkeys(dims, False)
        run: Int = 1
        for _ in range(len(left)):
            step = unit.mul(run, self.width)
            found: Bool = False
            for d in left:
                adjacent = unit.compare("==", self.hbm_stride[d], step)
                joins = unit.both(unit.both(left[d], adjacent), unit.negate(found))
                run = unit.select(joins, unit.mul(run, self.length[d]), run)
                left[d] = unit.both(left[d], unit.negate(joins))
                joined[d] = unit.either(joined[d], joins)
                found = unit.either(found, joins)
            if found is False:
                break
        runs: Int = 1
        for d in dims:
            runs = unit.select(joined[d], runs, unit.mul(runs, self.length[d]))
        payload = unit.mul(unit.mul(run, runs), self.width)
        burst = unit.round_up(unit.mul(run, self.width), unit.target.hbm.burst_bytes)
        unit.put(Slot.BURST_BYTES, unit.select(self.empty, 0, unit.mul(runs, burst)))
        unit.put(Slot.SEGMENT, -1)
        return payload

    def check_tile(self, filled: Bool) -> tuple[Int, Int]:
        """Fault unless what is touched of the tile is in SRAM: all of it if `filled`; the tile's range."""
        unit = self.unit
        below, above = unit.reach(self.size, self.sram_stride, self.width)
        low, high = unit.add(self.sram, below), unit.add(self.sram, above)
        inside = unit.both(
            unit.compare(">=", low, 0), unit.compare("<=", high, unit.spec.sram_bytes)
        )
        unit.when(unit.negate(inside), lambda: self._check_part(filled))
        return low, high

    def _check_part(self, filled: Bool) -> None:
        """The tile is not all in SRAM; that may be no harm if not all of it is touched."""
        unit = self.unit
        sizes = [unit.select(filled, s, n) for s, n in zip(self.size, self.length)]
        start = unit.add(self.sram, unit.select(filled, 0, self.sram_offset))
        below, above = unit.reach(sizes, self.sram_stride, self.width)
        low, high = unit.add(start, below), unit.add(start, above)
        inside = unit.both(
            unit.compare(">=", low, 0), unit.compare("<=", high, unit.spec.sram_bytes)
        )
        idle = unit.both(self.empty, unit.negate(filled))
        unit.check(unit.either(idle, inside), Fault.SRAM_BOUNDS, low, unit.sub(high, low))

    def open_hbm(self, writes: bool) -> Value:
        """Check the box's extent in HBM unless it is empty; where the distance to host addresses is kept."""
        unit = self.unit
        slot = unit.allocate(8)

        def check() -> None:
            low, reach = unit.add(self.hbm, self.hbm_offset()), self.width
            for dim, length in enumerate(self.length):
                if self.indexed(dim):
                    below, span = self._index_extent(dim)
                    low, reach = unit.add(low, below), unit.add(reach, span)
                    continue
                below, above = unit.reach([length], [self.hbm_stride[dim]], 0)
                low, reach = unit.add(low, below), unit.add(reach, unit.sub(above, below))
            unit.store(unit.open_hbm(low, reach, writes), slot)

        unit.store(constant(I64, 0), slot)
        unit.when(unit.negate(self.empty), check)
        return slot

    def hbm_offset(self) -> Int:
        """Bytes from the tile's first element to the box's in HBM, apart from index vectors."""
        skip = [self.indexed(dim) for dim in range(len(self.length))]
        return self._start(self.hbm_stride, skip)

    def index_step(self, dim: int, i: Int) -> Value:
        """Bytes that entry lo + i of a dim's index vector moves by."""
        unit = self.unit
        fmt = formats.BY_CODE[unit.static("index_fmt")]
        place = unit.add(self.index[dim], unit.mul(unit.add(self.low[dim], i), fmt.bytes))
        value = unit.load(lanes.storage(fmt), unit.sram, place)
        if fmt.bytes < 8:
            value = unit.b.sext(value, I64)
        return unit.mul(value, self.hbm_stride[dim])

    def _index_extent(self, dim: int) -> tuple[Value, Value]:
        """The least step of an index vector, and how far the greatest is from it."""
        unit, width = self.unit, formats.BY_CODE[self.unit.static("index_fmt")].bytes
        start = unit.add(self.index[dim], unit.mul(self.low[dim], width))
        unit.check_sram(start, [self.length[dim]], [width], width)

        def turn(i: Int, least: Value, most: Value) -> list[Value]:
            step = unit.i64(self.index_step(dim, i))
            return [unit.math("smin", least, step), unit.math("smax", most, step)]

        edge = constant(I64, (1 << 63) - 1), constant(I64, -(1 << 63))
        least, most = unit.loop(0, self.length[dim], turn, carried=edge)
        span = unit.b.sub(most, least)
        return least, unit.math("umin", span, constant(I64, FAR))


def _copy(unit: Unit, box: _Box, delta: Value, tile: Value, into_hbm: bool) -> None:
    """Copy the valid box, which may be empty; `tile` points to its first element in SRAM."""
    if box.empty is True:
        return
    steps = {d: partial(box.index_step, d) for d in range(len(box.length)) if box.indexed(d)}
    space = merge(unit, box.length, [box.hbm_stride, box.sram_stride], steps)
    strides = box.hbm_stride if into_hbm else box.sram_stride
    free = not (into_hbm and steps) and injective(box.size, strides, box.width)
    known = [s for s in box.size if isinstance(s, int)]
    longest = max(known) if known else None
    what = dma_copy.Box(space, box.width, steps, free, longest)
    start = unit.add(box.hbm, box.hbm_offset())
    dma_copy.copy(unit, what, unit.host_pointer(start, delta), tile, into_hbm)


def _fill(unit: Unit, box: _Box, tile: Value) -> None:
    """Write the fill pattern all over a tile."""
    pattern = unit.field("fill")
    space = merge(unit, box.size, [box.sram_stride])
    (strides,) = space.strides
    if space.sizes and isinstance(strides[-1], int) and strides[-1] == box.width:
        bytes_ = unit.i64(unit.mul(space.sizes[-1], box.width))
        repeated = unit.i64(_repeated(unit, pattern, box.width))
        function = helpers.fill(unit.module, unit.host.vector_bytes // 8)

        def row(at: list[Int]) -> None:
            unit.b.call(function, [unit.at(tile, at[0]), bytes_, repeated])

        unit.walk(space.sizes[:-1], [strides[:-1]], row)
        return
    low = unit.i64(wrap(pattern))
    value = unit.b.trunc(low, box.element) if box.width < 8 else low
    unit.walk(space.sizes, [strides], lambda at: unit.store(value, tile, at[0]))


def _repeated(unit: Unit, pattern: Int, width: int) -> Int:
    """The low `width` bytes of a pattern, repeated to 8."""
    mask = (1 << 8 * width) - 1
    ones = ((1 << 64) - 1) // mask
    if isinstance(pattern, int):
        return wrap((pattern & mask) * ones)
    return unit.b.mul(unit.b.and_(pattern, constant(I64, wrap(mask))), constant(I64, wrap(ones)))
