"""float64 in kernels: every engine gives the reference engine's bits, and what numpy and the interpreter say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang._backend.errors import CompileError, UserError

ENGINES = ("fast", "reference", "riscv")


def everywhere(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[], list[np.ndarray]], tolerance: float = 0.0
) -> list[np.ndarray]:
    """The arrays of the fast engine, equal bit for bit on every engine and close to the interpreter's."""
    monkeypatch.setenv("DSA_CACHE", "0")
    results = {}
    for engine in ENGINES:
        if engine == "riscv":
            pytest.importorskip("unicorn")
        monkeypatch.setenv("DSA_EMULATOR", engine)
        results[engine] = run()
    monkeypatch.setenv("DSA_INTERPRET", "1")
    interpreted = run()
    monkeypatch.delenv("DSA_INTERPRET")
    for engine in ENGINES[1:]:
        for got, want in zip(results["fast"], results[engine]):
            np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8), engine)
    for got, want in zip(results["fast"], interpreted):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return results["fast"]


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@dsa.jit
def arithmetic(x, y, out, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    a = tl.load(x + i, mask=keep, other=0.1)
    b = tl.load(y + i, mask=keep, other=2.0)
    tl.store(out + i, a * b + scale - 0.1, mask=keep)
    tl.store(out + n + i, tl.sqrt(a * a + 1e-300) / (b + 1e-9), mask=keep)
    tl.store(out + 2 * n + i, tl.fma(a, b, -a) % 0.3, mask=keep)
    tl.store(out + 3 * n + i, tl.where(a < b, tl.maximum(a, 0.25), tl.floor(b)), mask=keep)


def test_arithmetic(monkeypatch):
    n = 700
    x, y = normal(1, n), normal(2, n)

    def run():
        out = np.zeros((4, n))
        arithmetic[(3,)](x, y, out, n, 0.3, BLOCK=256)
        return [out]

    (out,) = everywhere(monkeypatch, run)
    scale = float(np.float32(0.3))  # a Python float is fp32, as in Triton
    np.testing.assert_array_equal(out[0], x * y + scale - 0.1)
    np.testing.assert_array_equal(out[1], np.sqrt(x * x + 1e-300) / (y + 1e-9))
    np.testing.assert_array_equal(out[3], np.where(x < y, np.maximum(x, 0.25), np.floor(y)))


@dsa.jit
def functions(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(out + i, tl.exp(a) + tl.exp2(a))
    tl.store(out + N + i, tl.log(tl.abs(a)) + tl.log2(tl.abs(a)))
    tl.store(out + 2 * N + i, tl.sin(a * 1e9) + tl.cos(a * 1e9))
    tl.store(out + 3 * N + i, tl.tanh(a) + tl.erf(a))
    tl.store(out + 4 * N + i, tl.sigmoid(a) + tl.rsqrt(tl.abs(a)))


def test_functions(monkeypatch):
    x = normal(3, 200) * 3

    def run():
        out = np.zeros((5, 200))
        functions[(1,)](x, out, N=200)
        return [out]

    (out,) = everywhere(monkeypatch, run, 4e-15)
    np.testing.assert_allclose(out[2], np.sin(x * 1e9) + np.cos(x * 1e9), rtol=0, atol=4e-16)


@dsa.jit
def conversions(x, f, i, TO: tl.constexpr, N: tl.constexpr):
    k = tl.arange(0, N)
    value = tl.load(x + k)
    tl.store(f + k, value.to(TO))
    whole = (value * 1e15).to(tl.int64)
    tl.store(i + k, whole.to(tl.float64))
    tl.store(i + N + k, whole.to(tl.uint64).to(tl.float64))
    tl.store(i + 2 * N + k, value.to(tl.int64, bitcast=True).to(tl.float64, bitcast=True))
    tl.store(i + 3 * N + k, value.to(TO).to(tl.float64))


@pytest.mark.parametrize("kind", [tl.float32, tl.float16, tl.bfloat16, tl.float8e4nv, tl.float8e5])
def test_conversions(monkeypatch, kind):
    x = normal(4, 97) * 10.0 ** np.linspace(-9, 4, 97)

    def run():
        narrow, wide = np.zeros(97, kind.format.storage), np.zeros((4, 97))
        conversions[(1,)](x, narrow, wide, TO=kind, N=97)
        return [narrow, wide]

    narrow, wide = everywhere(monkeypatch, run)
    np.testing.assert_array_equal(wide[0], np.trunc(x * 1e15))
    np.testing.assert_array_equal(wide[2], x)
    if kind == tl.float32:
        np.testing.assert_array_equal(narrow, x.astype(np.float32))


@dsa.jit
def reductions(x, out, where, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    at = i[:, None] * N + j[None, :]
    a = tl.load(x + at)
    tl.store(out + i, tl.sum(a, 1))
    tl.store(out + M + i, tl.max(a, 1) - tl.min(a, 1))
    tl.store(out + 2 * M + j, tl.sum(a, 0))
    best, place = tl.max(a, 1, return_indices=True)
    tl.store(where + i, place)
    tl.store(where + M + j, tl.argmin(a, 0))
    tl.store(x + at, tl.cumsum(a, 1) + tl.cumprod(a, 0, reverse=True))
    tl.store(out + 2 * M + N, tl.sum(a) + tl.sum(best))


@dsa.jit
def larger(a, b):
    return tl.maximum(a, b)


@dsa.jit
def orders(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(out + i, tl.sort(a))
    tl.store(out + N + i, tl.flip(a))
    tl.store(out + 2 * N + i, tl.gather(a, (i * 7) % N, 0))
    tl.store(out + 3 * N + i, tl.associative_scan(a, 0, larger))
    tl.store(out + 4 * N + i, tl.softmax(a))
    tl.store(out + 5 * N, tl.reduce(a, 0, larger))
    tl.store(out + 5 * N + 1 + tl.arange(0, 4), tl.topk(a, 4))


def test_reductions(monkeypatch):
    x = normal(5, 6, 20)

    def run():
        a, out, where = x.copy(), np.zeros(33), np.zeros(26, np.int32)
        reductions[(1,)](a, out, where, M=6, N=20)
        return [a, out, where]

    _, out, where = everywhere(monkeypatch, run, 1e-14)
    np.testing.assert_allclose(out[:6], x.sum(1), rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(where, [*x.argmax(1), *x.argmin(0)])


def test_orders(monkeypatch):
    x = normal(6, 64)

    def run():
        out = np.zeros(5 * 64 + 5)
        orders[(1,)](x, out, N=64)
        return [out]

    (out,) = everywhere(monkeypatch, run, 1e-15)
    np.testing.assert_array_equal(out[:64], np.sort(x))
    np.testing.assert_array_equal(out[128:192], x[np.arange(64) * 7 % 64])
    np.testing.assert_array_equal(out[192:256], np.maximum.accumulate(x))
    np.testing.assert_array_equal(out[-4:], np.sort(x)[:-5:-1])


@dsa.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STEP: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float64)
    for k in range(0, K, STEP):
        s = k + tl.arange(0, STEP)
        left = tl.load(a + i[:, None] * K + s[None, :])
        right = tl.load(b + j[None, :] * K + s[:, None])
        acc = tl.dot(left, right, acc)
    tl.store(c + i[:, None] * N + j[None, :], acc)


def test_product(monkeypatch):
    a, b = normal(7, 18, 48), normal(8, 10, 48)

    def run():
        c = np.zeros((18, 10))
        product[(1,)](a, b, c, M=18, N=10, K=48, STEP=16)
        return [c]

    (c,) = everywhere(monkeypatch, run, 1e-13)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("target", ["edge", "edge-server", "center", "tpu-v4-like"])
def test_targets_have_a_rate_or_say_so(target):
    a, b, c = normal(7, 16, 16), normal(8, 16, 16), np.zeros((16, 16))
    sizes = {"M": 16, "N": 16, "K": 16, "STEP": 16}
    if target == "tpu-v4-like":
        with pytest.raises(CompileError, match="'tpu-v4-like' does not multiply fp64"):
            product[(1,)](a, b, c, **sizes, target=target)
        return
    product[(1,)](a, b, c, **sizes, target=target)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-12, atol=1e-13)


@dsa.jit
def atomics(x, total, most, old, index, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + tl.load(index + i))
    tl.atomic_add(total + i % 4, value)
    tl.atomic_max(most + i * 0, value)
    tl.store(old + i, tl.atomic_xchg(total + 4 + i, value))
    tl.store(x + tl.load(index + i), -value)


def test_gather_scatter_atomics(monkeypatch):
    x, index = normal(9, 32), np.random.default_rng(1).permutation(32).astype(np.int32)

    def run():
        a, total, most, old = x.copy(), np.arange(36.0), np.zeros(1), np.zeros(32)
        atomics[(1,)](a, total, most, old, index, N=32)
        return [a, total, most, old]

    a, _, most, old = everywhere(monkeypatch, run, 1e-14)
    np.testing.assert_array_equal(a, -x)
    assert most[0] == x.max()
    np.testing.assert_array_equal(old, np.arange(4.0, 36))


@dsa.jit
def scalars(x, out, steps):
    value = tl.load(x)
    step = value * 0.5 + 1e-17
    while value < 3.0:
        value += step
    tl.store(out, value)
    tl.store(out + 1, tl.load(x + 1).to(tl.int32) + steps)
    if tl.load(x + 1) > 1e300:
        tl.store(out + 2, 1.0 / 3.0)
    tl.store(out + 3, tl.full((), 0.1, tl.float64))
    tl.device_assert(value > 2.9999999999, "value")


def test_scalars_and_constants(monkeypatch):
    x = np.array([0.7, 1e301])

    def run():
        out = np.zeros(4)
        scalars[(1,)](x, out, 2)
        return [out]

    (out,) = everywhere(monkeypatch, run)
    value = 0.7
    while value < 3.0:
        value += 0.35 + 1e-17
    assert out.tolist() == [value, 2.0**31 - 1 + 2 - 2**32, 1 / 3, 0.1]


@dsa.jit
def shown(x):
    tl.device_print("x", tl.load(x))


def test_printing(capfd, monkeypatch):
    for engine in ("fast", "reference"):
        monkeypatch.setenv("DSA_EMULATOR", engine)
        shown[(1,)](np.array([1 / 3]))
        assert "0.3333333333333333" in capfd.readouterr().out


@dsa.jit
def failing(x):
    tl.device_assert(tl.load(x) < 0.1, "too large")


def test_device_assert():
    failing[(1,)](np.array([0.09999999999999999]))
    with pytest.raises(UserError, match="too large"):
        failing[(1,)](np.array([0.1]))


@dsa.jit
def promoted(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i) + tl.load(y + i)
    tl.static_assert(value.dtype == tl.float64)
    tl.store(out + i, value * 0.1 + 1e300)


@pytest.mark.parametrize("kind", ["int1", "int8", "uint64", "fp16", "bf16", "fp32", "fp8e5"])
def test_everything_promotes_to_fp64(kind):
    from dsalang._jit import dtypes

    x, out = np.array([1.5, -2.25, 1e-300, 4.0]), np.zeros(4)
    y = np.array([1, 0, 1, 1]).astype(dtypes.from_name(kind).format.storage)
    promoted[(1,)](x, y, out, N=4)
    np.testing.assert_array_equal(out, (x + [1, 0, 1, 1]) * 0.1 + 1e300)


def test_a_static_schedule(monkeypatch):
    scheduled = dsa.jit(schedule="static")(arithmetic.fn)
    x, y = normal(1, 512), normal(2, 512)
    outs = []
    for kernel in (scheduled, arithmetic):
        out = np.zeros((4, 512))
        kernel[(2,)](x, y, out, 512, 0.5, BLOCK=256)
        outs.append(out)
    np.testing.assert_array_equal(*outs)


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    x, y = torch.randn(300, dtype=torch.float64), torch.randn(300, dtype=torch.float64)
    out = torch.zeros(4, 300, dtype=torch.float64)
    arithmetic[(2,)](x, y, out, 300, 1.0, BLOCK=256)
    assert torch.equal(out[0], x * y + 1.0 - 0.1)


def test_predicted_cycles_are_the_engine_s():
    a, b, c = normal(7, 32, 64), normal(8, 32, 64), np.zeros((32, 32))
    sizes = {"M": 32, "N": 32, "K": 64, "STEP": 16}
    compiled = product.compile(signature="*fp64, *fp64, *fp64", constants=sizes)
    assert compiled.predict(1).cycles == product[(1,)](a, b, c, **sizes).cycles
