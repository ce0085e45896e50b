"""Operands of an mma as panels of 32-bit elements.

An element is an fp32 number, or a group of 2 int16 or of 4 bytes that are neighbours along K. "Steps" are elements
along K: ⌈k / group⌉, the last one filled up with 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import llvmlite.ir as ir

from ... import formats
from ...formats import Format
from . import lanes
from .build import F32, I16, I32, I64, PTR, VOID, Code, Int, Value, constant, vector
from .unit import Unit
from .walk import Elements, load_elements, mask_below

_RAW = {1: "uint8", 2: "uint16", 4: "uint32"}


@dataclass(frozen=True)
class Packing:
    """How stored elements become 32-bit ones: `group` of them each, bytes with their top bit flipped if `flip`."""

    fmt: Format
    group: int = 1
    flip: bool = False

    @property
    def element(self) -> ir.Type:
        """The LLVM type of an element."""
        return F32 if self.fmt.is_float else I32

    def steps(self, k: int) -> int:
        """Elements along K."""
        return -(-k // self.group)


def _raw(unit: Unit, packing: Packing, pointer: Value, valid: int, count: int) -> Value:
    """`count` stored elements, of which the first `valid` exist; the others are 0 (or flipped)."""
    fmt = packing.fmt
    where = Elements(pointer, fmt.bytes, count, mask_below(unit, valid, count))
    value = load_elements(unit, formats.by_name(_RAW[fmt.bytes]), where)
    return unit.b.xor(value, constant(value.type, 0x80)) if packing.flip else value


def _short(unit: Unit, fmt: Format, raw: Value) -> Value:
    extend = unit.b.sext if fmt.is_signed else unit.b.zext
    return extend(raw, vector(I16, raw.type.count))


def along_k(unit: Unit, packing: Packing, pointer: Value, valid: int) -> Value:
    """One vector of elements from a stored row that runs along K, where `valid` stored elements are left."""
    count = unit.host.lanes
    raw = _raw(unit, packing, pointer, valid, packing.group * count)
    if packing.fmt.is_float:
        return lanes.widen(unit, raw, packing.fmt)
    if packing.group == 2:
        raw = _short(unit, packing.fmt, raw)
    return unit.b.bitcast(raw, vector(I32, count))


def across_k(unit: Unit, packing: Packing, rows: Sequence[Value], valid: int) -> Value:
    """One vector of elements from up to `group` stored rows across K; rows that are not there are 0."""
    b, count = unit.b, unit.host.lanes
    raw = [_raw(unit, packing, row, valid, count) for row in rows]
    if packing.fmt.is_float:
        return lanes.widen(unit, raw[0], packing.fmt)
    word = vector(I32, count)
    total = constant(word, 0)
    for r, value in enumerate(raw):
        if packing.group == 2:
            value = b.zext(_short(unit, packing.fmt, value), word)
        else:
            value = b.zext(value, word)
        total = b.or_(total, b.shl(value, constant(word, r * (32 // packing.group))))
    return total


def pack_across(
    unit: Unit,
    packing: Packing,
    source: Value,
    lead: int,
    k: int,
    columns: int,
    panel: Value,
    row_bytes: int,
) -> None:
    """panel[step][column] from stored rows across K, `lead` bytes apart; columns are filled up to whole vectors."""
    group = packing.group

    def step(i: Int, rows: int) -> None:
        first = unit.at(source, unit.mul(i, group * lead))
        to = unit.at(panel, unit.mul(i, row_bytes))

        def piece(c: Int, valid: int) -> None:
            at = unit.mul(c, packing.fmt.bytes)
            places = [unit.at(first, unit.add(at, r * lead)) for r in range(rows)]
            unit.store(across_k(unit, packing, places, valid), to, unit.mul(c, 4))

        _pieces(unit, columns, unit.host.lanes, piece)

    whole = k // group
    unit.loop(0, whole, lambda i: step(i, group))
    if k % group:
        step(whole, k % group)


def _pieces(unit: Unit, size: int, count: int, one: Callable[[Int, int], None]) -> None:
    """one(start, valid) for every piece of `count`; few pieces are unrolled."""
    whole = size // count * count
    if whole <= 4 * count:
        for c in range(0, whole, count):
            one(c, count)
    else:
        unit.loop(0, whole, lambda c: one(c, count), step=count)
    if whole < size:
        one(whole, size - whole)


def pack_along(
    unit: Unit,
    packing: Packing,
    source: Value,
    lead: int,
    rows: int,
    k: int,
    to: Value,
    row_bytes: int,
) -> None:
    """to[row][step] from stored rows that run along K."""
    fmt, group = packing.fmt, packing.group

    def row(i: Int) -> None:
        start, target = unit.at(source, unit.mul(i, lead)), unit.at(to, unit.mul(i, row_bytes))

        def piece(c: Int, valid: int) -> None:
            value = along_k(unit, packing, unit.at(start, unit.mul(c, fmt.bytes)), valid)
            unit.store(value, target, unit.mul(c, 4 // group))

        _pieces(unit, k, group * unit.host.lanes, piece)

    unit.loop(0, rows, row)


def pack_transposed(
    unit: Unit,
    packing: Packing,
    source: Value,
    lead: int,
    k: int,
    columns: int,
    panel: Value,
    row_bytes: int,
) -> None:
    """panel[step][column] from stored columns that run along K, square by square through registers."""
    fmt, group, count = packing.fmt, packing.group, unit.host.lanes
    square = unit.allocate(4 * count * count)
    transpose = _transpose(unit, row_bytes)

    def block(c: Int, many: int, at: Int, valid: int) -> None:
        """Steps from stored element `at` on (`valid` are left), columns c … c + many."""
        start = unit.at(source, unit.add(unit.mul(c, lead), unit.mul(at, fmt.bytes)))
        target = unit.at(panel, unit.add(unit.mul(at, row_bytes // group), unit.mul(c, 4)))
        steps = constant(I64, min(packing.steps(valid), count))
        if fmt.name == "fp32" and many == count and valid >= count:
            unit.b.call(transpose, [target, start, constant(I64, lead), steps])
            return

        def row(i: Int) -> None:
            value = along_k(unit, packing, unit.at(start, unit.mul(i, lead)), valid)
            unit.store(value, square, unit.mul(i, 4 * count))

        unit.loop(0, many, row)
        zero = constant(vector(packing.element, count), 0)
        unit.loop(many, count, lambda i: unit.store(zero, square, unit.mul(i, 4 * count)))
        unit.b.call(transpose, [target, square, constant(I64, 4 * count), steps])

    chunk = group * count
    whole = k // chunk * chunk

    def strip(c: Int, many: int) -> None:
        unit.loop(0, whole, lambda at: block(c, many, at, chunk), step=chunk)
        if whole < k:
            block(c, many, whole, k - whole)

    full = columns // count * count
    unit.loop(0, full, lambda c: strip(c, count), step=count)
    if full < columns:
        strip(full, columns - full)


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
