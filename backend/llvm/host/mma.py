"""mma: matrix multiply-accumulate, as a register-tiled kernel or, where sizes are open, as plain loops."""

from __future__ import annotations

from dataclasses import dataclass

from ... import formats
from ...formats import Format
from . import lanes, mma_tiled
from .abi import Fault
from .build import F32, I1, I32, I64, VOID, Bool, Int, Value, constant, vector
from .unit import Unit
from .walk import injective


@dataclass(frozen=True)
class Matrix:
    """An operand: `strides` are bytes between products, rows and columns; `range` the bytes it covers."""

    fmt: Format
    address: Int
    strides: tuple[Int, Int, Int]
    range: tuple[Int, Int]


@dataclass(frozen=True)
class Product:
    """An mma: D[batch, m, n] (+)= A[batch, m, k] · B[batch, k, n]."""

    batch: Int
    m: Int
    n: Int
    k: Int
    a: Matrix
    b: Matrix
    d: Matrix
    accumulate: bool

    @property
    def integers(self) -> bool:
        """Whether it multiplies integers."""
        return not self.a.fmt.is_float


def emit(unit: Unit) -> None:
    """The body of an mma."""
    batch, m, n, k = (unit.field(name) for name in ("batch", "m", "n", "k"))
    accumulate = unit.static("accumulate") != 0

    def clear() -> None:
        if not accumulate:
            _clear(unit, batch, m, n, _matrix(unit, "d", batch, m, n, False))

    def multiply() -> None:
        trans_a, trans_b = (unit.static(f"trans_{x}") != 0 for x in "ab")
        a = _matrix(unit, "a", batch, m, k, trans_a)
        b = _matrix(unit, "b", batch, k, n, trans_b)
        d = _matrix(unit, "d", batch, m, n, False)
        product = Product(batch, m, n, k, a, b, d, accumulate)
        (mma_tiled.emit if _tiled(product) else _plain)(unit, product)

    empty = unit.compare("==", k, 0)
    unit.when(empty, clear)
    unit.when(unit.negate(empty), multiply)


def _matrix(unit: Unit, name: str, batch: Int, rows: Int, columns: Int, transposed: bool) -> Matrix:
    fmt = formats.BY_CODE[unit.static(f"fmt_{name}")]
    step, lead = unit.field(f"batch_{name}"), unit.field(f"ld{name}")
    strides = (step, fmt.bytes, lead) if transposed else (step, lead, fmt.bytes)
    address = unit.field(name)
    range_ = unit.check_sram(address, (batch, rows, columns), strides, fmt.bytes)
    return Matrix(fmt, address, strides, range_)


def _tiled(p: Product) -> bool:
    """Whether the tiled kernel can do it: sizes and row strides known, no element of D written twice."""
    known = (p.m, p.n, p.k, *p.a.strides[1:], *p.b.strides[1:])
    if not all(isinstance(x, int) for x in known):
        return False
    most = 255 * 255 if p.a.fmt.name == p.b.fmt.name == "uint8" else 255 * 128
    if p.integers and p.k * most >= 1 << 31:
        return False
    size, strides = (p.batch, p.m, p.n), p.d.strides
    if isinstance(p.batch, int) and p.batch == 1:
        size, strides = size[1:], strides[1:]
    return injective(size, strides, p.d.fmt.bytes)


def _clear(unit: Unit, batch: Int, m: Int, n: Int, d: Matrix) -> None:
    zero = constant(lanes.storage(d.fmt), 0)
    start = unit.at(unit.sram, d.address)
    unit.walk((batch, m, n), [d.strides], lambda at: unit.store(zero, start, at[0]))


def _plain(unit: Unit, p: Product) -> None:
    """Loops over single elements, all results kept aside until the last one is there."""
    count = unit.i64(unit.mul(unit.mul(p.batch, p.m), p.n))
    results = unit.call("malloc", unit.sram.type, unit.mul(count, 4))
    overflow = unit.allocate(8)
    unit.store(constant(I64, 0), overflow)
    a, b, d = (unit.at(unit.sram, x.address) for x in (p.a, p.b, p.d))

    def element(i: Int, j: Int, l: Int) -> None:
        def offset(x: Matrix, row: Int, column: Int) -> Int:
            steps = zip((i, row, column), x.strides)
            total: Int = 0
            for index, stride in steps:
                total = unit.add(total, unit.mul(index, stride))
            return total

        place = offset(p.d, j, l)
        start = _start(unit, p, d, place)

        def turn(at: Int, value: Value) -> list[Value]:
            x = _read(unit, p.a.fmt, unit.at(a, offset(p.a, j, at)))
            y = _read(unit, p.b.fmt, unit.at(b, offset(p.b, at, l)))
            if p.integers:
                return [unit.b.add(value, unit.b.mul(x, y))]
            return [unit.math("fma", x, y, value)]

        (value,) = unit.loop(0, p.k, turn, carried=[start])
        number = unit.add(unit.mul(unit.add(unit.mul(i, p.m), j), p.n), l)
        if p.integers:
            short = unit.b.trunc(value, I32)
            wrong = unit.b.icmp_signed("!=", unit.b.sext(short, I64), value)
            seen = unit.load(I64, overflow)
            unit.store(unit.b.or_(seen, unit.b.zext(wrong, I64)), overflow)
            value = short
        unit.store(value, results, unit.mul(number, 4))

    _nest3(unit, p, element)

    def write(i: Int, j: Int, l: Int) -> None:
        number = unit.add(unit.mul(unit.add(unit.mul(i, p.m), j), p.n), l)
        place: Int = 0
        for index, stride in zip((i, j, l), p.d.strides):
            place = unit.add(place, unit.mul(index, stride))
        if p.integers:
            unit.store(unit.load(I32, results, unit.mul(number, 4)), d, place)
            return
        wide = unit.load(vector(F32, 1), results, unit.mul(number, 4))
        bits = lanes.store_float(unit, wide, p.d.fmt)
        unit.store(bits, d, place)

    _nest3(unit, p, write)
    unit.call("free", VOID, results)
    report_overflow(unit, unit.b.icmp_signed("==", unit.load(I64, overflow), constant(I64, 0)))


def _nest3(unit: Unit, p: Product, body: object) -> None:
    assert callable(body)
    unit.loop(
        0,
        p.batch,
        lambda i: (
            unit.loop(0, p.m, lambda j: _none(unit.loop(0, p.n, lambda l: _none(body(i, j, l)))))
            and None
        ),
    )


def _none(_: object) -> None:
    """Loops whose body carries nothing."""


def _start(unit: Unit, p: Product, d: Value, place: Int) -> Value:
    if p.integers:
        if not p.accumulate:
            return constant(I64, 0)
        return unit.b.sext(unit.load(I32, d, place), I64)
    if not p.accumulate:
        return constant(F32, 0.0)
    return _read(unit, p.d.fmt, unit.at(d, place))


def _read(unit: Unit, fmt: Format, pointer: Value) -> Value:
    """One element as fp32 or i64."""
    value = unit.load(vector(lanes.storage(fmt), 1), pointer)
    if fmt.is_float:
        value = lanes.widen(unit, value, fmt)
        return unit.b.extract_element(value, constant(I32, 0))
    value = unit.b.extract_element(value, constant(I32, 0))
    return (unit.b.sext if fmt.is_signed else unit.b.zext)(value, I64)


def report_overflow(unit: Unit, good: Bool) -> None:
    """Leave with a fault when an accumulator overflowed."""
    unit.check(good, Fault.OVERFLOW)


__all__ = ["I1", "Matrix", "Product", "emit", "report_overflow"]
