"""fp64: conversions that round once, fused multiply-add, functions against known results, reductions, products."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dsalang._backend import formats
from dsalang._backend.formats import Format
from dsalang._backend.isa.table import ReduceKind
from dsalang._backend.numerics import convert, elementwise, matmul, reduce, transcendental
from dsalang._backend.numerics.fma64 import fma64

from .oracle import FLOATS, INTS, all_values, round_fraction

FP64 = formats.by_name("fp64")
NARROWER = [f for f in FLOATS if f.bits < 64]

# operands and results, correctly rounded from many more bits
KNOWN = {
    "exp": (
        ("0x1.6666666666666p-2", "0x1.6b4802c805decp+0"),
        ("-0x1.6666666666666p-2", "0x1.68cce09671f71p-1"),
        ("0x1.12e0be826d695p-30", "0x1.000000044b83p+0"),
        ("-0x1.748p+9", "0x0.0000000000001p-1022"),
        ("0x1.62d999999999ap+9", "0x1.d75ae7a50ee14p+1023"),
        ("-0x1p+0", "0x1.78b56362cef38p-2"),
        ("0x1.67fcb923a29c7p-1", "0x1.028f865441b83p+1"),
        ("-0x1.364cccccccccdp+8", "0x1.422e67aa78417p-448"),
    ),
    "exp2": (
        ("0x1p-1", "0x1.6a09e667f3bcdp+0"),
        ("-0x1p-1", "0x1.6a09e667f3bcdp-1"),
        ("0x1.999999999999ap-4", "0x1.125fbee250664p+0"),
        ("0x1.fff3333333333p+9", "0x1.ddb680117aa8ep+1023"),
        ("-0x1.0c5999999999ap+10", "0x0.0000000000002p-1022"),
        ("-0x1.d555555555555p+1", "0x1.428a2f98d728bp-4"),
        ("0x1.fef9db22d0e56p-2", "0x1.69c9ae1a154edp+0"),
    ),
    "log": (
        ("0x1.6a0902de00d1bp-1", "-0x1.62e6b3842a25ep-2"),
        ("0x1.6a0902de00d1bp+0", "0x1.62e1ac5b1d181p-2"),
        ("0x1.0000000001p+0", "0x1.ffffffffffp-41"),
        ("0x0.0000000000001p-1022", "-0x1.74385446d71c3p+9"),
        ("0x1.1ccf385ebc8ap+1023", "0x1.62991d5d62a5ep+9"),
        ("0x1.70a3d70a3d70ap-2", "-0x1.058aefa811452p+0"),
        ("0x1.6p+1", "0x1.02f84700434a8p+0"),
    ),
    "log2": (
        ("0x1.6a0902de00d1bp-1", "-0x1.0001d03eb60d8p-1"),
        ("0x1.6a0902de00d1bp+0", "0x1.fffc5f8293e5p-2"),
        ("0x1.0000000001p+0", "0x1.71547652b7773p-40"),
        ("0x0.03739a252b281p-1022", "-0x1.010d9da53be06p+10"),
        ("0x1.7e43c8800759cp+996", "0x1.f24a09f1a8b89p+9"),
        ("0x1.3333333333333p-2", "-0x1.bca9c6f53897bp+0"),
        ("0x1.6p+1", "0x1.759d4f80cba84p+0"),
    ),
    "tanh": (
        ("0x1.6p-1", "0x1.3157dfe9f715bp-1"),
        ("0x1.5ff2e48e8a71ep-1", "0x1.314f6dbe543edp-1"),
        ("0x1.3333333333333p-2", "0x1.2a4dda7d914fap-2"),
        ("0x1.5798ee2308c3ap-27", "0x1.5798ee2308c3ap-27"),
        ("0x1.2p+4", "0x1.ffffffffffffcp-1"),
        ("-0x1.6147ae147ae14p-1", "-0x1.322ab25f7aadfp-1"),
        ("0x1p+1", "0x1.ed9505e1bc3d4p-1"),
    ),
    "erf": (
        ("0x1.d9ffd60e94ee4p-1", "0x1.9e7d68541442bp-1"),
        ("0x1.da012599ed7c7p-1", "0x1.9e7e0903f3fcfp-1"),
        ("0x1.3333333333333p-2", "0x1.50838881dea0fp-2"),
        ("0x1.5798ee2308c3ap-27", "0x1.83b547fb79514p-27"),
        ("0x1.7333333333333p+2", "0x1.ffffffffffffep-1"),
        ("-0x1.31a9fbe76c8b4p+0", "-0x1.d140e83626b56p-1"),
        ("0x1p+1", "0x1.fd9ae142795e3p-1"),
    ),
    "sin": (
        ("0x1.921ff2e48e8a7p-1", "0x1.6a0a11fb77b4p-1"),
        ("0x1.91eb851eb851fp-1", "0x1.69e4fd79ac743p-1"),
        ("0x1.5798ee2308c3ap-27", "0x1.5798ee2308c3ap-27"),
        ("0x1.921fb54442d18p+1", "0x1.1a62633145c07p-53"),
        ("0x1.6p+4", "-0x1.220a29f6eb9f4p-7"),
        ("0x1.0f0cf064dd592p+73", "-0x1.b453ab76bf397p-1"),
        ("0x1.fffffffffffffp+1023", "0x1.452fc98b34e97p-8"),
        ("0x1.6ac5b262ca1ffp+849", "0x1p+0"),
        ("0x1.63p+8", "-0x1.f9bd0307d1de3p-16"),
    ),
    "cos": (
        ("0x1.921ff2e48e8a7p-1", "0x1.6a09bad46a86dp-1"),
        ("0x1.91eb851eb851fp-1", "0x1.6a2ecb934b59ap-1"),
        ("0x1.5798ee2308c3ap-27", "0x1p+0"),
        ("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54"),
        ("0x1.6p+3", "0x1.220ae41ee2fdfp-8"),
        ("0x1.0f0cf064dd592p+73", "0x1.0be2cef01c8f4p-1"),
        ("-0x1.fffffffffffffp+1023", "-0x1.fffe62ecfab75p-1"),
        ("0x1.6ac5b262ca1ffp+849", "-0x1.14ae72e6ba22fp-61"),
        ("0x1.63p+8", "-0x1.fffffffc18e4cp-1"),
    ),
}


def near_midpoints(fmt: Format) -> np.ndarray:
    """fp64 at and next to the places where rounding to `fmt` changes, subnormal results among them."""
    if fmt.name == "fp32":
        pattern = np.random.default_rng(3).integers(0, 0x7F7F_FFFF, 3000, np.uint32)
        finite = np.unique(np.append(pattern, [0, 1, 2, 0x7F7F_FFFF]).astype(np.uint32))
        pairs = finite.view(np.float32), (finite + np.uint32(1)).view(np.float32)
        low, high = (side.astype(np.float64) for side in pairs)
        high = np.where(np.isinf(high), 2.0**128, high)
    else:
        with np.errstate(invalid="ignore"):
            finite = all_values(fmt).astype(np.float64)
        finite = np.unique(np.abs(finite[np.isfinite(finite)]))
        low, high = finite[:-1], finite[1:]
        low = np.append(low, finite[-1])
        high = np.append(high, 2 * finite[-1] - finite[-2])
    middle = low + (high - low) / 2
    around = np.stack([np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf), low])
    values = around.ravel()[:: 1 if fmt.bits == 8 else 7]
    return np.concatenate([values, -values])


@pytest.mark.parametrize("fmt", NARROWER, ids=str)
def test_narrowing_rounds_once(fmt: Format) -> None:
    values = near_midpoints(fmt)
    got = convert.narrow(values, fmt).astype(np.float64)
    want = [round_fraction(Fraction(float(v)), fmt.name) for v in values]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("fmt", NARROWER, ids=str)
def test_narrowing_the_extremes(fmt: Format) -> None:
    values = np.array([1e308, -1e308, np.inf, -np.inf, 5e-324, -5e-324, -0.0])
    layout = convert.FLOAT_LAYOUTS[fmt.name]
    sign = 1 << (fmt.bits - 1)
    big, small = layout.overflow, 0
    want = [big, big | sign, big, big | sign, small, sign, sign]
    assert convert.bits(convert.narrow(values, fmt)).tolist() == want
    payload = np.array([0xFFF0_0000_0000_0001], np.uint64).view(np.float64)
    assert convert.bits(convert.narrow(payload, fmt)).tolist() == [layout.nan]


@pytest.mark.parametrize("fmt", NARROWER, ids=str)
def test_widening_is_exact(fmt: Format) -> None:
    values = all_values(fmt) if fmt.bits < 32 else near_midpoints(fmt).astype(np.float32)
    wide = convert.convert(values, FP64)
    finite = np.isfinite(wide)
    np.testing.assert_array_equal(wide[finite], values[finite].astype(np.float64))
    np.testing.assert_array_equal(convert.bits(convert.narrow(wide, fmt))[finite],
                                  convert.bits(values)[finite])  # fmt: skip


@given(st.integers(-(2**63), 2**64 - 1))
@example(2**53 + 1)
@example(2**64 - 1)
@example(2**63 - 513)
def test_integers_are_rounded_once(value: int) -> None:
    for name in ("int64", "uint64"):
        fmt = formats.by_name(name)
        stored = np.array([value & (2**64 - 1)], np.uint64).view(fmt.storage)
        assert convert.convert(stored, FP64).tolist() == [float(int(stored[0]))]


@pytest.mark.parametrize("fmt", INTS, ids=str)
def test_to_integers(fmt: Format) -> None:
    low, high = (-(1 << fmt.bits - 1), (1 << fmt.bits - 1) - 1)
    if fmt.kind != "sint":
        low, high = 0, (1 << fmt.bits) - 1
    values = [0.0, -0.9, 0.99999999999999989, 1.5, -1.5, 2**31 - 0.5, -(2.0**63), 2.0**63, 2.0**64]
    values += [
        math.inf,
        -math.inf,
        math.nan,
        2.0**52 + 0.5,
        2.0**63 - 1024,
        float(high),
        float(low),
    ]
    got = convert.float_to_int(np.array(values), fmt, fmt.kind == "sint")
    want = [0 if math.isnan(v) else max(low, min(high, math.trunc(v) if math.isfinite(v) else
            (high if v > 0 else low))) for v in values]  # fmt: skip
    assert got.astype(object).tolist() == want


FLOAT64 = st.floats(width=64, allow_nan=False, allow_infinity=False)
SMALL = st.integers(-(2**54), 2**54).map(float)


@given(FLOAT64 | SMALL, FLOAT64 | SMALL, FLOAT64 | SMALL)
@example(2.0**-537, 2.0**-537, -(2.0**-1074))
@example(1.0 + 2.0**-52, 1.0 + 2.0**-52, -(1.0 + 2.0**-51))
@example(1e308, 10.0, -1e308)
@example(3.0, 5e-324, -5e-324)
def test_fma_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    got = float(fma64(np.array(a), np.array(b), np.array(c)))
    if exact:
        assert got == round_fraction(exact, "fp64")
    else:
        assert got == 0.0


def test_fma_of_midpoints() -> None:
    """A sum that would round twice: the product breaks a tie far below the last place of the addend."""
    rng = np.random.default_rng(0)
    a = 1 + rng.integers(1, 2**20, 500) * 2.0**-52
    b = 2.0**-53 * (1 + rng.integers(-3, 4, 500) * 2.0**-52)
    c = 1 + rng.integers(0, 2**40, 500) * 2.0**-52
    got = fma64(a, b, c)
    want = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c)]
    np.testing.assert_array_equal(got, want)


def test_fma_of_special_values() -> None:
    inf, nan = math.inf, math.nan
    rows = [(inf, 1, -inf), (inf, 0, 1), (1e200, 1e200, -inf), (nan, 1, 1), (-0.0, 1, -0.0),
            (0.0, 5, -0.0), (1e200, 1e200, 1)]  # fmt: skip
    got = [float(fma64(*(np.array(float(v)) for v in row))) for row in rows]
    assert str(got) == str([nan, nan, -inf, nan, -0.0, 0.0, inf])


@pytest.mark.parametrize("name", KNOWN)
def test_known_results(name: str) -> None:
    operands, want = (np.array([float.fromhex(pair[k]) for pair in KNOWN[name]]) for k in (0, 1))
    got = elementwise.apply(f"f{name}", FP64, FP64, operands)
    errors = np.abs(got - want) / np.spacing(np.abs(want))
    assert errors.max() <= 1.1, (name, operands[errors.argmax()].hex())


def test_special_values_of_functions() -> None:
    def printed(name: str, *values: float) -> str:
        return " ".join(str(v) for v in getattr(transcendental, name)(np.array(values)))

    inf, nan = np.inf, np.nan
    assert printed("exp", inf, -inf, nan, 0, 709.8, -745.2) == "inf 0.0 nan 1.0 inf 0.0"
    assert printed("exp2", inf, -inf, nan, 1024, -1075, -1074) == "inf 0.0 nan inf 0.0 5e-324"
    assert printed("log", inf, -inf, nan, 0, -0.0, -1, 1) == "inf nan nan -inf -inf nan 0.0"
    assert printed("tanh", inf, -inf, nan, 0, -0.0) == "1.0 -1.0 nan 0.0 -0.0"
    assert printed("erf", inf, -inf, nan, 0, -0.0) == "1.0 -1.0 nan 0.0 -0.0"
    assert printed("sin", inf, nan, 0, -0.0) == "nan nan 0.0 -0.0"
    assert printed("cos", inf, nan, 0) == "nan nan 1.0"


def test_exact_powers() -> None:
    whole = np.arange(-1074, 1024).astype(np.float64)
    powers = np.ldexp(1.0, whole.astype(int))
    np.testing.assert_array_equal(transcendental.exp2(whole), powers)
    np.testing.assert_array_equal(transcendental.log2(powers), whole)


def test_sums_are_sixteen_partial_ones() -> None:
    values = np.random.default_rng(1).standard_normal(75) * 10.0 ** np.arange(75)
    partials = [-0.0] * 16
    for i, value in enumerate(values.tolist()):
        partials[i % 16] += value
    for half in (8, 4, 2, 1):
        partials = [x + y for x, y in zip(partials[:half], partials[half:])]
    got = reduce.reduce(ReduceKind.FSUM, values, 0, FP64)
    assert got.dtype == np.float64 and float(got) == partials[0]


def test_extremes_and_their_positions() -> None:
    values = np.array([[1e-300, -0.0, 0.0, 1e300, np.nan], [-1e300, 3.0, 1e-320, 3.0, -np.inf]])
    best, where = reduce.arg_reduce(ReduceKind.FMAXNUM, values, 1, FP64)
    assert (best.tolist(), where.tolist()) == ([1e300, 3.0], [3, 1])
    best, where = reduce.arg_reduce(ReduceKind.FMIN, values, 1, FP64)
    assert (str(best.tolist()), where.tolist()) == ("[nan, -inf]", [4, 4])


def test_a_product_is_a_chain_of_fma() -> None:
    rng = np.random.default_rng(2)
    a, b, d = (rng.standard_normal(s) * 1e5 for s in ((3, 7), (7, 4), (3, 4)))
    got, _ = matmul.mma(a, b, d, FP64, FP64, FP64, True)
    want = d
    for k in range(7):
        want = fma64(a[:, k, None], b[k], want)
    np.testing.assert_array_equal(got, want)
    with pytest.raises(ValueError, match="mma of fp64 by fp32 into fp64 does not exist"):
        matmul.mma(a, b.astype(np.float32), d, FP64, formats.by_name("fp32"), FP64, True)
