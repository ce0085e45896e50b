"""Shared functions that reduce rows of fp32, up to sixteen at a time: what is left of their vectors is folded together.

Rows of one vector each become one vector of results by a tree of folds of two vectors at a time. Each step folds
element j of a row with element j + h, h = 8, 4, 2, 1, which is the defined order of sums.
"""

from __future__ import annotations

from collections.abc import Callable

from ... import formats
from ...isa.table import ReduceKind
from .. import ir
from . import helpers, lanes
from .build import I1, I32, I64, PTR, VOID, Code, Int, Value, constant, list_constant, vector
from .folds import Fold

ROWS = 16
"""Rows that are reduced together, and lanes of a vector."""
KINDS = (ReduceKind.FSUM, ReduceKind.FMAXNUM)
_FP32 = formats.by_name("fp32")
_GROUP = 4
"""Rows whose vectors are folded in turn, so that one need not wait for itself."""


def rows(module: ir.Module, kind: ReduceKind) -> ir.Function:
    """void f(in, in_step, count, length, out, out_step): the results of `count` rows of `length` numbers."""

    def body(code: Code) -> None:
        _Rows(code, Fold(kind, _FP32)).emit()

    return helpers.helper(module, name(kind), VOID, [PTR, I64, I64, I64, PTR, I64], body)


def name(kind: ReduceKind) -> str:
    """The name of the function of a kind."""
    return f"dsa.reduce.{kind.name.lower()}"


class _Rows:
    def __init__(self, code: Code, fold: Fold) -> None:
        self.code, self.fold = code, fold
        self.source, self.step, self.count, self.length, self.out, self.out_step = (
            code.function.args
        )
        self.whole = code.b.and_(self.length, constant(I64, -ROWS))
        self.type = vector(fold.element, ROWS)
        self.scratch = code.allocate(ROWS * 4 * ROWS)
        rest = code.b.trunc(code.sub(self.length, self.whole), I32)
        self.mask = code.b.icmp_signed("<", list_constant(I32, range(ROWS)), code.splat(rest, ROWS))

    def emit(self) -> None:
        code, b = self.code, self.code.b
        few, many = b.append_basic_block("few"), b.append_basic_block("many")
        b.cbranch(code.compare("<", self.count, _GROUP), few, many)
        b.position_at_end(few)
        code.loop(0, self.count, self.alone)
        b.ret_void()
        b.position_at_end(many)
        code.loop(0, self.count, self.block, step=ROWS)
        b.ret_void()

    def quick(self, x: Value, y: Value) -> Value:
        """x op y where no number is NaN; which zero comes out is open. The largest is one instruction so."""
        if self.fold.kind is ReduceKind.FSUM:
            return self.fold.fold(self.code, x, y)
        # an x that is NaN loses
        return self.code.b.select(self.code.b.fcmp_ordered(">", x, y), x, y)

    def load(self, row: Value, at: Int, mask: Value | None = None) -> Value:
        """A vector of a row; the identity in lanes that are not there."""
        if mask is None:
            return self.code.load(self.type, row, at)
        place = self.code.at(row, at)
        start = self.start
        return self.code.call(f"llvm.masked.load.v{ROWS}f32.p0", self.type, place, mask, start)

    @property
    def start(self) -> Value:
        """What changes nothing; not NaN."""
        if self.fold.kind is ReduceKind.FSUM:
            return self.fold.identity(ROWS)
        return constant(self.type, float("-inf"))

    def block(self, first: Int) -> None:
        """Up to sixteen rows."""
        code = self.code
        count = code.least(code.sub(self.count, first), ROWS)
        code.loop(0, count, lambda r: self.group(first, r, code.sub(count, 1)), step=_GROUP)
        values = [code.load(self.type, self.scratch, 4 * ROWS * r) for r in range(ROWS)]
        (result,) = self.together(values)
        there = self.lanes_below(count)

        def slow() -> None:
            code.loop(0, count, lambda r: self.single(code.add(first, r)))

        self.unless_odd(result, there, lambda: self.store(first, count, result, there), slow)

    def alone(self, number: Int) -> None:
        """One row."""
        code = self.code
        row = code.at(self.source, code.mul(number, self.step))
        chains = 1 if self.fold.kind is ReduceKind.FSUM else _GROUP
        block = code.b.and_(self.length, constant(I64, -chains * ROWS))

        def turn(i: Int, *values: Value) -> list[Value]:
            places = [code.mul(code.add(i, ROWS * k), 4) for k in range(len(values))]
            return [self.quick(self.load(row, at), v) for at, v in zip(places, values)]

        start = [self.start] * chains
        value, *others = code.loop(0, block, turn, step=chains * ROWS, carried=start)
        for other in others:
            value = self.quick(other, value)
        (value,) = code.loop(block, self.whole, turn, step=ROWS, carried=[value])
        value = self.quick(self.load(row, code.mul(self.whole, 4), self.mask), value)
        half = ROWS // 2
        while half:
            order = [min(lane + half, ROWS - 1) for lane in range(ROWS)]
            value = self.quick(value, code.shuffle(value, value, order))
            half //= 2

        def good() -> None:
            bits = lanes.store_float(code, value, _FP32)
            lane = code.b.extract_element(bits, constant(I32, 0))
            code.store(lane, self.out, code.mul(number, self.out_step))

        self.unless_odd(value, self.lanes_below(1), good, lambda: self.single(number))

    def lanes_below(self, count: Int) -> Value:
        """The mask of the first lanes."""
        short = self.code.b.trunc(self.code.i64(count), I32)
        spread = self.code.splat(short, ROWS)
        return self.code.b.icmp_signed("<", list_constant(I32, range(ROWS)), spread)

    def unless_odd(
        self, result: Value, there: Value, good: Callable[[], None], slow: Callable[[], None]
    ) -> None:
        """`good`, or `slow` where what `quick` found in the lanes `there` may not be what is defined."""
        if self.fold.kind is ReduceKind.FSUM:
            good()
            return
        # zeros have an order, and the identity may stand for rows of nothing but NaN
        code, b = self.code, self.code.b
        zero = b.fcmp_ordered("==", result, constant(self.type, 0.0))
        odd = b.or_(zero, b.fcmp_ordered("==", result, self.start))
        some = code.call(f"llvm.vector.reduce.or.v{ROWS}i1", I1, b.and_(odd, there))
        with b.if_else(some, likely=False) as (then, otherwise):
            with then:
                slow()
            with otherwise:
                good()

    def group(self, first: Int, place: Int, last: Int) -> None:
        """Some rows of a block, each folded to one vector of the scratch memory; behind the last one it again."""
        code = self.code
        numbers = [code.add(first, code.least(code.add(place, r), last)) for r in range(_GROUP)]
        starts = [code.at(self.source, code.mul(number, self.step)) for number in numbers]

        def turn(i: Int, *values: Value) -> list[Value]:
            at = code.mul(i, 4)
            return [self.quick(self.load(row, at), v) for row, v in zip(starts, values)]

        values = code.loop(0, self.whole, turn, step=ROWS, carried=[self.start] * _GROUP)
        at = code.mul(self.whole, 4)
        for r, (row, value) in enumerate(zip(starts, values)):
            last = self.quick(self.load(row, at, self.mask), value)
            code.store(last, self.scratch, code.mul(code.add(place, r), 4 * ROWS))

    def together(self, values: list[Value]) -> list[Value]:
        """Vectors of one row each folded to the vector of their results."""
        half = ROWS // 2
        while half:
            low = [lane for lane in range(2 * ROWS) if not lane & half]
            high = [lane | half for lane in low]
            pairs = zip(values[::2], values[1::2])
            shuffle = self.code.shuffle
            values = [self.quick(shuffle(x, y, low), shuffle(x, y, high)) for x, y in pairs]
            half //= 2
        return values

    def single(self, number: Int) -> None:
        """One row, by the operation as it is defined."""
        code, fold = self.code, self.fold
        row = code.at(self.source, code.mul(number, self.step))

        def turn(i: Int, value: Value) -> list[Value]:
            return [fold.fold(code, value, self.load(row, code.mul(i, 4)))]

        start = [fold.identity(ROWS)]
        (value,) = code.loop(0, self.whole, turn, step=ROWS, carried=start)
        last = self.load(row, code.mul(self.whole, 4), self.mask)
        last = code.b.select(self.mask, last, fold.identity(ROWS))
        value = fold.across(code, fold.fold(code, value, last))
        bits = lanes.store_float(code, value, _FP32)
        lane = code.b.extract_element(bits, constant(I32, 0))
        code.store(lane, self.out, code.mul(number, self.out_step))

    def store(self, first: Int, count: Int, result: Value, there: Value) -> None:
        """The results of a block."""
        code, b = self.code, self.code.b
        bits = lanes.store_float(code, result, _FP32)
        target = code.at(self.out, code.mul(first, self.out_step))
        with b.if_else(code.compare("==", self.out_step, 4)) as (adjacent, apart):
            with adjacent:
                code.call(f"llvm.masked.store.v{ROWS}i32.p0", VOID, bits, target, there)
            with apart:
                code.store(bits, self.scratch)

                def one(lane: Int) -> None:
                    value = code.load(I32, self.scratch, code.mul(lane, 4))
                    code.store(value, target, code.mul(lane, self.out_step))

                code.loop(0, count, one)
