"""Values of the control core in microkernels: loop counters, and addresses in HBM."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ..errors import MicrokernelError
from ..passes.placing.emit import Placement


@dataclass(frozen=True, eq=False)
class Number:
    """An integer that is known when the kernel runs: a loop's counter and what is made of it by `+ - *`."""

    placement: Placement = field(repr=False)
    ssa: SSAValue  # i64

    def __add__(self, other: Number | int) -> Number:
        return self._made(arith.AddiOp, other)

    __radd__ = __add__

    def __sub__(self, other: Number | int) -> Number:
        return self._made(arith.SubiOp, other)

    def __mul__(self, other: Number | int) -> Number:
        return self._made(arith.MuliOp, other)

    __rmul__ = __mul__

    def _made(
        self, op: type[arith.AddiOp | arith.SubiOp | arith.MuliOp], other: Number | int
    ) -> Number:
        p = self.placement
        right = p.constant(other, i64) if isinstance(other, int) else other.ssa
        return Number(p, p.result(op(self.ssa, right)))


@dataclass(frozen=True, eq=False)
class Address:
    """An address in HBM of elements of `fmt`, from a pointer operand; `+` counts bytes."""

    number: Number
    fmt: str
    argument: int  # of the kernel, -1 when unknown

    def __add__(self, bytes_: Number | int) -> Address:
        if not isinstance(bytes_, Number | int):
            raise MicrokernelError(f"an address moves by bytes, not by {bytes_!r}")
        return replace(self, number=self.number + bytes_)
