import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsalang._backend.numerics.fma import fma32

from .oracle import hidden_tie_breakers, round_fraction

PATTERNS = st.integers(0, 2**32 - 1)


def from_pattern(pattern: int) -> np.float32:
    return np.uint32(pattern).view(np.float32)


def exact_fma(a: np.float32, b: np.float32, c: np.float32) -> float:
    a, b, c = float(a), float(b), float(c)
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c if math.isinf(a) or math.isinf(b) or math.isnan(a * b) else c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        # a tiny product must not underflow on the way to its sign
        product = math.copysign(1, a) * math.copysign(1, b)
        zero = math.copysign(0.0, product)
        return zero + c if c == 0 and (a == 0 or b == 0) else 0.0
    return round_fraction(exact, "fp32")


def check(a: np.float32, b: np.float32, c: np.float32) -> None:
    with np.errstate(all="ignore"):
        got = float(np.asarray(fma32(a, b, c)))
        want = exact_fma(a, b, c)
    assert (got == want and math.copysign(1, got) == math.copysign(1, want)) or (
        math.isnan(got) and math.isnan(want)
    ), (a, b, c, got, want)


@settings(max_examples=1500, deadline=None, derandomize=True)
@given(PATTERNS, PATTERNS, PATTERNS)
def test_any_bits(a: int, b: int, c: int) -> None:
    check(from_pattern(a), from_pattern(b), from_pattern(c))


@settings(max_examples=1500, deadline=None, derandomize=True)
@given(PATTERNS, PATTERNS, st.integers(-6, 6), st.booleans(), st.integers(0, 30))
def test_addend_near_the_product(a: int, b: int, steps: int, negate: bool, shift: int) -> None:
    x, y = from_pattern(a), from_pattern(b)
    with np.errstate(all="ignore"):
        product = np.float32(x * y) * np.float32(2.0**shift)
    near = np.uint32((int(product.view(np.uint32)) + steps) & 0xFFFF_FFFF).view(np.float32)
    check(x, y, -near if negate else near)


@settings(max_examples=800, deadline=None, derandomize=True)
@given(st.integers(0, 2**24), st.integers(0, 2**24), st.integers(-60, 60), st.integers(-150, -100))
def test_products_that_break_ties(a: int, b: int, gap: int, exponent: int) -> None:
    """A product far below the last place decides a tie, also among subnormals."""
    x = np.float32(math.ldexp(a, -24 + gap))
    y = np.float32(math.ldexp(b, exponent))
    check(x, y, np.float32(math.ldexp(2 * b + 1, exponent - 2)))
    check(x, -y, np.float32(math.ldexp(b | 1, exponent)))


def test_double_rounding_case() -> None:
    # 1 + 2^-24 (a tie) plus 2^-90: two roundings would give 1, one gives the next number
    a, c = np.float32(2.0**-90), np.float32(1)
    tie = np.float32(2.0**-24)
    assert float(fma32(tie, c, c)) == 1.0
    assert float(fma32(np.float32(1 + 2**-23), tie, c)) == 1 + 2**-23
    assert float(fma32(a, a, c)) == 1.0


@pytest.mark.parametrize("sign", [1, -1])
def test_subnormal_results_are_rounded_once(sign: int) -> None:
    least = np.float32(2.0**-149)
    half = np.float32(0.5 * sign)
    assert float(fma32(least, half, np.float32(0))) == 0.0
    assert float(fma32(np.float32(3 * 2.0**-149), half, np.float32(0))) == sign * 2.0**-148
    tiny = np.float32(2.0**-100)
    assert float(fma32(tiny, tiny, least)) == 2.0**-149


@pytest.mark.parametrize(("addend_bits", "place"), [(24, -23), (24, 80), (22, -149), (17, -149)])
def test_ties_broken_past_fp64(addend_bits: int, place: int) -> None:
    x, y, c, want = hidden_tie_breakers(addend_bits, place)
    assert len(x) > 100
    np.testing.assert_array_equal(fma32(x, y, c), want)
    np.testing.assert_array_equal(fma32(-x, y, -c), -want)


def test_broadcasts() -> None:
    column, row = np.ones((3, 1), np.float32), np.arange(4, dtype=np.float32)
    assert fma32(column, row, np.float32(1)).tolist() == [[1, 2, 3, 4]] * 3
