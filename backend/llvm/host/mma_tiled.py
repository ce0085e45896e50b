"""The register-tiled mma: A and B as panels of 32-bit (fp64: 64-bit) elements, a block of D in vector registers.

For every panel of D's columns, B's part is packed; for every block of rows, all of K runs with the block of D in
registers, k ascending. Operands that are fp32 or fp64 and lie right are used where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ... import formats
from .. import ir
from . import lanes, mma_block, mma_pack, mma_scale
from .build import F32, I1, I8, I16, I32, PTR, VOID, Bool, Int, Value, constant, vector
from .host import Host
from .mma_model import Product, report_overflow
from .mma_pack import Packing
from .unit import Unit
from .walk import Elements, load_elements, mask_below, store_elements

_STACK_BYTES = 128 * 1024
"""Panels up to this size are on the stack, bigger ones come from malloc."""
_DIRECT_ROWS = 32
"""With at most so many rows of D, packing fp32 panels of B costs more than it gains."""
_SMALL_BYTES = 16 * 1024
"""Nor does it gain anything where all of B stays in the host's first cache."""


@dataclass(frozen=True)
class _Place:
    """Elements of an operand: bytes between rows (columns of B are adjacent) and between steps."""

    pointer: Value
    row: int
    step: int


class _Tiled:
    def __init__(self, unit: Unit, product: Product) -> None:
        self.unit, self.p = unit, product
        self.m, self.n, self.k = product.m, product.n, product.k
        self.pack_a, self.pack_b = _packings(product, unit.host)
        self.width, self.lanes = self.pack_b.bytes, self.pack_b.lanes(unit)
        self.rows, self.vectors = _shape(self.m, unit.host)
        self.columns = self.vectors * self.lanes
        self.steps = self.pack_a.steps(self.k)
        self.type = vector(I32 if product.integers else lanes.real(product.d.fmt), self.lanes)
        self.overflow: Value = None
        self.a_scratch: Value = None
        self.b_panel: Value = None


def _shape(m: int, host: Host) -> tuple[int, int]:
    """Rows and vectors of a block of D; with few rows, more vectors hide the latency of the multiplications."""
    if m > 4:
        return mma_block.shape(host)
    if host.registers >= 32:
        return (4, 4) if m > 2 else (2, 8)
    return (4, 2) if m > 2 else (2, 4)


def _packings(product: Product, host: Host) -> tuple[Packing, Packing]:
    """How A and B are packed; the bytes of A are flipped where they would have the same signedness as B's."""
    a, b = product.a.fmt, product.b.fmt
    if not product.integers:
        return Packing(a), Packing(b)
    if host.quad_dot:
        return Packing(a, 4, a.is_signed == b.is_signed), Packing(b, 4)
    return Packing(a, 2), Packing(b, 2)


def emit(unit: Unit, product: Product) -> None:
    """The body of an mma with known sizes."""
    t = _Tiled(unit, product)
    d = product.d
    clash: Bool = False
    for source in (product.a, product.b, product.a.scales, product.b.scales):
        if source is not None:
            clash = unit.either(clash, unit.overlaps(d.range, source.range))
    own = unit.at(unit.sram, d.address)
    target, kept = unit.redirect(clash, own, d.range, d.address, copy_in=product.accumulate)
    memory, heap = _scratch(t)
    if product.integers and product.accumulate:
        t.overflow = unit.allocate(4 * t.lanes)
        unit.store(constant(t.type, 0), t.overflow)
    unit.loop(0, product.batch, lambda i: _one(t, i, target, memory))
    if heap:
        unit.call("free", VOID, memory)
    size = (product.batch, product.m, product.n)
    unit.finish(kept, target, own, size, d.strides, lanes.storage(d.fmt))
    if t.overflow is not None:
        negative = unit.b.icmp_signed("<", unit.load(t.type, t.overflow), constant(t.type, 0))
        some = unit.call(f"llvm.vector.reduce.or.v{t.lanes}i1", I1, negative)
        report_overflow(unit, unit.b.not_(some))


def _a_direct(t: _Tiled) -> bool:
    return bool(t.p.a.fmt.name in ("fp32", "fp64") and not t.p.a.scales)


def _b_direct(t: _Tiled) -> bool:
    fmt = t.p.b.fmt
    plain = fmt.name in ("fp32", "fp64") and t.p.b.strides[2] == fmt.bytes and not t.p.b.scales
    small = t.m <= _DIRECT_ROWS or t.k * t.p.b.strides[1] <= _SMALL_BYTES
    return bool(plain and small)


def _a_layout(t: _Tiled) -> tuple[int, int, int]:
    """Bytes of A's scratch, and bytes between rows and steps in it."""
    if _along(t):
        row = t.width * (-(-t.steps // t.lanes) * t.lanes)
        row += 64 if row % 2048 == 0 else 0  # not all rows in one set of the cache
        return row * t.m, row, t.width
    step = t.width * (-(-t.m // t.lanes) * t.lanes)
    return step * t.steps, t.width, step


def _along(t: _Tiled) -> bool:
    """Whether A's stored rows run along K."""
    return bool(t.p.a.strides[2] == t.p.a.fmt.bytes)


def _scratch(t: _Tiled) -> tuple[Value, bool]:
    unit = t.unit
    bytes_ = t.width * t.columns * t.steps + (0 if _a_direct(t) else _a_layout(t)[0])
    if bytes_ <= _STACK_BYTES:
        return unit.allocate(bytes_), False
    return unit.call("malloc", PTR, unit.i64(bytes_)), True


def _one(t: _Tiled, i: Int, target: Value, memory: Value) -> None:
    """One product of the batch."""
    unit, p = t.unit, t.p
    a, b = (unit.at(unit.sram, unit.add(x.address, unit.mul(i, x.strides[0]))) for x in (p.a, p.b))
    d = unit.at(target, unit.mul(i, p.d.strides[0]))
    panel = memory
    place = _place_a(t, i, a, unit.at(memory, t.width * t.columns * t.steps))

    def columns(j: Int, count: int) -> None:
        source = unit.at(b, unit.mul(j, p.b.strides[2]))
        there = unit.at(d, unit.mul(j, p.d.fmt.bytes))
        if _packs_itself(t, count):
            raw = _Place(source, p.b.fmt.bytes, p.b.strides[1])
            _panel(t, place, _Place(panel, t.width, t.width * t.columns), there, count, raw)
        else:
            _panel(t, place, _place_b(t, i, j, source, panel, count), there, count, None)

    whole = t.n // t.columns * t.columns
    unit.loop(0, whole, lambda j: columns(j, t.columns), step=t.columns)
    if whole < t.n:
        columns(whole, t.n - whole)


def _place_a(t: _Tiled, i: Int, a: Value, scratch: Value) -> _Place:
    """A of product i, in `scratch` where it has to be packed."""
    strides, scales = t.p.a.strides, t.p.a.scales
    if _a_direct(t):
        return _Place(a, strides[1], strides[2])
    _, row, step = _a_layout(t)
    if _along(t):
        mma_pack.pack_along(t.unit, t.pack_a, a, strides[1], t.m, t.k, scratch, row)
        if scales:
            mma_scale.scale_along(t.unit, scales, i, scratch, t.m, t.k, row)
    else:
        mma_pack.pack_across(t.unit, t.pack_a, a, strides[2], t.k, t.m, scratch, step)
        if scales:
            mma_scale.scale_across(t.unit, scales, i, 0, scratch, t.k, t.m, step)
    return _Place(scratch, row, step)


def _place_b(t: _Tiled, i: Int, j: Int, source: Value, panel: Value, columns: int) -> _Place:
    """Columns j, j + 1, … of B of product i, in `panel` where they have to be packed."""
    fmt, strides = t.p.b.fmt, t.p.b.strides
    if _b_direct(t) and columns % t.lanes == 0:
        return _Place(source, t.width, strides[1])
    row = t.width * t.columns
    if strides[2] == fmt.bytes:
        mma_pack.pack_across(t.unit, t.pack_b, source, strides[1], t.k, columns, panel, row)
    else:
        mma_pack.pack_transposed(t.unit, t.pack_b, source, strides[2], t.k, columns, panel, row)
    if t.p.b.scales:
        mma_scale.scale_across(t.unit, t.p.b.scales, i, j, panel, t.k, columns, row)
    return _Place(panel, t.width, row)


def _shared(t: _Tiled, columns: int) -> bool:
    """Whether whole blocks of these columns are what the shared functions multiply."""
    plain = t.p.d.fmt.name == "fp32" and t.type.element == F32
    return plain and (t.rows, t.vectors) == mma_block.shape(t.unit.host) and columns == t.columns


def _packs_itself(t: _Tiled, columns: int) -> bool:
    """Whether these columns of B can be packed by the shared functions, under the multiplications of the first rows."""
    b = t.p.b
    known = b.fmt.name in mma_block.SOURCES and b.strides[2] == b.fmt.bytes and not b.scales
    return known and _shared(t, columns) and t.m >= t.rows and not _b_direct(t)


def _call(t: _Tiled, a: _Place, b: _Place, d: Value, panel: Value = None) -> None:
    """A block by a shared function; B as it is stored is packed to `panel` where that is given."""
    unit, module = t.unit, t.unit.module
    lead, steps, add = t.p.d.strides[1], t.steps, constant(I1, int(t.p.accumulate))
    numbers = [unit.i64(x) for x in (a.row, a.step, b.step, lead, steps)]
    places = [a.pointer, *numbers[:2], b.pointer, numbers[2], d, *numbers[3:], add]
    if panel is None:
        unit.b.call(mma_block.block(module, unit.host), places)
    else:
        unit.b.call(mma_block.packing(module, unit.host, t.p.b.fmt), [*places, panel])


def _panel(t: _Tiled, a: _Place, b: _Place, d: Value, columns: int, raw: _Place | None) -> None:
    """All rows of D for one panel of columns; the first block packs B where it comes as `raw`."""
    unit, lead = t.unit, t.p.d.strides[1]

    def block(i: Int, rows: int) -> None:
        here = _Place(unit.at(a.pointer, unit.mul(i, a.row)), a.row, a.step)
        there = unit.at(d, unit.mul(i, lead))
        if rows == t.rows and _shared(t, columns):
            _call(t, here, b, there)
        else:
            _block(t, here, b, there, start, rows, columns)

    start = _starts(t, b, -(-columns // t.lanes))
    whole = t.m // t.rows * t.rows
    if raw is not None:
        _call(t, a, raw, d, b.pointer)
    unit.loop(t.rows if raw else 0, whole, lambda i: block(i, t.rows), step=t.rows)
    if whole < t.m:
        block(whole, t.m - whole)


def _starts(t: _Tiled, b: _Place, vectors: int) -> list[Value]:
    """What sums start from, per vector of columns: 0, or what flipping the bytes of A (by 128) adds, taken off."""
    unit, zero = t.unit, constant(t.type, 0)
    if not t.pack_a.flip:
        return [zero] * vectors
    signed = t.p.b.fmt.is_signed
    factor = constant(t.type, 0x80808080 if signed else 0x01010101)

    def step(s: Int, *sums: Value) -> list[Value]:
        row = unit.at(b.pointer, unit.mul(s, b.step))
        columns = [unit.load(t.type, row, t.width * t.lanes * v) for v in range(vectors)]
        return [_multiply_add(t, factor, y, x) for x, y in zip(sums, columns)]

    sums = unit.loop(0, t.steps, step, carried=[zero] * vectors)
    if signed:
        return [unit.b.sub(zero, x) for x in sums]
    return [unit.b.shl(x, constant(t.type, 7)) for x in sums]


def _block(
    t: _Tiled, a: _Place, b: _Place, d: Value, first: list[Value], rows: int, columns: int
) -> None:
    """D[rows, columns] (+)= A · B with D in registers."""
    unit, p = t.unit, t.p
    vectors = -(-columns // t.lanes)
    fresh = p.integers or not p.accumulate
    places = []
    for r in range(rows):
        row = unit.at(d, unit.mul(r, p.d.strides[1]))
        for v in range(vectors):
            mask = mask_below(unit, columns - v * t.lanes, t.lanes)
            at = unit.at(row, v * t.lanes * p.d.fmt.bytes)
            places.append(Elements(at, p.d.fmt.bytes, t.lanes, mask))
    start = first * rows if fresh else [_load_d(t, place) for place in places]

    def step(s: Int, *values: Value) -> list[Value]:
        return _step(t, a, b, s, values, rows, vectors)

    values = unit.loop(0, t.steps, step, carried=start)
    if p.d.fmt.name == "fp32":
        values = _without_nan(t, values)
    for place, value in zip(places, values):
        _store_d(t, place, value)


def _step(
    t: _Tiled, a: _Place, b: _Place, s: Int, values: Sequence[Value], rows: int, vectors: int
) -> list[Value]:
    unit = t.unit
    there = unit.at(b.pointer, unit.mul(s, b.step))
    columns = [unit.load(t.type, there, t.width * t.lanes * v) for v in range(vectors)]
    here = unit.at(a.pointer, unit.mul(s, a.step))
    result = []
    for r in range(rows):
        factor = unit.splat(unit.load(t.type.element, here, r * a.row), t.lanes)
        for v, column in enumerate(columns):
            result.append(_multiply_add(t, factor, column, values[r * vectors + v]))
    return result


def _multiply_add(t: _Tiled, x: Value, y: Value, value: Value) -> Value:
    unit, b = t.unit, t.unit.b
    if not t.p.integers:
        return unit.math("fma", x, y, value)
    if t.pack_a.group == 4:
        quads = vector(I8, 4 * t.lanes)
        unsigned, signed = (x, y) if t.p.b.fmt.is_signed else (y, x)
        operands = value, b.bitcast(unsigned, quads), b.bitcast(signed, quads)
        return unit.call(unit.host.quad_dot, t.type, *operands)
    if unit.host.pair_dot:
        pairs = vector(I16, 2 * t.lanes)
        product = unit.call(unit.host.pair_dot, t.type, b.bitcast(x, pairs), b.bitcast(y, pairs))
        return b.add(value, product)
    half = constant(t.type, 16)
    low = b.mul(b.ashr(b.shl(x, half), half), b.ashr(b.shl(y, half), half))
    return b.add(value, b.add(low, b.mul(b.ashr(x, half), b.ashr(y, half))))


def _without_nan(t: _Tiled, values: list[Value]) -> list[Value]:
    """The values with canonical NaNs. Whether there is any is found for two vectors at a time."""
    unit, b = t.unit, t.unit.b
    pairs = list(zip(values[::2], [*values[1::2], values[-1]]))
    some = constant(vector(I1, t.lanes), 0)
    for x, y in pairs:
        some = b.or_(some, b.fcmp_unordered("uno", x, y))
    word = ir.IntType(t.lanes)
    found = b.icmp_unsigned("!=", b.bitcast(some, word), constant(word, 0))
    before = b.block
    repair, done = b.append_basic_block("nan"), b.append_basic_block("stored")
    b.cbranch(found, repair, done)
    b.position_at_end(repair)
    fmt = t.p.d.fmt
    clean = [b.bitcast(lanes.store_float(unit, v, fmt), v.type) for v in values]
    after = b.block
    b.branch(done)
    b.position_at_end(done)
    results = []
    for value, fixed in zip(values, clean):
        phi = b.phi(value.type)
        phi.add_incoming(value, before)
        phi.add_incoming(fixed, after)
        results.append(phi)
    return results


def _load_d(t: _Tiled, place: Elements) -> Value:
    fmt = t.p.d.fmt
    raw = formats.by_name(f"uint{8 * fmt.bytes}")
    bits = load_elements(t.unit, raw, place)
    return bits if t.p.integers else lanes.widen(t.unit, bits, fmt)


def _store_d(t: _Tiled, place: Elements, value: Value) -> None:
    unit, fmt = t.unit, t.p.d.fmt
    if t.p.integers:
        if t.p.accumulate:
            value = _added(t, _load_d(t, place), value)
        bits = value
    elif fmt.name == "fp32":
        bits = lanes.narrow(unit, value, fmt)  # its NaNs are canonical already
    else:
        bits = lanes.store_float(unit, value, fmt)
    raw = formats.by_name(f"uint{8 * fmt.bytes}")
    store_elements(unit, raw, bits, place)


def _added(t: _Tiled, old: Value, product: Value) -> Value:
    """old + product; the sign bit of `overflow` collects where it left int32. The product itself cannot."""
    unit, b = t.unit, t.unit.b
    total = b.add(old, product)
    wrong = b.and_(b.xor(old, total), b.xor(product, total))
    unit.store(b.or_(unit.load(t.type, t.overflow), wrong), t.overflow)
    return total
