"""Names and habits of strangers' kernels: descriptors' rows, closures, unrolled loops, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang.language import libdevice

BOTH = pytest.mark.parametrize("interpret", ["0", "1"], ids=["compiled", "interpreted"])


@pytest.fixture(autouse=True)
def _uncached(monkeypatch):
    monkeypatch.setenv("DSA_CACHE", "0")


@dsa.jit
def rows(table, index, out, height, WIDTH: tl.constexpr, COUNT: tl.constexpr):
    source = tl.make_tensor_descriptor(table, [height, WIDTH], [WIDTH, 1], [1, WIDTH - 1])
    target = tl.make_tensor_descriptor(out, [height, WIDTH], [WIDTH, 1], [1, WIDTH - 1])
    picked = tl.load(index + tl.arange(0, COUNT))
    part = source.gather(picked, 2)
    target.scatter(part * 2, picked, 1)


@BOTH
def test_rows_of_descriptors(interpret, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    table = np.arange(20, dtype=np.float32).reshape(4, 5)
    index = np.array([2, 0, 9], np.int32)  # the last one is outside
    out = np.zeros((4, 5), np.float32)
    rows[1](table, index, out, 4, WIDTH=5, COUNT=3)
    expected = np.zeros((4, 5), np.float32)
    for k in (2, 0):
        expected[k, 1:4] = 2 * table[k, 2:5]
    np.testing.assert_array_equal(out, expected)


@dsa.constexpr_function
def half(n, least=1):
    return max(n // 2, least)


@dsa.jit
def habits(x, out, n, N: tl.constexpr):
    tl.static_assert(not tl.target_info.is_cuda())
    i = tl.arange(0, N)
    v = tl.load(x + i)
    scale = tl.to_tensor(3.0)

    def twice(a, by=2):
        return a * by + shift

    shift = 1.0
    v = twice(v) + twice(v, by=scale)
    square = lambda a: a * a  # noqa: E731
    for step in tl.static_range(10):
        if step > 2:
            break
        if step == 1:
            continue
        v += square(step)
    for name in ("a", "b", "c"):
        if name == "b":
            break
        v += half(N) + half(1)
    tl.store(out + i, v + v[1:2] ** tl.cast(n, tl.float32) + libdevice.pow(v, 2))


@BOTH
def test_habits(interpret, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    habits[1](x, out, 3, N=8)
    v = x * 2 + 1 + x * 3 + 1 + 4 + 4 + 1
    np.testing.assert_allclose(out, v + v[1] ** 3 + v**2, rtol=1e-6)


@dsa.jit
def assembly(x):
    tl.inline_asm_elementwise(
        "add $0, $1;", "=r,r", [tl.load(x)], dtype=tl.int32, is_pure=True, pack=1
    )


@dsa.jit
def rounding(x):
    tl.store(x, libdevice.add_rz(tl.load(x), 1.0))


@BOTH
@pytest.mark.parametrize(
    ("kernel", "name"), [(assembly, "inline_asm_elementwise"), (rounding, "add_rz")]
)
def test_refused(kernel, name, interpret, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    with pytest.raises(
        dsa.CompileError, match=f"{name} is not available on this machine"
    ) as caught:
        kernel[1](np.zeros(1, np.float32))
    assert caught.value.hint


@dsa.jit
def online(x, out, N: tl.constexpr):
    top = tl.float32(-float("inf"))
    for start in range(0, N, 4):
        best = tl.max(tl.load(x + start + tl.arange(0, 4)), axis=0)
        top = tl.max(top, best)  # of two scalars
    kind: tl.constexpr = accumulator(x.dtype.element_ty)
    tl.store(out, top.to(kind) + tl.core.get_int_dtype(32, True)(1))


@tl.constexpr
def accumulator(kind):
    return tl.float32 if kind.is_floating() else tl.int32


@BOTH
def test_odd_habits(interpret, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    x, out = np.float32([1, 9, 3, 4, 5, 6, 2, 8]), np.zeros(1, np.float32)
    online[1](x, out, N=8)
    assert out[0] == 10


@dsa.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    i, j = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, D):
        total = tl.dot(a.load([i, k]), b.load([k, j]), total)
    c.store([i, j], total.to(c.dtype))


@BOTH
def test_descriptors_made_on_the_host(interpret, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=s).astype(np.float16) for s in ((20, 24), (24, 9)))
    c = np.zeros((20, 9), np.float32)
    describe = dsa.runtime.TensorDescriptor
    blocks = [describe.from_tensor(x, s) for x, s in ((a, [8, 16]), (b, [16, 8]), (c, [8, 8]))]
    product[3, 2](*blocks, 24, M=8, N=8, D=16)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-3)
    blocks[0].block_shape = [4, 16]  # another image
    c[...] = 0
    blocks[2].block_shape = [4, 8]
    product[5, 2](*blocks, 24, M=4, N=8, D=16)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-3)


@dsa.jit
def combined(pairs, out, scale, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for k in tl.static_range(len(pairs)):
        array, factor = pairs[k]
        total += tl.load(array + i) * factor
    if scale[1] is not None:
        total *= scale[1]
    tl.store(out + i, total + scale[0])


@BOTH
def test_tuples_as_arguments(interpret, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    x, y, out = np.arange(4, dtype=np.float32), np.ones(4, np.int32), np.zeros(4, np.float32)
    combined[1](((x, 2), (y, 0.5)), out, (1, None), N=4)
    np.testing.assert_array_equal(out, 2 * x + 0.5 + 1)
    combined[1](((x, 2),), out, (3, 10), N=4)
    np.testing.assert_array_equal(out, 20 * x + 3)


@dsa.jit
def named_operators(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    v = tl.sub(tl.mul(v, 2, sanitize_overflow=False), tl.add(v, 1))
    tl.store(out + tl.arange(0, N), tl.bitonic_merge(v))


@BOTH
def test_named_operators_and_options_of_gpus(interpret, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    x, out = np.float32([3, 5, 4, 1]), np.zeros(4, np.float32)
    named_operators[1](x, out, N=4, num_warps=8, waves_per_eu=2, maxnreg=128)
    assert out.tolist() == [0, 2, 3, 4]


@dsa.jit
def powers(x, out, y, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out + tl.arange(0, N), v**-2 + v**0.5 + v**y + v**3)


@BOTH
def test_powers(interpret, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    x, out = np.float32([1, 2, 0.5, 9]), np.zeros(4, np.float32)
    powers[1](x, out, 1.5, N=4)
    np.testing.assert_allclose(out, x**-2.0 + x**0.5 + x**1.5 + x**3, rtol=1e-6)


@dsa.jit
def atomic_accesses(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.atomic_load(x + i, mask=i < 3, sem="relaxed")
    (out + i).atomic_store(tl.expect_zero(value, i >= 3) + 1, sem="release", scope="gpu")


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_atomic_loads_and_stores(interpret, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    x, out = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    atomic_accesses[1](x, out, N=4)
    assert out[:3].tolist() == [1, 2, 3]
