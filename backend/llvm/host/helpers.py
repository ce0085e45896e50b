"""Internal functions that the units of a module share: what happens once per instruction, kept out of their code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import ir
from .abi import Fault, Segment, Slot
from .build import I1, I8, I64, PTR, VOID, Code, Text, Value, constant, vector

_PIECE = 16
"""Bytes of the smallest vector."""

_WORTH_FETCHING = 1024
"""Bytes of a load whose successor is fetched beforehand."""
_NEAR = 1 << 20
"""Bytes between a load and the next one, at most, for a guess to make sense."""

PAIR = ir.StructType([I64, I64])


class Linked(ir.Module):
    """A module that declares helpers, which another object has (`shared.py`), and does not define them."""


def helper(
    module: ir.Module,
    name: str,
    result: ir.Type,
    arguments: Sequence[ir.Type],
    body: Callable[[Code], None],
    cold: bool = False,
) -> ir.Function:
    """The function of a module with this name, made by `body` when it is not there yet."""
    if (known := module.functions.get(name)) is not None:
        return known
    function = ir.Function(module, result, arguments, name)
    if isinstance(module, Linked):
        return function
    function.linkage = "internal"
    if cold:
        # LLVM is told not to spend time on it
        function.attributes.append("noinline")
        function.attributes.append("optnone")
    body(Code(function))
    return function


def _put(code: Code, context: Value, slot: Slot, value: Value) -> None:
    code.store(value, context, 8 * slot)


def fault(module: ir.Module) -> ir.Function:
    """i64 f(context, code, address, bytes): note an access that failed; returns the code."""

    def body(code: Code) -> None:
        context, number, address, bytes_ = code.function.args
        _put(code, context, Slot.FAULT_ADDRESS, address)
        _put(code, context, Slot.FAULT_BYTES, bytes_)
        code.b.ret(number)

    return helper(module, "dsa.fault", I64, [PTR, I64, I64, I64], body, cold=True)


def operand_fault(module: ir.Module) -> ir.Function:
    """i64 f(context, values, table): note the first operand that is out of its range.

    Rows of the table are a number, the least value, how far the greatest is from it; one of them fails.
    """

    def body(code: Code) -> None:
        b = code.b
        context, values, table = code.function.args
        start = b.block
        look, again, found = (b.append_basic_block(n) for n in ("look", "again", "found"))
        b.branch(look)
        b.position_at_end(look)
        row = b.phi(PTR)
        row.add_incoming(table, start)
        number, low, span = (code.load(I64, row, 8 * k) for k in range(3))
        value = code.load(I64, values, code.mul(number, 8))
        b.cbranch(b.icmp_unsigned("<=", b.sub(value, low), span), again, found)
        b.position_at_end(again)
        row.add_incoming(code.at(row, 24), again)
        b.branch(look)
        b.position_at_end(found)
        _put(code, context, Slot.FAULT_FIELD, number)
        _put(code, context, Slot.FAULT_VALUE, value)
        b.ret(constant(I64, Fault.OPERAND))

    return helper(module, "dsa.operand", I64, [PTR, PTR, PTR], body, cold=True)


def operand_table(module: ir.Module, name: str, rows: Sequence[tuple[int, int, int]]) -> Value:
    """The table for `operand_fault`."""
    entries = [value for row in rows for value in row]
    type_ = ir.ArrayType(I64, len(entries))
    rows_text = "[" + ", ".join(f"i64 {e}" for e in entries) + "]"
    return ir.Global(module, Text(type_, rows_text), f"dsa.ranges.{name}")


def open_hbm(module: ir.Module) -> ir.Function:
    """{code, delta} f(context, argument, low, bytes, writes): check that HBM bytes are in one segment.

    `delta` is what to add to HBM addresses there for the host's.
    """

    def body(code: Code) -> None:
        b = code.b
        context, argument, low, bytes_, writes = code.function.args
        bad = b.append_basic_block("bad")
        entry = b.block
        known, search = b.append_basic_block("known"), b.append_basic_block("search")
        b.cbranch(code.compare("<", argument, 0), search, known)
        b.position_at_end(known)
        arguments = b.inttoptr(code.load(I64, context, 8 * Slot.ARGUMENTS), PTR)
        given = code.load(I64, arguments, code.mul(argument, 8))
        b.branch(search)
        b.position_at_end(search)
        key = b.phi(I64)
        key.add_incoming(low, entry)
        key.add_incoming(given, known)
        number = _find(code, context, key)
        _put(code, context, Slot.SEGMENT, number)
        reasons = [(constant(I64, Fault.HBM_BOUNDS), b.block)]
        there = b.append_basic_block("there")
        b.cbranch(code.compare("<", number, 0), bad, there)
        b.position_at_end(there)
        rows = b.inttoptr(code.load(I64, context, 8 * Slot.SEGMENTS), PTR)
        row = code.at(rows, code.mul(number, 8 * Segment.SIZE))
        start, end, writable, delta = (code.load(I64, row, 8 * k) for k in range(4))
        inside = b.icmp_unsigned("<=", b.sub(low, start), b.sub(end, start))
        fits = b.icmp_unsigned("<=", bytes_, b.sub(end, low))
        allowed = code.either(code.compare("==", writes, 0), code.compare("!=", writable, 0))
        good = b.append_basic_block("good")
        within = b.and_(inside, fits)
        reason = b.select(within, constant(I64, Fault.READ_ONLY), constant(I64, Fault.HBM_BOUNDS))
        reasons.append((reason, b.block))
        b.cbranch(b.and_(within, allowed), good, bad)
        b.position_at_end(good)
        _look_ahead(code, context, argument, low, bytes_, writes, delta)
        b.ret(b.insert_value(Text(PAIR, "zeroinitializer"), delta, 1))
        b.position_at_end(bad)
        why = b.phi(I64)
        for value, block in reasons:
            why.add_incoming(value, block)
        _put(code, context, Slot.FAULT_ADDRESS, low)
        _put(code, context, Slot.FAULT_BYTES, bytes_)
        b.ret(b.insert_value(Text(PAIR, "zeroinitializer"), why, 0))

    return helper(module, "dsa.open", PAIR, [PTR, I64, I64, I64, I64], body)


def _look_ahead(
    code: Code,
    context: Value,
    argument: Value,
    low: Value,
    bytes_: Value,
    writes: Value,
    delta: Value,
) -> None:
    """Guess where the next load is: as far from this one as this one is from the one before through its argument.

    Vector instructions bring it near while they compute (`vexec.py`). Small loads, and those whose rows are apart in
    HBM, are not worth it.
    """
    b = code.b
    known = code.both(code.compare(">=", argument, 0), code.compare("==", writes, 0))
    whole = code.compare("==", bytes_, code.load(I64, context, 8 * Slot.READ_BYTES))
    large = code.compare(">=", bytes_, _WORTH_FETCHING)

    def guess() -> None:
        place = b.inttoptr(code.load(I64, context, 8 * Slot.HISTORY), PTR)
        step = b.sub(low, code.load(I64, place, code.mul(argument, 8)))
        code.store(low, place, code.mul(argument, 8))
        near = b.icmp_unsigned("<", b.add(step, constant(I64, _NEAR)), constant(I64, 2 * _NEAR))
        _put(code, context, Slot.AHEAD, b.add(b.add(low, delta), step))
        moves = code.both(near, code.compare("!=", step, 0))
        _put(code, context, Slot.AHEAD_BYTES, code.select(moves, bytes_, 0))

    code.when(code.both(known, code.both(whole, large)), guess)


def ahead(module: ir.Module) -> ir.Function:
    """ptr f(context, bytes, instead): where to fetch so many bytes from that are probably loaded next, or `instead`.

    Too few left are not worth it; a few more than are left do no harm.
    """

    def body(code: Code) -> None:
        b = code.b
        context, bytes_, instead = code.function.args
        left = code.load(I64, context, 8 * Slot.AHEAD_BYTES)
        some, none = b.append_basic_block("some"), b.append_basic_block("none")
        b.cbranch(code.compare(">=", code.b.add(left, left), bytes_), some, none)
        b.position_at_end(some)
        start = code.load(I64, context, 8 * Slot.AHEAD)
        _put(code, context, Slot.AHEAD, b.add(start, bytes_))
        _put(code, context, Slot.AHEAD_BYTES, code.largest(b.sub(left, bytes_), 0))
        b.ret(b.inttoptr(start, PTR))
        b.position_at_end(none)
        b.ret(instead)

    return helper(module, "dsa.ahead", PTR, [PTR, I64, PTR], body)


def place(module: ir.Module) -> ir.Function:
    """i64 f(context, address): where the host has an SRAM address, as an offset (`sharing.py`)."""

    def body(code: Code) -> None:
        b = code.b
        context, address = code.function.args
        table, bits, size = (
            code.load(I64, context, 8 * slot)
            for slot in (Slot.PLACES, Slot.PLACE_BITS, Slot.SRAM_BYTES)
        )
        one = b.shl(constant(I64, 1), bits)
        last = b.lshr(b.sub(b.add(size, one), constant(I64, 1)), bits)
        number = b.lshr(address, bits)
        beyond = b.icmp_unsigned(">", number, last)
        entry = code.select(beyond, last, number)
        b.ret(b.add(address, code.load(I64, b.inttoptr(table, PTR), code.mul(entry, 8))))

    return helper(module, "dsa.place", I64, [PTR, I64], body)


def fill(module: ir.Module, lanes: int) -> ir.Function:
    """void f(to, bytes, pattern): `bytes` bytes of the 8-byte pattern again and again."""

    def body(code: Code) -> None:
        to, bytes_, pattern = code.function.args
        step = 8 * lanes
        many = code.splat(pattern, lanes)
        whole = code.b.and_(bytes_, constant(I64, -step))
        code.loop(0, whole, lambda i: code.store(many, to, i), step=step)

        def rest(i: Value) -> None:
            place = code.b.shl(code.b.and_(i, constant(I64, 7)), constant(I64, 3))
            code.store(code.b.trunc(code.b.lshr(pattern, place), I8), to, i)

        code.loop(whole, bytes_, rest)
        code.b.ret_void()

    return helper(module, "dsa.fill", VOID, [PTR, I64, I64], body)


def large(module: ir.Module) -> ir.Function:
    """i1 f(context, bytes): whether the segment that was opened last, if any, has at least so many bytes."""

    def body(code: Code) -> None:
        context, bytes_ = code.function.args
        number = code.load(I64, context, 8 * Slot.SEGMENT)
        none, some = code.b.append_basic_block("none"), code.b.append_basic_block("some")
        code.b.cbranch(code.compare("<", number, 0), none, some)
        code.b.position_at_end(none)
        code.b.ret(constant(I1, 0))
        code.b.position_at_end(some)
        rows = code.b.inttoptr(code.load(I64, context, 8 * Slot.SEGMENTS), PTR)
        row = code.at(rows, code.mul(number, 8 * Segment.SIZE))
        start, end = (code.load(I64, row, 8 * k) for k in (Segment.START, Segment.END))
        code.b.ret(code.compare(">=", code.b.sub(end, start), bytes_))

    return helper(module, "dsa.large", I1, [PTR, I64], body)


def stream(module: ir.Module, vector_bytes: int) -> ir.Function:
    """void f(to, from, bytes, past): a copy, past the caches if `past` and the place allows it.

    The next row often goes on in the line where this one ends, and the host puts a line's pieces together.
    """

    def body(code: Code) -> None:
        b = code.b
        to, source, bytes_, past = code.function.args
        place = b.ptrtoint(to, I64)
        odd = b.and_(b.or_(place, bytes_), constant(I64, _PIECE - 1))
        even = b.and_(code.compare("==", odd, 0), code.compare(">=", bytes_, vector_bytes))
        long, short = b.append_basic_block("long"), b.append_basic_block("short")
        b.cbranch(b.and_(past, even), long, short)
        b.position_at_end(short)
        code.copy(to, source, bytes_)
        b.ret_void()
        b.position_at_end(long)
        last = constant(I64, vector_bytes - 1)
        head = b.and_(b.neg(place), last)
        end = b.sub(bytes_, b.and_(b.add(place, bytes_), last))
        once = module.note("i32 1")
        for first, stop, width in (
            (constant(I64, 0), head, _PIECE), (head, end, vector_bytes), (end, bytes_, _PIECE)
        ):  # fmt: skip

            def turn(i: Value, width: int = width) -> None:
                value = code.load(vector(I64, width // 8), source, i)
                b.store(value, code.at(to, i), align=width, note=f"!nontemporal {once}")

            code.loop(first, stop, turn, step=width)
        b.ret_void()

    return helper(module, "dsa.stream", VOID, [PTR, PTR, I64, I1], body)


def free(module: ir.Module) -> ir.Function:
    """The C library's free."""
    return module.functions.get("free") or ir.Function(module, VOID, [PTR], "free")


def put_back(module: ir.Module) -> ir.Function:
    """void f(kept, from, to, bytes): a copy out of the memory `kept`, which is freed."""

    def body(code: Code) -> None:
        kept, source, to, bytes_ = code.function.args
        code.copy(to, source, bytes_)
        code.b.call(free(module), [kept])
        code.b.ret_void()

    return helper(module, "dsa.put_back", VOID, [PTR, PTR, PTR, I64], body, cold=True)


def _find(code: Code, context: Value, address: Value) -> Value:
    """The number of the segment that holds a byte of HBM, or -1."""
    rows = code.b.inttoptr(code.load(I64, context, 8 * Slot.SEGMENTS), PTR)
    count = code.load(I64, context, 8 * Slot.SEGMENT_COUNT)

    def look(i: Value, found: Value) -> list[Value]:
        row = code.at(rows, code.mul(i, 8 * Segment.SIZE))
        start, end = (code.load(I64, row, 8 * k) for k in (Segment.START, Segment.END))
        inside = code.both(code.compare("<=", start, address), code.compare("<", address, end))
        return [code.select(inside, i, found)]

    (found,) = code.loop(0, count, look, carried=[constant(I64, -1)])
    return found
