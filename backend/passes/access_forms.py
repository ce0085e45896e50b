"""What the access pass knows about a tile of integers or pointers: its form.

A form says that element (i0, i1, …) is  const + Σ_d term_d(i_d) + Σ rest, where each term depends on one
dim only. Scalars of forms are i64: a Python int when known, else an SSA value. Pointers are byte
addresses. Dims of size 1 have no term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from .simplify_emit import Emitter

Scalar = int | SSAValue
"""An i64 number."""


@dataclass(frozen=True)
class Affine:
    """coef * i."""

    coef: Scalar


@dataclass(frozen=True)
class Wrapped:
    """coef * ((start + i) mod modulus), start not negative and modulus positive."""

    coef: Scalar
    start: Scalar
    modulus: Scalar


@dataclass(frozen=True)
class Indexed:
    """coef * value[…, i, …], where `value` is an integer tile that depends on its dim `dim` only."""

    coef: Scalar
    value: SSAValue
    dim: int


Term = Affine | Wrapped | Indexed | None


@dataclass(frozen=True)
class Form:
    """See the module. `rest` holds (tile of the form's shape, coefficient); `arg` is the number of the
    kernel argument that a pointer derives from, -1 when unknown or not a pointer."""

    shape: tuple[int, ...]
    const: Scalar = 0
    terms: tuple[Term, ...] = ()
    rest: tuple[tuple[SSAValue, Scalar], ...] = ()
    arg: int = -1

    def __post_init__(self) -> None:
        if len(self.terms) != len(self.shape):
            assert not self.terms
            object.__setattr__(self, "terms", (None,) * len(self.shape))

    @property
    def dims(self) -> tuple[int, ...]:
        """The dims that have a term."""
        return tuple(d for d, term in enumerate(self.terms) if term is not None)

    @property
    def is_scalar(self) -> bool:
        """True when every element is `const`."""
        return not self.rest and not self.dims


class ScalarMath:
    """Arithmetic on form scalars; folds what is known and emits the rest."""

    def __init__(self, emit: Emitter) -> None:
        self.emit = emit

    def value(self, a: Scalar) -> SSAValue:
        """The SSA value of a scalar."""
        return self.emit.constant(a, i64) if isinstance(a, int) else a

    def _map(self, fn: str, a: Scalar, b: Scalar) -> SSAValue:
        return self.emit.map(fn, self.value(a), self.value(b))

    def add(self, a: Scalar, b: Scalar) -> Scalar:
        """a + b."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int):
            a, b = b, a
        return a if isinstance(b, int) and b == 0 else self._map("iadd", a, b)

    def sub(self, a: Scalar, b: Scalar) -> Scalar:
        """a - b."""
        if isinstance(b, int):
            return self.add(a, -b)
        return 0 if a is b else self._map("isub", a, b)

    def mul(self, a: Scalar, b: Scalar) -> Scalar:
        """a * b."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int) and b in (0, 1):
            return a if b else 0
        return self._map("imul", a, b)

    def binary(self, fn: str, a: Scalar, b: Scalar) -> Scalar:
        """Any other operation: sdiv of numbers that are not negative, smin, smax."""
        if isinstance(a, int) and isinstance(b, int):
            return {"sdiv": a // b if b else 0, "smin": min(a, b), "smax": max(a, b)}[fn]
        return a if fn == "sdiv" and isinstance(b, int) and b == 1 else self._map(fn, a, b)


def with_coef(term: Term, coef: Scalar) -> Term:
    """A term with another coefficient; none at all for 0."""
    if term is None or (isinstance(coef, int) and coef == 0):
        return None
    return replace(term, coef=coef)


def scale(form: Form, factor: Scalar, math: ScalarMath) -> Form:
    """form * factor."""
    if isinstance(factor, int) and factor == 1:
        return form
    terms = tuple(t and with_coef(t, math.mul(t.coef, factor)) for t in form.terms)
    rest = tuple((tile, math.mul(coef, factor)) for tile, coef in form.rest)
    return replace(form, const=math.mul(form.const, factor), terms=terms, rest=rest)


def slots(form: Form) -> list[Scalar]:
    """The scalars of a form in a fixed order."""
    found: list[Scalar] = [form.const]
    for term in form.terms:
        if term is not None:
            found.append(term.coef)
        if isinstance(term, Wrapped):
            found += [term.start, term.modulus]
    return found + [coef for _, coef in form.rest]


def with_slots(form: Form, values: Sequence[Scalar]) -> Form:
    """The form with other scalars, in the order of `slots`."""
    source = iter(values)
    const = next(source)
    terms: list[Term] = []
    for term in form.terms:
        if isinstance(term, Wrapped):
            terms.append(Wrapped(next(source), next(source), next(source)))
        else:
            terms.append(None if term is None else replace(term, coef=next(source)))
    rest = tuple((tile, next(source)) for tile, _ in form.rest)
    return replace(form, const=const, terms=tuple(terms), rest=rest)


def same_structure(a: Form, b: Form) -> bool:
    """True when two forms differ in their scalars (and their argument) only."""
    return _structure(a) == _structure(b)


def _structure(form: Form) -> tuple[object, ...]:
    kinds = tuple(
        (type(t), t.value, t.dim) if isinstance(t, Indexed) else (type(t), None, 0)
        for t in form.terms
    )
    return form.shape, kinds, tuple(tile for tile, _ in form.rest)


def lift(form: Form, like: Form) -> Form:
    """Write absent terms as 0 * i where the other form has an affine one."""
    if form.shape != like.shape:
        return form
    terms = tuple(
        Affine(0) if mine is None and isinstance(other, Affine) else mine
        for mine, other in zip(form.terms, like.terms, strict=True)
    )
    return replace(form, terms=terms)
