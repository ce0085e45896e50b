"""Microkernels that are wrong: each is refused at its line, with the reason and what to do."""

from __future__ import annotations

import linecache

import numpy as np
import pytest
from micro import micro_kernels as kernels

import dsalang as dsa

M, N, K = 8, 48, 64


def refusal(micro):
    x, w, y = (np.zeros(shape, np.float32) for shape in ((M, K), (3, K, N), (3, M, N)))
    with pytest.raises(dsa.MicrokernelError) as error:
        kernels.product[(1,)](x, w, y, micro, M, N, K)
    return error.value


@pytest.mark.parametrize(
    ("micro", "mark", "text", "hint"),
    [
        (kernels.racy, "# RACE", "race: MM mma can start before VE vexec is done with ring 'copy'", "k.set on the"),
        (kernels.deadlocked, "# DEADLOCK", "deadlock: MM waits for semaphore", "k.wait comes after"),
        (kernels.overflowing, "# OVERFLOW", "overflow: semaphore", "second semaphore"),
        (kernels.overwriting, "# WRITES", "vexec writes a, an operand", "in_place="),
        (kernels.swapped, "# SHAPES", "b (fp32[64, 48]) times a (fp32[8, 64]) does not give result 0", "batch"),
        (kernels.crashing, "# CRASH", "failed: AttributeError", ""),
    ],
    ids=lambda value: value.fn.__name__ if isinstance(value, dsa.MicrokernelFunction) else "",
)  # fmt: skip
def test_at_its_line(micro, mark, text, hint):
    error = refusal(micro)
    assert text in error.message and hint in error.hint
    assert mark in linecache.getline(error.loc.file, error.loc.line)
    call = error.loc.caller
    assert "f(a, b, None)" in linecache.getline(call.file, call.line)


def test_an_access_outside_its_tiles():
    error = refusal(kernels.leaving)
    assert error.message == "mma: d touches bytes 0 to 1727 of result 0, which has 1536"


def test_results_that_are_not_written():
    error = refusal(kernels.silent)
    assert error.message == "result 0 is never written" and "k.result" in error.hint


def test_a_wrong_result():
    error = refusal(kernels.wrong)
    assert "does not compute its reference on (fp32[8, 64], fp32[64, 48], None)" in error.message
    assert "in place of" in error.message and "it was not used" in error.hint
    assert error.loc.line == kernels.wrong.code.first_line


def write(body, **options):
    """A microkernel of a vector of 64 floats with a body."""

    def f(k, x):
        body(k, x)

    return dsa.microkernel(
        reference=kernels.doubled, results=lambda x: dsa.TileSpec(x.shape, "fp32"), **options
    )(f)


def message(body, **options):
    with pytest.raises(dsa.MicrokernelError) as error:
        write(body, **options).self_test("fp32[64]")
    assert error.value.loc is not None
    return f"{error.value.message} | {error.value.hint}"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda k, x: k.isa.mmma(), "no instruction 'mmma' | did you mean 'mma'?"),
        (lambda k, x: k.isa.set(sem=1), "k.set and k.wait write flags"),
        (lambda k, x: k.isa.reduce(knd="fsum"), "reduce has no field 'knd' | did you mean 'kind'?"),
        (lambda k, x: k.isa.reduce(kind="fsun"), "reduce has no kind 'fsun'"),
        (lambda k, x: k.isa.reduce(fmt="fp23"), "there is no format 'fp23'"),
        (lambda k, x: k.isa.reduce(**{"in": 64}), "in is a tile, not the address 64"),
        (lambda k, x: k.isa.mma(m=1 << 40), "mma: field m = 1099511627776 does not fit u32"),
        (lambda k, x: k.isa.vexec(), "the vector program is missing"),
        (lambda k, x: k.isa.dma_load(), "the field hbm is an address"),
        (lambda k, x: k.matmul(x, x, x), "does not give"),
        (lambda k, x: k.vector(k.result, lambda v, a: v.fexpp(a), x), "no operation 'fexpp'"),
        (lambda k, x: k.vector(k.result, lambda v, a: v.fadd(a), x), "fadd takes 2 operands, not 1"),
        (lambda k, x: k.vector(k.result, lambda v, a: v.fcvt(a, "bf16"), x), "result 0 of the vector program is bf16"),
        (lambda k, x: k.vector(k.result, lambda v, a: (a, a), x), "gives 2 results for 1 outputs"),
        (lambda k, x: k.vector(k.result, lambda v, a: v.iadd(a, a), x), "does not take fp32"),
        (lambda k, x: k.vector(k.result, lambda v, a: a, x[0:3]), "does not broadcast to [64]"),
        (lambda k, x: x[60:70], "[60:70:None] leaves a dim of size 64"),
        (lambda k, x: x[64], "index 64 leaves a dim of size 64"),
        (lambda k, x: x.reshape(8, 9), "has 64 elements, shape [8, 9] 72"),
        (lambda k, x: x[::2].view("bf16"), "its rows are not packed"),
        (lambda k, x: k.scratch((0,), "fp32"), "positive sizes"),
        (lambda k, x: k.semaphore(), "a semaphore is for microkernels that keep their own order"),
        (lambda k, x: k.loop(0).__enter__(), "a loop runs a positive number of times"),
        (lambda k, x: k.ring((4,), "fp32", 99), "a ring has 1 to 15 slots"),
        (lambda k, x: k.load(k.result, x, (4,)), "takes an address"),
        (lambda k, x: k.reduce(k.result, x, "fsum", 0), "does not give"),
        (lambda k, x: k.copy(k.result, x[0:8]), "is not copied to"),
    ],
)  # fmt: skip
def test_what_a_writer_refuses(body, text):
    assert text in message(body)


def test_more_registers_than_there_are():
    def many(v, a):
        values = [a + float(i) for i in range(40)]
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total

    assert "needs more than 32 registers" in message(lambda k, x: k.vector(k.result, many, x))


def test_a_slot_after_its_loop():
    def body(k, x):
        ring = k.ring((64,), "fp32", 2)
        with k.loop(3):
            tile = ring.next()
            k.copy(tile, x)
        k.copy(k.result, tile)

    assert "used after the loop" in message(body)


def test_a_ring_moves_once():
    def body(k, x):
        ring = k.ring((64,), "fp32", 2)
        with k.loop(3):
            ring.next()
            ring.next()

    assert "moves on twice" in message(body)


def test_arguments_of_an_interpreted_call():
    @dsa.jit(interpret=True)
    def kernel(x):
        kernels.plain(dsa.load(x), None)

    with pytest.raises(dsa.CompileError, match=r"plain\(\): missing a required argument: 'acc'"):
        kernel[(1,)](np.zeros(4, np.float32))


def test_more_semaphores_than_there_are():
    def body(k, x):
        for _ in range(33):
            k.semaphore()

    assert "edge has 32 semaphores" in message(body, flags="own")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "nothing says what f() gives"),
        ({"reference": "dott"}, "the language has no op 'dott'"),
        (
            {"reference": dsa.dot},
            "takes 1 arguments beside the writer, the op dot has 3: input, other, acc",
        ),
        ({"reference": kernels.doubled, "in_place": "y"}, "in_place names 'y'"),
        ({"reference": kernels.doubled, "flags": "mine"}, "flags='mine' is not allowed"),
        ({"reference": kernels.doubled, "tolerance": "x"}, "tolerance='x' is no number"),
        ({"reference": kernels.doubled, "tolerance": -1}, "tolerance=-1 is no number"),
    ],
)
def test_declarations(options, text):
    def f(k, x):
        pass

    with pytest.raises(dsa.MicrokernelError) as error:
        dsa.microkernel(**options)(f)
    assert text in str(error.value)


@pytest.mark.parametrize("interpreted", ["0", "1"])
@pytest.mark.parametrize(
    ("reference", "results", "text"),
    [
        (lambda x: 1 // 0, lambda x: x, "reference= failed: ZeroDivisionError"),
        (lambda: 1, lambda x: x, "reference= failed: TypeError"),
        (lambda x: x, lambda x: dsa.TileSpec(x.shape, "fp33"), "there is no format 'fp33'"),
        (lambda x: x, lambda x: dsa.TileSpec((0,), "fp32"), "positive sizes"),
    ],
)
def test_references_and_results_that_fail(reference, results, text, interpreted, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpreted)

    @dsa.microkernel(reference=reference, results=results)
    def f(k, x):
        k.copy(k.result, x)

    @dsa.jit
    def kernel(x, y, n: dsa.constexpr):
        i = dsa.arange(0, n)
        dsa.store(y + i, f(dsa.load(x + i)))

    with pytest.raises(dsa.MicrokernelError) as error:
        kernel[1](np.ones(8, np.float32), np.ones(8, np.float32), n=8)
    assert text in str(error.value)


def test_registered_for_what_is_no_op():
    @dsa.microkernel(reference=np.negative, results=lambda x: x)
    def f(k, x):
        k.vector(k.result, lambda v, a: v.fneg(a), x)

    with pytest.raises(dsa.MicrokernelError, match="which is no op"):
        dsa.register_microkernel(f)


def test_an_example_that_fails_keeps_it_out():
    @dsa.microkernel(reference=kernels.doubled)
    def tripled(k, x):
        k.vector(k.result, lambda v, a: a + a + a, x)

    with pytest.raises(dsa.MicrokernelError, match="does not compute its reference"):
        dsa.register_microkernel(tripled, examples=[("fp32[64]",)])
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    assert not kernels.calls_doubled.warmup(x, y, N=64, grid=(1,)).microkernels


def test_called_outside_a_kernel():
    with pytest.raises(dsa.UserError, match="was called outside a kernel"):
        kernels.plain(1, 2, 3)
