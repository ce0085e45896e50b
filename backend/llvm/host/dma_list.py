"""dma.gather, dma.scatter and dma.atomic: elements of HBM at offsets that stand in SRAM, in row-major order.

A first pass over the offsets finds how many are valid and which bytes they span, so that bounds are checked before
anything is touched. Cores may run on different host threads, so a read-modify-write is atomic on the host too.
"""

from __future__ import annotations

from collections.abc import Callable

from ... import formats
from ...formats import Format
from ...isa.table import ATOMIC_OPS, INVALID_OFFSET, AtomicKind
from . import lanes, ops
from .abi import Slot
from .build import I32, I64, PTR, VOID, Bool, Int, Value, constant, vector
from .ops import Register
from .unit import FAR, Unit
from .walk import merge

_UNSIGNED = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


class _List:
    """The operands that the three have in common, and what the first pass found."""

    def __init__(self, unit: Unit, width: int) -> None:
        self.unit, self.width = unit, width
        ndim = unit.static("ndim")
        self.element = lanes.storage(formats.by_name(_UNSIGNED[width]))
        self.size = unit.entries("size", ndim)
        self.strides = unit.entries("sram_stride", ndim)
        self.sram, self.hbm = unit.field("sram"), unit.field("hbm")
        offset = unit.field("offset")
        count: Int = 1
        self.flat: list[Int] = []
        for size in reversed(self.size):
            self.flat.insert(0, unit.mul(count, 8))
            count = unit.mul(count, size)
        self.count = count
        self.range = unit.check_sram(offset, [count], [8], 8)
        self.offsets = unit.at(unit.sram, offset)
        self.valid, self.least, self.most = self._scan()
        self.some = unit.compare(">", self.valid, 0)
        burst = unit.round_up(width, unit.target.hbm.burst_bytes)
        unit.put(Slot.BURST_BYTES, unit.mul(self.valid, burst))
        unit.put(Slot.SEGMENT, -1)

    def _scan(self) -> tuple[Value, Value, Value]:
        """How many offsets are valid, and the least and greatest address of these."""
        unit = self.unit

        def turn(i: Int, valid: Value, least: Value, most: Value) -> list[Value]:
            offset = unit.load(I64, self.offsets, unit.mul(i, 8))
            good = unit.compare("!=", offset, INVALID_OFFSET)
            address = unit.i64(unit.add(self.hbm, offset))
            lower, higher = unit.math("smin", least, address), unit.math("smax", most, address)
            return [
                unit.b.add(valid, unit.b.zext(good, I64)),
                unit.select(good, lower, least),
                unit.select(good, higher, most),
            ]

        start = [constant(I64, v) for v in (0, (1 << 63) - 1, -(1 << 63))]
        valid, least, most = unit.loop(0, self.count, turn, carried=start)
        return valid, least, most

    def payload(self, *slots: Slot) -> None:
        """Report the payload."""
        for slot in slots:
            self.unit.put(slot, self.unit.mul(self.valid, self.width))

    def open(self, writes: bool) -> Value:
        """Check the span of the valid elements in HBM; the distance to host addresses. There must be one."""
        unit = self.unit
        span = unit.math("umin", unit.b.sub(self.most, self.least), constant(I64, FAR))
        return unit.open_hbm(self.least, unit.add(span, self.width), writes)

    def each(self, body: Callable[[Value, Bool, Int, Int], None]) -> None:
        """body(offset, whether valid, place in the tile, flat number times 8) for every element in order."""
        unit = self.unit
        space = merge(unit, self.size, [self.flat, self.strides])

        def turn(at: list[Int]) -> None:
            offset = unit.load(I64, self.offsets, at[0])
            body(offset, unit.compare("!=", offset, INVALID_OFFSET), at[1], at[0])

        unit.walk(space.sizes, space.strides, turn)

    def pointer(self, offset: Value, delta: Value) -> Value:
        """The host's pointer to an element."""
        return self.unit.host_pointer(self.unit.add(self.hbm, offset), delta)


def gather(unit: Unit) -> None:
    """The body of a dma.gather."""
    all_ = _List(unit, unit.static("elem_bytes"))
    all_.payload(Slot.READ_BYTES)
    slot = unit.allocate(8)
    unit.store(constant(I64, 0), slot)
    unit.when(all_.some, lambda: unit.store(all_.open(writes=False), slot))
    range_ = unit.check_sram(all_.sram, all_.size, all_.strides, all_.width)
    tile = unit.at(unit.sram, all_.sram)
    clash = unit.overlaps(range_, all_.range)
    target, kept = unit.redirect(clash, tile, range_, all_.sram, copy_in=False)
    delta = unit.load(I64, slot)
    skipped = unit.allocate(8)
    unit.store(unit.i64(_signed(unit.field("fill"))), skipped)

    def element(offset: Value, good: Bool, place: Int, _flat: Int) -> None:
        source = unit.b.select(good, all_.pointer(offset, delta), skipped)
        unit.store(unit.load(all_.element, source), target, place)

    all_.each(element)
    unit.finish(kept, target, tile, all_.size, all_.strides, all_.element)


def scatter(unit: Unit) -> None:
    """The body of a dma.scatter."""
    all_ = _List(unit, unit.static("elem_bytes"))
    all_.payload(Slot.WRITTEN_BYTES)

    def move() -> None:
        unit.check_sram(all_.sram, all_.size, all_.strides, all_.width)
        delta = all_.open(writes=True)
        tile, nowhere = unit.at(unit.sram, all_.sram), unit.allocate(8)

        def element(offset: Value, good: Bool, place: Int, _flat: Int) -> None:
            target = unit.b.select(good, all_.pointer(offset, delta), nowhere)
            unit.store(unit.load(all_.element, tile, place), target)

        all_.each(element)

    unit.when(all_.some, move)


def atomic(unit: Unit) -> None:
    """The body of a dma.atomic. Old values are kept aside until all elements have been read."""
    fmt = formats.BY_CODE[unit.static("fmt")]
    kind = AtomicKind(unit.static("kind"))
    all_ = _List(unit, fmt.bytes)
    all_.payload(Slot.READ_BYTES, Slot.WRITTEN_BYTES)
    old, compare = unit.field("old"), unit.field("compare")
    keeps = unit.present(old)
    room = unit.call("malloc", PTR, unit.i64(unit.mul(all_.count, 8))) if keeps else None

    def work() -> None:
        unit.check_sram(all_.sram, all_.size, all_.strides, all_.width)
        tile = unit.at(unit.sram, all_.sram)
        expected = tile
        if unit.present(compare):
            unit.check_sram(compare, all_.size, all_.strides, all_.width)
            expected = unit.at(unit.sram, compare)
        delta = all_.open(writes=True)

        def element(offset: Value, good: Bool, place: Int, flat: Int) -> None:
            if keeps:
                unit.store(constant(all_.element, 0), room, flat)

            def update() -> None:
                operand = unit.load(all_.element, tile, place)
                wanted = unit.load(all_.element, expected, place)
                there = all_.pointer(offset, delta)
                found = _exchange(
                    unit, there, all_.element, lambda x: _new(unit, kind, fmt, x, operand, wanted)
                )
                if keeps:
                    unit.store(found, room, flat)

            unit.when(good, update)

        all_.each(element)

    unit.when(all_.some, work)
    if keeps:
        unit.check_sram(old, all_.size, all_.strides, all_.width)
        result = unit.at(unit.sram, old)

        def write(at: list[Int]) -> None:
            unit.store(unit.load(all_.element, room, at[0]), result, at[1])

        def zero(at: list[Int]) -> None:
            unit.store(constant(all_.element, 0), result, at[1])

        steps = [all_.flat, all_.strides]
        unit.when(all_.some, lambda: unit.walk(all_.size, steps, write))
        unit.when(unit.negate(all_.some), lambda: unit.walk(all_.size, steps, zero))
        unit.call("free", VOID, room)


def _exchange(unit: Unit, there: Value, element: Value, new: Callable[[Value], Value]) -> Value:
    """Replace the value at `there` by new(value), atomically; the value before."""
    b = unit.b
    first = unit.load(element, there)
    before = b.block
    again, done = b.append_basic_block("again"), b.append_basic_block("exchanged")
    b.branch(again)
    b.position_at_end(again)
    seen = b.phi(element)
    seen.add_incoming(first, before)
    pair = b.cmpxchg(there, seen, new(seen), "monotonic")
    seen.add_incoming(b.extract_value(pair, 0), b.block)
    b.cbranch(b.extract_value(pair, 1), done, again)
    b.position_at_end(done)
    return seen


def _new(
    unit: Unit, kind: AtomicKind, fmt: Format, found: Value, operand: Value, wanted: Value
) -> Value:
    """What an atomic puts in place of `found`."""
    if kind is AtomicKind.XCHG:
        return operand
    if kind is AtomicKind.CAS:
        return unit.b.select(unit.b.icmp_unsigned("==", found, wanted), operand, found)
    registers = []
    for value in (found, operand):
        one = unit.b.insert_element(constant(vector(value.type, 1), 0), value, constant(I32, 0))
        registers.append(Register(fmt, lanes.from_memory(unit, one, fmt)))
    result = ops.apply(unit, ATOMIC_OPS[kind], fmt, fmt, registers)
    bits = result.canonical(unit) if fmt.is_float else result.bits
    return unit.b.extract_element(lanes.to_memory(unit, bits, fmt), constant(I32, 0))


def _signed(value: Int) -> Int:
    return value - (1 << 64) if isinstance(value, int) and value >> 63 else value
