"""Shared functions that multiply one block of D in registers: fp32 operands, D fp32, all of K, k ascending."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import formats
from ...formats import Format
from .. import ir
from . import helpers, lanes
from .build import F32, I1, I64, PTR, VOID, Code, Int, Value, constant, vector
from .host import Host

SOURCES = ("fp32", "fp16", "bf16")
"""Formats of B that a block can pack."""
Columns = Callable[[Int], list[Value]]
"""A step's part of B: one vector per vector of columns."""
_FP32 = formats.by_name("fp32")


def shape(host: Host) -> tuple[int, int]:
    """Rows and vectors of a block."""
    return (8, 2) if host.registers >= 32 else (6, 2)


def block(module: ir.Module, host: Host) -> ir.Function:
    """void f(a, a_row, a_step, b, b_step, d, d_row, steps, add): D (+)= A · B.

    Bytes between rows and steps of A, steps of B, rows of D.
    """

    def body(code: Code) -> None:
        a, a_row, a_step, b, b_step, d, d_row, steps, add = code.function.args
        one = _Block(code, host, d, d_row)

        def columns(s: Int) -> list[Value]:
            return one.columns(code.at(b, code.mul(s, b_step)), _FP32)

        one.emit(a, a_row, a_step, columns, steps, add)

    arguments = [PTR, I64, I64, PTR, I64, PTR, I64, I64, I1]
    return helpers.helper(module, "dsa.block", VOID, arguments, body)


def packing(module: ir.Module, host: Host, source: Format) -> ir.Function:
    """void f(a, a_row, a_step, b, b_step, d, d_row, steps, add, panel): the same, for the first rows of D.

    B comes in the format `source`. Its steps are written to `panel` as fp32, one after the other, for the blocks
    below this one.
    """

    def body(code: Code) -> None:
        a, a_row, a_step, b, b_step, d, d_row, steps, add, panel = code.function.args
        one = _Block(code, host, d, d_row)

        def columns(s: Int) -> list[Value]:
            values = one.columns(code.at(b, code.mul(s, b_step)), source)
            there = code.at(panel, code.mul(s, one.bytes * one.vectors))
            for v, value in enumerate(values):
                code.store(value, there, one.bytes * v)
            return values

        one.emit(a, a_row, a_step, columns, steps, add)

    arguments = [PTR, I64, I64, PTR, I64, PTR, I64, I64, I1, PTR]
    return helpers.helper(module, f"dsa.packing.{source.name}", VOID, arguments, body)


class _Block:
    def __init__(self, code: Code, host: Host, d: Value, d_row: Value) -> None:
        self.code = code
        self.rows, self.vectors = shape(host)
        self.lanes, self.bytes = host.lanes, host.vector_bytes
        self.type = vector(F32, host.lanes)
        self.d = [code.at(d, code.mul(d_row, r)) for r in range(self.rows)]

    def columns(self, start: Value, source: Format) -> list[Value]:
        """A step of B as fp32."""
        code, stored = self.code, vector(lanes.storage(source), self.lanes)
        step = self.lanes * source.bytes
        raw = [code.load(stored, start, step * v) for v in range(self.vectors)]
        return [lanes.widen(code, bits, source) for bits in raw]

    def emit(
        self, a: Value, a_row: Value, a_step: Value, columns: Columns, steps: Value, add: Value
    ) -> None:
        """The function's body."""
        code = self.code

        def step(s: Int, *values: Value) -> list[Value]:
            right, here = columns(s), code.at(a, code.mul(s, a_step))
            result = []
            for r in range(self.rows):
                number = code.load(F32, here, code.mul(a_row, r))
                factor = code.splat(number, self.lanes)
                for v, column in enumerate(right):
                    value = values[r * self.vectors + v]
                    result.append(code.math("fma", factor, column, value))
            return result

        values = code.loop(0, steps, step, carried=self._start(add))
        for place, value in zip(self._places(), _canonical(code, values)):
            code.store(value, *place)
        code.b.ret_void()

    def _places(self) -> list[tuple[Value, int]]:
        return [(row, self.bytes * v) for row in self.d for v in range(self.vectors)]

    def _start(self, add: Value) -> list[Value]:
        """D where sums are added to it, else zeros."""
        code, zero = self.code, constant(self.type, 0.0)
        before, old = code.b.block, code.b.append_basic_block("old")
        go = code.b.append_basic_block("go")
        code.b.cbranch(add, old, go)
        code.b.position_at_end(old)
        values = [code.load(self.type, *place) for place in self._places()]
        code.b.branch(go)
        code.b.position_at_end(go)
        return [_either(code, (zero, before), (value, old)) for value in values]


def _either(code: Code, x: tuple[Value, ir.Block], y: tuple[Value, ir.Block]) -> Value:
    """The value of the block that control comes from."""
    phi = code.b.phi(x[0].type)
    for value, block in (x, y):
        phi.add_incoming(value, block)
    return phi


def _canonical(code: Code, values: Sequence[Value]) -> list[Value]:
    """The values with canonical NaNs. Whether there is any is found for two vectors at a time."""
    b, count = code.b, values[0].type.count
    some = constant(vector(I1, count), 0)
    for x, y in zip(values[::2], values[1::2], strict=True):
        some = b.or_(some, b.fcmp_unordered("uno", x, y))
    word = ir.IntType(count)
    found = b.icmp_unsigned("!=", b.bitcast(some, word), constant(word, 0))
    before = b.block
    repair, done = b.append_basic_block("nan"), b.append_basic_block("stored")
    b.cbranch(found, repair, done)
    b.position_at_end(repair)
    clean = [b.bitcast(lanes.store_float(code, value, _FP32), value.type) for value in values]
    b.branch(done)
    b.position_at_end(done)
    return [_either(code, (old, before), (new, repair)) for old, new in zip(values, clean)]
