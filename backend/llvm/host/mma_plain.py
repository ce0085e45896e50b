"""mma element by element: for sizes that come at run time, and results that overlap each other."""

from __future__ import annotations

from ...formats import Format
from . import lanes
from .build import F32, I32, I64, PTR, VOID, Int, Value, constant, vector
from .mma_model import Product, report_overflow
from .unit import Unit


def emit(unit: Unit, p: Product) -> None:
    """The body of an mma. All results are kept aside until the last operand has been read."""
    row = unit.mul(p.n, 4)
    aside = (unit.mul(p.m, row), row, 4)
    results = unit.call("malloc", PTR, unit.i64(unit.mul(p.batch, aside[0])))
    overflow = unit.allocate(8)
    unit.store(constant(I64, 0), overflow)
    a, b, d = (unit.at(unit.sram, x.address) for x in (p.a, p.b, p.d))
    a_step, b_step = p.a.strides[2], p.b.strides[1]

    def element(at: list[Int]) -> None:
        def turn(k: Int, value: Value) -> list[Value]:
            x = _read(unit, p.a.fmt, a, unit.add(at[0], unit.mul(k, a_step)))
            y = _read(unit, p.b.fmt, b, unit.add(at[1], unit.mul(k, b_step)))
            if p.integers:
                return [unit.b.add(value, unit.b.mul(x, y))]
            return [unit.math("fma", x, y, value)]

        start = constant(I64 if p.integers else F32, 0)
        if p.accumulate:
            start = _read(unit, p.d.fmt, d, at[2])
        (value,) = unit.loop(0, p.k, turn, carried=[start])
        if p.integers:
            value = _short(unit, value, overflow)
        unit.store(value, results, at[3])

    def write(at: list[Int]) -> None:
        if p.integers:
            unit.store(unit.load(I32, results, at[1]), d, at[0])
            return
        wide = unit.load(vector(F32, 1), results, at[1])
        unit.store(lanes.store_float(unit, wide, p.d.fmt), d, at[0])

    sizes = (p.batch, p.m, p.n)
    rows, columns = (*p.a.strides[:2], 0), (p.b.strides[0], 0, p.b.strides[2])
    unit.walk(sizes, [rows, columns, p.d.strides, aside], element)
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


def _read(unit: Unit, fmt: Format, base: Value, offset: Int) -> Value:
    """One element as fp32 or i64."""
    value = unit.load(vector(lanes.storage(fmt), 1), base, offset)
    first = constant(I32, 0)
    if fmt.is_float:
        return unit.b.extract_element(lanes.widen(unit, value, fmt), first)
    extend = unit.b.sext if fmt.is_signed else unit.b.zext
    return extend(unit.b.extract_element(value, first), I64)
