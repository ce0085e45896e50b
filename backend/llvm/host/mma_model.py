"""What an mma multiplies."""

from __future__ import annotations

from dataclasses import dataclass

from ...formats import Format
from .abi import Fault
from .build import Bool, Int
from .unit import Unit


@dataclass(frozen=True)
class Matrix:
    """An operand: `strides` are bytes between products, rows and columns; `range` the bytes it covers."""

    fmt: Format
    address: Int
    strides: tuple[Int, Int, Int]
    range: tuple[Int, Int]


@dataclass(frozen=True)
class Product:
    """An mma: D[batch, m, n] (+)= A[batch, m, k] · B[batch, k, n]."""

    batch: Int
    m: Int
    n: Int
    k: Int
    a: Matrix
    b: Matrix
    d: Matrix
    accumulate: bool

    @property
    def integers(self) -> bool:
        """Whether it multiplies integers."""
        return not self.a.fmt.is_float


def report_overflow(unit: Unit, good: Bool) -> None:
    """Leave with a fault when an accumulator overflowed."""
    unit.check(good, Fault.OVERFLOW)
