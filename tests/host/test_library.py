"""Functions that are written in the language: against numpy and the literature, compiled and interpreted."""

from __future__ import annotations

import linecache
import math

import numpy as np
import pytest

import dsalang as dsa

SETUP = """\
import dsalang as dsa
import dsalang.language as tl
from dsalang.language import libdevice

@dsa.jit
def kernel(a, b, out, seed):
    x = tl.load(a + tl.arange(0, {n}))
    y = tl.load(b + tl.arange(0, {m}))
    result = {body}
    tl.store(out + tl.arange(0, {count}), result.reshape({count}))
"""


def run(body, a, b, out, monkeypatch, interpret=False, seed=0):
    text = SETUP.format(body=body, n=a.size, m=b.size, count=out.size)
    name = f"/library/{body}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, object] = {}
    exec(compile(text, name, "exec"), scope)
    monkeypatch.setenv("DSA_INTERPRET", str(int(interpret)))
    monkeypatch.setenv("DSA_CACHE", "0")
    scope["kernel"][1](a, b, out, seed)
    return out


ONE = np.zeros(1, np.float32)
BOTH = pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])


@BOTH
@pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint8, np.float16, np.bool_])
def test_sort(kind, interpret, monkeypatch):
    x = np.random.default_rng(1).integers(0, 200, 24).astype(kind)
    out = run("tl.sort(x)", x, ONE, np.zeros(24, kind), monkeypatch, interpret)
    np.testing.assert_array_equal(out, np.sort(x))


@BOTH
def test_sort_shapes(interpret, monkeypatch):
    x = np.random.default_rng(2).normal(size=30).astype(np.float32)
    x[3], x[17] = np.nan, -np.inf
    rows = x.reshape(5, 6)
    out = np.zeros(30, np.float32)
    run("tl.sort(x.reshape(5, 6), descending=True)", x, ONE, out, monkeypatch, interpret)
    expected = np.sort(rows, 1)[:, ::-1]  # numpy puts NaN last, so first here
    np.testing.assert_array_equal(out.reshape(5, 6), expected)
    run("x.reshape(5, 6).sort(dim=0)", x, ONE, out, monkeypatch, interpret)
    np.testing.assert_array_equal(out.reshape(5, 6), np.sort(rows, 0))
    top = run(
        "tl.topk(x.reshape(5, 6), 2)", x, ONE, np.zeros(10, np.float32), monkeypatch, interpret
    )
    np.testing.assert_array_equal(top.reshape(5, 2), expected[:, :2])


@BOTH
def test_gather(interpret, monkeypatch):
    rng = np.random.default_rng(3)
    table = rng.normal(size=28).astype(np.float32)
    index = rng.integers(0, 7, 20).astype(np.int32)
    body = "tl.gather(x.reshape(4, 7), y.reshape(4, 5), 1)"
    out = run(body, table, index, np.zeros(20, np.float32), monkeypatch, interpret)
    expected = np.take_along_axis(table.reshape(4, 7), index.reshape(4, 5), 1)
    np.testing.assert_array_equal(out.reshape(4, 5), expected)
    out = run(
        "x.reshape(7, 4).gather(y.reshape(5, 4), axis=0)", table, index, out, monkeypatch, interpret
    )
    expected = np.take_along_axis(table.reshape(7, 4), index.reshape(5, 4), 0)
    np.testing.assert_array_equal(out.reshape(5, 4), expected)
    outside = np.array([-1, 27, 28, 3], np.int64)
    out = run("tl.gather(x, y, 0)", table, outside, np.zeros(4, np.float32), monkeypatch, interpret)
    np.testing.assert_array_equal(out, [0, table[27], 0, table[3]])
    words = run(
        "tl.gather(x > 0, y, 0)", table, outside, np.ones(4, np.bool_), monkeypatch, interpret
    )
    np.testing.assert_array_equal(words, [False, table[27] > 0, False, table[3] > 0])


@BOTH
def test_histogram(interpret, monkeypatch):
    x = np.random.default_rng(4).integers(0, 12, 50).astype(np.int32)
    out = run("tl.histogram(x, 9)", x, ONE, np.zeros(9, np.int32), monkeypatch, interpret)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=12)[:9])
    out = run("tl.histogram(x, 9, mask=x > 3)", x, ONE, out, monkeypatch, interpret)
    np.testing.assert_array_equal(out, np.bincount(x[x > 3], minlength=12)[:9])


def test_swizzle2d(monkeypatch):
    """Four columns, five rows, groups of two rows."""
    i, j = np.divmod(np.arange(20), 4)
    body = "tl.join(*tl.swizzle2d(x, y, 5, 4, 2))"
    out = run(body, i.astype(np.int32), j.astype(np.int32), np.zeros(40, np.int32), monkeypatch)
    order = {tuple(pair): k for k, pair in enumerate(out.reshape(20, 2).tolist())}
    grid = [[order[row, column] for column in range(4)] for row in range(5)]
    assert grid == [
        [0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15], [16, 17, 18, 19],
    ]  # fmt: skip


def philox(counter, key, rounds=10):
    """Salmon et al. (2011), in Python integers."""
    c, (k0, k1) = list(counter), key
    for _ in range(rounds):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def test_philox_of_the_paper():
    """The known answers that come with the authors' library."""
    ones = 0xFFFFFFFF
    assert philox((0,) * 4, (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox((ones,) * 4, (ones, ones)) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@BOTH
@pytest.mark.parametrize("seed", [0, 12345, (1 << 40) + 7])
def test_randint4x(seed, interpret, monkeypatch):
    offsets = np.array([0, 1, 2, 77, 1 << 30], np.int32)
    body = "tl.cat(tl.cat(*tl.randint4x(seed, x)[:2]), tl.cat(*tl.randint4x(seed, x)[2:]))"
    out = run(body, offsets, ONE, np.zeros(20, np.uint32), monkeypatch, interpret, seed)
    key = seed & 0xFFFFFFFF, seed >> 32
    expected = [philox((int(n), 0, 0, 0), key) for n in offsets]
    np.testing.assert_array_equal(out.reshape(4, 5).T, np.array(expected, np.uint32))


@BOTH
def test_wide_offsets(interpret, monkeypatch):
    offsets = np.array([5, (3 << 32) + 9], np.int64)
    out = run(
        "tl.randint(seed, x)", offsets, ONE, np.zeros(2, np.uint32), monkeypatch, interpret, 4
    )
    assert out.tolist() == [philox((5, 0, 0, 0), (4, 0))[0], philox((9, 3, 0, 0), (4, 0))[0]]


def test_rand(monkeypatch):
    offsets = np.arange(4096, dtype=np.int32)
    words = np.array([philox((n, 0, 0, 0), (9, 0))[:2] for n in range(64)], np.uint32)
    signed = words.view(np.int32)
    uniform = np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(
        4.6566127342e-10
    )
    out = run("tl.rand(seed, x)", offsets, ONE, np.zeros(4096, np.float32), monkeypatch, seed=9)
    np.testing.assert_array_equal(out[:64], uniform[:, 0])
    assert 0 <= out.min() < out.max() < 1 and abs(out.mean() - 0.5) < 0.02
    out = run("tl.randn(seed, x)", offsets, ONE, out, monkeypatch, seed=9)
    radius = np.sqrt(-2 * np.log(np.maximum(1e-7, uniform[:, 0].astype(float))))
    np.testing.assert_allclose(
        out[:64], radius * np.cos(2 * np.pi * uniform[:, 1]), rtol=1e-4, atol=1e-5
    )
    assert abs(out.mean()) < 0.06 and abs(out.std() - 1) < 0.05


def erfinv(y):
    low, high = -6.0, 6.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < y else (low, middle)
    return low


EDGES = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    1e-8,
    -1e-8,
    1e30,
]
INSIDE = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-8, 0.99, -0.999, 0.3, math.nan]
UNARY = {
    "log1p": (np.log1p, [*EDGES, -0.9, 3.0]), "expm1": (np.expm1, [*EDGES, -30.0, 88.0, -1e-20]),
    "log10": (np.log10, EDGES), "exp10": (lambda x: 10.0**x, [*EDGES, 37.5, -37.5, -44.0]),
    "sinh": (np.sinh, [*EDGES, 88.5]), "cosh": (np.cosh, [*EDGES, 88.5]), "asinh": (np.arcsinh, EDGES),
    "acosh": (np.arccosh, [1.0, 1.0001, 2.0, 1e20, math.inf, 0.5]),
    "atanh": (np.arctanh, [*INSIDE, 1.5]), "tan": (np.tan, [0.0, 1.0, -1.5, 3.0, 100.0]),
    "atan": (np.arctan, EDGES), "asin": (np.arcsin, [*INSIDE, 1.5]), "acos": (np.arccos, [*INSIDE, 1.5]),
    "cbrt": (np.cbrt, [*EDGES, 27.0, 1e-40]), "erfc": (np.vectorize(math.erfc), [*EDGES, 3.0, 5.0, 9.0]),
    "erfinv": (np.vectorize(erfinv), [0.0, 0.5, -0.5, 0.9, -0.99, 0.9999]),
    "normcdf": (lambda x: 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2)), [0.0, 1.0, -3.0, 5.0]),
    "round": (lambda x: np.trunc(x + np.copysign(0.5, x)), [*EDGES, 1.5, -1.5, 7.49]),
    "trunc": (np.trunc, EDGES), "rint": (np.rint, [*EDGES, 1.5]), "isnan": (np.isnan, EDGES),
    "isinf": (np.isinf, EDGES), "isfinite": (np.isfinite, EDGES), "signbit": (np.signbit, EDGES[:4]),
    "saturate": (lambda x: np.nan_to_num(np.clip(x, 0, 1)), EDGES), "rcp_rn": (lambda x: 1 / x, EDGES),
    "sinpi": (lambda x: np.sin(np.pi * (x - 2 * np.rint(x / 2))), [0.25, 7.5, -1000.5]),
    "cospi": (lambda x: np.cos(np.pi * (x - 2 * np.rint(x / 2))), [0.25, 7.0, -1000.25]),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name, monkeypatch):
    function, points = UNARY[name]
    x = np.array(points, np.float32)
    out = np.zeros(x.size, np.float32)
    run(f"libdevice.{name}(x).to(tl.float32)", x, ONE, out, monkeypatch)
    with np.errstate(all="ignore"):
        expected = np.asarray(function(x.astype(np.float64))).astype(np.float32)
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-6 if name[-2:] == "pi" else 1e-38)


@pytest.mark.parametrize("name", UNARY)
def test_unary_in_fp64(name, monkeypatch):
    function, points = UNARY[name]
    if name in ("erfinv", "erfc", "normcdf"):
        points = [p for p in points if abs(p) < 8]
    x, out = np.array(points), np.zeros(len(points))
    run(f"libdevice.{name}(x).to(tl.float64)", x, ONE, out, monkeypatch)
    with np.errstate(all="ignore"):
        expected = np.asarray(function(x)).astype(np.float64)
    loose = 1e-12 if name == "erfinv" else 1e-14  # the reference is the inverse of a rounded erf
    atol = 1e-15 if name[-2:] == "pi" else 1e-50
    np.testing.assert_allclose(out, expected, rtol=loose, atol=atol)


def _pow(a, b):
    try:
        return math.pow(a, b)
    except ValueError:  # 0 to a negative power, a negative base
        odd = b % 2 == 1
        return math.copysign(math.inf, a if odd else 1.0) if a == 0 else math.nan
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf


BINARY = {
    "pow": np.vectorize(_pow), "atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign,
    "fmod": np.fmod, "fdim": lambda a, b: np.where(np.isnan(a - b) & (a != b), np.nan, np.maximum(np.where(a == b, 0, a - b), 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary(name, monkeypatch):
    points = [*EDGES, 3.0, -3.0, 1.0001, 20.0, 1e-3, -17.5, 80.0, 1e-40]
    grid = np.array([(a, b) for a in points for b in points], np.float32)
    a, b = np.ascontiguousarray(grid[:, 0]), np.ascontiguousarray(grid[:, 1])
    out = run(f"libdevice.{name}(x, y)", a, b, np.zeros(a.size, np.float32), monkeypatch)
    with np.errstate(all="ignore"):
        expected = np.asarray(BINARY[name](a.astype(np.float64), b.astype(np.float64))).astype(
            np.float32
        )
    bad = ~np.isclose(out, expected, rtol=3e-6, atol=1e-44, equal_nan=True)
    assert not bad.any(), list(zip(a[bad], b[bad], out[bad], expected[bad]))[:10]


@pytest.mark.parametrize("name", BINARY)
def test_binary_in_fp64(name, monkeypatch):
    points = [*EDGES, 3.0, -3.0, 1.0001, 20.0, 1e-3, -17.5, 80.0, 1e-310]
    a, b = (np.array(side) for side in zip(*((a, b) for a in points for b in points)))
    out = run(f"libdevice.{name}(x, y)", a, b, np.zeros(a.size), monkeypatch)
    with np.errstate(all="ignore"):
        expected = np.asarray(BINARY[name](a, b))
    bad = ~np.isclose(out, expected, rtol=1e-13, atol=1e-323, equal_nan=True)
    assert not bad.any(), list(zip(a[bad], b[bad], out[bad], expected[bad]))[:10]


GAMMA = [0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 10.0, 25.5, 1e-10, 33.0, -0.5, -1.5, -2.25, -10.5]
SPECIAL = {
    "tgamma": (np.vectorize(math.gamma), GAMMA), "lgamma": (np.vectorize(math.lgamma), [*GAMMA, 1e5, 3e20]),
    "erfcx": (np.vectorize(lambda x: math.erfc(x) * math.exp(x * x)), [0.0, 0.3, -1.0, 0.5, 2.0, 5.0, 20.0]),
    "erfcinv": (np.vectorize(lambda x: -erfinv(x - 1)), [1.0, 0.5, 1.5, 0.9, 0.1, 1.9, 0.001]),
    "normcdfinv": (np.vectorize(lambda x: math.sqrt(2) * erfinv(2 * x - 1)), [0.5, 0.1, 0.9, 0.01, 0.6]),
    "logb": (lambda x: np.frexp(x)[1] - 1.0, [1.0, 3.0, 0.7, 1e30, -5.0]),
    "scalbn2": (lambda x: x * 4, [1.0, -3.0]),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", SPECIAL)
def test_special(name, kind, interpret, monkeypatch):
    function, points = SPECIAL[name]
    x = np.array(points, kind)
    call = f"libdevice.{name}(x)" if name != "scalbn2" else "libdevice.scalbn(x, 2)"
    out = run(call, x, ONE, np.zeros(x.size, kind), monkeypatch, interpret)
    expected = function(x.astype(np.float64))
    tolerance = 2e-7 if kind == np.float32 else 1e-12
    atol = 5e-15 if name == "lgamma" else 1e-15
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=atol)


def test_poles_and_ends(monkeypatch):
    def ends(name, *values):
        x = np.array(values)
        return str(run(f"libdevice.{name}(x)", x, ONE, np.zeros(x.size), monkeypatch).tolist())

    inf, nan = math.inf, math.nan
    poles = (0.0, -0.0, -1.0, -3.0, inf, -inf, nan)
    assert ends("lgamma", *poles) == "[inf, inf, inf, inf, inf, inf, nan]"
    assert ends("tgamma", *poles) == "[inf, -inf, nan, nan, inf, nan, nan]"
    assert ends("logb", *poles) == "[-inf, -inf, 0.0, 1.0, inf, inf, nan]"
    assert ends("erfcx", inf, -inf, nan) == "[0.0, inf, nan]"
    assert ends("erfcinv", 0.0, 2.0, -1.0, 3.0) == "[inf, -inf, nan, nan]"


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_nextafter_and_remainder(kind, monkeypatch):
    points = [0.0, -0.0, 1.0, -1.0, 1e-40, 3.5, -7.25, 1e30, math.inf]
    a, b = (np.array(side, kind) for side in zip(*((a, b) for a in points for b in points)))
    out = run("libdevice.nextafter(x, y)", a, b, np.zeros(a.size, kind), monkeypatch)
    np.testing.assert_array_equal(out, np.nextafter(a, b))
    finite = [p for p in points if math.isfinite(p)]
    a, b = (np.array(s, kind) for s in zip(*((a, b) for a in finite for b in finite if b)))
    out = run("libdevice.remainder(x, y)", a, b, np.zeros(a.size, kind), monkeypatch)
    expected = [math.remainder(float(p), float(q)) for p, q in zip(a, b)]
    np.testing.assert_array_equal(out, np.array(expected, kind))


def test_integers_of_libdevice(monkeypatch):
    a = np.array([7, -8, 2**31 - 1, -(2**31), 0x12345678], np.int32)
    b = np.array([2, -3, 2**31 - 1, 5, 0x01234567], np.int32)
    wide = list(zip(a.tolist(), b.tolist()))
    for name, function in {
        "hadd": lambda x, y: (x + y) >> 1, "rhadd": lambda x, y: (x + y + 1) >> 1,
        "mulhi": lambda x, y: (x * y) >> 32,
    }.items():  # fmt: skip
        out = run(f"libdevice.{name}(x, y)", a, b, np.zeros(5, np.int32), monkeypatch)
        assert out.tolist() == [function(x, y) for x, y in wide], name
    out = run("libdevice.byte_perm(x, y, 0x5140)", a, b, np.zeros(5, np.int32), monkeypatch)
    both = [(x & 0xFFFFFFFF) | (y & 0xFFFFFFFF) << 32 for x, y in wide]
    want = [sum((w >> 8 * k & 255) << 8 * i for i, k in enumerate((0, 4, 1, 5))) for w in both]
    assert [int(v) & 0xFFFFFFFF for v in out] == want
    words = np.array([1.5, -2.25, 1e300])
    halves = "libdevice.hiloint2double(libdevice.double2hiint(x), libdevice.double2loint(x))"
    assert run(halves, words, ONE, np.zeros(3), monkeypatch).tolist() == words.tolist()


def test_conversions_of_libdevice(monkeypatch):
    x = np.array([1.5, -1.5, 2.5, 0.7, -0.2, 1e12, -1e12])
    for mode, function in {"rn": np.rint, "rd": np.floor, "ru": np.ceil, "rz": np.trunc}.items():
        out = run(f"libdevice.double2ll_{mode}(x)", x, ONE, np.zeros(7, np.int64), monkeypatch)
        assert out.tolist() == function(x).astype(np.int64).tolist(), mode
        out = run(f"libdevice.float2uint_{mode}(x)", x, ONE, np.zeros(7, np.uint32), monkeypatch)
        assert out.tolist() == np.clip(function(x), 0, 2**32 - 1).astype(np.uint32).tolist(), mode
    whole = np.array([2**63 - 1, -5, 2**53 + 1], np.int64)
    out = run("libdevice.ll2double_rn(x)", whole, ONE, np.zeros(3), monkeypatch)
    assert out.tolist() == [float(v) for v in whole.tolist()]
    out = run("libdevice.ull2float_rn(x)", whole, ONE, np.zeros(3, np.float32), monkeypatch)
    assert out.tolist() == [float(np.float32(v % 2**64)) for v in whole.tolist()]


def test_bits(monkeypatch):
    x = np.array([0, 1, -1, 0x00F00000, -(2**31), 12345], np.int32)
    words = [int(v) & 0xFFFFFFFF for v in x]
    out = np.zeros(6, np.int32)
    for name, function in {
        "popc": lambda v: v.bit_count(), "clz": lambda v: 32 - v.bit_length(),
        "ffs": lambda v: (v & -v).bit_length(), "brev": lambda v: int(f"{v:032b}"[::-1], 2),
    }.items():  # fmt: skip
        run(f"libdevice.{name}(x)", x, ONE, out, monkeypatch)
        assert [int(v) & 0xFFFFFFFF for v in out] == [function(v) for v in words], name


def test_mistakes_are_at_the_call(monkeypatch):
    x = np.zeros(8, np.float32)
    with pytest.raises(dsa.CompileError, match="sort: dim 3 is out of range") as caught:
        run("tl.sort(x, dim=3)", x, ONE, x, monkeypatch)
    assert caught.value.loc.file == "/library/tl.sort(x, dim=3).py"
