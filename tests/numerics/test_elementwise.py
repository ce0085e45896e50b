import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsalang._backend import formats
from dsalang._backend.formats import Format
from dsalang._backend.isa.vector_ops import VECTOR_OPS
from dsalang._backend.numerics import convert
from dsalang._backend.numerics.elementwise import SEMANTICS, apply

from .oracle import FLOATS, INTS, SMALL_FLOATS, all_values, round_fraction

INT1, INT8, FP16, FP32 = (formats.by_name(n) for n in ("int1", "int8", "fp16", "fp32"))
FP8 = tuple(f for f in FLOATS if f.bits == 8)


def test_table_and_functions_match() -> None:
    assert list(SEMANTICS) == [op.name for op in VECTOR_OPS]


def result_formats(result: str, fmt: Format, name: str) -> list[Format]:
    if result == "same":
        return [fmt]
    if result == "bool":
        return [INT1]
    if name == "bitcast":
        return [f for f in formats.FORMATS if f.bits == fmt.bits]
    to_float = name in ("sitofp", "uitofp", "fcvt")
    return [f for f in formats.FORMATS if f.is_float == to_float]


@pytest.mark.parametrize("op", VECTOR_OPS, ids=lambda op: op.name)
def test_every_format_shape_and_scalar(op: Any) -> None:
    """Result dtype, broadcasting, rank 0, and NaN results canonical, on random bits of every format."""
    rng = np.random.default_rng(op.code)
    for fmt in formats.FORMATS:
        allowed = {"float": fmt.is_float, "int": not fmt.is_float, "any": True}
        if not allowed[op.operands[-1]]:
            continue
        operands = [random_bits(rng, fmt, (4, 5)) for _ in op.operands]
        if op.name == "select":
            operands[0] = random_bits(rng, INT1, (4, 5))
        operands[-1] = operands[-1][:1]
        for result_fmt in result_formats(op.result, fmt, op.name):
            got = apply(op.name, result_fmt, fmt, *operands)
            assert got.dtype == result_fmt.storage
            assert got.shape == np.broadcast_shapes(*(a.shape for a in operands))
            scalar = apply(op.name, result_fmt, fmt, *(a[0, 0] for a in operands))
            assert scalar.shape == () and scalar.tobytes() == got[0, 0].tobytes()
            moves_bits = op.name in ("fneg", "fabs", "select", "bitcast")
            if result_fmt.is_float and not moves_bits:
                clean = convert.canonical_nan(got, result_fmt)
                assert clean.tobytes() == got.tobytes()


def random_bits(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    data = np.frombuffer(rng.bytes(math.prod(shape) * fmt.bytes), np.uint8).copy()
    if fmt.kind == "bool":
        data &= 1
    return data.view(fmt.storage).reshape(shape)


def rounded(exact: np.ndarray, fmt: Format) -> np.ndarray:
    """fp64 results rounded by ml_dtypes/numpy, with fp8e4m3 saturating."""
    if fmt.name == "fp8e4m3":
        exact = np.where(np.abs(exact) > 448, np.copysign(448.0, exact), exact)
    return convert.canonical_nan(exact.astype(fmt.storage), fmt)


@pytest.mark.parametrize("fmt", FP8, ids=str)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("fadd", np.add),
        ("fsub", np.subtract),
        ("fmul", np.multiply),
        ("fdiv", np.divide),
        ("frem", np.fmod),
    ],
)
def test_float_binary_on_all_pairs(name: str, function: Callable[..., Any], fmt: Format) -> None:
    a, b = all_values(fmt)[:, None], all_values(fmt)[None, :]
    got = apply(name, fmt, fmt, a, b)
    with np.errstate(all="ignore"):
        want = rounded(function(a.astype(np.float64), b.astype(np.float64)), fmt)
    np.testing.assert_array_equal(convert.bits(got), convert.bits(want))


@pytest.mark.parametrize("fmt", SMALL_FLOATS, ids=str)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("fsqrt", np.sqrt),
        ("ffloor", np.floor),
        ("fceil", np.ceil),
        ("fround", np.rint),
        ("ftrunc", np.trunc),
    ],
)
def test_float_unary_on_all_values(name: str, function: Callable[..., Any], fmt: Format) -> None:
    values = all_values(fmt)
    got = apply(name, fmt, fmt, values)
    with np.errstate(all="ignore"):
        want = rounded(function(values.astype(np.float64)), fmt)
    np.testing.assert_array_equal(convert.bits(got), convert.bits(want))


@pytest.mark.parametrize("fmt", SMALL_FLOATS, ids=str)
def test_sign_operations_move_bits(fmt: Format) -> None:
    values = all_values(fmt)
    pattern, sign = convert.bits(values), 1 << (fmt.bits - 1)
    assert (convert.bits(apply("fneg", fmt, fmt, values)) == (pattern ^ sign)).all()
    assert (convert.bits(apply("fabs", fmt, fmt, values)) == (pattern & (sign - 1))).all()


def test_rsqrt() -> None:
    values = np.array([4, 2, 0, -0.0, -1, np.inf, 1e-40], np.float32)
    got = apply("frsqrt", FP32, FP32, values)
    root = np.sqrt(np.float32(2))
    assert got[:2].tolist() == [0.5, float(np.float32(1) / root)]
    assert [str(v) for v in got[2:6]] == ["inf", "-inf", "nan", "0.0"]
    assert abs(float(got[6]) * math.sqrt(float(values[6])) - 1) < 2**-23


def test_minimum_and_maximum() -> None:
    nan = np.nan
    a = np.array([0.0, -0.0, nan, 1, nan, -np.inf], np.float32)
    b = np.array([-0.0, 0.0, 1, nan, nan, 5], np.float32)
    want = {
        "fmin": "-0.0 -0.0 nan nan nan -inf",
        "fmax": "0.0 0.0 nan nan nan 5.0",
        "fminnum": "-0.0 -0.0 1.0 1.0 nan -inf",
        "fmaxnum": "0.0 0.0 1.0 1.0 nan 5.0",
    }
    for name, text in want.items():
        assert " ".join(map(str, apply(name, FP32, FP32, a, b))) == text, name


def test_fp16_is_rounded_once_from_fp32() -> None:
    one, ulp = np.float16(1), np.float16(2.0**-10)
    # the product 1 + 2^-10 + 2^-11 - ... stays in fp32 until the sum is done
    got = apply("ffma", FP16, FP16, one + ulp, one + ulp, -one)
    assert float(got) == round_fraction(Fraction(1 + 2**-10) ** 2 - 1, "fp16")


def test_float_comparisons() -> None:
    a = np.array([1, 2, np.nan, 0.0], np.float16)
    b = np.array([2, 2, 1, -0.0], np.float16)
    want = {
        "feq": "0101",
        "fne": "1010",
        "flt": "1000",
        "fle": "1101",
        "fgt": "0000",
        "fge": "0101",
    }
    for name, text in want.items():
        got = apply(name, INT1, FP16, a, b)
        assert "".join(str(int(v)) for v in got) == text, name


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def c_divide(a: int, b: int) -> int:
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def c_remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * c_divide(a, b)


# name: (function of the values and the width, operands are signed)
INTEGER_OPS: dict[str, tuple[Callable[[int, int, int], int], bool]] = {
    "iadd": (lambda a, b, w: a + b, False),
    "isub": (lambda a, b, w: a - b, False),
    "imul": (lambda a, b, w: a * b, False),
    "sdiv": (lambda a, b, w: c_divide(a, b), True),
    "udiv": (lambda a, b, w: c_divide(a, b), False),
    "srem": (lambda a, b, w: c_remainder(a, b), True),
    "urem": (lambda a, b, w: c_remainder(a, b), False),
    "smulhi": (lambda a, b, w: (a * b) >> w, True),
    "umulhi": (lambda a, b, w: (a * b) >> w, False),
    "smin": (lambda a, b, w: min(a, b), True),
    "smax": (lambda a, b, w: max(a, b), True),
    "umin": (lambda a, b, w: min(a, b), False),
    "umax": (lambda a, b, w: max(a, b), False),
    "iand": (lambda a, b, w: a & b, False),
    "ior": (lambda a, b, w: a | b, False),
    "ixor": (lambda a, b, w: a ^ b, False),
    "shl": (lambda a, b, w: a << b if b < w else 0, False),
    "lshr": (lambda a, b, w: a >> b if b < w else 0, False),
    "ashr": (lambda a, b, w: a >> min(b % (1 << w), w), True),
    "ieq": (lambda a, b, w: a == b, False),
    "ine": (lambda a, b, w: a != b, False),
    "slt": (lambda a, b, w: a < b, True),
    "sle": (lambda a, b, w: a <= b, True),
    "sgt": (lambda a, b, w: a > b, True),
    "sge": (lambda a, b, w: a >= b, True),
    "ult": (lambda a, b, w: a < b, False),
    "ule": (lambda a, b, w: a <= b, False),
    "ugt": (lambda a, b, w: a > b, False),
    "uge": (lambda a, b, w: a >= b, False),
}


def check_integer_op(name: str, fmt: Format, pairs: list[tuple[int, int]]) -> None:
    function, is_signed = INTEGER_OPS[name]
    mask = (1 << fmt.bits) - 1
    a, b = (np.array([p[i] & mask for p in pairs], f"u{fmt.bytes}") for i in (0, 1))
    result_fmt = INT1 if name in ("ieq", "ine") or name[1:] in ("lt", "le", "gt", "ge") else fmt
    got = apply(name, result_fmt, fmt, a.view(fmt.storage), b.view(fmt.storage))
    read = signed if is_signed else (lambda v, w: v & mask)
    want = [function(read(x, fmt.bits), read(y, fmt.bits), fmt.bits) for x, y in pairs]
    result_mask = (1 << result_fmt.bits) - 1
    assert convert.bits(got).tolist() == [int(v) & result_mask for v in want]


def test_every_integer_operation_is_tested() -> None:
    binary = {op.name for op in VECTOR_OPS if op.operands == ("int", "int")}
    assert set(INTEGER_OPS) == binary


@pytest.mark.parametrize("name", INTEGER_OPS)
def test_integer_binary_on_all_pairs(name: str) -> None:
    check_integer_op(name, INT8, [(a, b) for a in range(256) for b in range(256)])
    check_integer_op(name, INT1, [(a, b) for a in range(2) for b in range(2)])


@pytest.mark.parametrize("fmt", [f for f in INTS if f.bits > 8], ids=str)
@pytest.mark.parametrize("name", INTEGER_OPS)
def test_integer_binary_on_wide_formats(name: str, fmt: Format) -> None:
    top = 1 << (fmt.bits - 1)
    edges = st.sampled_from(
        [0, 1, -1, 2, top, top - 1, top + 1, fmt.bits, fmt.bits - 1, fmt.bits + 1]
    )
    values = st.one_of(edges, st.integers(0, 2 * top - 1), st.integers(-300, 300))

    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(st.lists(st.tuples(values, values), min_size=4, max_size=40))
    def check(pairs: list[tuple[int, int]]) -> None:
        check_integer_op(name, fmt, pairs)

    check()


def test_integer_abs() -> None:
    values = np.array([-128, -127, 0, 5], np.int8)
    assert apply("iabs", INT8, INT8, values).tolist() == [-128, 127, 0, 5]
    assert apply("iabs", INT1, INT1, np.array([True, False])).tolist() == [True, False]


def test_integer_casts() -> None:
    int32, int16, uint8 = (formats.by_name(n) for n in ("int32", "int16", "uint8"))
    byte = np.array([0xFF, 0x7F], np.uint8)
    assert apply("sext", int32, uint8, byte).tolist() == [-1, 127]
    assert apply("zext", int32, INT8, byte.view(np.int8)).tolist() == [255, 127]
    assert apply("trunc", INT8, int16, np.array([0x1FF, 0x80], np.int16)).tolist() == [-1, -128]
    flag = np.array([True, False])
    assert apply("sext", int32, INT1, flag).tolist() == [-1, 0]
    assert apply("zext", int32, INT1, flag).tolist() == [1, 0]
    assert apply("trunc", INT1, int32, np.array([2, 3], np.int32)).tolist() == [False, True]
    assert apply("sitofp", FP32, INT1, flag).tolist() == [-1, 0]
    assert apply("uitofp", FP32, INT1, flag).tolist() == [1, 0]
    assert apply("uitofp", FP32, INT8, np.array([-1], np.int8)).tolist() == [255]


def test_select_and_bitcast_keep_nan_bits() -> None:
    pattern = np.array([0xFFC0_1234, 0x7F80_0001], np.uint32)
    values = pattern.view(np.float32)
    chosen = apply("select", FP32, FP32, np.array([True, False]), values, values)
    assert chosen.view(np.uint32).tolist() == pattern.tolist()
    cast = apply("bitcast", formats.by_name("int32"), FP32, values)
    assert cast.view(np.uint32).tolist() == pattern.tolist()
