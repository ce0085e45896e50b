"""Operators, promotion and builtins: the parsed kernels' results against numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang._jit import dtypes, names
from dsalang._jit.parse import parse
from dsalang._jit.semantics import promote
from frontend.evaluate import parse_call, run_kernel

N = 16


@dsa.jit
def operate(x, y, out, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(y + i)
    if OP == "+":
        r = a + b
    elif OP == "-":
        r = a - b
    elif OP == "*":
        r = a * b
    elif OP == "/":
        r = a / b
    elif OP == "//":
        r = a // b
    elif OP == "%":
        r = a % b
    elif OP == "&":
        r = a & b
    elif OP == "|":
        r = a | b
    elif OP == "^":
        r = a ^ b
    elif OP == "<<":
        r = a << b
    elif OP == ">>":
        r = a >> b
    elif OP == "<":
        r = a < b
    elif OP == "<=":
        r = a <= b
    elif OP == ">":
        r = a > b
    elif OP == ">=":
        r = a >= b
    elif OP == "==":
        r = a == b
    else:
        r = a != b
    tl.store(out + i, r)


def integers(dtype, seed):
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, N, dtype=np.int64 if info.min else np.uint64)
    values[:4] = [1, 3, 7, 100]
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("op", ["+", "-", "*", "&", "|", "^", "<", "<=", ">", ">=", "==", "!="])
def test_integer_operators(dtype, op):
    a, b = integers(dtype, 1), integers(dtype, 2)
    out = np.zeros(N, bool if op in ("<", "<=", ">", ">=", "==", "!=") else dtype)
    run_kernel(operate, x=a, y=b, out=out, OP=op, N=N)
    with np.errstate(all="ignore"):
        expected = eval(f"a {op} b", {"a": a, "b": b})
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64])
def test_division_truncates_as_in_c(dtype):
    a, b = integers(dtype, 3), integers(dtype, 4)
    b[b == 0] = 5
    quotient, remainder = np.zeros(N, dtype), np.zeros(N, dtype)
    run_kernel(operate, x=a, y=b, out=quotient, OP="//", N=N)
    run_kernel(operate, x=a, y=b, out=remainder, OP="%", N=N)
    for i in range(N):
        q = abs(int(a[i])) // abs(int(b[i])) * (1 if (a[i] < 0) == (b[i] < 0) else -1)
        assert quotient[i] == dtype(q)
        assert remainder[i] == int(a[i]) - q * int(b[i])


def test_shifts_follow_the_sign_of_the_left_side():
    for dtype in (np.int32, np.uint32):
        a, b = integers(dtype, 5), (np.arange(N) % 32).astype(dtype)
        for op in ("<<", ">>"):
            out = np.zeros(N, dtype)
            run_kernel(operate, x=a, y=b, out=out, OP=op, N=N)
            np.testing.assert_array_equal(out, a << b if op == "<<" else a >> b)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("op", ["+", "-", "*", "/", "<", ">=", "==", "!="])
def test_float_operators(dtype, op):
    rng = np.random.default_rng(7)
    a, b = rng.normal(size=N).astype(dtype), rng.normal(size=N).astype(dtype)
    b[3] = a[3]
    compare = op in ("<", ">=", "==", "!=")
    out = np.zeros(N, bool if compare else dtype)
    run_kernel(operate, x=a, y=b, out=out, OP=op, N=N)
    wide = eval(f"a {op} b", {"a": a.astype(np.float32), "b": b.astype(np.float32)})
    np.testing.assert_array_equal(out, wide.astype(out.dtype))


PROMOTIONS = [
    ("int8", "int16", "int16"), ("int8", "uint8", "uint8"), ("int32", "uint8", "int32"),
    ("uint32", "int32", "uint32"), ("int64", "uint32", "int64"), ("int1", "int8", "int8"),
    ("int64", "fp16", "fp16"), ("int64", "fp32", "fp32"), ("fp16", "fp32", "fp32"),
    ("bf16", "fp16", "fp16"), ("bf16", "bf16", "bf16"), ("bf16", "int32", "fp32"),
    ("fp8e4nv", "fp8e5", "fp16"), ("fp8e5", "fp8e5", "fp8e5"), ("fp8e4nv", "bf16", "fp32"),
    ("fp8e5", "fp16", "fp16"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "expected"), PROMOTIONS)
def test_promotion(a, b, expected):
    x, y = dtypes.dtype(a), dtypes.dtype(b)
    if expected == "fp32" and {a, b} == {"fp8e4nv", "bf16"}:
        assert promote(x, y) == dtypes.float32
    assert promote(x, y).name == expected
    assert promote(y, x).name == expected


def result_type(expression, **types):
    """The type of an expression of run-time scalars, from what static_assert sees."""
    import linecache

    names = ", ".join(types)
    text = (
        f"def k({names}, TYPE: tl.constexpr):\n    tl.static_assert(({expression}).dtype == TYPE)\n"
    )
    name = f"<result_type {expression} {types}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"tl": tl}
    exec(compile(text, name, "exec"), space)
    source = dsa.jit(space["k"]).source
    matches = []
    for candidate in dtypes.ALL[:-1]:
        try:
            parse(source, types, {"TYPE": candidate})
            matches.append(candidate.name)
        except dsa.CompileError as error:
            if "static assertion" not in str(error):
                raise
    assert len(matches) == 1
    return matches[0]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("h * 2", "fp16"), ("h * 2.0", "fp16"), ("2.0 - h", "fp16"), ("b * 0.5", "bf16"),
        ("i + 1", "int32"), ("i + 1.0", "fp32"), ("i + True", "int32"), ("c + 1", "int8"),
        ("u + 1", "uint32"), ("i / j", "fp32"), ("h / h", "fp32"), ("h / 2", "fp32"),
        ("b / b", "fp32"), ("h / i", "fp32"), ("f / 2", "fp32"), ("i // 2", "int32"),
        ("i < j", "int1"), ("-i", "int32"), ("not i", "int1"), ("i and j", "int1"), ("~c", "int8"),
        ("i + u", "uint32"), ("l + i", "int64"), ("h + f", "fp32"), ("h + b", "fp16"),
        ("tl.where(i > 0, h, 0)", "fp16"), ("tl.where(i > 0, h, f)", "fp32"),
        ("tl.maximum(h, 0)", "fp16"), ("max(i, 0)", "int32"), ("min(h, f)", "fp32"),
        ("tl.cdiv(i, 4)", "int32"), ("h.to(tl.int8)", "int8"), ("float(i)", "fp32"),
        ("int(f)", "int32"), ("bool(f)", "int1"), ("h ** 2", "fp16"), ("i % 7", "int32"),
        ("f % 2.0", "fp32"), ("tl.float16(f)", "fp16"), ("tl.int8(3)", "int8"), ("tl.zeros((), tl.float16) + h", "fp16"),
        ("tl.full((), 2, tl.int64)", "int64"), ("tl.sum(tl.arange(0, 4)).reshape(())", "int32"), ("i + 3000000000", "int32"),
        ("tl.sum(tl.full((4,), 1, tl.int8), 0)", "int32"),
        ("tl.sum(tl.full((4,), 1, tl.uint8), 0)", "uint32"),
        ("tl.sum(tl.full((4,), 1, tl.float16), 0)", "fp16"),
        ("tl.max(tl.full((4,), 1, tl.float16), 0)", "fp32"),
        ("tl.max(tl.full((4,), 1, tl.int8), 0)", "int32"),
        ("tl.argmax(tl.full((4,), 1, tl.int8), 0)", "int32"),
        ("h if i > 0 else 1.0", "fp16"), ("i if i > 0 else 0", "int32"),
        ("tl.dot(tl.zeros((4, 4), tl.float16), tl.zeros((4, 4), tl.float16))", "fp32"),
        ("tl.dot(tl.zeros((4, 4), tl.int8), tl.zeros((4, 4), tl.int8))", "int32"),
        ("tl.dot(tl.zeros((4, 4), tl.bfloat16), tl.zeros((4, 4), tl.bfloat16), out_dtype=tl.float16)", "fp16"),
    ],
)  # fmt: skip
def test_types_of_expressions(expression, expected):
    types = {
        "h": "fp16", "b": "bf16", "f": "fp32", "i": "i32", "j": "i32", "u": "u32", "l": "i64",
        "c": "i8",
    }  # fmt: skip
    if expression == "i + 3000000000":
        with pytest.raises(dsa.CompileError, match="out of range of int32"):
            result_type(expression, **types)
        return
    assert result_type(expression, **types) == expected


@dsa.jit
def functions(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(y + i)
    rows = [
        tl.exp(a), tl.sigmoid(a), tl.abs(a), tl.maximum(a, b), tl.minimum(a, b),
        tl.where(a > b, a, 0.0), tl.clamp(a, -0.5, 0.5), tl.fma(a, b, 1.0), tl.floor(a),
        tl.ceil(a), tl.sqrt(tl.abs(a)), tl.softmax(a), -a, a.to(tl.int32).to(tl.float32),
        tl.cumsum(a, 0), tl.zeros_like(a) + tl.sum(a), tl.zeros_like(a) + tl.max(a, axis=0),
        tl.zeros_like(a) + tl.argmin(a, 0), a ** 3, tl.math.tanh(a), a.reshape(4, N // 4).T.ravel(),
        tl.cumsum(a, 0, reverse=True), (a[:, None] + b[None, :]).sum(1), tl.log(tl.abs(a) + 1.0),
        1.0 / (a * a + 1.0), tl.math.rsqrt(a * a + 1.0),
    ]  # fmt: skip
    for row in rows:
        tl.store(out + i, row)
        out += N


def test_functions():
    rng = np.random.default_rng(11)
    a, b = rng.normal(size=N).astype(np.float32), rng.normal(size=N).astype(np.float32)
    expected = np.stack(
        [
            np.exp(a), 1 / (1 + np.exp(-a)), abs(a), np.maximum(a, b), np.minimum(a, b),
            np.where(a > b, a, 0), np.clip(a, -0.5, 0.5), a * b + 1, np.floor(a), np.ceil(a),
            np.sqrt(abs(a)), np.exp(a - a.max()) / np.exp(a - a.max()).sum(), -a, np.trunc(a),
            np.cumsum(a), np.full(N, a.sum()), np.full(N, a.max()), np.full(N, a.argmin()),
            a**3, np.tanh(a), a.reshape(4, N // 4).T.ravel(), np.cumsum(a[::-1])[::-1],
            (a[:, None] + b[None, :]).sum(1), np.log(abs(a) + 1), 1 / (a * a + 1),
            1 / np.sqrt(a * a + 1),
        ]
    ).astype(np.float32)  # fmt: skip
    out = np.zeros_like(expected)
    run_kernel(functions, x=a, y=b, out=out, N=N)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


@dsa.jit
def atomics(counts, x, old, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(counts + (tl.load(x + i) % 4), 1)
    tl.atomic_max(counts + 4 + i * 0, tl.load(x + i), mask=i < 3)
    tl.store(old, tl.atomic_xchg(counts + 5, 9))
    tl.store(old + 1, tl.atomic_cas(counts + 6, 0, 5))
    tl.atomic_xor(counts + 7, 3)


def test_atomics():
    x = np.arange(N, dtype=np.int32)
    counts, old = np.zeros(8, np.int32), np.full(2, 77, np.int32)
    run_kernel(atomics, counts=counts, x=x, old=old, N=N)
    assert counts.tolist() == [4, 4, 4, 4, 2, 9, 5, 3]
    assert old.tolist() == [0, 0]


@dsa.jit
def dots(a, b, out, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + n[:, None] * K + k[None, :])
    acc = tl.full((M, N), 2, tl.float32)
    acc += tl.dot(x, y.trans())
    tl.store(out + m[:, None] * N + n, tl.dot(x, tl.trans(y), acc))


def test_dot():
    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=s).astype(np.float16) for s in ((3, 5), (7, 5)))
    out = np.zeros((3, 7), np.float32)
    run_kernel(dots, a=a, b=b, out=out, M=3, K=5, N=7)
    np.testing.assert_allclose(
        out, 2 * (a.astype(np.float64) @ b.T.astype(np.float64)) + 2, rtol=1e-3
    )


def test_every_builtin_has_a_lowering():
    from dsalang._jit import lowering

    assert set(lowering.TABLE) == {n for n, b in names.BUILTINS.items() if b.body is None}


def test_constants_are_made_once():
    module, _ = parse_call(operate, {"x": np.zeros(N, np.int32), "y": np.zeros(N, np.int32),
                                     "out": np.zeros(N, np.int32), "OP": "+", "N": N})  # fmt: skip
    assert len(list(module.walk())) == 14
