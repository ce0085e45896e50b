import re
from pathlib import Path

import numpy as np
import pytest

from dsalang._backend.formats import Format
from dsalang._backend.numerics import elementwise, transcendental
from dsalang._backend.numerics.transcendental_tables import FP32, FP64, POLYNOMIALS, TWO_OVER_PI

from .oracle import SMALL_FLOATS, all_values, spread_fp32, ulp_errors
from .ulp import REFERENCES, worst

# bounds of docs/numerics.md; the dense measurement is numerics/ulp.py
BOUNDS = {
    "exp": 1.05,
    "exp2": 0.95,
    "log": 0.85,
    "log2": 0.95,
    "tanh": 1.25,
    "erf": 1.1,
    "sin": 0.9,
    "cos": 0.9,
}
ONE = np.float32(1)


@pytest.mark.parametrize("name", BOUNDS)
def test_error_over_all_of_fp32(name: str) -> None:
    error, place = worst(name, spread_fp32(40009 if name == "erf" else 4093))
    assert error <= BOUNDS[name], place


@pytest.mark.parametrize("name", BOUNDS)
def test_error_where_it_matters(name: str) -> None:
    """Dense around the places where reductions and polynomials change over."""
    centres = np.array(
        [0.3466, 0.5, 0.6875, 0.7071, 0.7854, 0.92578125, 1, 1.4142, 2.3562, 3.92, 9]
    )
    near = (centres[:, None] * np.linspace(0.97, 1.03, 1500)).ravel().astype(np.float32)
    error, place = worst(name, np.concatenate([near, -near, near * np.float32(np.pi / 2)]))
    assert error <= BOUNDS[name], place


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_near_multiples_of_half_pi(name: str) -> None:
    multiples = (np.arange(1, 200_000, 7) * (np.pi / 2)).astype(np.float32)
    # the two fp32 numbers closest to multiples of pi/2, found by trying all
    hard = [float.fromhex(h) for h in ("0x1.47d0fep34", "0x1.f37c8ap95")]
    error, place = worst(name, np.concatenate([multiples, np.array(hard, np.float32)]))
    assert error <= BOUNDS[name], place


@pytest.mark.parametrize("fmt", SMALL_FLOATS, ids=str)
@pytest.mark.parametrize("name", BOUNDS)
def test_every_value_of_small_formats(name: str, fmt: Format) -> None:
    values = all_values(fmt)
    got = elementwise.apply(f"f{name}", fmt, fmt, values)
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](values.astype(np.float64))
    if fmt.name == "fp8e4m3":  # no infinities: log(0) saturates
        exact = np.where(np.isinf(exact), np.copysign(448.0, exact), exact)
    assert ulp_errors(got, exact, fmt).max() <= 0.501


def printed(name: str, *values: float) -> str:
    result = getattr(transcendental, name)(np.array(values, np.float32))
    return " ".join(str(v) for v in result)


def test_special_values() -> None:
    inf, nan = np.inf, np.nan
    assert printed("exp", inf, -inf, nan, 0, -0.0, 88.8, -104) == "inf 0.0 nan 1.0 1.0 inf 0.0"
    assert printed("exp2", inf, -inf, nan, 128, -150, -0.0) == "inf 0.0 nan inf 0.0 1.0"
    assert printed("log", inf, -inf, nan, 0, -0.0, -1, 1) == "inf nan nan -inf -inf nan 0.0"
    assert printed("log2", inf, -inf, nan, 0, -0.0, -1, 1) == "inf nan nan -inf -inf nan 0.0"
    assert printed("tanh", inf, -inf, nan, 0, -0.0) == "1.0 -1.0 nan 0.0 -0.0"
    assert printed("erf", inf, -inf, nan, 0, -0.0) == "1.0 -1.0 nan 0.0 -0.0"
    assert printed("sin", inf, -inf, nan, 0, -0.0) == "nan nan nan 0.0 -0.0"
    assert printed("cos", inf, -inf, nan, 0, -0.0) == "nan nan nan 1.0 1.0"


def test_exact_powers() -> None:
    whole = np.arange(-149, 128)
    powers = np.ldexp(1.0, whole).astype(np.float32)
    assert transcendental.exp2(whole.astype(np.float32)).tolist() == powers.tolist()
    assert transcendental.log2(powers).tolist() == whole.tolist()


@pytest.mark.parametrize("name", ["tanh", "erf", "sin"])
def test_odd(name: str) -> None:
    values = np.abs(spread_fp32(99991))
    function = getattr(transcendental, name)
    plus, minus = function(values), function(-values)
    np.testing.assert_array_equal(plus, -minus)


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_bounded_by_one(name: str) -> None:
    result = np.abs(getattr(transcendental, name)(spread_fp32(20011)))
    assert result[~np.isnan(result)].max() == ONE


def test_shapes_are_kept() -> None:
    assert transcendental.exp(np.zeros((2, 0, 3), np.float32)).shape == (2, 0, 3)
    assert transcendental.exp(np.zeros((3, 4), np.float32).T).shape == (4, 3)


def test_documented_coefficients_are_the_ones_used() -> None:
    page = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([A-Z0-9_]+) \| (-?0x1[^|]*) \|$", page, re.MULTILINE))
    tables = {"": FP32, "_64": FP64}
    assert set(rows) == {f"{p.upper()}{suffix}" for p in POLYNOMIALS for suffix in tables}
    for name, text in rows.items():
        polynomial, suffix = re.fullmatch(r"(.*?)(_64)?", name).groups(default="")
        used = [float(c) for c in getattr(tables[suffix], polynomial.lower())]
        assert [float.fromhex(c) for c in text.split(", ")] == used, name
    words = f"{TWO_OVER_PI:x}"
    stated = re.search(r"^Floor\(2/π · 2\^1184\) = `(.*?)`", page, re.MULTILINE | re.DOTALL)
    assert stated and stated[1].split() == [words[i : i + 8] for i in range(0, len(words), 8)]
