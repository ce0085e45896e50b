"""Operands of an mma as panels of 32-bit elements (fp64: 64-bit).

An element is an fp32 or fp64 number, or a group of 2 int16 or of 4 bytes that are neighbours along K. "Steps" are elements
along K: ⌈k / group⌉, the last one filled up with 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ... import formats
from ...formats import Format
from .. import ir
from . import lanes
from .build import (
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    PTR,
    VOID,
    Code,
    Int,
    Value,
    constant,
    list_constant,
    vector,
)
from .transpose import transposed
from .unit import Unit
from .walk import Elements, load_elements, mask_below

_RAW = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


@dataclass(frozen=True)
class Packing:
    """How numbers become 32-bit elements.

    `group` of them make one, bytes with their top bit flipped if `flip`; a group of 1 is fp32, of fp64 itself.
    """

    fmt: Format
    group: int = 1
    flip: bool = False

    @property
    def element(self) -> ir.Type:
        """The LLVM type of an element."""
        if self.fmt.name == "fp64":
            return F64
        return F32 if self.group == 1 else I32

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return 8 if self.fmt.name == "fp64" else 4

    def lanes(self, unit: Unit) -> int:
        """Elements of a vector register."""
        lanes: int = unit.host.vector_bytes // self.bytes
        return lanes

    @property
    def packed(self) -> bool:
        """Whether a stored byte holds two numbers."""
        return self.fmt.per_element == 2

    def bytes_along(self, unit: Unit, count: Int) -> Int:
        """Bytes of `count` numbers along K; even ones where they are packed."""
        return unit.shift_right(count, 1) if self.packed else unit.mul(count, self.fmt.bytes)

    def steps(self, k: int) -> int:
        """Elements along K."""
        return -(-k // self.group)


def half_of(unit: Unit, fmt: Format, pairs: Value, k: Int) -> Value:
    """Number k of each pair of numbers k & ~1 and k | 1."""
    shift = unit.mul(k & 1, 4) if isinstance(k, int) else None
    if shift is None:
        odd = unit.b.trunc(unit.b.and_(k, constant(I64, 1)), I8)
        shift = unit.splat(unit.b.shl(odd, constant(I8, 2)), pairs.type.count)
    else:
        shift = constant(pairs.type, shift)
    codes = unit.b.and_(unit.b.lshr(pairs, shift), constant(pairs.type, 15))
    return _numbers(unit, fmt, codes)


def _numbers(unit: Unit, fmt: Format, codes: Value) -> Value:
    """Codes of 4 bits as int8, as uint8, or as they are for a float format."""
    if fmt.is_float or not fmt.is_signed:
        return codes
    eight = constant(codes.type, 8)
    return unit.b.sub(unit.b.xor(codes, eight), eight)


def _flipped(unit: Unit, packing: Packing, value: Value) -> Value:
    return unit.b.xor(value, constant(value.type, 0x80)) if packing.flip else value


def _raw(unit: Unit, packing: Packing, pointer: Value, valid: int, count: int) -> Value:
    """`count` stored elements, of which the first `valid` exist; the others are 0."""
    fmt = packing.fmt
    where = Elements(pointer, fmt.bytes, count, mask_below(unit, valid, count))
    return load_elements(unit, formats.by_name(_RAW[fmt.bytes]), where)


def _raw_along(unit: Unit, packing: Packing, pointer: Value, valid: int, count: int) -> Value:
    """`count` numbers that are neighbours along K, of which `valid` exist; the others are 0 (or flipped)."""
    if not packing.packed:
        return _flipped(unit, packing, _raw(unit, packing, pointer, valid, count))
    b, pairs = unit.b, count // 2
    stored = _raw(unit, packing, pointer, -(-valid // 2), pairs)
    low = b.and_(stored, constant(stored.type, 15))
    high = b.lshr(stored, constant(stored.type, 4))
    codes = unit.shuffle(low, high, [pairs * (k & 1) + k // 2 for k in range(count)])
    if valid < count and valid & 1:  # the last high half is nobody's
        keep = list_constant(I8, [15 if k < valid else 0 for k in range(count)])
        codes = b.and_(codes, keep)
    return _flipped(unit, packing, _numbers(unit, packing.fmt, codes))


def _float(unit: Unit, fmt: Format, raw: Value) -> Value:
    """Numbers as fp32, fp64 as they are."""
    if fmt.is_float:
        return lanes.widen(unit, raw, fmt)
    return (unit.b.sitofp if fmt.is_signed else unit.b.uitofp)(raw, vector(F32, raw.type.count))


def _short(unit: Unit, fmt: Format, raw: Value) -> Value:
    extend = unit.b.sext if fmt.is_signed else unit.b.zext
    return extend(raw, vector(I16, raw.type.count))


def along_k(unit: Unit, packing: Packing, pointer: Value, valid: int) -> Value:
    """One vector of elements from a stored row that runs along K, where `valid` stored elements are left."""
    count = packing.lanes(unit)
    raw = _raw_along(unit, packing, pointer, valid, packing.group * count)
    if packing.group == 1:
        return _float(unit, packing.fmt, raw)
    if packing.group == 2:
        raw = _short(unit, packing.fmt, raw)
    return unit.b.bitcast(raw, vector(I32, count))


def across_k(unit: Unit, packing: Packing, rows: Sequence[tuple[Value, Int]], valid: int) -> Value:
    """One vector of elements from the stored rows of up to `group` numbers k; rows that are not there are 0."""
    b, count = unit.b, packing.lanes(unit)
    raw = [_raw(unit, packing, row, valid, count) for row, _ in rows]
    if packing.packed:
        raw = [half_of(unit, packing.fmt, x, k) for x, (_, k) in zip(raw, rows)]
    raw = [_flipped(unit, packing, x) for x in raw]
    if packing.group == 1:
        return _float(unit, packing.fmt, raw[0])
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
        numbers = [unit.add(unit.mul(i, group), r) for r in range(rows)]
        stored = [unit.shift_right(k, 1) if packing.packed else k for k in numbers]
        starts = [unit.at(source, unit.mul(row, lead)) for row in stored]
        to = unit.at(panel, unit.mul(i, row_bytes))

        def piece(c: Int, valid: int) -> None:
            at = unit.mul(c, packing.fmt.bytes)
            places = [(unit.at(row, at), k) for row, k in zip(starts, numbers)]
            unit.store(across_k(unit, packing, places, valid), to, unit.mul(c, packing.bytes))

        _pieces(unit, columns, packing.lanes(unit), piece)

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
    group = packing.group

    def row(i: Int) -> None:
        start, target = unit.at(source, unit.mul(i, lead)), unit.at(to, unit.mul(i, row_bytes))

        def piece(c: Int, valid: int) -> None:
            place = unit.at(start, packing.bytes_along(unit, c))
            value = along_k(unit, packing, place, valid)
            unit.store(value, target, unit.mul(c, packing.bytes // group))

        _pieces(unit, k, group * packing.lanes(unit), piece)

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
    fmt, group, count = packing.fmt, packing.group, packing.lanes(unit)
    square_row = packing.bytes * count
    square = unit.allocate(square_row * count)
    transpose = _transpose(unit, packing, row_bytes)

    def block(c: Int, many: int, at: Int, valid: int) -> None:
        """Steps from stored element `at` on (`valid` are left), columns c … c + many."""
        start = unit.at(source, unit.add(unit.mul(c, lead), packing.bytes_along(unit, at)))
        target = unit.at(
            panel, unit.add(unit.mul(at, row_bytes // group), unit.mul(c, packing.bytes))
        )
        steps = constant(I64, min(packing.steps(valid), count))
        if fmt.name in ("fp32", "fp64") and many == count and valid >= count:
            unit.b.call(transpose, [target, start, constant(I64, lead), steps])
            return

        def row(i: Int) -> None:
            value = along_k(unit, packing, unit.at(start, unit.mul(i, lead)), valid)
            unit.store(value, square, unit.mul(i, square_row))

        unit.loop(0, many, row)
        zero = constant(vector(packing.element, count), 0)
        unit.loop(many, count, lambda i: unit.store(zero, square, unit.mul(i, square_row)))
        unit.b.call(transpose, [target, square, constant(I64, square_row), steps])

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


def _transpose(unit: Unit, packing: Packing, row_bytes: int) -> ir.Function:
    """void f(to, from, from_stride, rows): a square of elements transposed; the first `rows` rows are stored."""
    count = packing.lanes(unit)
    name = f"dsa.transpose.{8 * packing.bytes}.{count}.{row_bytes}"
    if (known := unit.module.functions.get(name)) is not None:
        return known
    function = ir.Function(unit.module, VOID, [PTR, PTR, I64, I64], name)
    function.linkage = "internal"
    code = Code(function)
    to, source, stride, rows = function.args
    type_ = vector(I64 if packing.bytes == 8 else I32, count)
    values = [code.load(type_, source, code.mul(stride, i)) for i in range(count)]
    values = transposed(code, values)
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
