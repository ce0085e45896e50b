"""Numbers in vector registers: formats as LLVM types, widening, narrowing, conversions.

The rules are those of `docs/numerics.md`. Floats are computed in fp32, fp64 in fp64; what a narrow
float's register holds is its bits.
"""

from __future__ import annotations

from ... import formats
from ...formats import Format
from ...numerics.convert import FLOAT_LAYOUTS
from .. import ir
from .build import F16, F32, F64, I1, I8, I16, I32, I64, Code, Value, constant, suffix, vector

_INTEGERS = {1: I8, 2: I16, 4: I32, 8: I64}
_NATIVE = {"fp16": F16, "fp32": F32, "fp64": F64}
"""Formats that the host has, too. Their NaNs come as they are."""


def storage(fmt: Format) -> ir.IntType:
    """The LLVM type of an element in memory."""
    return _INTEGERS[fmt.bytes]


def integer(fmt: Format) -> ir.IntType:
    """The LLVM type of an integer, or a float's bits, in a register."""
    return I1 if fmt.bits == 1 else storage(fmt)


def _like(value: Value, element: ir.Type) -> ir.VectorType:
    return vector(element, value.type.count)


def real(fmt: Format) -> ir.Type:
    """The LLVM type that a float format is computed in."""
    return F64 if fmt.name == "fp64" else F32


def from_memory(code: Code, value: Value, fmt: Format) -> Value:
    """Stored elements as register bits."""
    if fmt.bits == 1:
        return code.b.icmp_unsigned("!=", value, constant(value.type, 0))
    return value


def to_memory(code: Code, bits: Value, fmt: Format) -> Value:
    """Register bits as stored elements."""
    return code.b.zext(bits, _like(bits, I8)) if fmt.bits == 1 else bits


def widen(code: Code, bits: Value, fmt: Format) -> Value:
    """The bits of a float format as fp32 (fp64 as fp64): exact, NaN stays NaN."""
    b = code.b
    if fmt.name in ("fp32", "fp64"):
        return b.bitcast(bits, _like(bits, real(fmt)))
    if fmt.name == "fp16":
        return b.fpext(b.bitcast(bits, _like(bits, F16)), _like(bits, F32))
    if fmt.name == "bf16":
        wide = b.zext(bits, _like(bits, I32))
        return b.bitcast(b.shl(wide, constant(wide.type, 16)), _like(bits, F32))
    if fmt.name == "fp8e5m2":
        wide = b.zext(bits, _like(bits, I16))
        return widen(code, b.shl(wide, constant(wide.type, 8)), formats.by_name("fp16"))
    if fmt.name == "fp4e2m1":
        return _widen_e2m1(code, bits)
    return _widen_e4m3(code, bits)


def _widen_e2m1(code: Code, bits: Value) -> Value:
    """Codes of 4 bits: as fp16 with the exponent 14 too low, which also makes the subnormal right."""
    b = code.b
    half = b.zext(bits, _like(bits, I16))
    magnitude = b.shl(b.and_(half, constant(half.type, 7)), constant(half.type, 9))
    sign = b.shl(b.and_(half, constant(half.type, 8)), constant(half.type, 12))
    pattern = b.bitcast(b.or_(magnitude, sign), _like(bits, F16))
    value = b.fpext(pattern, _like(bits, F32))
    return b.fmul(value, constant(value.type, 2.0**14))


def powers(code: Code, bits: Value) -> Value:
    """E8M0 as fp32: 2^(code - 127), which is subnormal for 0; 255 is NaN."""
    b = code.b
    wide = b.zext(bits, _like(bits, I32))
    pattern = b.shl(wide, constant(wide.type, 23))
    zero = b.icmp_unsigned("==", wide, constant(wide.type, 0))
    pattern = b.select(zero, constant(wide.type, 1 << 22), pattern)
    nan = b.icmp_unsigned("==", wide, constant(wide.type, 255))
    pattern = b.select(nan, constant(wide.type, FLOAT_LAYOUTS["fp32"].nan), pattern)
    return b.bitcast(pattern, _like(bits, F32))


def _widen_e4m3(code: Code, bits: Value) -> Value:
    """As fp16 with the exponent 8 too low, which also makes subnormals right; then NaN and sign."""
    b = code.b
    half = b.zext(bits, _like(bits, I16))
    magnitude = b.and_(half, constant(half.type, 0x7F))
    sign = b.shl(b.and_(half, constant(half.type, 0x80)), constant(half.type, 8))
    pattern = b.or_(b.shl(magnitude, constant(half.type, 7)), sign)
    value = b.fpext(b.bitcast(pattern, _like(bits, F16)), _like(bits, F32))
    scaled = b.fmul(value, constant(value.type, 256.0))
    nan = b.icmp_unsigned("==", magnitude, constant(half.type, 0x7F))
    return b.select(nan, constant(value.type, float("nan")), scaled)


def is_nan(code: Code, wide: Value) -> Value:
    """Which lanes are NaN."""
    return code.b.fcmp_unordered("uno", wide, wide)


def as_real(code: Code, wide: Value, fmt: Format) -> Value:
    """fp32 or fp64 as what `fmt` is computed in, such that rounding on to `fmt` rounds once."""
    b, type_ = code.b, _like(wide, real(fmt))
    if wide.type.element == type_.element:
        return wide
    if fmt.name == "fp64":
        return b.fpext(wide, type_)
    nearest = b.fptrunc(wide, type_)
    return nearest if fmt.name == "fp32" else _odd(code, wide, nearest)


def _odd(code: Code, wide: Value, nearest: Value) -> Value:
    """Of the two fp32 neighbours of an fp64, the one with an odd last bit; `nearest` is one of them."""
    b, word = code.b, _like(wide, I32)
    back = b.fpext(nearest, wide.type)
    above = b.fcmp_ordered(">", code.math("fabs", back), code.math("fabs", wide))
    below = b.add(b.bitcast(nearest, word), b.sext(above, word))
    inexact = b.zext(b.fcmp_ordered("!=", back, wide), word)
    return b.bitcast(b.or_(below, inexact), nearest.type)


def narrow(code: Code, wide: Value, fmt: Format) -> Value:
    """fp32 (for fp64: fp64) rounded to a float format: its bits.

    NaN stays NaN, in formats that the host has any one (see `canonical`).
    """
    b = code.b
    if fmt.name in ("fp32", "fp64"):
        return b.bitcast(wide, _like(wide, integer(fmt)))
    if fmt.name == "fp16":
        return b.bitcast(b.fptrunc(wide, _like(wide, F16)), _like(wide, I16))
    pattern = b.bitcast(wide, _like(wide, I32))
    word = pattern.type
    layout = FLOAT_LAYOUTS[fmt.name]
    nan = is_nan(code, wide)
    if fmt.name == "bf16":
        odd = b.and_(b.lshr(pattern, constant(word, 16)), constant(word, 1))
        rounded = b.add(b.add(pattern, constant(word, 0x7FFF)), odd)
        kept = b.select(nan, constant(word, layout.nan << 16), rounded)
        return b.trunc(b.lshr(kept, constant(word, 16)), _like(wide, I16))
    magnitude = b.and_(pattern, constant(word, 0x7FFF_FFFF))
    sign = b.and_(b.lshr(pattern, constant(word, 24)), constant(word, 0x80))
    shift = 23 - layout.mantissa_bits
    odd = b.and_(b.lshr(magnitude, constant(word, shift)), constant(word, 1))
    half = constant(word, (1 << (shift - 1)) - 1)
    normal = b.lshr(b.add(b.add(magnitude, half), odd), constant(word, shift))
    normal = b.sub(normal, constant(word, (127 - layout.bias) << layout.mantissa_bits))
    magic = (1 - layout.bias - layout.mantissa_bits + 23 + 127) << 23
    total = b.fadd(b.bitcast(magnitude, wide.type), b.bitcast(constant(word, magic), wide.type))
    subnormal = b.sub(b.bitcast(total, word), constant(word, magic))
    small = b.icmp_unsigned("<", magnitude, constant(word, (128 - layout.bias) << 23))
    result = b.select(small, subnormal, normal)
    beyond = b.icmp_unsigned(">", result, constant(word, layout.largest))
    result = b.or_(b.select(beyond, constant(word, layout.overflow), result), sign)
    result = b.select(nan, constant(word, layout.nan), result)
    return b.trunc(result, _like(wide, I8))


def narrows_clean(fmt: Format) -> bool:
    """Whether the NaNs that `narrow` gives are canonical by themselves."""
    return fmt.name not in _NATIVE


def keeps_canonical(fmt: Format) -> bool:
    """Whether canonical NaNs become each other between this format and other such ones."""
    return fmt.name in _NATIVE


def canonical(code: Code, bits: Value, fmt: Format, source: Value | None = None) -> Value:
    """The bits of a float format, every NaN replaced by the canonical one.

    `source` is NaN where the bits are, when something is known that is easier to look at.
    """
    layout = FLOAT_LAYOUTS[fmt.name]
    if source is not None:
        nan = is_nan(code, source)
    elif fmt.name in _NATIVE:
        nan = is_nan(code, code.b.bitcast(bits, _like(bits, _NATIVE[fmt.name])))
    else:
        magnitude = code.b.and_(bits, constant(bits.type, (1 << (fmt.bits - 1)) - 1))
        nan = code.b.icmp_unsigned(">", magnitude, constant(bits.type, layout.overflow))
    return code.b.select(nan, constant(bits.type, layout.nan), bits)


def store_float(code: Code, wide: Value, fmt: Format) -> Value:
    """fp32 (for fp64: fp64) rounded to a format, with canonical NaNs: the bits."""
    if fmt.name == "fp16":
        nan = is_nan(code, wide)
        bits = narrow(code, wide, fmt)
        return code.b.select(nan, constant(bits.type, FLOAT_LAYOUTS["fp16"].nan), bits)
    bits = narrow(code, wide, fmt)
    return bits if narrows_clean(fmt) else canonical(code, bits, fmt)


def float_to_int(code: Code, wide: Value, fmt: Format, signed: bool) -> Value:
    """Towards zero, saturating, NaN is 0; int1 by comparison."""
    b = code.b
    if fmt.bits == 1:
        if signed:
            return b.fcmp_ordered("<=", wide, constant(wide.type, -1.0))
        return b.fcmp_ordered(">=", wide, constant(wide.type, 1.0))
    type_ = _like(wide, integer(fmt))
    name = "fptosi" if signed else "fptoui"
    return code.call(f"llvm.{name}.sat.{suffix(type_)}.{suffix(wide.type)}", type_, wide)


def int_to_float(code: Code, bits: Value, source: Format, fmt: Format, signed: bool) -> Value:
    """An integer rounded once to a float format: the bits."""
    b = code.b
    if source.bits == 1:
        bits = (b.sext if signed else b.zext)(bits, _like(bits, I8))
    convert = b.sitofp if signed else b.uitofp
    if fmt.name in ("fp32", "fp64"):
        return b.bitcast(convert(bits, _like(bits, real(fmt))), _like(bits, integer(fmt)))
    if source.bits <= 16:
        return narrow(code, convert(bits, _like(bits, F32)), fmt)
    exact = convert(bits, _like(bits, F64)) if source.bits == 32 else _jammed(code, bits, signed)
    pattern = b.bitcast(exact, _like(bits, I64))
    odd = _sticky(code, pattern, 29)
    return narrow(code, b.fptrunc(b.bitcast(odd, exact.type), _like(bits, F32)), fmt)


def _sticky(code: Code, pattern: Value, count: int) -> Value:
    """Clear the low `count` bits, and set the bit above them if one was set."""
    b, type_ = code.b, pattern.type
    low = b.and_(pattern, constant(type_, (1 << count) - 1))
    some = b.icmp_unsigned("!=", low, constant(type_, 0))
    bit = b.select(some, constant(type_, 1 << count), constant(type_, 0))
    return b.or_(b.and_(pattern, constant(type_, -(1 << count))), bit)


def _jammed(code: Code, bits: Value, signed: bool) -> Value:
    """A 64-bit integer as fp64 of at most 52 significant bits, the last one sticky."""
    b, type_ = code.b, bits.type
    zero = constant(type_, 0)
    magnitude = bits
    negative = b.icmp_signed("<", bits, zero) if signed else None
    if negative is not None:
        magnitude = b.select(negative, b.sub(zero, bits), bits)
    small = b.icmp_unsigned("<", magnitude, constant(type_, 1 << 52))
    kept = b.select(small, magnitude, _sticky(code, magnitude, 12))
    exact = b.uitofp(kept, _like(bits, F64))
    return b.select(negative, b.fneg(exact), exact) if negative is not None else exact
