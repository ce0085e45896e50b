"""The interpreter: right on the kernel suite, with the language's semantics, and helpful when it fails."""

from __future__ import annotations

import inspect
import re
import traceback

import ml_dtypes
import numpy as np
import pytest
from suite import CASES

import dsalang as dsa
import dsalang.language as tl
from dsalang._backend.errors import CompileError, DeviceError
from dsalang._jit.builtin import Builtin
from dsalang._jit.interpret import run  # noqa: F401 (registers the builtins)
from dsalang._jit.interpret.registry import IMPLEMENTATIONS, METHODS

FACTOR = 3
WIDTH = dsa.constexpr(4)


@pytest.fixture(autouse=True)
def interpret(monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", "1")


@pytest.mark.parametrize("name", CASES)
def test_suite(name):
    case = CASES[name]()
    case.launch()
    case.check()


LANGUAGE = {
    b.name: b
    for b in vars(tl).values()
    if isinstance(b, Builtin) and b.body is None and not b.refused
}


def test_every_builtin_has_a_meaning():
    assert sorted(set(LANGUAGE) - set(IMPLEMENTATIONS)) == []
    assert {n for n, b in LANGUAGE.items() if b.method} <= METHODS


@pytest.mark.parametrize("name", sorted(LANGUAGE))
def test_builtins_take_the_languages_parameters(name):
    wanted = list(LANGUAGE[name].signature.parameters.values())
    found = inspect.signature(IMPLEMENTATIONS[name]).parameters
    if any(p.kind is p.VAR_KEYWORD for p in found.values()):
        wanted = wanted[:3]
    for parameter in wanted:
        assert parameter.name in found, parameter
        has_default = parameter.default is not parameter.empty
        assert has_default == (found[parameter.name].default is not parameter.empty) or has_default


def evaluate(kernel, *arrays, n=1, dtype=np.float32, **meta):
    """The n values that a kernel stores through its first argument."""
    out = np.zeros(n, dtype)
    kernel[1](out, *arrays, **meta)
    return out.tolist()


@dsa.jit
def divide(out, x, y):
    i = tl.arange(0, 6)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a // b)
    tl.store(out + 6 + i, a % b)


def test_division_is_cs():
    x = np.array([7, -7, 7, -7, 5, -(2**31)], np.int32)
    y = np.array([2, 2, -2, -2, 0, -1], np.int32)
    values = evaluate(divide, x, y, n=12, dtype=np.int32)
    assert values == [3, -3, -3, 3, 0, -(2**31), 1, -1, 1, -1, 5, 0]


@dsa.jit
def promotions(out, x8, u8, h, b, f):
    i = tl.arange(0, 4)
    a, u = tl.load(x8 + i), tl.load(u8 + i)
    c, d, e = tl.load(h + i), tl.load(b + i), tl.load(f + i)
    tl.static_assert((a + 1).dtype == tl.int8)
    tl.static_assert((a + u).dtype == tl.uint8)
    tl.static_assert((a + 1.5).dtype == tl.float32)
    tl.static_assert((a / a).dtype == tl.float32)
    tl.static_assert((c + 1.0).dtype == tl.float16)
    tl.static_assert((c + d).dtype == tl.float16)
    tl.static_assert((d + d).dtype == tl.bfloat16)
    tl.static_assert((d + e).dtype == tl.float32)
    tl.static_assert((c / c).dtype == tl.float32)
    tl.static_assert((c < d).dtype == tl.int1)
    tl.static_assert((a & 3).dtype == tl.int8)
    tl.static_assert(tl.fdiv(c, c).dtype == tl.float16)
    tl.static_assert(tl.softmax(c).dtype == tl.float32)
    tl.static_assert(tl.sum(d, 0).dtype == tl.float32)
    tl.static_assert(tl.sum(a, 0).dtype == tl.int32)
    tl.static_assert(tl.max(c, 0).dtype == tl.float32)
    tl.static_assert(tl.program_id(0).dtype == tl.int32)
    tl.static_assert(x8.dtype.element_ty == tl.int8)
    tl.store(out, 1.0)


def test_promotion():
    arrays = [
        np.zeros(4, t) for t in (np.int8, np.uint8, np.float16, ml_dtypes.bfloat16, np.float32)
    ]
    assert evaluate(promotions, *arrays) == [1.0]


@dsa.jit
def logic(out, n):
    i = tl.arange(0, 8)
    middle = 2 <= i < n and not (i > 3) | (i == 5)
    tl.store(out + i, tl.where(middle or (i == 7), 1.0, 0.0))


def test_and_or_not_and_chains_work_on_tiles():
    assert evaluate(logic, 6, n=8) == [0, 0, 1, 1, 0, 0, 0, 1]


@dsa.jit
def early(out, n):
    if tl.program_id(0) >= n:
        return
    count = 0
    while count < n:
        count += 1
        if count == 3:
            break_at = count * FACTOR
            tl.store(out + 1, break_at)
    tl.store(out, count if n > 2 else -1)


def test_control_flow_globals_and_early_return():
    out = np.zeros(2, np.float32)
    early[2](out, 5)
    assert out.tolist() == [5, 9]


@dsa.jit
def wraps(out, x):
    total = 127
    for _ in range(2):
        total += tl.load(x)
    tl.store(out, total)


def test_a_number_that_a_loop_changes_is_an_int32():
    # 127 adapts to int8 as a literal; carried around the loop it is an int32, as in the compiler.
    assert evaluate(wraps, np.array([1], np.int8)) == [129]


@dsa.jit
def callee(a, b=2, SCALE: tl.constexpr = 10):
    if SCALE > 5:
        return a * SCALE, b
    return a, b


@dsa.jit
def caller(out):
    x, y = callee(3, SCALE=7)
    u, v = callee(b=5, a=tl.program_id(0) + 1)
    tl.store(out, x + y)
    tl.store(out + 1, u + v + WIDTH)


def test_calls_defaults_keywords_and_constexpr_globals():
    assert evaluate(caller, n=2) == [23, 19]


@dsa.jit
def shapes(out, x):
    i = tl.arange(0, 6)
    t = tl.load(x + i).reshape(2, 3)
    tl.store(out + tl.arange(0, 3), tl.sum(t, axis=0))
    tl.store(out + 3 + tl.arange(0, 2), t.max(1))
    tl.store(out + 5 + tl.arange(0, 6), tl.trans(t).ravel())
    tl.store(out + 11, tl.argmax(t, 1, keep_dims=True).sum())
    tl.store(out + 12 + i, tl.cumsum(tl.load(x + i), reverse=True))


def test_shapes_reductions_scans():
    x = np.array([1, 5, 2, 8, 3, 9], np.float32)
    assert evaluate(shapes, x, n=18) == [
        9, 8, 11, 5, 9, 1, 8, 5, 3, 2, 9, 3, 28, 27, 22, 20, 12, 9,
    ]  # fmt: skip


@dsa.jit
def nans(out, x):
    i = tl.arange(0, 3)
    a = tl.load(x + i)
    tl.store(out + i, tl.maximum(a, 0.0))
    tl.store(out + 3 + i, tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 6, tl.max(a, 0))


def test_nan_rules():
    out = np.zeros(7, np.float32)
    nans[1](out, np.array([np.nan, 1, -1], np.float32))
    np.testing.assert_array_equal(out, [0, 1, 0, np.nan, 1, 0, 1])


@dsa.jit
def converts(out, x):
    i = tl.arange(0, 5)
    a = tl.load(x + i)
    tl.store(out + i, a.to(tl.int8).to(tl.float32))
    tl.store(out + 5 + i, a.to(tl.float8e4nv).to(tl.float32))
    tl.store(out + 10 + i, a.to(tl.int32, bitcast=True).to(tl.float32, bitcast=True))


def test_conversions_saturate_and_bitcast_keeps_bits():
    x = np.array([1.9, -1000, np.nan, 1e9, 0.3], np.float32)
    out = np.zeros(15, np.float32)
    converts[1](out, x)
    want = [1, -128, 0, 127, 0, 1.875, -448, np.nan, 448, 0.3125, *x]
    np.testing.assert_array_equal(out, np.array(want, np.float32))


@dsa.jit
def atomics(out, x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    old = tl.atomic_add(out + i % 2, tl.load(x + i))
    tl.store(out + 2 + i, old)
    tl.atomic_cas(out, 4.0, 50.0)
    tl.atomic_max(out + 1, 5.5, mask=BLOCK < 2)


def test_atomics_give_old_values_in_order():
    values = evaluate(atomics, np.array([1, 2, 3, 4], np.float32), n=6, BLOCK=4)
    assert values == [50, 6, 0, 0, 1, 2]


def test_strided_and_read_only_inputs():
    case = CASES["add_odd"]()
    x, y, out, n = case.args
    wide = np.zeros((n, 2), np.float32)
    wide[:, 1] = x
    y.flags.writeable = False

    @dsa.jit
    def strided(x, y, out, n, step, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        keep = offs < n
        tl.store(out + offs, tl.load(x + offs * step, keep) + tl.load(y + offs, keep), keep)

    strided[lambda meta: (dsa.cdiv(meta["n"], meta["BLOCK"]),)](wide[:, 1], y, out, n, 2, BLOCK=512)
    np.testing.assert_array_equal(out, x + y)


@dsa.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i)
    tl.store(out + i, value, mask=i < n)


def line_of(text):
    """Line number in this file of the only line that holds `text`."""
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    (number,) = [k for k, line in enumerate(lines, 1) if text in line and "line_of" not in line]
    return number


def test_out_of_bounds_load_names_the_argument_and_the_line():
    x = np.zeros(100, np.float32)
    with pytest.raises(DeviceError) as error:
        copy[1](x, np.zeros(128, np.float32), 100, BLOCK=128)
    assert error.value.message.startswith("load out of bounds")
    assert error.value.loc.line == line_of("value = tl.load(x + i)")
    assert error.value.loc.file == __file__
    assert "^" in str(error.value)


def test_store_to_a_read_only_array_names_it():
    out = np.zeros(8, np.float32)
    out.flags.writeable = False
    with pytest.raises(DeviceError, match="store to argument 'out', which is read-only"):
        copy[1](np.zeros(8, np.float32), out, 8, BLOCK=8)


@dsa.jit
def asserts(x, limit):
    tl.device_assert(tl.program_id(0) < limit, "too many programs")


def test_device_assert_names_the_program():
    with pytest.raises(DeviceError, match=r"program \(2, 0, 0\): too many programs"):
        asserts[5](np.zeros(1, np.float32), 2)


@dsa.jit
def inner(x):
    return tl.load(x + 5) + tl.arange(0, 3) + tl.arange(0, 4)


@dsa.jit
def outer(x):
    tl.store(x, inner(x))


def test_errors_in_callees_show_the_call_chain():
    with pytest.raises(CompileError, match="do not fit together") as error:
        outer[1](np.zeros(8, np.float32))
    assert error.value.loc.line == line_of("return tl.load(x + 5)")
    assert error.value.loc.caller.line == line_of("tl.store(x, inner(x))")


@dsa.jit
def recursive(x):
    return recursive(x)


@dsa.jit
def launches(x):
    outer[1](x)


@dsa.jit
def misses(x):
    callee()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (recursive, "calls itself"),
        (launches, "a kernel cannot launch kernels"),
        (misses, "callee misses argument 'a'"),
    ],
)
def test_calls_that_are_refused(kernel, message):
    with pytest.raises(CompileError, match=message) as error:
        kernel[1](np.zeros(8, np.float32))
    assert error.value.loc.file == __file__


@dsa.jit
def prints(x):
    print("python", tl.program_id(0))
    tl.device_print("value: ", tl.load(x) + 1)
    tl.static_print("type", x.dtype)


def test_prints(capsys):
    prints[2](np.array([4], np.int32))
    assert capsys.readouterr().out.splitlines() == [
        "python 0", "pid (0, 0, 0) value 5", "type *int32", "python 1", "pid (1, 0, 0) value 5",
    ]  # fmt: skip


def test_breakpoints_stop_in_the_users_file(monkeypatch):
    seen = []

    def hook():
        frame = inspect.currentframe().f_back
        seen.append((frame.f_code.co_filename, frame.f_lineno, int(frame.f_locals["pid"])))

    monkeypatch.setattr("sys.breakpointhook", hook)

    @dsa.jit
    def stops(x):
        pid = tl.program_id(0)
        breakpoint()
        tl.store(x + pid, 1.0)

    stops[2](np.zeros(2, np.float32))
    line = line_of("        breakpoint()")
    assert seen == [(__file__, line, 0), (__file__, line, 1)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("tl.arange(0, n)", "must be a compile-time integer, not a run-time value"),
        ("tl.load(n)", "load needs a pointer, not int32"),
        ("tl.load(x, other=0.0)", "'other' without a mask"),
        ("x + 1.5", "a pointer moves by integers, not by fp32"),
        ("x * 2", r"a pointer \(\*fp32\) is used as a number"),
        ("tl.arange(0, 4) << 1.0", "bitwise operators need integers"),
        ("tl.exp(n)", "exp needs floats, not int32"),
        ("tl.arange(0, 4)[4]", "cannot index a tile of shape"),
        ("tl.arange(0, 4).nope", "tiles have no attribute 'nope'"),
        ("tl.to(n, tl.float32)", "AttributeError: module 'dsalang.language' has no attribute 'to'"),
        ("[].sum()", "AttributeError: 'list' object has no attribute 'sum'"),
        ("tl.store(x, 1.0).sum(0)", "AttributeError: 'NoneType' object has no attribute 'sum'"),
        ("bool(tl.arange(0, 4)) and max()", "TypeError: max expected"),
        ("tl.dot(tl.zeros((2, 3), tl.float32), tl.zeros((2, 3), tl.float32))", "inner dims differ"),
        ("tl.zeros((2, 3), tl.float8e4b15)", "the machine has no fp8e4b15"),
        ("tl.sum(tl.arange(0, 4), axis=2)", "axis 2 is out of range"),
        ("tl.load(x, nope=1)", "load.*nope"),
        ("tl.static_assert(1 > 2, 'why')", "static_assert failed: why"),
        ("tl.load(x).to(tl.int8, bitcast=True)", "the widths differ"),
    ],
)
def test_mistakes(body, message, tmp_path):
    path = tmp_path / "kernel_file.py"
    path.write_text(
        f"import dsalang as dsa\nimport dsalang.language as tl\n@dsa.jit\ndef kernel(x, n):\n    {body}\n"
    )
    scope = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(CompileError) as error:
        scope["kernel"][1](np.zeros(4, np.float32), 7)
    assert re.search(message, error.value.message)
    assert error.value.loc.line == 5


def test_what_python_says_is_the_cause_of_an_error_of_the_kernel():
    @dsa.jit(interpret=True)
    def kernel(x):
        first, second, third = 1, 2  # no such third
        tl.store(x, first + second + third)

    with pytest.raises(CompileError, match="ValueError: not enough values") as error:
        kernel[1](np.zeros(4, np.float32))
    assert isinstance(error.value.__cause__, ValueError)
    names = [frame.name for frame in traceback.extract_tb(error.value.__cause__.__traceback__)]
    assert names == ["kernel"]


def test_an_argument_that_is_none_is_named():
    @dsa.jit(interpret=True)
    def kernel(x, bias, out):
        tl.store(out, tl.load(x) + bias)

    with pytest.raises(CompileError, match="neither a number nor a tile") as error:
        kernel[1](np.zeros(1, np.float32), None, np.zeros(1, np.float32))
    assert error.value.hint == "'bias' got None: pass a value"


def test_functions_of_numpy_do_not_take_tiles():
    """The message named a class of the interpreter."""

    @dsa.jit(interpret=True)
    def kernel(x):
        tl.store(x, np.exp(tl.load(x)))

    with pytest.raises(CompileError, match="numpy's functions do not take tiles") as error:
        kernel[1](np.zeros(1, np.float32))
    assert "tl.exp" in error.value.hint
