"""Block scales of an mma: panels of fp32 numbers are multiplied in place by the scale of each block along K."""

from __future__ import annotations

from collections.abc import Callable

from ...formats import by_name
from ...isa.table import SCALE_BLOCK
from . import lanes
from .build import F32, I8, I32, Int, Value, constant, vector
from .mma_model import Scales
from .unit import Unit
from .walk import Elements, load_elements, mask_below

_BYTES = by_name("uint8")


def scale_along(
    unit: Unit, scales: Scales, product: Int, panel: Value, rows: int, k: int, row_bytes: int
) -> None:
    """Scale panel[row][step]; rows are filled up to whole vectors."""
    start = unit.at(unit.sram, unit.add(scales.address, unit.mul(product, scales.batch)))
    wide = vector(F32, unit.host.lanes)

    def row(i: Int) -> None:
        codes = unit.at(start, unit.mul(i, scales.lead))
        target = unit.at(panel, unit.mul(i, row_bytes))

        def block(g: Int, count: int) -> None:
            code = unit.load(vector(I8, 1), codes, g)
            factor = unit.b.extract_element(lanes.powers(unit, code), constant(I32, 0))
            factor = unit.splat(factor, unit.host.lanes)
            at = unit.at(target, unit.mul(g, 4 * SCALE_BLOCK))
            for c in range(0, count, unit.host.lanes):
                _multiply(unit, wide, at, 4 * c, factor)

        _blocks(unit, k, block)

    unit.loop(0, rows, row)


def scale_across(
    unit: Unit,
    scales: Scales,
    product: Int,
    first: Int,
    panel: Value,
    k: int,
    columns: int,
    row_bytes: int,
) -> None:
    """Scale panel[step][column]; column 0 has scale `first`, columns are filled up to whole vectors."""
    count = unit.host.lanes
    start = unit.at(unit.sram, unit.add(scales.address, unit.mul(product, scales.batch)))
    start = unit.at(start, unit.mul(first, scales.lead))
    wide = vector(F32, count)

    def block(g: Int, steps: int) -> None:
        rows = unit.at(panel, unit.mul(g, row_bytes * SCALE_BLOCK))

        def piece(c: Int, valid: int) -> None:
            at = unit.at(start, unit.add(unit.mul(c, scales.lead), g))
            where = Elements(at, scales.lead, count, mask_below(unit, valid, count))
            factor = lanes.powers(unit, load_elements(unit, _BYTES, where))

            def step(s: Int) -> None:
                place = unit.add(unit.mul(s, row_bytes), unit.mul(c, 4))
                _multiply(unit, wide, rows, place, factor)

            unit.loop(0, steps, step)

        whole = columns // count * count
        unit.loop(0, whole, lambda c: piece(c, count), step=count)
        if whole < columns:
            piece(whole, columns - whole)

    _blocks(unit, k, block)


def _blocks(unit: Unit, k: int, one: Callable[[Int, int], None]) -> None:
    """one(block, numbers in it) for all blocks along K."""
    whole = k // SCALE_BLOCK
    unit.loop(0, whole, lambda g: one(g, SCALE_BLOCK))
    if k % SCALE_BLOCK:
        one(whole, k % SCALE_BLOCK)


def _multiply(unit: Unit, type_: Value, base: Value, offset: Int, factor: Value) -> None:
    value = unit.load(type_, base, offset)
    unit.store(unit.b.fmul(value, factor), base, offset)
