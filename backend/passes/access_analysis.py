"""Forms of integer and pointer values, op by op.

Index arithmetic in 32 and 64 bits is taken not to overflow, as Triton takes it when it computes addresses.
Narrower integers and truncations wrap around on purpose and are not looked into; unsigned comparisons and
extensions are looked into where nothing can be negative. A divisor inside the start of a wrapped dim is
taken to be positive. Everything else is exact.

The scalars of the form of a value stand right after the definition of that value, so a form is valid
wherever its value is.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import tile
from ..dialects.types import PtrType, element_type, format_of, shape_of, with_shape
from .access_forms import (
    Affine,
    Form,
    Indexed,
    Scalar,
    ScalarMath,
    Term,
    Wrapped,
    same_structure,
    scale,
    slots,
    with_coef,
    with_slots,
)
from .access_slices import Slices, unit_reshape
from .simplify_emit import after
from .simplify_fold import int_constant


def is_pointer(type_: Attribute) -> bool:
    """True for pointers and tiles of pointers."""
    return type(element_type(type_)) is PtrType


def is_analysed(value: SSAValue) -> bool:
    """True for values that have a form of their own: pointers and integer tiles."""
    type_ = value.type
    kind = type(element_type(type_))
    return kind is PtrType or (kind is IntegerType and type(type_) is TensorType)


def int_width(type_: Attribute) -> int:
    """Bits of an integer element; 64 for pointers."""
    element = element_type(type_)
    return element.width.data if isinstance(element, IntegerType) else 64


def is_never_negative(a: Scalar, depth: int = 16) -> bool:
    """True when the scalar cannot be negative, given that divisors are positive."""
    if isinstance(a, int):
        return a >= 0
    constant = int_constant(a)
    if constant is not None:
        return constant >= 0
    owner = a.owner
    if isinstance(owner, (tile.ProgramIdOp, tile.NumProgramsOp)):
        return True
    if depth == 0:
        return False
    if isinstance(owner, Block):
        loop = owner.parent_op()
        if not isinstance(loop, scf.ForOp) or a is not owner.args[0]:
            return False
        return is_never_negative(loop.lb, depth - 1)
    if not isinstance(owner, tile.MapOp):
        return False
    known = [is_never_negative(x, depth - 1) for x in owner.args]
    fn = owner.fn.data
    if fn in ("sdiv", "srem", "ashr", "sext", "trunc"):
        return known[0]
    if fn in ("iadd", "imul", "smin"):
        return all(known)
    return fn == "zext" or (fn in ("smax", "iand") and any(known))


class Analysis:
    """The forms found so far. `needed` are the values that addresses and masks depend on."""

    def __init__(self, pointer_args: dict[SSAValue, int]) -> None:
        self.forms: dict[SSAValue, Form] = {}
        self.pointer_args = pointer_args
        self.slices = Slices()
        self._wide: dict[SSAValue, SSAValue] = {}
        self._addresses: dict[SSAValue, SSAValue] = {}

    def wide(self, value: SSAValue) -> Scalar:
        """A scalar integer as i64."""
        constant = int_constant(value)
        if constant is not None:
            return constant
        if value.type == i64:
            return value
        if value not in self._wide:
            self._wide[value] = after(value).map("sext", value, element=i64)
        return self._wide[value]

    def form(self, value: SSAValue) -> Form:
        """The form of an integer or pointer value."""
        if not is_analysed(value):
            return Form((), self.wide(value))
        found = self.forms.get(value)
        if found is None:
            found = self._compute(value)
            self.forms[value] = found
        return found

    def leaf(self, value: SSAValue) -> Form:
        """The form of a value that is not looked into."""
        shape = shape_of(value.type)
        dims = self.slices.depends_on(value)
        if not dims:
            return Form(shape, self.wide(self.slices.scalar(value)))
        if len(dims) == 1:
            (dim,) = dims
            terms: list[Term] = [None] * len(shape)
            terms[dim] = Indexed(1, value, dim)
            return Form(shape, 0, tuple(terms))
        return Form(shape, rest=((value, 1),))

    def address_leaf(self, value: SSAValue) -> Form:
        """The form of a pointer that is not looked into, as integers from a cast."""
        if value not in self._addresses:
            cast = tile.PtrCastOp(value, i64)
            after(value).insert(cast)
            self._addresses[value] = cast.result
        address = self._addresses[value]
        return self.leaf(address) if shape_of(address.type) else Form((), address)

    def _compute(self, value: SSAValue) -> Form:
        op = value.owner
        pointer = is_pointer(value.type)
        if isinstance(op, Block) or (not pointer and int_width(value.type) < 32):
            return self._unknown(value)
        form = self._structured(op, value)
        return self._unknown(value) if form is None else form

    def _unknown(self, value: SSAValue) -> Form:
        if not is_pointer(value.type):
            return self.leaf(value)
        form = self.address_leaf(value)
        return replace(form, arg=self.pointer_args.get(value, -1))

    def _structured(self, op: Operation, value: SSAValue) -> Form | None:
        math = ScalarMath(after(value))
        shape = shape_of(value.type)
        if isinstance(op, tile.IotaOp):
            start = op.start.value.data
            return Form(shape, start, (Affine(1) if shape[0] > 1 else None,))
        if isinstance(op, tile.SplatOp):
            inner = self.form(op.value)
            return Form(shape, inner.const, arg=inner.arg)
        if isinstance(op, tile.AddPtrOp):
            pointee = element_type(op.ptr.type)
            assert isinstance(pointee, PtrType)
            offset = scale(self.form(op.offset), format_of(pointee.pointee).bytes, math)
            return self.add(self.form(op.ptr), offset, math)
        if isinstance(op, tile.PtrCastOp):
            return self.form(op.value)
        if isinstance(op, tile.VIEWS):
            return self._view(op, self.form(op.operands[0]), shape, math)
        return self._map(op, math) if isinstance(op, tile.MapOp) else None

    def _view(
        self, op: Operation, form: Form, shape: tuple[int, ...], math: ScalarMath
    ) -> Form | None:
        terms = list(form.terms)
        if isinstance(op, tile.ExpandDimsOp):
            terms.insert(op.axis.value.data, None)
        elif isinstance(op, tile.SliceOp):
            return self._slice(op, form, math)
        elif isinstance(op, tile.PermuteOp):
            terms = [terms[d] for d in tile.ints(op.order)]
        elif isinstance(op, tile.ReshapeOp):
            moved = unit_reshape(form.shape, shape)
            if moved is not None:
                terms = [None if d is None else terms[d] for d in moved]
            elif not form.is_scalar:
                split = None if form.rest else reshape_affine(form, shape)
                if split is None:
                    return None
                terms = list(split)
            else:
                terms = [None] * len(shape)
        rest = []
        for part, coef in form.rest:
            view = type(op).create(
                operands=(part,),
                properties=op.properties,
                result_types=(with_shape(element_type(part.type), shape),),
            )
            rest.append((math.emit.insert(view).results[0], coef))
        return Form(shape, form.const, tuple(terms), tuple(rest), form.arg)

    def _slice(self, op: tile.SliceOp, form: Form, math: ScalarMath) -> Form:
        starts, steps, shape = tile.ints(op.starts), tile.ints(op.steps), shape_of(op.result.type)
        const, terms = form.const, list(form.terms)
        for d, (start, step, size) in enumerate(zip(starts, steps, shape)):
            term = terms[d]
            if term is None:
                continue
            if isinstance(term, Affine):
                const = math.add(const, math.mul(term.coef, start))
                terms[d] = with_coef(term, math.mul(term.coef, step)) if size > 1 else None
            else:
                line = self.line(term, form.shape[d], math)
                cut = math.emit.insert(tile.SliceOp(line, (start,), (step,), (size,)))
                terms[d] = Indexed(1, cut.results[0], 0)
        rest = []
        for part, coef in form.rest:
            view = tile.SliceOp(part, starts, steps, shape)
            rest.append((math.emit.insert(view).results[0], coef))
        return Form(shape, const, tuple(terms), tuple(rest), form.arg)

    def add(self, a: Form, b: Form, math: ScalarMath, sign: int = 1) -> Form:
        """a + sign * b."""
        const = math.add(a.const, b.const) if sign == 1 else math.sub(a.const, b.const)
        if sign != 1:
            b = scale(replace(b, const=0), sign, math)
        terms = tuple(
            self._add_terms(x, y, size, math)
            for x, y, size in zip(a.terms, b.terms, a.shape, strict=True)
        )
        return Form(a.shape, const, terms, a.rest + b.rest, max(a.arg, b.arg))

    def _add_terms(self, a: Term, b: Term, size: int, math: ScalarMath) -> Term:
        if a is None or b is None:
            return b if a is None else a
        if replace(a, coef=1) == replace(b, coef=1):
            return with_coef(a, math.add(a.coef, b.coef))
        parts = [self.line(t, size, math) for t in (a, b)]
        return Indexed(1, math.emit.map("iadd", *parts), 0)

    def line(self, term: Term, size: int, math: ScalarMath) -> SSAValue:
        """A term as a rank-1 tile of i64."""
        emit = math.emit
        assert term is not None
        if isinstance(term, Indexed):
            line = self.slices.line(term.value, term.dim)
        else:
            line = emit.insert(tile.IotaOp(0, size)).results[0]
        if line.type != (wide := with_shape(i64, (size,))):
            line = emit.map("sext", line, element=i64)
        assert line.type == wide
        if isinstance(term, Wrapped):
            line = emit.map("iadd", line, emit.splat(math.value(term.start), (size,)))
            line = emit.map("srem", line, emit.splat(math.value(term.modulus), (size,)))
        if isinstance(term.coef, int) and term.coef == 1:
            return line
        return emit.map("imul", line, emit.splat(math.value(term.coef), (size,)))

    def tile_of(self, form: Form, math: ScalarMath) -> SSAValue:
        """The form's elements as a tile (or scalar) of i64."""
        emit, total = math.emit, None
        if not form.shape:
            return math.value(form.const)
        for dim, term in enumerate(form.terms):
            if term is not None:
                line = self.line(term, form.shape[dim], math)
                column = [n if d == dim else 1 for d, n in enumerate(form.shape)]
                part = emit.broadcast(emit.reshape(line, column), form.shape)
                total = part if total is None else emit.map("iadd", total, part)
        for part, coef in form.rest:
            if part.type != with_shape(i64, form.shape):
                part = emit.map("sext", part, element=i64)
            if not (isinstance(coef, int) and coef == 1):
                part = emit.map("imul", part, emit.splat(math.value(coef), form.shape))
            total = part if total is None else emit.map("iadd", total, part)
        if total is None or not (isinstance(form.const, int) and form.const == 0):
            const = emit.splat(math.value(form.const), form.shape)
            total = const if total is None else emit.map("iadd", total, const)
        return total

    def _map(self, op: tile.MapOp, math: ScalarMath) -> Form | None:
        fn = op.fn.data
        if fn == "select" and is_pointer(op.result.type):
            return self._select(op, math)
        if not isinstance(element_type(op.args[-1].type), IntegerType):
            return None
        if fn in ("iadd", "isub"):
            a, b = map(self.form, op.args)
            return self.add(a, b, math, 1 if fn == "iadd" else -1)
        if fn == "imul":
            a, b = map(self.form, op.args)
            if a.is_scalar:
                a, b = b, a
            return scale(a, b.const, math) if b.is_scalar else None
        if fn == "shl":
            amount = int_constant(op.args[1])
            small = amount is not None and 0 <= amount < int_width(op.result.type)
            return scale(self.form(op.args[0]), 1 << amount, math) if small else None  # type: ignore[operator]
        source = op.args[0]
        if fn == "sext" and int_width(source.type) >= 32:
            return self.form(source)
        if fn == "zext" and int_width(source.type) >= 32:
            return self.unsigned(self.form(source), int_width(source.type), math)
        if fn in ("srem", "urem"):
            return self._remainder(op, math)
        return None

    def _select(self, op: tile.MapOp, math: ScalarMath) -> Form:
        condition, *values = op.args
        a, b = map(self.form, values)
        arg = a.arg if a.arg == b.arg else -1
        if not self.slices.depends_on(condition) and same_structure(a, b):
            flag = self.slices.scalar(condition)
            pairs = zip(slots(a), slots(b), strict=True)
            chosen: list[Scalar] = [
                x if x == y else math.emit.map("select", flag, math.value(x), math.value(y))
                for x, y in pairs
            ]
            return replace(with_slots(a, chosen), arg=arg)
        parts = [self.tile_of(f, math) for f in (a, b)]
        return replace(self.leaf(math.emit.map("select", condition, *parts)), arg=arg)

    def unsigned(self, form: Form, width: int, math: ScalarMath) -> Form | None:
        """The form whose elements, of `width` bits, are read as unsigned; None when that is not known.

        Signed arithmetic on unsigned numbers goes below zero on purpose, so nothing is assumed here: a tile
        must be seen not to be negative.
        """
        if is_never_negative(form.const) and all(map(_is_rising, form.terms)) and not form.rest:
            return form
        if form.is_scalar and width < 64:
            if isinstance(form.const, int):
                return replace(form, const=form.const & ((1 << width) - 1))
            narrow = math.emit.map("trunc", form.const, element=IntegerType(width))
            return replace(form, const=math.emit.map("zext", narrow, element=i64))
        return None

    def _remainder(self, op: tile.MapOp, math: ScalarMath) -> Form | None:
        form, modulus = map(self.form, op.args)
        if len(form.dims) != 1 or form.rest or not modulus.is_scalar:
            return None
        (dim,) = form.dims
        if form.terms[dim] != Affine(1) or not is_never_negative(form.const):
            return None
        limit = modulus.const
        if op.fn.data == "urem":
            read = self.unsigned(modulus, int_width(op.result.type), math)
            if read is None:
                return None
            limit = read.const
        if isinstance(limit, int) and limit == 0:
            return form
        terms = list(form.terms)
        wrap = self._modulus(limit, math.add(form.const, form.shape[dim]), math)
        terms[dim] = Wrapped(1, form.const, wrap)
        return Form(form.shape, 0, tuple(terms))

    def _modulus(self, limit: Scalar, beyond: Scalar, math: ScalarMath) -> Scalar:
        """x % n is x % |n|, and x % 0 is x, which no element of the tile notices when n is `beyond` them."""
        if isinstance(limit, int):
            return abs(limit)
        emit = math.emit
        zero = emit.map("ieq", limit, math.value(0))
        return emit.map("select", zero, math.value(beyond), emit.map("iabs", limit))


def _is_rising(term: Term) -> bool:
    """True when no element of a term is negative."""
    return term is None or (not isinstance(term, Indexed) and is_never_negative(term.coef))


def reshape_affine(form: Form, shape: tuple[int, ...]) -> tuple[Term, ...] | None:
    """Terms after a reshape that splits or merges dims, where all of them stay affine with known steps."""
    flat: list[tuple[int, int]] = []
    for term, size in zip(form.terms, form.shape, strict=True):
        coef = 0 if term is None else term.coef
        if not (term is None or isinstance(term, Affine)) or not isinstance(coef, int):
            return None
        flat.append((size, coef))
    return _regroup(flat, shape)


def _regroup(source: list[tuple[int, int]], shape: tuple[int, ...]) -> tuple[Term, ...] | None:
    """Innermost first, take each new dim from the (size, coef) dims it covers."""
    left = [(n, c) for n, c in source if n > 1]
    terms: list[Term] = []
    for size in reversed(shape):
        coef, reach, need = 0, 1, size
        while need > 1:
            n, c = left.pop()
            if reach == 1:
                coef = c
            elif c != coef * reach:
                return None
            if n <= need:
                if need % n:
                    return None
                need //= n
                reach *= n
            else:
                if n % need:
                    return None
                left.append((n // need, c * need))
                reach *= need
                need = 1
        terms.append(Affine(coef) if coef else None)
    return tuple(reversed(terms))
