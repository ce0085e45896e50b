"""Every operator and elementwise builtin on every type: the machine gives what the interpreter says."""

from __future__ import annotations

import linecache
import random

import ml_dtypes
import numpy as np
import pytest

import dsalang as dsa

N = 32
TYPES = {
    "int1": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
    "fp8e4nv": ml_dtypes.float8_e4m3fn, "fp8e5": ml_dtypes.float8_e5m2,
    "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64,
}  # fmt: skip
LANGUAGE = {
    "fp8e4nv": "float8e4nv",
    "fp8e5": "float8e5",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
}
EXACT = [
    "x + y", "x - y", "x * y", "x / y", "x % y", "x // y", "x < y", "x <= y", "x > y", "x >= y", "x == y",
    "x != y", "x & y", "x | y", "x ^ y", "x << y", "x >> y", "-x", "~x", "abs(x)", "not x", "x + 1", "1 - x",
    "x * 2.5", "x // 3", "x % 3", "3 << x", "x >> 1", "x ** 3", "x + True", "min(x, 2)", "max(x, y, 0)",
    "x and y", "x or y", "x < 2 < y", "float(x)", "int(x)", "bool(x)", "x + i",
    "tl.maximum(x, y)", "tl.minimum(x, y)", "tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)",
    "tl.where(x > y, x, y)", "tl.where(i > 3, x, 1.5)", "tl.clamp(x, 0, 2)", "tl.fma(x, y, x)", "tl.cdiv(x, 4)",
    "tl.floor(x)", "tl.ceil(x)", "tl.sqrt(x)", "tl.rsqrt(x)", "tl.fdiv(x, y)", "tl.umulhi(x, y)",
    "tl.zeros_like(x) + y", "tl.logical_and(x, y)",
    "tl.max(x, 0)", "tl.min(x, 0)", "tl.argmax(x, 0)", "tl.argmin(x, 0)", "tl.xor_sum(x, 0)",
    "tl.cumsum(x.to(tl.int32), 0, reverse=True)", "tl.sum(x.to(tl.int64), 0)",
    "x.reshape(4, 8).T.ravel()", "tl.max(x.reshape(4, 8), 1, keep_dims=True).broadcast_to(4, 8).ravel()",
]  # fmt: skip
NEAR = ["tl.exp(x)", "tl.exp2(x)", "tl.log(x)", "tl.log2(x)", "tl.sin(x)", "tl.cos(x)", "tl.tanh(x)", "tl.erf(x)", "tl.sigmoid(x)"]  # fmt: skip


def data(name: str, seed: int) -> np.ndarray:
    """Half small values, half random bits, and the special floats."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(TYPES[name])
    raw = rng.integers(0, 256, N * kind.itemsize, dtype=np.uint8)
    if name == "int1":
        return (raw & 1).astype(bool)
    values = raw.view(kind).copy()
    values[: N // 2] = rng.integers(0 if name[0] == "u" else -3, 4, N // 2).astype(kind)
    if kind.kind in "fV":
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-8, 1.0, -1.0]
        values[N // 2 : N // 2 + 8] = np.array(special, np.float32).astype(kind)
    return values


def kernel_of(expression: str):
    """A kernel that stores the expression."""
    text = (
        "import dsalang as dsa\nimport dsalang.language as tl\n@dsa.jit\ndef kernel(a, b, out):\n"
        f"    i = tl.arange(0, {N})\n    x = tl.load(a + i)\n    y = tl.load(b + i)\n"
        f"    tl.store(out + i, {expression})\n"
    )
    name = f"/interpreter_agrees/{expression}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, object] = {}
    exec(compile(text, name, "exec"), scope)
    return scope["kernel"]


def outcome(kernel, arrays, out_type: str, interpret: bool, monkeypatch):
    """The stored values, or the name of the error."""
    monkeypatch.setenv("DSA_INTERPRET", str(int(interpret)))
    monkeypatch.setenv("DSA_CACHE", "0")
    out = np.zeros(N, TYPES[out_type])
    try:
        kernel[1](*arrays, out)
    except dsa.UserError as error:
        return type(error).__name__
    return out


def compare(expression: str, first: str, second: str, out_type: str, monkeypatch, tolerance=0.0):
    kernel = kernel_of(expression)
    arrays = data(first, 1), data(second, 2)
    expected = outcome(kernel, arrays, out_type, True, monkeypatch)
    found = outcome(kernel, arrays, out_type, False, monkeypatch)
    if isinstance(expected, str) or isinstance(found, str):
        assert isinstance(expected, str) and isinstance(found, str), (
            first,
            second,
            expected,
            found,
        )
        return
    with np.errstate(all="ignore"):
        want, got = expected.astype(np.float64), found.astype(np.float64)
        close = np.abs(want - got) <= tolerance * np.maximum(1, np.abs(want))
    same = (expected == found) | (np.isnan(want) & np.isnan(got)) | (close & np.isfinite(want))
    bad = np.flatnonzero(~same)
    shown = [(arrays[0][k], arrays[1][k], expected[k], found[k]) for k in bad[:3]]
    assert not bad.size, f"{expression} on {first}, {second}: {shown}"


@pytest.mark.parametrize("expression", EXACT)
def test_exact(expression, monkeypatch):
    choose = random.Random(expression)
    names = list(TYPES)
    same = choose.sample(names, 2)
    for first, second in [*zip(same, same), (choose.choice(names), choose.choice(names))]:
        compare(expression, first, second, choose.choice(["fp32", "int64"]), monkeypatch)


@pytest.mark.parametrize("expression", NEAR)
def test_near(expression, monkeypatch):
    compare(expression, "fp32", "fp32", "fp32", monkeypatch, 1e-6)
    compare(expression, "fp16", "fp16", "fp16", monkeypatch, 1e-3)


@pytest.mark.parametrize("first", TYPES)
def test_conversions(first, monkeypatch):
    for second in random.Random(first).sample(list(TYPES), 5):
        name = LANGUAGE.get(second, second)
        compare(f"x.to(tl.{name})", first, first, second, monkeypatch)
        compare(f"x.to(tl.{name}, bitcast=True)", first, first, second, monkeypatch)
