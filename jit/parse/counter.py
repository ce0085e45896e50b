"""The counter of a loop: `range` as an upward count of a signed type."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntAttr, IntegerAttr
from xdsl.ir import Block, SSAValue

from dsalang._backend.dialects.tile import MapOp, NumProgramsOp

from .. import dtypes, semantics
from ..dtypes import dtype
from ..semantics_operators import binary
from ..values import Operand, Static, Value, describe, fail, static_int
from .emit import Emitter


@dataclass
class Bounds:
    """A counted loop. `start`, `stop`, `step` are of one integer type."""

    start: Operand
    stop: Operand
    step: Operand
    num_stages: int | None = None


def range_bounds(args: tuple[Operand, ...], num_stages: Operand | None = None) -> Bounds:
    """The bounds of Python's `range(...)`."""
    if not 1 <= len(args) <= 3:
        fail(f"range takes 1 to 3 arguments, not {len(args)}")
    start: Operand = Static(0)
    stop: Operand
    step: Operand = Static(1)
    if len(args) == 1:
        stop = args[0]
    else:
        start, stop = args[0], args[1]
    if len(args) == 3:
        step = args[2]
    stages = None
    if num_stages is not None and not (isinstance(num_stages, Static) and num_stages.value is None):
        stages = static_int(num_stages, "num_stages")
    return Bounds(start, stop, step, stages)


class Counter:
    """The counter of an `scf.for`, which counts upwards in a signed type."""

    def __init__(self, em: Emitter, bounds: Bounds) -> None:
        self.em = em
        operands = [
            self._integer(o, what)
            for o, what in ((bounds.start, "start"), (bounds.stop, "stop"), (bounds.step, "step"))
        ]
        self.dtype = self._common(operands)
        self.type = dtypes.int64 if self.dtype in (dtypes.uint32, dtypes.uint64) else self.dtype
        start, stop, step = (self._materialise(o) for o in operands)
        self._affine: tuple[Value, Value] | None = None
        raw = operands[2]
        if isinstance(raw, Static) and raw.value == 0:
            fail("the step of range must not be zero")
        if (isinstance(raw, Static) and raw.value > 0) or _is_positive(step.ssa):
            self.lower, self.upper, self.stride = start, stop, step
            return
        self._affine = (start, step)
        self.lower, self.stride = self._number(0), self._number(1)
        self.upper = self._trips(start, stop, step, raw)

    def _integer(self, operand: Operand, what: str) -> Value | Static:
        value = semantics.numeric(operand, f"the {what} of range")
        element = semantics.operand_dtype(value)
        if not (isinstance(element, dtype) and element.is_int()) or (
            isinstance(value, Value) and value.shape
        ):
            fail(f"the {what} of range must be an integer scalar, not {describe(operand)}")
        return value

    def _common(self, operands: list[Value | Static]) -> dtype:
        result = dtypes.int32
        for operand in operands:
            element = semantics.operand_dtype(operand)
            assert isinstance(element, dtype)
            if element.primitive_bitwidth >= 32:
                result = semantics.promote_ints(result, element)
        return result

    def _materialise(self, operand: Value | Static) -> Value:
        return semantics.materialise(self.em, operand, "a bound of range", self.type)

    def _number(self, number: int) -> Value:
        return self.em.constant(number, self.type)

    def _trips(self, start: Value, stop: Value, step: Value, raw: Value | Static) -> Value:
        """How often a loop with a negative or unknown step runs; may be negative, which means never."""
        one = Static(1)
        down = binary(self.em, "-", start, stop)
        if isinstance(raw, Static):
            size = Static(-raw.value)
            return self._ceil(down, size)
        up = binary(self.em, "-", stop, start)
        positive = binary(self.em, ">", step, Static(0))
        distance = self._select(positive, up, down)
        size_value = self.em.map("iabs", [step])
        rounded = binary(self.em, "+", distance, binary(self.em, "-", size_value, one))
        trips = binary(self.em, "//", rounded, size_value)
        assert isinstance(trips, Value)
        return trips

    def _ceil(self, distance: Operand, size: Static) -> Value:
        rounded = binary(self.em, "+", distance, Static(size.value - 1))
        trips = binary(self.em, "//", rounded, size)
        assert isinstance(trips, Value)
        return trips

    def _select(self, condition: Operand, a: Operand, b: Operand) -> Value:
        assert isinstance(condition, Value) and isinstance(a, Value) and isinstance(b, Value)
        return self.em.map("select", [condition, a, b])

    def counter(self, argument: SSAValue) -> Value:
        """The loop's variable from the block argument (emitted inside the body)."""
        value = Value(argument, self.type)
        if self._affine is not None:
            start, step = self._affine
            moved = binary(self.em, "+", start, binary(self.em, "*", value, step))
            assert isinstance(moved, Value)
            value = moved
        return semantics.cast(self.em, value, self.dtype)


def _is_positive(value: SSAValue, depth: int = 8) -> bool:
    """True for integers that cannot be zero or negative: constants, grid sizes and products of them."""
    op = value.owner
    if depth == 0 or isinstance(op, Block):
        return False
    if isinstance(op, NumProgramsOp):
        return True
    if isinstance(op, ConstantOp):
        return isinstance(op.value, IntegerAttr) and _value_of(op.value) > 0
    if isinstance(op, MapOp) and op.fn.data == "smax":
        return any(_is_positive(arg, depth - 1) for arg in op.args)
    if isinstance(op, MapOp) and op.fn.data in ("imul", "iadd", "smin", "sext", "zext"):
        return all(_is_positive(arg, depth - 1) for arg in op.args)
    return False


def _value_of(attribute: IntegerAttr) -> int:
    assert isinstance(attribute.value, IntAttr)
    return attribute.value.data
