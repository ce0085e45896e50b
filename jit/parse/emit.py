"""Emitter: appends operations with their source place to the current block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, LocationAttr
from xdsl.ir import Block, Operation, SSAValue

from dsalang._backend.dialects import locations, tile
from dsalang._backend.errors import Loc

from ..dtypes import ElementType, dtype
from ..values import Operand, Value, describe, fail, ir_scalar

MAX_OPS = 100_000
"""Guards against loops that unroll without end; real kernels have hundreds."""

OpT = TypeVar("OpT", bound=Operation)


class Place(Protocol):
    """Where the parser is: gives the source place when an operation needs it."""

    def __call__(self) -> Loc:
        """The place."""
        ...


Call = Callable[[Operand, tuple[Operand, ...]], Operand]
"""Calls a function of the kernel's: (function, arguments) → result."""


def _no_calls(function: Operand, args: tuple[Operand, ...]) -> Operand:
    fail(f"{describe(function)} cannot be called here")


class Emitter:
    """Builds the body of one kernel. `place` is the node the parser is at; `call` is set by the parser."""

    def __init__(self, block: Block, place: Place) -> None:
        self.block = block
        self.place = place
        self.messages: list[str] = []  # of static_print
        self.divisions: list[Operation] = []  # `//` and `%` at run time
        self.call: Call = _no_calls
        self._count = 0
        self._known: list[dict[Any, SSAValue]] = [{}]  # constants by open block, innermost last
        self._locations: dict[Loc, LocationAttr] = {}

    def add(self, op: OpT) -> OpT:
        """Append an operation."""
        self._count += 1
        if self._count > MAX_OPS:
            fail(f"the kernel has more than {MAX_OPS} operations", "unroll less (static_range)")
        loc = self.place()
        location = self._locations.get(loc)
        if location is None:
            location = self._locations[loc] = locations.to_ir(loc)
        op.location = location
        self.block.add_op(op)
        return op

    @contextmanager
    def into(self, block: Block) -> Iterator[None]:
        """Append to `block`, nested in the current one, within the with-block."""
        outer = self.block
        self.block = block
        self._known.append({})
        try:
            yield
        finally:
            self.block = outer
            self._known.pop()

    def constant(self, number: float, element: dtype, shape: tuple[int, ...] = ()) -> Value:
        """A number as scalar or tile; made once per block. The number is in range of the type."""
        zero_sign = math.copysign(1.0, number) if number == 0 else 0.0
        key = (repr(number), zero_sign, element.name, shape)
        for known in self._known:
            if key in known:
                return Value(known[key], element, shape)
        if shape:
            scalar = self.constant(number, element)
            ssa: SSAValue = self.add(tile.SplatOp(scalar.ssa, shape)).result
        else:
            ssa = self.add(_constant_op(number, element)).result
        self._known[-1][key] = ssa
        return Value(ssa, element, shape)

    def map(self, fn: str, args: Sequence[Value], element: ElementType | None = None) -> Value:
        """An elementwise operation; `element` is the result's type (that of the last operand when absent)."""
        element = element or args[-1].dtype
        op = self.add(tile.MapOp(fn, [a.ssa for a in args], ir_scalar(element)))
        return Value(op.result, element, args[0].shape)


def _constant_op(number: float, element: dtype) -> ConstantOp:
    type_: Any = ir_scalar(element)
    if isinstance(type_, IntegerType):
        bits = type_.width.data
        pattern = int(number) & ((1 << bits) - 1)
        if bits > 1 and pattern >> (bits - 1):
            pattern -= 1 << bits
        return ConstantOp(IntegerAttr(pattern, type_))
    return ConstantOp(FloatAttr(rounded(float(number), element), type_))


def rounded(number: float, element: dtype) -> float:
    """A float as the nearest value of a float type (overflow gives an infinity where there is one)."""
    with np.errstate(over="ignore"):
        storage = element.format.storage
        if element.name == "fp8e4nv" and abs(number) > 448.0:  # saturates, as the machine does
            return math.copysign(448.0, number) if not math.isnan(number) else number
        return float(np.asarray(number, np.float64).astype(storage))
