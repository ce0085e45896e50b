"""Control flow: the parsed kernels' results against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang._jit.depends import dependencies
from frontend.evaluate import parse_call, run_kernel


def ints(*values):
    return np.array(values, np.int32)


@dsa.jit
def early(x, out, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    if tl.load(x + pid) < 0:
        tl.store(out + pid, -1)
        if pid == 1:
            return
        tl.store(out + pid, -2)
    else:
        if pid == 3:
            return
    tl.store(out + pid + 8, 1)


def test_early_return():
    out = np.zeros(16, np.int32)
    run_kernel(early, grid=(6,), x=ints(-5, -5, 4, 4, 4, 0), out=out, n=5)
    assert out.tolist() == [-2, -1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0]


@dsa.jit
def sign(x):
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0


@dsa.jit
def pair(x, scale: tl.constexpr = 3):
    return x * scale, x + scale


@dsa.jit
def callee(x, out, n):
    for i in range(n):
        v = tl.load(x + i)
        a, b = pair(v)
        c, _ = pair(sign(v), scale=10)
        tl.store(out + i * 3, a)
        tl.store(out + i * 3 + 1, b)
        tl.store(out + i * 3 + 2, c)


def test_inlined_functions():
    out = np.zeros(9, np.int32)
    run_kernel(callee, x=ints(5, -2, 0), out=out, n=3)
    assert out.tolist() == [15, 8, 10, -6, 1, -10, 0, 3, 0]


@dsa.jit
def ranges(out, start, stop, step):
    count = 0
    for i in range(start, stop, step):
        tl.store(out + count, i)
        count += 1
    tl.store(out + 15, count)


@pytest.mark.parametrize(
    "bounds", [(0, 5, 1), (2, 11, 3), (10, 0, -3), (0, 10, -1), (5, 5, 2), (3, -4, -2), (7, 2, 1)]
)
def test_range_with_run_time_step(bounds):
    out = np.full(16, -99, np.int32)
    run_kernel(ranges, out=out, start=bounds[0], stop=bounds[1], step=bounds[2])
    expected = list(range(*bounds))
    assert out[15] == len(expected) and out[: len(expected)].tolist() == expected


@dsa.jit
def constant_steps(out, n):
    k = 0
    for i in range(n, 0, -2):
        tl.store(out + k, i)
        k += 1
    for i in tl.range(1, n, 3, num_stages=2):
        tl.store(out + k, i)
        k += 1
    for i in tl.static_range(3, 0, -1):
        tl.store(out + k, i)
        k += 1
    for i in (7, 9):
        tl.store(out + k, i)
        k += 1


def test_constant_steps():
    out = np.zeros(16, np.int32)
    module, _ = parse_call(constant_steps, {"out": out, "n": 5})
    assert "dsa.num_stages = 2" in str(module)
    run_kernel(constant_steps, out=out, n=5)
    assert out[:10].tolist() == [5, 3, 1, 1, 4, 3, 2, 1, 7, 9]


@dsa.jit
def skipping(x, out, n):
    total = 0
    for i in range(n):
        v = tl.load(x + i)
        if v < 0:
            continue
        if v > 100:
            total += 1
            continue
        total += v
    tl.store(out, total)


def test_continue():
    out = np.zeros(1, np.int32)
    run_kernel(skipping, x=ints(4, -3, 200, 5), out=out, n=4)
    assert out[0] == 10


@dsa.jit
def leaving(x, out, n, m):
    total = 0
    for i in range(n - 1, -1, -1):
        v = tl.load(x + i)
        if v == 0:
            break
        if v < 0:
            continue
        total += v
    tl.store(out, total)
    rounds = 0
    while True:
        rounds += 1
        if rounds * rounds > total:
            break
    tl.store(out + 1, rounds)
    for i in range(n):
        for j in range(m):
            if i * j == 6:
                tl.store(out + 2, i * 10 + j)
                return
            if j > i:
                break
        rounds += 100
    while rounds > 0:
        rounds -= 7
        if rounds == 3:
            return
    tl.store(out + 3, rounds)


@pytest.mark.parametrize(
    ("x", "m", "expected"),
    [
        ([1, 0, 5, -2, 4], 9, [9, 4, 23, 0]),
        ([1, 0, 5, -2, 4], 2, [9, 4, 0, -2]),
        ([2, 2, 2, 2, 2], 1, [10, 4, 0, -2]),
        ([0, 0, 0, 0, -1], 1, [0, 1, 0, -3]),
    ],
)
def test_break_and_return_in_loops(x, m, expected):
    out = np.zeros(4, np.int32)
    run_kernel(leaving, x=ints(*x), out=out, n=5, m=m)
    again = np.zeros(4, np.int32)
    dsa.jit(leaving.fn, interpret=True)[(1,)](ints(*x), again, 5, m)
    assert out.tolist() == again.tolist()
    assert out[:3].tolist() == expected[:3]


@dsa.jit
def find(x, n, wanted):
    for i in range(n):
        if tl.load(x + i) == wanted:
            return i
    return -1


@dsa.jit
def find_pair(x, n, total):
    i = 0
    while i < n:
        for j in range(n):
            if tl.load(x + i) + tl.load(x + j) == total:
                return i, j * 1.5
        i += 1
    return n, 0.0


@dsa.jit
def searching(x, out, n):
    for i in range(3):
        tl.store(out + i, find(x, n, i * 3))
    a, b = find_pair(x, n, 10)
    tl.store(out + 3, a)
    tl.store(out + 4, (b * 2).to(tl.int32))
    a, b = find_pair(x, n, 99)
    tl.store(out + 5, a)


def test_values_returned_from_loops():
    for interpreted in (False, True):
        out = np.zeros(6, np.int32)
        args = {"x": ints(1, 6, 3, 7), "out": out, "n": 4}
        if interpreted:
            dsa.jit(searching.fn, interpret=True)[(1,)](**args)
        else:
            run_kernel(searching, **args)
        assert out.tolist() == [-1, 2, 1, 2, 9, 4]


@dsa.jit
def growing(x, out, n, N: tl.constexpr):
    acc = 0.0
    best = None
    count = 0
    limit = -float("inf")
    for i in range(n):
        best = tl.load(x + i * N + tl.arange(0, N))
        acc += best
        limit = max(limit, tl.max(best))
        count += 1
    tl.store(out + tl.arange(0, N), acc)
    tl.store(out + N, limit)
    tl.store(out + N + 1, count)


def test_types_of_loop_variables_adapt():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = np.zeros(6, np.float32)
    with pytest.raises(dsa.CompileError, match="changes the type of 'best': NoneType None"):
        run_kernel(growing, x=x, out=out, n=3, N=4)


@dsa.jit
def growing_numbers(x, out, n, N: tl.constexpr):
    acc = 0.0
    count = 0
    limit = -float("inf")
    for i in range(n):
        row = tl.load(x + i * N + tl.arange(0, N))
        acc += row
        limit = max(limit, tl.max(row))
        count += 1
        width = N
        for j in range(2):
            acc += j
            half = width // 2
            acc += tl.sum(tl.zeros([half], tl.float32))
    tl.store(out + tl.arange(0, N), acc)
    tl.store(out + N, limit)
    tl.store(out + N + 1, count)


def test_literals_take_the_type_of_the_loop():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = np.zeros(6, np.float32)
    run_kernel(growing_numbers, x=x, out=out, n=3, N=4)
    np.testing.assert_array_equal(out, [*(x.sum(0) + 3), 11, 3])


@dsa.jit
def widening(x, out, n):
    total = n
    for i in range(n):
        total += tl.load(x + i)
    tl.store(out, total)


def test_a_loop_variable_widens():
    out = np.zeros(1, np.int64)
    run_kernel(widening, x=np.array([2**40, 5], np.int64), out=out, n=2)
    assert out[0] == 2**40 + 7


@dsa.jit
def collatz(x, out):
    pid = tl.program_id(0)
    n = tl.load(x + pid)
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    tl.store(out + pid, steps)


def test_while():
    out = np.zeros(4, np.int32)
    run_kernel(collatz, grid=(4,), x=ints(1, 6, 7, 27), out=out)
    assert out.tolist() == [0, 8, 16, 111]


@dsa.jit
def booleans(x, out, n):
    i = tl.program_id(0)
    v = tl.load(x + i)
    if (v > 0 and v < 10) or v == 42:
        tl.store(out + i, 1)
    elif not v:
        tl.store(out + i, 2)
    elif -5 < v <= -2:
        tl.store(out + i, 3)
    else:
        tl.store(out + i, 4 if i != n else 5)


def test_booleans_and_chains():
    out = np.zeros(7, np.int32)
    run_kernel(booleans, grid=(7,), x=ints(5, 42, 0, -2, -5, 10, 11), out=out, n=6)
    assert out.tolist() == [1, 1, 2, 3, 4, 4, 5]


@dsa.jit
def swapping(out, n):
    a, b = 0, 1
    pairs = (0, 1)
    for _ in range(n):
        a, b = b, a + b
        pairs = (pairs[1], pairs[0] + pairs[1])
    tl.store(out, a)
    tl.store(out + 1, pairs[0])


def test_swapping_and_tuples_in_loops():
    out = np.zeros(2, np.int32)
    run_kernel(swapping, out=out, n=10)
    assert out.tolist() == [55, 55]


@dsa.jit
def first_match(x, wanted, n: tl.constexpr):
    for i in tl.static_range(n):
        if tl.load(x + i) == wanted:
            return i
    return -1


@dsa.jit
def search(x, out, n: tl.constexpr):
    tl.store(out, first_match(x, 7, n))
    tl.store(out + 1, first_match(x, 8, n))


def test_return_from_an_unrolled_loop():
    out = np.zeros(2, np.int32)
    run_kernel(search, x=ints(1, 7, 7, 3), out=out, n=4)
    assert out.tolist() == [1, -1]


WIDTH = 4
NAMED = tl.constexpr(3)


@dsa.jit
def static_things(out, flag, KIND: tl.constexpr, EXTRA: tl.constexpr = None):
    size: tl.constexpr = WIDTH * 2 - NAMED
    if KIND == "int" and EXTRA is None:
        tl.store(out, size)
    if flag is not None:
        tl.store(out + 1, flag)
    assert size == 5, f"size is {size}"
    tl.static_assert(WIDTH in (4, 8))
    tl.static_assert(out.dtype.element_ty == tl.int32 and out.dtype.element_ty.is_int())
    tl.static_assert(tl.arange(0, 3).shape[0] == 3 and len((1, 2)) == 2)
    tl.store(out + 2, (1, 2, 3)[-1] if KIND != "int" else max(1, 9, 4) - 7 // -2)


@dsa.jit
def constant_argument(out, n):
    tl.static_assert(n.dtype == tl.int32)
    tl.store(out, n.to(tl.int64) * 3)


def test_a_launch_may_make_an_argument_constant():
    from dsalang._jit.parse import parse

    for constants, signature in (({"n": 1}, {}), ({}, {"n": "i32"})):
        module = parse(constant_argument.source, {"out": "*i64", **signature}, constants)
        module.verify()
        assert ("sext" in str(module)) == bool(signature)


def test_constexpr():
    out = np.zeros(3, np.int32)
    run_kernel(static_things, out=out, flag=None, KIND="int")
    assert out.tolist() == [5, 0, 13]
    run_kernel(static_things, out=out, flag=6, KIND="other", EXTRA=1)
    assert out.tolist() == [5, 6, 3]


@dsa.jit
def printing(x):
    tl.static_print("type", x.dtype, 3)
    tl.device_print("x is", tl.load(x))
    print("again", tl.load(x) + 1)
    tl.device_assert(tl.load(x) > 0, "positive")


def test_prints(capsys):
    assert run_kernel(printing, x=ints(4)) == ["x is 4", "again 5"]
    assert capsys.readouterr().out == "type *int32 3\n"


def test_closures_and_nested_definitions():
    scale, width = 3, 4

    @dsa.jit
    def helper(v):
        return v * scale

    @dsa.jit
    def kernel(x, out):
        i = tl.arange(0, width)
        tl.store(out + i, helper(tl.load(x + i)))

    out = np.zeros(4, np.int32)
    run_kernel(kernel, x=ints(1, 2, 3, 4), out=out)
    assert out.tolist() == [3, 6, 9, 12]
    keys = dependencies(kernel.source)
    assert {k.split(":")[-1]: v for k, v in keys.items()}["scale"] == 3
    assert any(k.endswith(":helper") for k in keys)


def test_locations_name_the_line_and_the_call_site():
    module, _ = parse_call(callee, {"x": ints(1), "out": ints(1), "n": 1})
    text = [str(op.location) for op in module.walk()]
    inlined = [t for t in text if t.count("test_control_flow.py") == 2]
    assert inlined and all("test_control_flow.py" in t for t in text[2:])


@dsa.jit
def turning(x, out, flag, BLOCK: tl.constexpr):
    """`s` and `t` turn from a number into a tile: the bodies are parsed more than once."""
    i = tl.arange(0, BLOCK)
    s = 0
    for _ in range(3):
        s += tl.load(x + i)
    t, going = 0, flag
    while going > 0:
        t += tl.load(x + i)
        going -= 1
    tl.store(out + i, s + t)


def test_attempts_at_a_loop_leave_no_uses_behind():
    arguments = {"x": np.arange(8, dtype=np.float32), "out": np.zeros(8, np.float32)}
    module, _ = parse_call(turning, {**arguments, "flag": 2, "BLOCK": 8})
    inside = set(module.walk())
    for op in inside:
        for result in op.results:
            assert all(use.operation in inside for use in result.uses), str(op)


def test_a_number_that_becomes_a_tile_in_a_loop():
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    turning[(1,)](x, out, 2, BLOCK=8)
    assert out.tolist() == (5 * x).tolist()
