"""Masks as intervals: a conjunction of comparisons of one affine dim with scalars.

Comparison `c * i + a < b` with a known c gives bounds on i, computed in i64 and clamped to the dim; scalar
conditions empty the whole box. A mask of any other kind is not an interval (`Interval.of` gives None) and
the access becomes a gather or scatter.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ..dialects import tile
from .access_analysis import Analysis, int_width
from .access_forms import Affine, Form, Scalar, ScalarMath
from .access_slices import source_dims
from .simplify_fold import int_constant

_SIGNED = {"ult": "slt", "ule": "sle", "ugt": "sgt", "uge": "sge"}
_RELATIONS = ("slt", "sle", "sgt", "sge", "ieq")


@dataclass(frozen=True)
class Bound:
    """lo <= i_dim < hi in i64, not clamped; None where there is no bound."""

    dim: int
    lo: Scalar | None
    hi: Scalar | None


@dataclass(frozen=True)
class Condition:
    """A scalar int1 that must hold."""

    flag: SSAValue


Conjunct = Bound | Condition


class Masks:
    """Reads masks; what it emits goes through `math`, before the memory op."""

    def __init__(self, analysis: Analysis, math: ScalarMath) -> None:
        self.analysis = analysis
        self.math = math

    def conjuncts(self, mask: SSAValue) -> list[Conjunct] | None:
        """The mask as a conjunction; None when it is not one of the kinds understood."""
        if int_constant(mask) == 1:
            return []
        slices = self.analysis.slices
        if not slices.depends_on(mask):
            return [Condition(slices.scalar(mask))]
        op = mask.owner
        if isinstance(op, tile.VIEWS):
            return self._view(op)
        if not isinstance(op, tile.MapOp):
            return None
        fn = op.fn.data
        if fn == "iand":
            return self._both(op.args[0], op.args[1])
        if fn == "select" and int_constant(op.args[2]) == 0:
            return self._both(op.args[0], op.args[1])
        if fn in _RELATIONS or fn in _SIGNED:
            return self._comparison(op)
        return None

    def _both(self, a: SSAValue, b: SSAValue) -> list[Conjunct] | None:
        left = self.conjuncts(a)
        right = None if left is None else self.conjuncts(b)
        return None if left is None or right is None else left + right

    def _view(self, op: tile.ExpandDimsOp | object) -> list[Conjunct] | None:
        assert isinstance(op, tile.VIEWS)
        dims = source_dims(op)
        inner = None if dims is None else self.conjuncts(op.operands[0])
        if inner is None or dims is None:
            return None
        moved: list[Conjunct] = []
        for part in inner:
            if isinstance(part, Bound):
                part = Bound(dims.index(part.dim), part.lo, part.hi)
            moved.append(part)
        return moved

    def _comparison(self, op: tile.MapOp) -> list[Conjunct] | None:
        fn, width = op.fn.data, int_width(op.args[0].type)
        if width < 32:
            return None
        left, right = map(self.analysis.form, op.args)
        if fn in _SIGNED:
            read = [self.analysis.unsigned(f, width, self.math) for f in (left, right)]
            if read[0] is None or read[1] is None:
                return None
            left, right, fn = read[0], read[1], _SIGNED[fn]
        difference = self.analysis.add(right, left, self.math, -1)
        if len(difference.dims) != 1 or difference.rest:
            return None
        (dim,) = difference.dims
        term = difference.terms[dim]
        if not isinstance(term, Affine) or not isinstance(term.coef, int):
            return None
        return [self._solve(fn, -term.coef, difference, dim)]

    def _solve(self, fn: str, coef: int, difference: Form, dim: int) -> Bound:
        """Bounds on i from  coef * i  `fn`  the constant part of `difference`."""
        size, limit, math = difference.shape[dim], difference.const, self.math
        if coef < 0:
            coef, limit = -coef, math.sub(0, limit)
            fn = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}.get(fn, fn)
        first = self._quotient(limit, coef, size, up=True) if fn in ("slt", "sge", "ieq") else None
        past = self._quotient(limit, coef, size, up=False) if fn in ("sle", "sgt", "ieq") else None
        if fn == "slt":
            return Bound(dim, None, first)
        if fn == "sle":
            return Bound(dim, None, past)
        if fn == "sgt":
            return Bound(dim, past, None)
        return Bound(dim, first, past)

    def _quotient(self, bound: Scalar, coef: int, size: int, up: bool) -> Scalar:
        """Clamped to [0, size]: ceil(bound / coef), or floor(bound / coef) + 1."""
        math = self.math
        shifted = math.add(bound, coef - 1 if up else coef)
        limited = math.binary("smin", shifted, size * coef)
        return math.binary("sdiv", math.binary("smax", limited, 0), coef)

    def box(
        self, shape: tuple[int, ...], conjuncts: list[Conjunct]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """lo and hi per dim, i32. A condition that does not hold makes dim 0 empty."""
        math = self.math
        lo: list[Scalar] = [0] * len(shape)
        hi: list[Scalar] = list(shape)
        for part in conjuncts:
            if isinstance(part, Bound):
                if part.lo is not None:
                    lo[part.dim] = self._meet("smax", lo[part.dim], part.lo, 0)
                if part.hi is not None:
                    hi[part.dim] = self._meet("smin", hi[part.dim], part.hi, shape[part.dim])
        narrow_lo, narrow_hi = [self._narrow(x) for x in lo], [self._narrow(x) for x in hi]
        for part in conjuncts:
            if isinstance(part, Condition):
                zero = math.emit.constant(0, i32)
                narrow_hi[0] = math.emit.map("select", part.flag, narrow_hi[0], zero)
        return narrow_lo, narrow_hi

    def _meet(self, fn: str, a: Scalar, b: Scalar, trivial: int) -> Scalar:
        """Bounds are clamped already, so the whole dim is neutral."""
        return b if isinstance(a, int) and a == trivial else self.math.binary(fn, a, b)

    def _narrow(self, a: Scalar) -> SSAValue:
        emit = self.math.emit
        return emit.constant(a, i32) if isinstance(a, int) else emit.map("trunc", a, element=i32)
