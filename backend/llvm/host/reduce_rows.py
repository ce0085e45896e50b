"""Shared functions that reduce many rows of fp32, sixteen at a time: what is left of their vectors is folded together.

Rows of one vector each become one vector of results by a tree of folds of two vectors at a time. Each step folds
element j of a row with element j + h, h = 8, 4, 2, 1, which is the defined order of sums.
"""

from __future__ import annotations

from llvmlite import ir

from ... import formats
from ...isa.table import ReduceKind
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
        code = self.code
        whole = code.b.and_(self.count, constant(I64, -ROWS))
        code.loop(0, whole, self.block, step=ROWS)
        code.loop(whole, self.count, self.single)
        code.b.ret_void()

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
        """Sixteen rows."""
        code = self.code
        code.loop(0, ROWS, lambda r: self.group(code.add(first, r), r), step=_GROUP)
        values = [code.load(self.type, self.scratch, 4 * ROWS * r) for r in range(ROWS)]
        (result,) = self.together(values)
        if self.fold.kind is ReduceKind.FSUM:
            self.store(first, result)
            return
        # zeros have an order, and the identity may stand for rows of nothing but NaN
        b = code.b
        zero = b.fcmp_ordered("==", result, constant(self.type, 0.0))
        odd = b.or_(zero, b.fcmp_ordered("==", result, self.start))
        some = code.call(f"llvm.vector.reduce.or.v{ROWS}i1", I1, odd)
        slow, good, done = (b.append_basic_block(n) for n in ("slow", "good", "done"))
        b.cbranch(some, slow, good)
        b.position_at_end(slow)
        code.loop(0, ROWS, lambda r: self.single(code.add(first, r)))
        b.branch(done)
        b.position_at_end(good)
        self.store(first, result)
        b.branch(done)
        b.position_at_end(done)

    def group(self, first: Int, place: Int) -> None:
        """Some rows, each folded to one vector of the scratch memory."""
        code = self.code
        starts = [
            code.at(self.source, code.mul(code.add(first, r), self.step)) for r in range(_GROUP)
        ]

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

    def store(self, first: Int, result: Value) -> None:
        """Sixteen results."""
        code, b = self.code, self.code.b
        bits = lanes.store_float(code, result, _FP32)
        target = code.at(self.out, code.mul(first, self.out_step))
        adjacent, apart, done = (b.append_basic_block(n) for n in ("adjacent", "apart", "done"))
        b.cbranch(code.compare("==", self.out_step, 4), adjacent, apart)
        b.position_at_end(adjacent)
        code.store(bits, target)
        b.branch(done)
        b.position_at_end(apart)
        for lane in range(ROWS):
            value = b.extract_element(bits, constant(I32, lane))
            code.store(value, target, code.mul(self.out_step, lane))
        b.branch(done)
        b.position_at_end(done)
