"""Where the compiler and the interpreter once differed: both do what Triton does, or both refuse."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import dsalang as dsa

N = 8
TYPES = {
    "i1": np.bool_, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "i32": np.int32, "f32": np.float32,
}  # fmt: skip


def outcome(body: str, kinds: str, interpret: bool, monkeypatch: pytest.MonkeyPatch):
    """The arrays after a kernel on p, q and out, or the error's message."""
    text = (
        "import dsalang as dsa\nimport dsalang.language as tl\n@dsa.jit\ndef kernel(p, q, out):\n"
        f"    i = tl.arange(0, {N})\n    x = tl.load(p + i)\n    y = tl.load(q + i)\n    {body}\n"
    )
    name = f"/edges/{body}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, object] = {}
    exec(compile(text, name, "exec"), scope)
    monkeypatch.setenv("DSA_INTERPRET", str(int(interpret)))
    monkeypatch.setenv("DSA_CACHE", "0")
    p, q = (
        (np.arange(N) * step % 5 - 1).astype(TYPES[kind]) if kind[0] != "u" else
        (np.arange(N) * step % 5).astype(TYPES[kind])
        for kind, step in zip(kinds.split(), (1, 3))
    )  # fmt: skip
    out = np.zeros(4 * N, np.int32)
    try:
        scope["kernel"][1](p, q, out)
    except dsa.UserError as error:
        return error.message
    return [p.tolist(), q.tolist(), out.tolist()]


SAME = [
    ("tl.store(out + i, x // y)", "i1 i1"), ("tl.store(out + i, x % y)", "i1 i1"),
    ("tl.store(out + i, x // True + x % True)", "i1 i1"), ("tl.store(out + i, x // y)", "u8 i1"),
    ("tl.store(out + i, tl.cdiv(x, y))", "u8 i1"), ("tl.store(out + i, tl.cdiv(x, y))", "i1 u8"),
    ("tl.store(out + i, tl.cdiv(x, y))", "u8 u8"), ("tl.store(out + i, tl.cdiv(x, y))", "i8 i32"),
    ("tl.store(out + i, tl.cdiv(x, 4))", "u8 u8"),
    ("tl.store(out + i, tl.fdiv(x, y) * 8)", "i8 f32"), ("tl.store(out + i, tl.fdiv(x, 2.0))", "i32 i8"),
    ("tl.store(p + i, 300)", "u8 u8"), ("tl.store(p + i, -1)", "u8 u8"), ("tl.store(p + i, 2**40 + 7)", "i32 i8"),
    ("tl.store(out + i, tl.load(p + i, mask=i < 3, other=300))", "i8 i8"),
    ("tl.store(out + i, tl.load(p + i, mask=y, other=9), mask=x)", "i8 f32"),
    ("tl.atomic_add(p + i, y, mask=x)", "i32 i32"), ("tl.store(out + i, x.to('int8') + tl.zeros((8,), 'int32'))", "i32 i8"),
    ("tl.atomic_add(p + i, 300)", "i8 i8"), ("tl.atomic_max(p + i, 200)", "i8 i8"),
    ("tl.atomic_xchg(p + i, -129)", "i8 i8"), ("tl.atomic_and(p + i, 0x1F0F)", "u8 u8"),
    ("tl.atomic_cas(p + i, 257, 400)", "u8 u8"),
    ("tl.store(out + i, tl.sum(tl.dot(x.reshape(2, 4), y.reshape(4, 2))) + i)", "i8 i8"),
    *(
        (f"tl.store(out + i, {conversion}.to(tl.int64).to(tl.int32))", "i8 i8")
        for number, kinds in (
            ("300", "int8 uint8"), ("-1", "uint8 uint64"), ("2**40 + 7", "int16 int32 uint32"), ("-1e10", "int8 uint16 int32"),
            ("1e300", "int8 uint8 int64"), ("1e-300", "int1 int8"), ("16777217.0", "int32"), ("float('nan')", "int32 uint8"),
        )
        for kind in kinds.split()
        for conversion in (f"tl.cast({number}, tl.{kind})", f"tl.full([{N}], {number}, tl.{kind})")
    ),
    ("tl.store(out + i, ((x, 2) * 2 + (y,))[4] + len(3 * (x, y)))", "i8 i8"),
    ("tl.store(out + i, tl.reduce(x.reshape(2, 4), 1, tl.standard._elementwise_max)[0])", "i32 i8"),
    ("tl.store(out + i, tl.reduce((x, i), 0, tl.standard._argmax_combine_tie_break_left)[1])", "i32 i8"),
    ("tl.store(out + i, tl.reduce((x, i), 0, tl.standard._argmin_combine_tie_break_left)[1])", "i32 i8"),
    ("n = 0\n    while tl.condition(n < 3, disable_licm=True):\n        n += 1\n    tl.store(out + i, x + n)", "i32 i8"),
    ("tl.store(out + i, (tl.cast(0.1, tl.float64) * 1073741824.0).to(tl.int32))", "i8 i8"),
]  # fmt: skip
REFUSED = [
    ("tl.store(out + i, tl.fdiv(x, y))", "i32 i8", "floats, not"),
    *(
        ("tl.store(out, tl.sum(tl.dot(x.reshape(2, 4), y.reshape(4, 2))))", f"{k} {k}", "dot takes int8")
        for k in ("i16", "i32", "u8", "i1")
    ),
    ("tl.store(out, tl.sum(tl.dot(x.reshape(2, 4), y.reshape(4, 2), tl.zeros((2, 2), tl.float32))))", "i8 i8", "accumulates in int32"),
    ("tl.store(out, tl.sum(tl.dot(x.reshape(2, 4).to(tl.float64), y.reshape(4, 2).to(tl.float64), tl.zeros((2, 2), tl.float32))))", "i8 i8", "accumulates in fp64"),
    ("tl.full([8], 2**70, tl.int8)", "i8 i8", "does not fit"),
    ("tl.store(out + i, x + 300)", "i8 i8", "300"),
    ("tl.store(out + i, (x, y)[2])", "i8 i8", "out of range"),
    ("a, b, c = (x, y)", "i8 i8", "unpack"),
    ("x[0] = 1", "i8 i8", "elements cannot be assigned"),
    ("x.sum(0, 1, 2, 3, 4, 5, 6)", "i8 i8", "sum(): too many positional arguments"),
    ("tl.store(out + i, x.to('int7'))", "i8 i8", "dtype"),
    ("tl.store(out + i, x, mask=p + i)", "i8 i8", "number"),
    ("x.nope", "i8 i8", "no attribute 'nope'"),
    *((f"tl.atomic_{op}(p + i, x)", "i1 i1", "does not apply to int1") for op in ("add", "max", "or", "xchg")),
    ("tl.atomic_cas(p + i, x, y)", "i1 i1", "does not apply to int1"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kinds"), SAME, ids=lambda v: v[:40])
def test_the_same_result(body, kinds, monkeypatch):
    compiled = outcome(body, kinds, False, monkeypatch)
    assert not isinstance(compiled, str), compiled
    assert compiled == outcome(body, kinds, True, monkeypatch)


@pytest.mark.parametrize(("body", "kinds", "message"), REFUSED, ids=lambda v: v[:40])
def test_both_refuse(body, kinds, message, monkeypatch):
    for interpret in (False, True):
        found = outcome(body, kinds, interpret, monkeypatch)
        assert isinstance(found, str) and message in found, (interpret, found)


def test_bools_divide_as_zero_and_one(monkeypatch):
    compiled = outcome("tl.store(out + i, (x // y) * 2 + x % y)", "i1 i1", False, monkeypatch)
    pairs = zip(compiled[0], compiled[1])
    want = [2 * int(a and b) + int(a and not b) for a, b in pairs]
    assert compiled[2][:N] == want
