"""One instruction under translation: its fields, its memory accesses and their checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from ...cost import FieldValue
from ...isa.check import run_time_range
from ...isa.table import BY_NAME, NONE
from ...isa.vprog import VectorProgram
from ...target import Target
from .. import ir
from . import helpers
from .abi import Fault, Slot
from .build import I1, I64, PTR, Bool, Code, Int, Value, constant, null, wrap
from .host import Host

FAR = 1 << 40
"""No memory is this big, so a reach beyond it is as good as one of exactly this size."""


@dataclass(frozen=True)
class Spec:
    """What a unit is made from.

    Attributes:
        fields: the complete fields of the instruction.
        open: names of the fields that come at run time, in operand order.
        program: the vector program of a vexec.
        shared: whether slots of rings share a place in the host's memory (`sharing.py`).
    """

    op: str
    fields: Mapping[str, FieldValue]
    open: tuple[str, ...]
    program: VectorProgram | None
    hbm_arg: int
    sram_bytes: int
    target: Target
    host: Host
    shared: bool = False


@dataclass
class _FaultBlock:
    """Where all faults of a unit about accesses go, and from which blocks with which code, address and bytes."""

    block: Any = None
    reasons: list[tuple[Any, list[Value]]] = field(default_factory=list)


class Unit(Code):
    """The function of one instruction while it is built."""

    def __init__(self, function: ir.Function, spec: Spec) -> None:
        super().__init__(function, spec.host)
        self.spec, self.target = spec, spec.target
        self.sram, self.values, self.context = function.args
        self._fault = _FaultBlock()
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
        rows: list[tuple[int, int, int]] = []
        good: Bool = True
        for number, text in enumerate(self.spec.open):
            name = text.partition(".")[0]
            kind = BY_NAME[self.spec.op].by_name[name].type
            if kind in ("u64", "i64"):
                continue
            low, high = run_time_range(name, kind)
            rows.append((number, low, high - low))
            distance = self.i64(self.sub(self._open[text], low))
            fits = self.b.icmp_unsigned("<=", distance, constant(I64, high - low))
            good = self.both(good, fits)
        if good is True:
            return
        bad, fine = self.b.append_basic_block("operand"), self.b.append_basic_block("fine")
        self.b.cbranch(good, fine, bad)
        self.b.position_at_end(bad)
        table = helpers.operand_table(self.module, self.function.name, rows)
        note = helpers.operand_fault(self.module)
        self.b.ret(self.b.call(note, [self.context, self.values, table]))
        self.b.position_at_end(fine)

    def place_slots(self) -> None:
        """Turn SRAM addresses that come at run time into those where the host has the bytes.

        Bounds are checked afterwards, so that whatever the table says, no access leaves the memory. Addresses that are known
        now are in rings of one slot.
        """
        if not self.spec.shared:
            return
        fields = BY_NAME[self.spec.op].by_name
        for text, address in self._open.items():
            if (fields[text.partition(".")[0]].role or "").startswith("sram_"):
                arguments = [self.context, address]
                self._open[text] = self.b.call(helpers.place(self.module), arguments)

    # Faults and results

    def check(self, good: Bool, code: Fault, address: Int = 0, bytes_: Int = 0) -> None:
        """Leave the unit with a fault about an access unless `good`."""
        if good is True:
            return
        if self._fault.block is None:
            self._fault.block = self.b.append_basic_block("fault")
        fine = self.b.append_basic_block("fine")
        values = [self.i64(wrap(v)) for v in (int(code), address, bytes_)]
        self._fault.reasons.append((self.b.block, values))
        self.b.cbranch(constant(I1, 0) if good is False else good, fine, self._fault.block)
        self.b.position_at_end(fine)

    def end(self) -> None:
        """Finish the function: the place where all faults go."""
        if self._fault.block is None:
            return
        self.b.position_at_end(self._fault.block)
        phis = [self.b.phi(I64) for _ in range(3)]
        for block, values in self._fault.reasons:
            for phi, value in zip(phis, values):
                phi.add_incoming(value, block)
        self.b.ret(self.b.call(helpers.fault(self.module), [self.context, *phis]))

    def put(self, slot: Slot, value: Int) -> None:
        """Store into the context."""
        self.store(self.i64(wrap(value)), self.context, 8 * slot)

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
            if isinstance(stride, int):
                low, high = (self.add(low, far), high) if stride < 0 else (low, self.add(high, far))
                continue
            low = self.add(low, self.least(far, 0))
            high = self.add(high, self.largest(far, 0))
        return low, self.add(high, width)

    def far(self, count: Int, stride: Int) -> Int:
        """count * stride, cut to ±FAR."""
        if isinstance(count, int) and isinstance(stride, int):
            return max(min(count * stride, FAR), -FAR)
        if isinstance(stride, int) and abs(stride) < 1 << 28:
            return self.mul(count, stride)
        pair = ir.StructType([I64, I1])
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
        self.check(good, Fault.SRAM_BOUNDS, low, self.sub(high, low))
        return low, high

    def present(self, address: Int) -> bool:
        """Whether an optional operand is there; open ones are pinned or there."""
        return not (isinstance(address, int) and address == NONE)

    # HBM

    def open_hbm(self, low: Int, bytes_: Int, writes: bool) -> Value:
        """Fault unless HBM bytes [low, low + bytes_) are in one segment; what to add for host addresses."""
        numbers = (self.spec.hbm_arg, wrap(low), bytes_, int(writes))
        arguments = [self.context, *(self.i64(v) for v in numbers)]
        pair = self.b.call(helpers.open_hbm(self.module), arguments)
        code = self.b.extract_value(pair, 0)
        bad, fine = self.b.append_basic_block("bad"), self.b.append_basic_block("fine")
        self.b.cbranch(self.compare("==", code, 0), fine, bad)
        self.b.position_at_end(bad)
        self.b.ret(code)
        self.b.position_at_end(fine)
        return self.b.extract_value(pair, 1)

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
        element: ir.IntType,
    ) -> None:
        """Copy a redirected result element by element to where it belongs, and free the copy."""
        if kept is None:
            return
        full = self.b.icmp_unsigned("!=", kept, null())
        bytes_ = _contiguous(sizes, strides, element.width // 8)
        with self.b.if_then(full, likely=False):
            if bytes_ is not None:
                function = helpers.put_back(self.module)
                self.b.call(function, [kept, source, target, self.i64(bytes_)])
                return
            self.walk(
                sizes,
                [strides, strides],
                lambda offsets: self.store(
                    self.load(element, source, offsets[0]), target, offsets[1]
                ),
            )
            self.b.call(helpers.free(self.module), [kept])

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


def _contiguous(sizes: Sequence[Int], strides: Sequence[Int], width: int) -> int | None:
    """Bytes of a walk over neighbours, in whatever grouping of dims; None for other walks."""
    run = width
    for size, stride in zip(reversed(sizes), reversed(strides)):
        if not isinstance(size, int) or (size != 1 and stride != run):
            return None
        run *= size
    return run
