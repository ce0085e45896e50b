"""One instruction under translation: its fields, its memory accesses and their checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from llvmlite import ir

from ...cost import FieldValue
from ...isa.check import type_range
from ...isa.table import BY_NAME, NONE
from ...isa.vprog import VectorProgram
from ...target import Target
from .abi import Fault, Segment, Slot
from .build import I1, I64, PTR, VOID, Bool, Code, Int, Value, constant, null, wrap
from .host import Host

SIZES = ("size", "batch", "m", "n", "k")
"""Fields that count something: at least 1 (the k of an mma 0)."""
FAR = 1 << 40
"""No memory is this big, so a reach beyond it is as good as one of exactly this size."""


@dataclass(frozen=True)
class Spec:
    """What a unit is made from.

    Attributes:
        fields: the complete fields of the instruction.
        open: names of the fields that come at run time, in operand order.
        program: the vector program of a vexec.
    """

    op: str
    fields: Mapping[str, FieldValue]
    open: tuple[str, ...]
    program: VectorProgram | None
    hbm_arg: int
    sram_bytes: int
    target: Target
    host: Host


class Unit(Code):
    """The function of one instruction while it is built."""

    def __init__(self, function: ir.Function, spec: Spec) -> None:
        super().__init__(function)
        self.spec, self.host, self.target = spec, spec.host, spec.target
        self.sram, self.values, self.context = function.args
        self._open: dict[str, Int] = {
            name: self.load(I64, self.values, 8 * number) for number, name in enumerate(spec.open)
        }

    # Fields

    def operand(self, name: str) -> Value:
        """The run-time value of an open field."""
        return self._open[name]

    def pin(self, values: Mapping[str, int]) -> Unit:
        """This unit where some open fields are known after all."""
        other = copy(self)
        other._open = {**self._open, **values}
        return other

    def field(self, name: str) -> Int:
        """A field that is not an array."""
        value = self.spec.fields[name]
        assert isinstance(value, int)
        return self._open.get(name, value)

    def static(self, name: str) -> int:
        """A field that cannot be open."""
        value = self.field(name)
        assert isinstance(value, int), f"{name} cannot come at run time"
        return value

    def entries(self, name: str, count: int, start: int = 0) -> list[Int]:
        """`count` entries of an array field."""
        values = self.spec.fields[name]
        assert isinstance(values, tuple)
        return [self._open.get(f"{name}.{d}", values[d]) for d in range(start, start + count)]

    def check_operands(self) -> None:
        """Every run-time operand is in its field's range."""
        tests: list[tuple[int, Value, Bool]] = []
        for number, text in enumerate(self.spec.open):
            name = text.partition(".")[0]
            kind = BY_NAME[self.spec.op].by_name[name].type
            if kind in ("u64", "i64"):
                continue
            low, high = type_range(kind)
            if name in SIZES:
                low = int(name != "k")
            value = self._open[text]
            span = self.b.icmp_unsigned(
                "<=", self.b.sub(value, constant(I64, low)), constant(I64, high - low)
            )
            tests.append((number, value, span))
        good: Bool = True
        for _, _, test in tests:
            good = self.both(good, test)

        def details() -> dict[Slot, Int]:
            which: Int = -1
            found: Int = 0
            for number, value, test in reversed(tests):
                which, found = self.select(test, which, number), self.select(test, found, value)
            return {Slot.FAULT_FIELD: which, Slot.FAULT_VALUE: found}

        self.check(good, Fault.OPERAND, details)

    # Faults and results

    def check(self, good: Bool, code: Fault, details: Callable[[], Mapping[Slot, Int]]) -> None:
        """Leave the unit with a fault unless `good`."""
        if good is True:
            return
        bad = self.b.append_basic_block("fault")
        fine = self.b.append_basic_block("fine")
        self.b.cbranch(constant(I1, 0) if good is False else good, fine, bad)
        self.b.position_at_end(bad)
        for slot, value in details().items():
            self.put(slot, value)
        self.b.ret(constant(I64, code))
        self.b.position_at_end(fine)

    def put(self, slot: Slot, value: Int) -> None:
        """Store into the context."""
        self.store(self.i64(wrap(value)), self.context, 8 * slot)

    def get(self, slot: Slot) -> Value:
        """Load from the context."""
        return self.load(I64, self.context, 8 * slot)

    def round_up(self, value: Int, unit: int) -> Int:
        """The smallest multiple of `unit` that is not below `value`, which is not negative."""
        if isinstance(value, int):
            return -(-value // unit) * unit
        raised = self.add(value, unit - 1)
        if unit & (unit - 1) == 0:
            return self.b.and_(raised, constant(I64, -unit))
        return self.mul(self.b.udiv(raised, constant(I64, unit)), unit)

    # SRAM

    def reach(self, sizes: Sequence[Int], strides: Sequence[Int], width: int) -> tuple[Int, Int]:
        """First and one past the last byte of a walk, from the address of its first element."""
        low: Int = 0
        high: Int = 0
        for size, stride in zip(sizes, strides, strict=True):
            far = self.far(self.sub(size, 1), stride)
            low = self.add(low, self.least(far, 0))
            high = self.add(high, self.largest(far, 0))
        return low, self.add(high, width)

    def far(self, count: Int, stride: Int) -> Int:
        """count * stride, cut to ±FAR."""
        if isinstance(count, int) and isinstance(stride, int):
            return max(min(count * stride, FAR), -FAR)
        if isinstance(stride, int) and abs(stride) < 1 << 28:
            return self.mul(count, stride)
        pair = ir.LiteralStructType([I64, I1])
        result = self.call(
            "llvm.smul.with.overflow.i64", pair, self.i64(count), self.i64(wrap(stride))
        )
        product, overflow = self.b.extract_value(result, 0), self.b.extract_value(result, 1)
        cut = self.largest(self.least(product, FAR), -FAR)
        edge = self.select(self.compare("<", stride, 0), -FAR, FAR)
        return self.select(overflow, edge, cut)

    def check_sram(
        self, address: Int, sizes: Sequence[Int], strides: Sequence[Int], width: int
    ) -> tuple[Int, Int]:
        """Fault unless a walk stays inside SRAM; its first and one past its last byte."""
        below, above = self.reach(sizes, strides, width)
        low, high = self.add(address, below), self.add(address, above)
        good = self.both(self.compare(">=", low, 0), self.compare("<=", high, self.spec.sram_bytes))
        self.check(
            good,
            Fault.SRAM_BOUNDS,
            lambda: {Slot.FAULT_ADDRESS: low, Slot.FAULT_BYTES: self.sub(high, low)},
        )
        return low, high

    def present(self, address: Int) -> bool:
        """Whether an optional operand is there; open ones are pinned or there."""
        return not (isinstance(address, int) and address == NONE)

    # HBM

    def open_hbm(self, low: Int, bytes_: Int, writes: bool, good: Bool = True) -> Value:
        """Fault unless HBM bytes [low, low + bytes_) are in one segment; what to add for host addresses.

        `good` is what else must hold for the access to be in bounds.
        """
        argument = self.spec.hbm_arg
        key: Int = low
        if argument >= 0:
            table = self.b.inttoptr(self.get(Slot.ARGUMENTS), PTR)
            key = self.load(I64, table, 8 * argument)
        number = self.b.call(_find(self.module), [self.context, self.i64(wrap(key))])
        self.put(Slot.SEGMENT, number)
        details = {Slot.FAULT_ADDRESS: low, Slot.FAULT_BYTES: bytes_}
        self.check(self.compare(">=", number, 0), Fault.HBM_BOUNDS, lambda: details)
        rows = self.b.inttoptr(self.get(Slot.SEGMENTS), PTR)
        row = self.at(rows, self.mul(number, 8 * Segment.SIZE))
        start, end = (self.load(I64, row, 8 * k) for k in (Segment.START, Segment.END))
        inside = self.b.icmp_unsigned(
            "<=", self.b.sub(self.i64(wrap(low)), start), self.b.sub(end, start)
        )
        room = self.b.sub(end, self.i64(wrap(low)))
        fits = self.b.icmp_unsigned("<=", self.i64(bytes_), room)
        self.check(self.both(good, self.both(inside, fits)), Fault.HBM_BOUNDS, lambda: details)
        if writes:
            writable = self.b.icmp_signed(
                "!=", self.load(I64, row, 8 * Segment.WRITABLE), constant(I64, 0)
            )
            self.check(writable, Fault.READ_ONLY, lambda: details)
        return self.load(I64, row, 8 * Segment.DELTA)

    def host_pointer(self, address: Int, delta: Value) -> Value:
        """The host's pointer to a byte of HBM."""
        return self.b.inttoptr(self.add(wrap(address), delta), PTR)

    # Results that overlap operands

    def overlaps(self, a: tuple[Int, Int], b: tuple[Int, Int]) -> Bool:
        """Whether two byte ranges [low, high) share a byte."""
        return self.both(self.compare("<", a[0], b[1]), self.compare("<", b[0], a[1]))

    def redirect(
        self, hazard: Bool, base: Value, range_: tuple[Int, Int], address: Int, copy_in: bool
    ) -> tuple[Value, Value | None]:
        """`base`, an SRAM pointer for `address`, or one into a copy of bytes `range_` when `hazard` holds.

        The second result is the copy to hand to `finish`, None when none can be needed.
        """
        if hazard is False:
            return base, None
        before = self.b.block
        temporary = self.b.append_basic_block("temporary")
        go = self.b.append_basic_block("go")
        self.b.cbranch(constant(I1, 1) if hazard is True else hazard, temporary, go)
        self.b.position_at_end(temporary)
        low, high = range_
        bytes_ = self.i64(self.sub(high, low))
        memory = self.call("malloc", PTR, bytes_)
        if copy_in:
            self.copy(memory, self.at(self.sram, low), bytes_)
        moved = self.at(memory, self.sub(address, low))
        end = self.b.block
        self.b.branch(go)
        self.b.position_at_end(go)
        target, kept = self.b.phi(PTR), self.b.phi(PTR)
        target.add_incoming(base, before)
        target.add_incoming(moved, end)
        kept.add_incoming(null(), before)
        kept.add_incoming(memory, end)
        return target, kept

    def finish(
        self,
        kept: Value | None,
        source: Value,
        target: Value,
        sizes: Sequence[Int],
        strides: Sequence[Int],
        element: ir.Type,
    ) -> None:
        """Copy a redirected result element by element to where it belongs, and free the copy."""
        if kept is None:
            return
        full = self.b.icmp_unsigned("!=", kept, null())
        with self.b.if_then(full, likely=False):
            self.walk(
                sizes,
                [strides, strides],
                lambda offsets: self.store(
                    self.load(element, source, offsets[0]), target, offsets[1]
                ),
            )
            self.b.call(_library(self.module, "free", VOID), [kept])

    def walk(
        self,
        sizes: Sequence[Int],
        strides: Sequence[Sequence[Int]],
        body: Callable[[list[Int]], None],
        offsets: Sequence[Int] | None = None,
    ) -> None:
        """Call `body` with the byte offset of each operand at every point, in row-major order."""
        offsets = list(offsets) if offsets is not None else [0] * len(strides)
        if not sizes:
            body(offsets)
            return

        def turn(i: Int) -> None:
            here = [self.add(o, self.mul(i, s[0])) for o, s in zip(offsets, strides)]
            self.walk(sizes[1:], [s[1:] for s in strides], body, here)

        self.loop(0, sizes[0], turn)


def _library(module: ir.Module, name: str, result: ir.Type) -> ir.Function:
    known = module.globals.get(name)
    return known or ir.Function(module, ir.FunctionType(result, [PTR]), name)


def _find(module: ir.Module) -> ir.Function:
    """i64 find(context, address): the number of the segment that holds a byte of HBM, or -1."""
    name = "dsa.find"
    if (known := module.globals.get(name)) is not None:
        return known
    function = ir.Function(module, ir.FunctionType(I64, [PTR, I64]), name)
    function.linkage = "internal"
    code = Code(function)
    context, address = function.args
    rows = code.b.inttoptr(code.load(I64, context, 8 * Slot.SEGMENTS), PTR)
    count = code.load(I64, context, 8 * Slot.SEGMENT_COUNT)

    def look(i: Int, found: Value) -> list[Value]:
        row = code.at(rows, code.mul(i, 8 * Segment.SIZE))
        start, end = (code.load(I64, row, 8 * k) for k in (Segment.START, Segment.END))
        inside = code.both(code.compare("<=", start, address), code.compare("<", address, end))
        return [code.select(inside, i, found)]

    (found,) = code.loop(0, count, look, carried=[constant(I64, -1)])
    code.b.ret(found)
    return function
