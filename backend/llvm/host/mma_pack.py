"""Operands of an mma as panels of 32-bit elements.

An element is an fp32 number, or a pair of int16 that are neighbours along K. "Steps" are elements along K: k of
them for floats, ⌈k / 2⌉ for integers, the odd one out filled up with 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.ir as ir

from ... import formats
from ...formats import Format
from . import lanes
from .build import F32, I16, I32, I64, PTR, VOID, Code, Int, Value, constant, vector
from .unit import Unit
from .walk import Elements, load_elements, mask_below

_RAW = {1: "uint8", 2: "uint16", 4: "uint32"}


def element(fmt: Format) -> ir.Type:
    """The LLVM type of an element."""
    return F32 if fmt.is_float else I32


def steps(fmt: Format, k: int) -> int:
    """Elements along K."""
    return k if fmt.is_float else -(-k // 2)


def _raw(unit: Unit, fmt: Format, pointer: Value, valid: int, count: int) -> Value:
    """`count` stored elements, of which the first `valid` exist; the others are 0."""
    where = Elements(pointer, fmt.bytes, count, mask_below(unit, valid, count))
    return load_elements(unit, formats.by_name(_RAW[fmt.bytes]), where)


def _short(unit: Unit, fmt: Format, raw: Value) -> Value:
    extend = unit.b.sext if fmt.is_signed else unit.b.zext
    return extend(raw, vector(I16, raw.type.count))


def along_k(unit: Unit, fmt: Format, pointer: Value, valid: int) -> Value:
    """One vector of elements from a stored row that runs along K, where `valid` stored elements are left."""
    count = unit.host.lanes
    if fmt.is_float:
        return lanes.widen(unit, _raw(unit, fmt, pointer, valid, count), fmt)
    short = _short(unit, fmt, _raw(unit, fmt, pointer, valid, 2 * count))
    return unit.b.bitcast(short, vector(I32, count))


def across_k(unit: Unit, fmt: Format, pointer: Value, next_row: Value | None, valid: int) -> Value:
    """One vector of elements from stored rows across K; integers pair two rows (None: zeros)."""
    count = unit.host.lanes
    if fmt.is_float:
        return lanes.widen(unit, _raw(unit, fmt, pointer, valid, count), fmt)
    low = _short(unit, fmt, _raw(unit, fmt, pointer, valid, count))
    high = constant(low.type, 0)
    if next_row is not None:
        high = _short(unit, fmt, _raw(unit, fmt, next_row, valid, count))
    order = [half * count + lane for lane in range(count) for half in (0, 1)]
    return unit.b.bitcast(unit.shuffle(low, high, order), vector(I32, count))


def pack_across(
    unit: Unit,
    fmt: Format,
    source: Value,
    lead: int,
    k: int,
    columns: int,
    panel: Value,
    row_bytes: int,
) -> None:
    """panel[step][column] from stored rows across K, `lead` bytes apart; columns are filled up to whole vectors."""
    pair = 1 if fmt.is_float else 2
    count = unit.host.lanes

    def step(i: Int, alone: bool) -> None:
        row = unit.at(source, unit.mul(i, pair * lead))
        other = None if alone or pair == 1 else unit.at(row, lead)
        _vectors(unit, fmt, row, other, columns, unit.at(panel, unit.mul(i, row_bytes)), count)

    whole = k // pair
    unit.loop(0, whole, lambda i: step(i, False))
    if k % pair:
        step(whole, True)


def _vectors(
    unit: Unit, fmt: Format, row: Value, other: Value | None, columns: int, to: Value, count: int
) -> None:
    def one(c: Int, valid: int) -> None:
        at = unit.mul(c, fmt.bytes)
        beside = None if other is None else unit.at(other, at)
        value = across_k(unit, fmt, unit.at(row, at), beside, valid)
        unit.store(value, to, unit.mul(c, 4))

    _pieces(unit, columns, count, one)


def _pieces(unit: Unit, size: int, count: int, one: object) -> None:
    """one(start, valid) for every piece of `count`; few pieces are unrolled."""
    assert callable(one)
    whole = size // count * count
    if whole <= 4 * count:
        for c in range(0, whole, count):
            one(c, count)
    else:
        unit.loop(0, whole, lambda c: one(c, count), step=count)
    if whole < size:
        one(whole, size - whole)


def pack_along(
    unit: Unit, fmt: Format, source: Value, lead: int, rows: int, k: int, to: Value, row_bytes: int
) -> None:
    """to[row][step] from stored rows that run along K."""
    pair = 1 if fmt.is_float else 2
    chunk = pair * unit.host.lanes

    def row(i: Int) -> None:
        start, target = unit.at(source, unit.mul(i, lead)), unit.at(to, unit.mul(i, row_bytes))

        def piece(c: Int, valid: int) -> None:
            value = along_k(unit, fmt, unit.at(start, unit.mul(c, fmt.bytes)), valid)
            place = unit.mul(c, 4) if pair == 1 else unit.mul(c, 2)
            unit.store(value, target, place)

        _pieces(unit, k, chunk, piece)

    unit.loop(0, rows, row)


def pack_transposed(
    unit: Unit,
    fmt: Format,
    source: Value,
    lead: int,
    k: int,
    columns: int,
    panel: Value,
    row_bytes: int,
) -> None:
    """panel[step][column] from stored columns that run along K, block by block through registers."""
    count = unit.host.lanes
    pair = 1 if fmt.is_float else 2
    tile = unit.allocate(4 * count * count)
    plain = fmt.name == "fp32"

    def block(c: int, cols: int, at: Int, valid: int) -> None:
        """Steps from stored element `at` on (`valid` are left), columns c … c + cols."""
        start = unit.at(source, unit.add(c * lead, unit.mul(at, fmt.bytes)))
        step_row = unit.mul(at, row_bytes // pair)
        target = unit.at(panel, unit.add(step_row, 4 * c))
        many = min(steps(fmt, valid), count)
        if plain and cols == count and valid >= count:
            unit.b.call(
                _transpose(unit, row_bytes), [target, start, constant(I64, lead), count_of(many)]
            )
            return

        def row(i: Int) -> None:
            value = along_k(unit, fmt, unit.at(start, unit.mul(i, lead)), valid)
            unit.store(value, tile, unit.mul(i, 4 * count))

        unit.loop(0, cols, row)
        zero = constant(vector(element(fmt), count), 0)
        unit.loop(cols, count, lambda i: unit.store(zero, tile, unit.mul(i, 4 * count)))
        unit.b.call(
            _transpose(unit, row_bytes), [target, tile, constant(I64, 4 * count), count_of(many)]
        )

    chunk = pair * count
    whole = k // chunk * chunk
    for c in range(0, columns, count):
        cols = min(count, columns - c)
        unit.loop(0, whole, lambda at, c=c, cols=cols: block(c, cols, at, chunk), step=chunk)
        if whole < k:
            block(c, cols, whole, k - whole)


def count_of(number: int) -> Value:
    """A known count as a value."""
    return constant(I64, number)


def _transpose(unit: Unit, row_bytes: int) -> ir.Function:
    """void f(to, from, from_stride, rows): a square of 32-bit elements transposed; the first `rows` rows are stored."""
    count = unit.host.lanes
    name = f"dsa.transpose.{count}.{row_bytes}"
    if (known := unit.module.globals.get(name)) is not None:
        return known
    function = ir.Function(unit.module, ir.FunctionType(VOID, [PTR, PTR, I64, I64]), name)
    function.linkage = "internal"
    code = Code(function)
    to, source, stride, rows = function.args
    type_ = vector(I32, count)
    values = [code.load(type_, source, code.mul(stride, i)) for i in range(count)]
    values = _transposed(code, values)
    for i, value in enumerate(values):
        if i:
            go = code.b.append_basic_block("more")
            end = code.b.append_basic_block("end")
            code.b.cbranch(code.compare("<", i, rows), go, end)
            code.b.position_at_end(end)
            code.b.ret_void()
            code.b.position_at_end(go)
        code.store(value, to, i * row_bytes)
    code.b.ret_void()
    return function


def _transposed(code: Code, values: Sequence[Value]) -> list[Value]:
    """The transposed square: swap off-diagonal blocks of half the size, then of a quarter, …"""
    count = len(values)
    rows = list(values)
    size = count // 2
    while size:
        low = [(0 if lane & size == 0 else count) + (lane & ~size) for lane in range(count)]
        high = [(0 if lane & size == 0 else count) + (lane | size) for lane in range(count)]
        for i in range(count):
            if i & size == 0:
                x, y = rows[i], rows[i + size]
                rows[i], rows[i + size] = code.shuffle(x, y, low), code.shuffle(x, y, high)
        size //= 2
    return rows
