"""What reductions and scans fold with, per ReduceKind: values, identity, operation, result.

Floats are folded as fp32, fp64 as fp64; integers as they are stored, int1 in eight bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...formats import Format
from ...isa.table import ReduceKind
from ...numerics.convert import FLOAT_LAYOUTS
from . import lanes
from .build import I8, I32, I64, Code, Value, constant, vector

K = ReduceKind
CHAINS = (K.FSUM, K.FPROD)
"""Float sums and products, whose order is defined."""
_FLOAT = (K.FSUM, K.FPROD, K.FMAX, K.FMIN, K.FMAXNUM, K.FMINNUM)
_SIGNED = (K.SMAX, K.SMIN)

_OPERATIONS: dict[ReduceKind, str] = {
    K.FMAX: "maximum",
    K.FMIN: "minimum",
    K.FMAXNUM: "maximumnum",
    K.FMINNUM: "minimumnum",
    K.SMAX: "smax",
    K.SMIN: "smin",
    K.UMAX: "umax",
    K.UMIN: "umin",
}
_INSTRUCTIONS: dict[ReduceKind, str] = {
    K.FSUM: "fadd",
    K.FPROD: "fmul",
    K.ISUM: "add",
    K.IPROD: "mul",
    K.AND: "and_",
    K.OR: "or_",
    K.XOR: "xor",
}


@dataclass(frozen=True)
class Fold:
    """A kind of reduction of one format."""

    kind: ReduceKind
    fmt: Format

    @property
    def element(self) -> Value:
        """The type that is folded in."""
        if self.kind in _FLOAT:
            return lanes.real(self.fmt)
        return I8 if self.fmt.bits == 1 else lanes.integer(self.fmt)

    def value(self, code: Code, bits: Value) -> Value:
        """Register bits as what is folded."""
        if self.kind in _FLOAT:
            return lanes.widen(code, bits, self.fmt)
        if self.fmt.bits == 1:
            extend = code.b.sext if self.kind in _SIGNED else code.b.zext
            return extend(bits, vector(I8, bits.type.count))
        return bits

    def identity(self, count: int) -> Value:
        """A vector that changes nothing."""
        type_ = vector(self.element, count)
        infinity = float("inf")
        floats = {
            K.FSUM: -0.0,
            K.FPROD: 1.0,
            K.FMAX: -infinity,
            K.FMIN: infinity,
            K.FMAXNUM: float("nan"),
            K.FMINNUM: float("nan"),
        }
        if self.kind in floats:
            return constant(type_, floats[self.kind])
        top = 1 << (self.element.width - 1)
        integers = {K.IPROD: 1, K.SMAX: -top, K.SMIN: top - 1, K.UMIN: -1, K.AND: -1}
        return constant(type_, integers.get(self.kind, 0))

    def fold(self, code: Code, x: Value, y: Value) -> Value:
        """x op y."""
        if self.kind in _OPERATIONS:
            return code.math(_OPERATIONS[self.kind], x, y)
        return getattr(code.b, _INSTRUCTIONS[self.kind])(x, y)

    def result(self, code: Code, value: Value) -> Value:
        """A folded vector as register bits, rounded to the format."""
        if self.kind in _FLOAT:
            return lanes.store_float(code, value, self.fmt)
        if self.fmt.bits == 1:
            return code.b.trunc(value, vector(lanes.integer(self.fmt), value.type.count))
        return value

    def key(self, code: Code, value: Value) -> Value:
        """Integers that are equal where positions count values as equal: all NaNs are one, -0 is not +0."""
        if self.kind not in _FLOAT:
            return value
        wide = self.fmt.name == "fp64"
        bits = code.b.bitcast(value, vector(I64 if wide else I32, value.type.count))
        nan = FLOAT_LAYOUTS["fp64" if wide else "fp32"].nan
        return code.b.select(lanes.is_nan(code, value), constant(bits.type, nan), bits)

    def across(self, code: Code, value: Value) -> Value:
        """All lanes folded, half on half; the result is in lane 0."""
        half = value.type.count // 2
        while half:
            count = value.type.count
            order = [min(j + half, count - 1) for j in range(count)]
            value = self.fold(code, value, code.shuffle(value, value, order))
            half //= 2
        return value
