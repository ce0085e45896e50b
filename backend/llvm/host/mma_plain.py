"""mma element by element: for sizes that come at run time, and results that overlap each other."""

from __future__ import annotations

from ...formats import Format
from ...isa.table import SCALE_BLOCK
from .. import ir
from . import lanes, mma_pack
from .build import F32, I8, I32, I64, PTR, VOID, Int, Value, constant, vector
from .mma_model import Matrix, Product, report_overflow
from .unit import Unit


def emit(unit: Unit, p: Product) -> None:
    """The body of an mma. All results are kept aside until the last operand has been read."""
    # sums are fp32, fp64 or int32
    real, width = lanes.real(p.d.fmt), max(4, p.d.fmt.bytes)
    row = unit.mul(p.n, width)
    aside = (unit.mul(p.m, row), row, width)
    results = unit.call("malloc", PTR, unit.i64(unit.mul(p.batch, aside[0])))
    overflow = unit.allocate(8)
    unit.store(constant(I64, 0), overflow)
    d = unit.at(unit.sram, p.d.address)

    def element(at: list[Int]) -> None:
        def turn(k: Int, value: Value) -> list[Value]:
            x = _read(unit, p, p.a, p.a.strides[2], at[0], at[4], k)
            y = _read(unit, p, p.b, p.b.strides[1], at[1], at[5], k)
            if p.integers:
                return [unit.b.add(value, unit.b.mul(x, y))]
            return [unit.math("fma", x, y, value)]

        start = constant(I64 if p.integers else real, 0)
        if p.accumulate:
            start = _number(unit, p.d.fmt, unit.load(_one(lanes.storage(p.d.fmt)), d, at[2]))
        (value,) = unit.loop(0, p.k, turn, carried=[start])
        if p.integers:
            value = _short(unit, value, overflow)
        unit.store(value, results, at[3])

    def write(at: list[Int]) -> None:
        if p.integers:
            unit.store(unit.load(I32, results, at[1]), d, at[0])
            return
        wide = unit.load(vector(real, 1), results, at[1])
        unit.store(lanes.store_float(unit, wide, p.d.fmt), d, at[0])

    sizes = (p.batch, p.m, p.n)
    rows, columns = (*p.a.strides[:2], 0), (p.b.strides[0], 0, p.b.strides[2])
    scales = _scale_walk(p.a, 1), _scale_walk(p.b, 2)
    unit.walk(sizes, [rows, columns, p.d.strides, aside, *scales], element)
    unit.walk(sizes, [p.d.strides, aside], write)
    unit.call("free", VOID, results)
    report_overflow(unit, unit.compare("==", unit.load(I64, overflow), 0))


def _short(unit: Unit, value: Value, overflow: Value) -> Value:
    """An i64 sum as int32, with a note when it does not fit."""
    short = unit.b.trunc(value, I32)
    wrong = unit.b.icmp_signed("!=", unit.b.sext(short, I64), value)
    seen = unit.load(I64, overflow)
    unit.store(unit.b.or_(seen, unit.b.zext(wrong, I64)), overflow)
    return short


def _scale_walk(matrix: Matrix, dim: int) -> tuple[Int, Int, Int]:
    """Bytes between scales per product, row and column; `dim` is the one that the scales go along."""
    if matrix.scales is None:
        return 0, 0, 0
    lead = [0, matrix.scales.lead, matrix.scales.lead]
    lead[3 - dim] = 0
    return matrix.scales.batch, lead[1], lead[2]


def _one(type_: ir.Type) -> ir.Type:
    return vector(type_, 1)


def _read(
    unit: Unit, p: Product, matrix: Matrix, step: Int, offset: Int, scale: Int, k: Int
) -> Value:
    """Number k of a row or column that starts at an offset: fp32 with its scale, fp64, or i64."""
    fmt, start = matrix.fmt, unit.at(unit.sram, matrix.address)
    place = unit.shift_right(k, 1) if fmt.per_element == 2 else k
    value = unit.load(_one(lanes.storage(fmt)), start, unit.add(offset, unit.mul(place, step)))
    if fmt.per_element == 2:
        value = mma_pack.half_of(unit, fmt, value, k)
    number = _number(unit, fmt, value)
    if p.integers:
        return number
    if not fmt.is_float:
        number = (unit.b.sitofp if fmt.is_signed else unit.b.uitofp)(number, F32)
    if matrix.scales is None:
        return number
    block = unit.shift_right(k, SCALE_BLOCK.bit_length() - 1)
    codes = unit.load(_one(I8), unit.at(unit.sram, matrix.scales.address), unit.add(scale, block))
    factor = unit.b.extract_element(lanes.powers(unit, codes), constant(I32, 0))
    return unit.b.fmul(number, factor)


def _number(unit: Unit, fmt: Format, value: Value) -> Value:
    """One element as fp32, fp64 or i64."""
    first = constant(I32, 0)
    if fmt.is_float:
        return unit.b.extract_element(lanes.widen(unit, value, fmt), first)
    extend = unit.b.sext if fmt.is_signed else unit.b.zext
    return extend(unit.b.extract_element(value, first), I64)
