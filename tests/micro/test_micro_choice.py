"""Generated or hand-written: what the cost model takes, the fallback, what is told about it, and the cache."""

from __future__ import annotations

import numpy as np
import pytest
from micro.micro_kernels import calls_doubled, doubled

import dsalang as dsa
import dsalang.language as tl
from dsalang._backend.image.elf import load, save
from dsalang._backend.micro.contract import Constant, Contract

N = 4096


@pytest.fixture
def registered():
    """Registers microkernels for the time of a test."""
    made = []

    def add(micro, **options):
        made.append(dsa.register_microkernel(micro, **options))
        return micro

    yield add
    for micro in made:
        dsa.unregister_microkernel(micro)


def vector(body, **options):
    """A microkernel of `doubled` with a body."""

    def f(k, x):
        body(k, x)

    return dsa.microkernel(reference=doubled, **options)(f)


def fast():
    return vector(lambda k, x: k.vector(k.result, lambda v, a: a + a, x))


def slow():
    def body(k, x):
        k.vector(k.result, lambda v, a: a * 1.0, x)
        for _ in range(3):
            k.vector(k.result, lambda v, a: a * 1.0, k.result)
        k.vector(k.result, lambda v, a: a + a, k.result)

    return vector(body)


def compiled(target="edge"):
    x, y = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    kernel = calls_doubled.warmup(x, y, N=N, grid=(1,), target=target)
    calls_doubled[(1,)](x, y, N=N, target=target)
    assert (y == 2 * x).all()
    return kernel


def test_the_slower_one_does_not_run(registered):
    micro = registered(slow())
    (choice,) = compiled().microkernels
    assert (choice.kernel, choice.ran, choice.reason) == (micro.name, False, "it is not faster")
    assert choice.op == "doubled" and choice.micro_cycles > choice.generated_cycles > 0
    assert (
        "doubled(tl.load(x + n))"
        in calls_doubled.source.lines[choice.loc.line - calls_doubled.source.first_line]
    )


def test_modes(registered, monkeypatch):
    registered(slow())
    monkeypatch.setenv("DSA_MICROKERNELS", "always")
    (choice,) = compiled().microkernels
    assert choice.ran and choice.reason == "DSA_MICROKERNELS=always"
    monkeypatch.setenv("DSA_MICROKERNELS", "off")
    assert compiled().microkernels == ()


def test_where_it_serves(registered):
    registered(slow(), when=lambda x: x.shape[0] > N)
    registered(slow(), when=lambda x: x.fmt == "bf16")
    registered(slow(), target="center")
    registered(slow(), target=lambda target: target.cores > 1)
    assert compiled().microkernels == ()
    assert len(compiled("center").microkernels) == 2


def test_the_faster_one_runs(registered):
    """A square as a product in place of a logarithm and a power."""

    @dsa.jit
    def grown(x):
        return tl.exp2(tl.log2(tl.abs(x) + 1.0) * 2.0)

    @dsa.microkernel(reference=grown, tolerance=1e-5)
    def product(k, x):
        def program(v, a):
            base = v.fabs(a) + 1.0
            return base * base

        k.vector(k.result, program, x)

    @dsa.jit
    def kernel(x, y, n: tl.constexpr):
        at = tl.arange(0, n)
        tile = tl.load(x + at)
        for _ in range(3):
            tile = grown(tile)
        tl.store(y + at, tile)

    registered(product)
    x, y = np.linspace(-1, 1, N, dtype=np.float32), np.zeros(N, np.float32)
    (choice,) = kernel.warmup(x, y, n=N, grid=(1,)).microkernels
    assert choice.ran and choice.reason == "it is faster" and choice.op == "grown"
    report = kernel[(1,)](x, y, n=N)
    expected = x.astype(np.float64)
    for _ in range(3):
        expected = (np.abs(expected) + 1) ** 2
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    dsa.unregister_microkernel(product)
    assert kernel[(1,)](x, y, n=N).cycles > report.cycles


def test_the_fallback_where_generated_code_fails(registered):
    """The target does not multiply fp32, so there is no code for the product; the vector engine has one."""
    target = dsa.Target.by_name("gemmini-like")

    @dsa.microkernel(reference=dsa.dot)
    def small(k, a, b, acc):
        (m, depth), n = a.shape, b.shape[1]
        products = k.scratch((m, n, depth), "fp32")
        k.vector(products, lambda v, x, y: x * y, a[:, None, :], b.T[None, :, :])
        k.reduce(k.result, products, "fsum", 2)

    @dsa.jit
    def kernel(x, y, n: tl.constexpr):
        at = tl.arange(0, n)[:, None] * n + tl.arange(0, n)[None, :]
        tile = tl.load(x + at)
        square = tl.dot(tile, tile)
        tl.store(y + at, tl.dot(square, tile))

    x, y = (
        np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32),
        np.zeros((16, 16), np.float32),
    )
    with pytest.raises(dsa.CompileError, match="does not multiply fp32"):
        kernel[(1,)](x, y, n=16, target=target)
    registered(small, op="dot")
    kernel[(1,)](x, y, n=16, target=target)
    np.testing.assert_allclose(y, x @ x @ x, rtol=1e-4, atol=1e-4)
    choices = kernel.warmup(x, y, n=16, grid=(1,), target=target).microkernels
    assert len(choices) == 2
    for choice in choices:
        assert choice.ran and choice.generated_cycles == -1
        assert choice.reason.startswith("generated code does not compile: the tensor engine")


def test_one_that_refuses(registered):
    registered(vector(lambda k, x: k.refuse("odd weather")))
    (choice,) = compiled().microkernels
    assert not choice.ran and choice.reason == "it does not serve the call: odd weather"


def test_one_that_does_not_fit(registered):
    def body(k, x):
        k.vector(k.scratch((1 << 23,), "fp32"), lambda v: v.const(0.0, "fp32"))
        k.vector(k.result, lambda v, a: a + a, x)

    registered(vector(body))
    (choice,) = compiled().microkernels
    assert not choice.ran and choice.reason.startswith("with it the kernel does not compile")


def test_a_wrong_one_stops_the_compilation(registered, monkeypatch):
    monkeypatch.setenv("DSA_MICROKERNELS", "always")
    registered(vector(lambda k, x: k.vector(k.result, lambda v, a: a * 3.0, x)))
    with pytest.raises(dsa.MicrokernelError, match="does not compute its reference"):
        compiled()


def test_a_when_that_fails(registered):
    registered(slow(), when=lambda x: x.nothing)
    with pytest.raises(dsa.MicrokernelError, match=r"when= of microkernel .* AttributeError"):
        compiled()


def test_the_profile_and_the_image_tell(registered, monkeypatch):
    monkeypatch.setenv("DSA_MICROKERNELS", "always")
    micro = registered(fast())
    x, y = np.zeros(N, np.float32), np.zeros(N, np.float32)
    profile = calls_doubled.profile(x, y, N=N, grid=(1,), show=False)
    assert "microkernels" in profile.text and "fast" not in profile.text.split("microkernels")[0]
    (told,) = profile.data()["microkernels"]
    assert (
        told["kernel"] == micro.name
        and told["ran"]
        and told["line"] == calls_doubled.source.first_line + 4
    )
    assert "<h2>Microkernels</h2>" in profile._repr_html_()
    image = calls_doubled.warmup(x, y, N=N, grid=(1,)).image
    assert load(save(image)).choices == image.choices


def test_the_ir_of_a_kernel_from_the_cache_has_its_microkernels(registered, monkeypatch):
    monkeypatch.setenv("DSA_MICROKERNELS", "always")
    micro = registered(fast())
    assert micro.name in compiled().text["tile"]


def test_interpreted_kernels_run_the_reference():
    @dsa.microkernel(reference=np.square, results=lambda x: x)
    def squared(k, x):
        k.vector(k.result, lambda v, a: a * a, x)

    @dsa.jit
    def kernel(x, y, n: tl.constexpr):
        at = tl.arange(0, n)
        tl.store(y + at, squared(tl.load(x + at)))

    x = np.arange(64, dtype=np.float32)
    for interpret in (False, True):
        y = np.zeros(64, np.float32)
        dsa.jit(interpret=interpret)(kernel)[(1,)](x, y, n=64)
        assert (y == x * x).all()


def test_constants_and_arguments_keep_their_values():
    contract = Contract(
        {"a": 0, "n": Constant((1, 2.5, None, "x", True))}, ["fp32"], ["bf16", "uint8"]
    )
    assert Contract.of(contract.text()) == contract


def test_several_at_one_line(registered):
    """The better of two runs; an op inside of a served one is only looked at where generated code runs."""
    worse, better = slow(), vector(lambda k, x: k.vector(k.result, lambda v, a: a + a, x))
    registered(worse)
    registered(better)
    found = {c.kernel: c for c in compiled().microkernels}
    assert set(found) == {worse.name, better.name} and not found[worse.name].ran
    assert found[worse.name].micro_cycles > found[better.name].micro_cycles


def test_ops_inside_of_a_served_op(registered):
    @dsa.jit
    def doubled_twice(x):
        return doubled(doubled(x))

    @dsa.microkernel(reference=doubled_twice)
    def fourfold(k, x):
        k.vector(k.result, lambda v, a: a * 4.0, x)

    @dsa.jit
    def kernel(x, y, n: tl.constexpr):
        at = tl.arange(0, n)
        tl.store(y + at, doubled_twice(tl.load(x + at)))

    registered(fourfold)
    registered(slow())
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    kernel[(1,)](x, y, n=64)
    assert (y == 4).all()
    ops = [c.op for c in kernel.warmup(x, y, n=64, grid=(1,)).microkernels]
    assert ops.count("doubled_twice") == 1 and ops.count("doubled") in (0, 2)
