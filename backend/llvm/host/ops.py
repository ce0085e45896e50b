"""The vector operations: one entry per row of `isa/vector_ops.py`, on registers of a vector program.

Semantics are those of `numerics/elementwise.py`. Integers of one bit are computed in eight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...formats import Format
from ...isa.vector_ops import BY_NAME
from . import lanes, transcendental
from .build import I8, Code, Value, constant, vector

_EXACT = ("fp32", "fp64")
"""Formats that are computed in themselves."""


@dataclass
class Register:
    """A register of a vector program, in all lanes of a vector.

    Attributes:
        bits: the elements' bits; of fp32, integers of 32 bits.
        wide: of a float format, the same as fp32 (fp64 as fp64) once it has been needed.
        known: the same constant in all lanes, where that is the case.
        clean: NaNs among the bits are canonical.
        source: where the bits are a rounding of it, a value that is NaN where they are.
    """

    fmt: Format
    bits: Value
    wide: Value | None = None
    known: int | None = None
    clean: bool = False
    source: Value | None = None

    def canonical(self, code: Code) -> Value:
        """The bits with canonical NaNs."""
        return self.bits if self.clean else lanes.canonical(code, self.bits, self.fmt, self.source)

    def real(self, code: Code) -> Value:
        """The register as fp32, fp64 as fp64."""
        if self.wide is None:
            self.wide = lanes.widen(code, self.bits, self.fmt)
        return self.wide


def from_real(code: Code, wide: Value, fmt: Format, clean: bool = False) -> Register:
    """fp32 or fp64 rounded to a float format; `clean` when its NaNs are canonical."""
    wide = lanes.as_real(code, wide, fmt)
    bits = lanes.narrow(code, wide, fmt)
    clean = lanes.narrows_clean(fmt) or (clean and lanes.keeps_canonical(fmt))
    return Register(fmt, bits, wide if fmt.name in _EXACT else None, clean=clean, source=wide)


def apply(
    code: Code, name: str, fmt: Format, src: Format, operands: Sequence[Register]
) -> Register:
    """The result of a vector operation."""
    return OPS[name](code, fmt, src, *operands)


Op = Callable[..., Register]


def _real_op(function: Callable[..., Value]) -> Op:
    def run(code: Code, fmt: Format, _src: Format, *operands: Register) -> Register:
        return from_real(code, function(code, *(r.real(code) for r in operands)), fmt)

    return run


def _plain(instruction: str) -> Op:
    return _real_op(lambda code, *xs: getattr(code.b, instruction)(*xs))


def _math(name: str) -> Op:
    return _real_op(lambda code, *xs: code.math(name, *xs))


def _transcendental(name: str) -> Op:
    def run(code: Code, fmt: Format, _src: Format, a: Register) -> Register:
        return from_real(code, transcendental.call(code, name, a.real(code)), fmt, clean=True)

    return run


def _rsqrt(code: Code, x: Value) -> Value:
    return code.b.fdiv(constant(x.type, 1.0), code.math("sqrt", x))


def _sign_bit(flip: bool) -> Op:
    def run(code: Code, fmt: Format, _src: Format, a: Register) -> Register:
        sign = 1 << (fmt.bits - 1)
        if flip:
            return Register(fmt, code.b.xor(a.bits, constant(a.bits.type, sign)))
        return Register(fmt, code.b.and_(a.bits, constant(a.bits.type, sign - 1)))

    return run


def _real_compare(test: str) -> Op:
    def run(code: Code, fmt: Format, _src: Format, a: Register, b: Register) -> Register:
        compare = code.b.fcmp_unordered if test == "!=" else code.b.fcmp_ordered
        return Register(fmt, compare(test, a.real(code), b.real(code)))

    return run


def _select(
    code: Code, fmt: Format, _src: Format, c: Register, a: Register, b: Register
) -> Register:
    wide = None
    if a.wide is not None and b.wide is not None and fmt.is_float:
        wide = code.b.select(c.bits, a.wide, b.wide)
    if fmt.name in _EXACT:
        wide = wide or code.b.select(c.bits, a.real(code), b.real(code))
        return Register(fmt, code.b.bitcast(wide, a.bits.type), wide)
    return Register(fmt, code.b.select(c.bits, a.bits, b.bits), wide)


# Integers


@dataclass(frozen=True)
class _Integers:
    """What an integer operation works on: values of at least 8 bits, the width they stand for."""

    code: Code
    bits: int
    a: Value
    b: Value
    known: int | None

    def const(self, value: int) -> Value:
        return constant(self.a.type, value)


def _operand(code: Code, register: Register, signed: bool) -> Value:
    if register.fmt.bits > 1:
        return register.bits
    extend = code.b.sext if signed else code.b.zext
    return extend(register.bits, vector(I8, register.bits.type.count))


def _int_op(signed: bool, function: Callable[[_Integers], Value]) -> Op:
    def run(code: Code, fmt: Format, src: Format, *operands: Register) -> Register:
        values = [_operand(code, r, signed) for r in operands]
        last = operands[-1].known
        result = function(_Integers(code, src.bits, values[0], values[-1], last))
        if fmt.bits == 1:
            result = code.b.trunc(result, operands[0].bits.type)
        return Register(fmt, result)

    return run


def _int_plain(instruction: str) -> Op:
    return _int_op(False, lambda i: getattr(i.code.b, instruction)(i.a, i.b))


def _extreme(signed: bool, test: str) -> Op:
    name = ("s" if signed else "u") + ("min" if test == "<" else "max")
    return _int_op(signed, lambda i: i.code.math(name, i.a, i.b))


def _int_compare(signed: bool, test: str) -> Op:
    def run(code: Code, fmt: Format, _src: Format, a: Register, b: Register) -> Register:
        compare = code.b.icmp_signed if signed else code.b.icmp_unsigned
        return Register(fmt, compare(test, _operand(code, a, signed), _operand(code, b, signed)))

    return run


def _divide(signed: bool, remainder: bool) -> Op:
    """Division with the operands that LLVM leaves undefined replaced before, and their result after."""

    def run(i: _Integers) -> Value:
        b = i.code.b
        name = ("s" if signed else "u") + ("rem" if remainder else "div")
        # x / 0 = 0 and x % 0 = x
        rest = i.a if remainder else i.const(0)
        if i.known is not None and i.known not in (0, (1 << i.bits) - 1):
            return getattr(b, name)(i.a, i.b)
        zero = b.icmp_signed("==", i.b, i.const(0))
        unsafe = zero
        if signed:
            least = b.icmp_signed("==", i.a, i.const(-(1 << (i.a.type.element.width - 1))))
            lone = b.and_(least, b.icmp_signed("==", i.b, i.const(-1)))
            unsafe = b.or_(zero, lone)
        # by 1 instead: MIN / -1 = MIN and MIN % -1 = 0
        result = getattr(b, name)(i.a, b.select(unsafe, i.const(1), i.b))
        return b.select(zero, rest, result)

    return _int_op(signed, run)


def _high_product(signed: bool) -> Op:
    def run(i: _Integers) -> Value:
        b = i.code.b
        element = i.a.type.element
        wide = vector(type(element)(2 * element.width), i.a.type.count)
        extend, shift = (b.sext, b.ashr) if signed else (b.zext, b.lshr)
        product = b.mul(extend(i.a, wide), extend(i.b, wide))
        return b.trunc(shift(product, constant(wide, i.bits)), i.a.type)

    return _int_op(signed, run)


def _shift(instruction: str, signed: bool) -> Op:
    """Shift by b read as unsigned; from the width on everything is shifted out."""

    def run(code: Code, fmt: Format, _src: Format, a: Register, b: Register) -> Register:
        value, count = _operand(code, a, signed), _operand(code, b, False)
        last = constant(count.type, fmt.bits - 1)
        past = code.b.icmp_unsigned(">", count, last)
        count = code.b.select(past, last if signed else constant(count.type, 0), count)
        result = getattr(code.b, instruction)(value, count)
        if not signed:
            result = code.b.select(past, constant(value.type, 0), result)
        if fmt.bits == 1:
            # what is left of the sign; a shift by 0 keeps the value
            result = code.b.trunc(result, a.bits.type)
        return Register(fmt, result)

    return run


def _abs(i: _Integers) -> Value:
    negative = i.code.b.icmp_signed("<", i.a, i.const(0))
    return i.code.b.select(negative, i.code.b.sub(i.const(0), i.a), i.a)


# Conversions


def _int_to_float(signed: bool) -> Op:
    def run(code: Code, fmt: Format, src: Format, a: Register) -> Register:
        return Register(fmt, lanes.int_to_float(code, a.bits, src, fmt, signed), clean=True)

    return run


def _float_to_int(signed: bool) -> Op:
    def run(code: Code, fmt: Format, _src: Format, a: Register) -> Register:
        return Register(fmt, lanes.float_to_int(code, a.real(code), fmt, signed))

    return run


def _fcvt(code: Code, fmt: Format, src: Format, a: Register) -> Register:
    return from_real(code, a.real(code), fmt, clean=a.clean and lanes.keeps_canonical(src))


def _resize(signed: bool) -> Op:
    """sext, zext and trunc, which all read the source as signed or unsigned and keep the low bits."""

    def run(code: Code, fmt: Format, src: Format, a: Register) -> Register:
        return Register(fmt, _resized(code, a.bits, fmt, signed))

    return run


def _resized(code: Code, value: Value, fmt: Format, signed: bool) -> Value:
    b, type_ = code.b, vector(lanes.integer(fmt), value.type.count)
    if fmt.bits == value.type.element.width:
        return value
    if fmt.bits < value.type.element.width:
        return b.trunc(value, type_)
    return (b.sext if signed else b.zext)(value, type_)


def _bitcast(code: Code, fmt: Format, src: Format, a: Register) -> Register:
    """The same bits; the caller has made NaNs canonical where they must be."""
    if fmt.bits == 1 and src.bits > 1:
        return Register(fmt, code.b.icmp_unsigned("!=", a.bits, constant(a.bits.type, 0)))
    return Register(fmt, _resized(code, a.bits, fmt, False))


OPS: dict[str, Op] = {
    "fadd": _plain("fadd"),
    "fsub": _plain("fsub"),
    "fmul": _plain("fmul"),
    "fdiv": _plain("fdiv"),
    "frem": _plain("frem"),
    "ffma": _math("fma"),
    "fneg": _sign_bit(True),
    "fabs": _sign_bit(False),
    "fmin": _math("minimum"),
    "fmax": _math("maximum"),
    "fminnum": _math("minimumnum"),
    "fmaxnum": _math("maximumnum"),
    "ffloor": _math("floor"),
    "fceil": _math("ceil"),
    "fround": _math("rint"),
    "ftrunc": _math("trunc"),
    "fsqrt": _math("sqrt"),
    "frsqrt": _real_op(_rsqrt),
    "fexp": _transcendental("exp"),
    "fexp2": _transcendental("exp2"),
    "flog": _transcendental("log"),
    "flog2": _transcendental("log2"),
    "ftanh": _transcendental("tanh"),
    "ferf": _transcendental("erf"),
    "fsin": _transcendental("sin"),
    "fcos": _transcendental("cos"),
    "iadd": _int_plain("add"),
    "isub": _int_plain("sub"),
    "imul": _int_plain("mul"),
    "sdiv": _divide(signed=True, remainder=False),
    "udiv": _divide(signed=False, remainder=False),
    "srem": _divide(signed=True, remainder=True),
    "urem": _divide(signed=False, remainder=True),
    "smulhi": _high_product(signed=True),
    "umulhi": _high_product(signed=False),
    "smin": _extreme(True, "<"),
    "smax": _extreme(True, ">"),
    "umin": _extreme(False, "<"),
    "umax": _extreme(False, ">"),
    "iabs": _int_op(True, _abs),
    "iand": _int_plain("and_"),
    "ior": _int_plain("or_"),
    "ixor": _int_plain("xor"),
    "shl": _shift("shl", signed=False),
    "ashr": _shift("ashr", signed=True),
    "lshr": _shift("lshr", signed=False),
    "feq": _real_compare("=="),
    "fne": _real_compare("!="),
    "flt": _real_compare("<"),
    "fle": _real_compare("<="),
    "fgt": _real_compare(">"),
    "fge": _real_compare(">="),
    "ieq": _int_compare(False, "=="),
    "ine": _int_compare(False, "!="),
    "slt": _int_compare(True, "<"),
    "sle": _int_compare(True, "<="),
    "sgt": _int_compare(True, ">"),
    "sge": _int_compare(True, ">="),
    "ult": _int_compare(False, "<"),
    "ule": _int_compare(False, "<="),
    "ugt": _int_compare(False, ">"),
    "uge": _int_compare(False, ">="),
    "select": _select,
    "sitofp": _int_to_float(True),
    "uitofp": _int_to_float(False),
    "fptosi": _float_to_int(True),
    "fptoui": _float_to_int(False),
    "fcvt": _fcvt,
    "sext": _resize(True),
    "zext": _resize(False),
    "trunc": _resize(False),
    "bitcast": _bitcast,
}
assert set(OPS) == set(BY_NAME)
