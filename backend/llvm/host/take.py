"""take: one element after the other; indices outside the axis give zero bits."""

from __future__ import annotations

from ... import formats
from . import lanes
from .build import I64, Int, constant
from .unit import Unit


def emit(unit: Unit) -> None:
    """The body of a take."""
    ndim, axis = unit.static("ndim"), unit.static("axis")
    fmt = formats.BY_CODE[unit.static("fmt")]
    index_fmt = formats.BY_CODE[unit.static("picks_fmt")]
    size, length = unit.entries("size", ndim), unit.field("length")
    walks = {name: unit.entries(f"{name}_stride", ndim) for name in ("in", "picks", "out")}
    address = {name: unit.field(name) for name in walks}
    read = [length if d == axis else n for d, n in enumerate(size)]
    source_range = unit.check_sram(address["in"], read, walks["in"], fmt.bytes)
    index_range = unit.check_sram(address["picks"], size, walks["picks"], index_fmt.bytes)
    out_range = unit.check_sram(address["out"], size, walks["out"], fmt.bytes)
    source, index, own = (unit.at(unit.sram, address[n]) for n in ("in", "picks", "out"))
    clash = unit.either(
        unit.overlaps(source_range, out_range), unit.overlaps(index_range, out_range)
    )
    target, kept = unit.redirect(clash, own, out_range, address["out"], copy_in=False)
    step = walks["in"][axis]
    beside = [0 if d == axis else s for d, s in enumerate(walks["in"])]
    element, zero = lanes.storage(fmt), constant(lanes.storage(fmt), 0)

    def body(at: list[Int]) -> None:
        picked = unit.load(lanes.storage(index_fmt), index, at[1])
        number = unit.b.sext(picked, I64) if index_fmt.bytes < 8 else picked
        good = unit.b.icmp_unsigned("<", number, unit.i64(length))
        offset = unit.add(at[0], unit.mul(unit.select(good, number, 0), step))
        value = unit.load(element, source, offset)
        unit.store(unit.b.select(good, value, zero), target, at[2])

    unit.walk(size, [beside, walks["picks"], walks["out"]], body)
    unit.finish(kept, target, own, size, walks["out"], element)
