import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsalang._backend import formats
from dsalang._backend.formats import Format
from dsalang._backend.numerics import convert
from dsalang._backend.numerics.convert import FLOAT_LAYOUTS

from .oracle import FLOATS, INTS, SMALL_FLOATS, all_values, round_fraction, spread_fp32

FP32 = formats.by_name("fp32")


def around_midpoints(fmt: Format) -> np.ndarray:
    """fp32 at, just below and just above every rounding boundary of `fmt`."""
    finite = convert.widen(all_values(fmt))
    finite = np.unique(finite[np.isfinite(finite)].astype(np.float64))
    middle = ((finite[:-1] + finite[1:]) / 2).astype(np.float32)
    top = np.float32(finite[-1] + (finite[-1] - finite[-2]) / 2)  # where overflow begins
    pattern = np.append(middle, top).view(np.int32)
    near = (pattern[:, None] + np.arange(-1, 2, dtype=np.int32)).ravel().view(np.float32)
    return np.concatenate([near, -near])


@pytest.mark.parametrize("fmt", SMALL_FLOATS, ids=str)
def test_narrow_agrees_with_ml_dtypes(fmt: Format) -> None:
    values = np.concatenate([spread_fp32(20011), around_midpoints(fmt)])
    with np.errstate(all="ignore"):
        got, want = convert.narrow(values, fmt), values.astype(fmt.storage)
    nan = np.isnan(values)
    if fmt.name == "fp8e4m3":  # ml_dtypes gives NaN where we saturate
        sign = np.where(np.signbit(values), 0x80, 0).astype(np.uint8)
        saturated = (sign | 0x7E).view(fmt.storage)
        want = np.where(np.isnan(want.astype(np.float32)) & ~nan, saturated, want)
    pattern = convert.bits(got)
    np.testing.assert_array_equal(pattern[~nan], convert.bits(want)[~nan])
    assert (pattern[nan] == FLOAT_LAYOUTS[fmt.name].nan).all()


@pytest.mark.parametrize("fmt", SMALL_FLOATS, ids=str)
def test_narrow_agrees_with_exact_fractions(fmt: Format) -> None:
    values = around_midpoints(fmt)[:: 1 if fmt.bits == 8 else 97]
    values = values[np.isfinite(values)]
    got = convert.narrow(values, fmt).astype(np.float64)
    want = [round_fraction(Fraction(float(v)), fmt.name) for v in values]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("fmt", SMALL_FLOATS, ids=str)
def test_every_value_survives_fp32(fmt: Format) -> None:
    values = all_values(fmt)
    back = convert.narrow(convert.widen(values), fmt)
    want = convert.canonical_nan(values, fmt)
    if fmt.name != "fp8e4m3":
        assert np.isinf(convert.widen(values)).sum() == 2
    np.testing.assert_array_equal(convert.bits(back), convert.bits(want))


def test_fp8_overflow() -> None:
    values = np.array([448, 464, 465, 1e9, np.inf, -np.inf], np.float32)
    e4m3 = convert.narrow(values, formats.by_name("fp8e4m3")).astype(np.float32)
    assert e4m3.tolist() == [448, 448, 448, 448, 448, -448]
    values = np.array([57344, 61439, 61440, np.inf, -np.inf], np.float32)
    e5m2 = convert.narrow(values, formats.by_name("fp8e5m2")).astype(np.float32)
    assert e5m2.tolist() == [57344, 57344, np.inf, np.inf, -np.inf]


def hard_integers(fmt: Format) -> st.SearchStrategy[int]:
    """Integers of a format, with many near sums of two powers of two (ties and their neighbours)."""
    low, high = (
        (-(1 << (fmt.bits - 1)), 1 << (fmt.bits - 1)) if fmt.is_signed else (0, 1 << fmt.bits)
    )
    bit = st.integers(0, fmt.bits - 1)
    near = st.tuples(bit, bit, bit, st.integers(-2, 2), st.sampled_from([1, -1]))
    hard = near.map(lambda t: t[4] * ((1 << t[0]) + (1 << t[1]) + (1 << t[2]) + t[3]))
    return st.one_of(hard.map(lambda v: max(low, min(high - 1, v))), st.integers(low, high - 1))


@pytest.mark.parametrize("fmt", FLOATS, ids=str)
@pytest.mark.parametrize("source", ["int64", "uint64", "int32"])
def test_integers_are_rounded_once(fmt: Format, source: str) -> None:
    int_format = formats.by_name(source)

    @settings(max_examples=400, deadline=None, derandomize=True)
    @given(hard_integers(int_format))
    def check(value: int) -> None:
        array = np.array([value], int_format.storage)
        got = convert.int_to_float(array, fmt, int_format.is_signed)
        assert float(got[0]) == round_fraction(Fraction(value), fmt.name)

    check()


def test_int64_tie_broken_by_its_last_bit() -> None:
    tie = (1 << 62) + (1 << 38)  # between two fp32 numbers
    values = np.array([tie, tie + 1, -(tie + 1)], np.int64)
    next_up = float((1 << 62) + (1 << 39))
    assert convert.int_to_float(values, FP32, True).tolist() == [2.0**62, next_up, -next_up]


@pytest.mark.parametrize("source", SMALL_FLOATS, ids=str)
@pytest.mark.parametrize("target", INTS, ids=str)
def test_float_to_int_saturates(source: Format, target: Format) -> None:
    values = all_values(source)
    for signed in (True, False):
        width = target.bits - signed
        low, high = (-(1 << width) if signed else 0), (1 << width) - 1
        got = convert.float_to_int(values, target, signed)
        read = convert.as_signed(got) if signed else convert.as_unsigned(got)
        for value, result in zip(map(float, values), read.tolist()):
            clamped = max(low, min(high, value)) if not math.isnan(value) else 0
            assert result == int(clamped), (value, result)


def test_fp32_to_64_bit_limits() -> None:
    values = np.array([2.0**63, -(2.0**63), 2.0**64, -1.5, 1e30, np.nan, 2.0**62], np.float32)
    int64, uint64 = formats.by_name("int64"), formats.by_name("uint64")
    top = 2**63 - 1
    got = convert.float_to_int(values, int64, True).tolist()
    assert got == [top, -(2**63), top, -1, top, 0, 2**62]
    got = convert.float_to_int(values, uint64, False).tolist()
    assert got == [2**63, 0, 2**64 - 1, 0, 2**64 - 1, 0, 2**62]


@pytest.mark.parametrize("source", formats.FORMATS, ids=str)
@pytest.mark.parametrize("target", formats.FORMATS, ids=str)
def test_convert_keeps_small_values(source: Format, target: Format) -> None:
    values = np.array([0, 1, 1] if source.kind == "bool" else [0, 1, 5]).astype(source.storage)
    got = convert.convert(values, target)
    assert got.dtype == target.storage
    want = values.astype(np.float64) != 0 if target.kind == "bool" else values.astype(np.float64)
    assert got.astype(np.float64).tolist() == want.astype(np.float64).tolist()


def test_convert_int1_is_not_zero() -> None:
    values = np.array([0.0, -0.0, 1e-45, np.nan], np.float32)
    assert convert.convert(values, formats.by_name("int1")).tolist() == [False, False, True, True]


def test_canonical_nan_leaves_the_rest() -> None:
    fp16 = formats.by_name("fp16")
    values = np.array([0x7E01, 0xFE00, 0x7C01, 0x7C00, 0x8000, 0x1234], np.uint16).view(np.float16)
    got = convert.canonical_nan(values, fp16).view(np.uint16).tolist()
    assert got == [0x7E00, 0x7E00, 0x7E00, 0x7C00, 0x8000, 0x1234]
