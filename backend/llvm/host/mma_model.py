"""What an mma multiplies."""

from __future__ import annotations

from dataclasses import dataclass

from ...formats import Format
from .abi import Fault
from .build import Bool, Int
from .unit import Unit


@dataclass(frozen=True)
class Scales:
    """E8M0 bytes of an operand: bytes between products, and between rows of A or columns of B; adjacent along K."""

    address: Int
    batch: Int
    lead: Int
    range: tuple[Int, Int]


@dataclass(frozen=True)
class Matrix:
    """An operand: `strides` are bytes between products, rows and columns; `range` the bytes it covers.

    In packed formats a column of A and a row of B is a pair of numbers.
    """

    fmt: Format
    address: Int
    strides: tuple[Int, Int, Int]
    range: tuple[Int, Int]
    scales: Scales | None = None


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
        """Whether it multiplies integers; otherwise what is multiplied is fp32."""
        return not self.d.fmt.is_float


def report_overflow(unit: Unit, good: Bool) -> None:
    """Leave with a fault when an accumulator overflowed."""
    unit.check(good, Fault.OVERFLOW)
