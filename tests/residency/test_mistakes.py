"""What cannot stay in SRAM is an error with its line and what to do."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import dsalang as dsa
from dsalang._runtime.fast import engine as fast
from dsalang._runtime.memory import Memory
from dsalang._runtime.reference import engine as reference

from .kernels import SHAPE, Mlp, gemv, mlp, scale


@dsa.jit
def writes(x, y, n, BLOCK: dsa.constexpr):
    offs = dsa.arange(0, BLOCK)
    dsa.store(x + offs, dsa.load(x + offs) + dsa.load(y + offs))


@dsa.jit
def gathers(x, at, y, n, BLOCK: dsa.constexpr):
    offs = dsa.arange(0, BLOCK)
    dsa.store(y + offs, dsa.load(x + dsa.load(at + offs)))


@dsa.jit
def loops(x, y, n, BLOCK: dsa.constexpr):
    offs = dsa.arange(0, BLOCK)
    total = dsa.zeros((BLOCK,), dsa.float32)
    for k in range(0, (dsa.program_id(0) + 1) * BLOCK, BLOCK):
        total += dsa.load(x + k + offs)
    dsa.store(y + offs, total)


@dsa.jit
def conditional(x, y, n, BLOCK: dsa.constexpr):
    offs = dsa.arange(0, BLOCK)
    total = dsa.zeros((BLOCK,), dsa.float32)
    if n > 3:
        total = dsa.load(x + offs) * 2.0
    dsa.store(y + offs, total)


X, Y = np.ones(256, np.float32), np.zeros(256, np.float32)


@pytest.mark.parametrize(
    "kernel,args,message",
    [
        (writes, (X, Y, 1), "this writes to 'x', or may do so"),
        (gathers, (X, np.arange(256, dtype=np.int32), Y, 1), "'x' cannot stay in SRAM: its elements are picked"),
        (loops, (X, Y, 200), "'x' cannot stay in SRAM: how often a loop around it runs is not known"),
        (conditional, (X, Y, 5), "'x' cannot stay in SRAM: it stands under an if"),
    ],
)  # fmt: skip
def test_what_cannot_stay(kernel: dsa.JITFunction, args: tuple[object, ...], message: str) -> None:
    with dsa.resident(X), pytest.raises(dsa.CompileError) as error:
        kernel[1](*args, BLOCK=64)
    text = str(error.value)
    assert message in text and "test_mistakes.py:" in text and "^" in text and "help:" in text
    kernel[1](*args, BLOCK=64)  # without, it runs
    X.fill(1)


def test_an_alias_of_what_the_kernel_writes() -> None:
    x = np.ones(256, np.float32)
    with dsa.resident(x), pytest.raises(dsa.CompileError, match="this writes to 'x'"):
        scale[1](x, x[:128], 128, BLOCK=128)


def test_too_much_says_what_would_fit() -> None:
    big, small = np.ones((1024, 4096), np.float16), np.ones((1024, 512), np.float16)
    x, y = np.ones(1024, np.float16), np.zeros(4096, np.float32)
    with dsa.resident(big, small):
        gemv[8](x, small, y, 512, 1024, 64, 64)
        with pytest.raises(dsa.SramOverflowError) as error:
            gemv[64](x, big, y, 4096, 1024, 64, 64)
    text = str(error.value)
    assert "what is to stay in SRAM takes 8192 KiB, target 'edge' has 4096 KiB" in text
    assert "of which 1024 KiB hold what other kernels keep" in text
    assert "8192 KiB  w  " in text and "kernels.py:" in text


def test_too_little_is_left_for_the_kernel() -> None:
    net = Mlp()
    target = dataclasses.replace(
        dsa.Target.by_name("edge"), name="tiny", sram_bytes=net.w1.nbytes + net.w2.nbytes + 1024
    )
    with dsa.resident(net.w1, net.w2), pytest.raises(dsa.SramOverflowError) as error:
        mlp[1](*net.args(0.5), **SHAPE, target=target)
    text = str(error.value)
    assert "beside what is to stay there 1 KiB" in text
    assert "of the arrays, this would fit: w1 (32 KiB)" in text


def test_another_kernel_needs_what_is_held() -> None:
    net, big = Mlp(), np.ones(1 << 20, np.float32)
    with dsa.resident(net.w1, net.w2):
        net.run()
        with pytest.raises(dsa.SramOverflowError, match="without the 64 KiB that stay resident"):
            scale[1](big, big.copy(), big.size, BLOCK=(1 << 20) - 1024)


def test_options_and_arguments() -> None:
    net = Mlp()
    with pytest.raises(dsa.LaunchError, match="of nothing"):
        dsa.resident()
    with pytest.raises(dsa.LaunchError, match=r"0 of dsa\.resident"):
        dsa.resident(np.zeros(3, np.complex64))
    with pytest.raises(
        dsa.LaunchError, match=r"1 of dsa\.resident' is of type list, which is no array"
    ):
        dsa.resident(net.w1, [net.w2])
    with pytest.raises(dsa.LaunchError, match="resident='w3' is not allowed for kernel mlp"):
        dsa.jit(resident="w3")(mlp.fn)
    with pytest.raises(dsa.LaunchError, match="is not allowed for kernel mlp"):
        dsa.jit(resident=[["w1"]])(mlp.fn)
    with pytest.raises(dsa.LaunchError, match="resident names 't'"):
        mlp[1](*net.args(0.5), **SHAPE, resident=("t",))
    with dsa.resident(net.w1), pytest.raises(dsa.LaunchError, match="static schedule"):
        mlp[1](*net.args(0.5), **SHAPE, schedule="static")
    assert mlp[1](*net.args(0.5), **SHAPE, schedule="static").cycles
    signature = "*fp16,*fp16,*fp16,*fp16,fp32"
    with pytest.raises(dsa.LaunchError, match="without a grid"):
        mlp.compile(signature, SHAPE, resident="w1")
    with pytest.raises(dsa.LaunchError, match="'t', which is no array"):
        mlp.compile(signature, SHAPE, resident="t", grid=1)


@pytest.mark.parametrize("engine", [fast, reference])
def test_an_image_is_for_its_grid(engine: Any) -> None:
    net = Mlp()
    image = mlp[1].warmup(*net.args(0.5), **SHAPE, resident="w1").image
    values = [0] * len(image.arguments)
    with pytest.raises(dsa.LaunchError, match=r"keeps tiles in SRAM for grid \(1, 1, 1\)"):
        engine.run(image, dsa.Target.by_name("edge"), values, (2, 1, 1), Memory())
