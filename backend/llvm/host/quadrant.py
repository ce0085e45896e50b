"""The reduction of sine and cosine to a quarter of a turn: the steps of `numerics/quadrant.py`, one for one."""

from __future__ import annotations

from collections.abc import Sequence

from ...numerics.quadrant import QUADRANT
from ...numerics.transcendental_tables import FP32, FP64, TWO_OVER_PI
from .. import ir
from .build import F64, I32, I64, Code, Text, Value, constant, list_constant, vector

_WORDS = [TWO_OVER_PI >> 32 * k & 0xFFFF_FFFF for k in range(37)]
"""2/pi in words of 32 bits, the lowest first."""
_LEADING = _WORDS[-8:]


def reduce(code: Code, a: Value) -> tuple[Value, Value, Value]:
    """a >= 0 finite as q * pi/2 + r + r_low: (q mod 4 as i32, r, r_low)."""
    return (_reduce64 if a.type.element == F64 else _reduce32)(code, a)


def _words(code: Code, exponent: Value) -> list[Value]:
    """The words w0, w1, w2 for each lane's exponent (32-bit), as i64; any numbers below exponent 100.

    They are a window of 2/pi that starts at bit 312 - exponent: four neighbours of its 32-bit words, shifted.
    """
    b, lanes, word = code.b, exponent.type.count, exponent.type
    start = b.sub(constant(word, 312), exponent)
    first = b.lshr(start, constant(word, 5))
    shift = b.and_(start, constant(word, 31))
    four = [_word_of_two_over_pi(code, b.add(first, constant(word, k))) for k in range(4)]
    windows = [code.math("fshr", four[k + 1], four[k], shift) for k in (2, 1, 0)]
    return [b.zext(window, vector(I64, lanes)) for window in windows]


def _word_of_two_over_pi(code: Code, index: Value) -> Value:
    """32-bit word `index` of the first 256 bits of 2/pi in each lane, the lowest first; 0 from word 8 on."""
    b, word = code.b, index.type
    words = _LEADING
    few = b.icmp_unsigned("<", index, constant(word, 8))
    permute = dict(code.host.permutes).get(word.count)
    if permute is not None:
        table = list_constant(I32, (words + [0] * 8)[: word.count])
        found = code.call(permute, word, table, index)
        return found if word.count > 8 else b.select(few, found, constant(word, 0))
    result = constant(word, 0)
    for k, value in enumerate(words):
        here = b.icmp_unsigned("==", index, constant(word, k))
        result = b.select(here, constant(word, value), result)
    return result


def _reduce32(code: Code, a: Value) -> tuple[Value, Value, Value]:
    b, lanes = code.b, a.type.count
    word, wide, real = vector(I32, lanes), vector(I64, lanes), vector(F64, lanes)
    pattern = b.bitcast(a, word)
    exponent = b.lshr(pattern, constant(word, 23))
    m = b.or_(b.and_(pattern, constant(word, 0x7F_FFFF)), constant(word, 0x80_0000))
    m = b.zext(m, wide)
    high, middle, low = _words(code, exponent)
    fixed = b.add(b.shl(b.mul(m, high), constant(wide, 32)), b.mul(m, middle))
    fixed = b.add(fixed, b.lshr(b.mul(m, low), constant(wide, 32)))
    quadrant = b.lshr(b.add(fixed, constant(wide, 1 << 61)), constant(wide, 62))
    fraction = b.shl(fixed, constant(wide, 2))
    exact = b.fmul(b.sitofp(fraction, real), constant(real, QUADRANT))
    r = b.fptrunc(exact, a.type)
    r_low = b.fptrunc(b.fsub(exact, b.fpext(r, real)), a.type)
    near = b.fcmp_ordered("<=", a, constant(a.type, float(FP32.quarter_pi)))
    return (
        b.select(near, constant(word, 0), b.trunc(quadrant, word)),
        b.select(near, a, r),
        b.select(near, constant(a.type, 0), r_low),
    )


def _window64(code: Code, exponent: Value) -> list[Value]:
    """The six words of 2/pi for each lane's exponent (i64), the lowest first: seven neighbours, shifted."""
    b, type_ = code.b, exponent.type
    # beyond 2^1023 there is nothing, and what small exponents give is not used
    start = b.sub(constant(type_, 2069), exponent)
    first = b.lshr(start, constant(type_, 5))
    shift = b.trunc(b.and_(start, constant(type_, 31)), vector(I32, type_.count))
    seven = [_word_of_table(code, b.add(first, constant(type_, k))) for k in range(7)]
    windows = [code.math("fshr", seven[k + 1], seven[k], shift) for k in range(6)]
    return [b.zext(window, type_) for window in windows]


def _word_of_table(code: Code, index: Value) -> Value:
    """32-bit word `index` of 2/pi in each lane, 0 beyond the last one."""
    b, type_ = code.b, index.type
    table = _table(code)
    last = constant(type_, len(_WORDS))
    index = b.select(b.icmp_unsigned("<", index, last), index, last)
    result = constant(vector(I32, type_.count), 0)
    for lane in range(type_.count):
        at = b.extract_element(index, constant(I32, lane))
        word = b.load(b.gep(table, [at], source_etype=I32), typ=I32, align=4)
        result = b.insert_element(result, word, constant(I32, lane))
    return result


def _table(code: Code) -> Value:
    """All words of 2/pi and a zero, as a constant of the module."""
    name = "dsa.two_over_pi"
    if (known := code.module.constants.get(name)) is not None:
        return known
    words = [*_WORDS, 0]
    text = "[" + ", ".join(f"i32 {word}" for word in words) + "]"
    return ir.Global(code.module, Text(ir.ArrayType(I32, len(words)), text), name, align=4)


def _product_words(code: Code, pattern: Value) -> Sequence[Value]:
    """The upper four of the six words of significand * window, the lowest first, each in an i64."""
    b, type_ = code.b, pattern.type
    mask, word = constant(type_, 0xFFFF_FFFF), constant(type_, 32)
    m = b.or_(b.and_(pattern, constant(type_, (1 << 52) - 1)), constant(type_, 1 << 52))
    windows = _window64(code, b.lshr(pattern, constant(type_, 52)))
    words = [constant(type_, 0)] * 6
    for first, factor in enumerate((b.and_(m, mask), b.lshr(m, word))):
        carry = constant(type_, 0)
        for k in range(6 - first):
            total = b.add(b.add(b.mul(factor, windows[k]), words[k + first]), carry)
            words[k + first], carry = b.and_(total, mask), b.lshr(total, word)
    return words[2:]


def _fraction(code: Code, words: Sequence[Value]) -> tuple[Value, Value]:
    """The fraction of a quarter turn in units of 2^-128 as a sum of two fp64."""
    b, type_ = code.b, words[0].type
    real = vector(F64, type_.count)
    mask, word = constant(type_, 0xFFFF_FFFF), constant(type_, 32)
    two, thirty = constant(type_, 2), constant(type_, 30)
    w0, w1, w2, w3 = words
    g3, g2, g1 = (
        b.and_(b.or_(b.shl(w, two), b.lshr(below, thirty)), mask)
        for w, below in ((w3, w2), (w2, w1), (w1, w0))
    )
    g0 = b.and_(b.shl(w0, two), mask)
    top = b.ashr(b.or_(b.shl(g3, word), g2), constant(type_, 16))
    middle = b.or_(b.shl(b.and_(g2, constant(type_, 0xFFFF)), word), g1)
    top = b.fmul(b.sitofp(top, real), constant(real, 2.0**80))
    middle = b.fmul(b.sitofp(middle, real), constant(real, 2.0**32))
    total = b.fadd(top, middle)
    rest = b.fadd(b.fsub(middle, b.fsub(total, top)), b.sitofp(g0, real))
    y = b.fadd(total, rest)
    return y, b.fsub(rest, b.fsub(y, total))


def _reduce64(code: Code, a: Value) -> tuple[Value, Value, Value]:
    b, real = code.b, a.type
    long, word = vector(I64, real.count), vector(I32, real.count)
    words = _product_words(code, b.bitcast(a, long))
    turns = b.lshr(b.add(words[3], constant(long, 1 << 29)), constant(long, 30))
    y, y_low = _fraction(code, words)
    quarter, quarter_low = (
        constant(real, float(x) * 2.0**-128) for x in (FP64.half_pi, FP64.half_pi_low)
    )
    r = b.fmul(y, quarter)
    low = code.math("fma", y, quarter_low, b.fmul(y_low, quarter))
    r_low = b.fadd(code.math("fma", y, quarter, b.fneg(r)), low)
    near = b.fcmp_ordered("<=", a, constant(real, float(FP64.quarter_pi)))
    return (
        b.select(near, constant(word, 0), b.trunc(turns, word)),
        b.select(near, a, r),
        b.select(near, constant(real, 0), r_low),
    )
