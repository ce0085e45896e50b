"""An image is for the functions that its kernel got: builtins, closures of factories, what host functions call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl

FACTOR = 2
SCALE = tl.constexpr(2)


def times(factor: float) -> Any:
    @dsa.jit
    def product(x):
        return x * factor

    return product


def applies(function: Any) -> Any:
    @dsa.jit
    def kernel(x, y, n: dsa.constexpr):
        i = dsa.arange(0, n)
        dsa.store(y + i, function(dsa.load(x + i)))

    return kernel


def applies_all(functions: Any) -> Any:
    @dsa.jit
    def kernel(x, y, n: dsa.constexpr):
        i = dsa.arange(0, n)
        value = dsa.load(x + i)
        for j in tl.static_range(len(functions)):
            value = functions[j](value)
        dsa.store(y + i, value)

    return kernel


def computes(function: Callable[[int], int]) -> Any:
    @tl.constexpr_function
    def factor(n):
        return function(n)

    return scales(factor)


def scales(factor: Any) -> Any:
    @dsa.jit
    def kernel(x, y, n: dsa.constexpr):
        i = dsa.arange(0, n)
        dsa.store(y + i, dsa.load(x + i) * factor(3))

    return kernel


@dsa.jit
def given(x, y, function: dsa.constexpr, n: dsa.constexpr):
    i = dsa.arange(0, n)
    dsa.store(y + i, function(dsa.load(x + i)))


@dsa.jit
def scaled(x):
    return x * SCALE


def by_factor(n: int) -> int:
    return n * FACTOR


def result(kernel: Any, *more: Any) -> float:
    x, y = np.full(4, 4, np.float32), np.zeros(4, np.float32)
    kernel[1](x, y, *more, n=4)
    return float(y[0])


@pytest.mark.parametrize("disk", ["0", "1"])
def test_functions_of_a_closure(disk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_CACHE", disk)
    assert [result(applies(f)) for f in (tl.sqrt, tl.exp2, tl.abs)] == [2, 16, 4]
    assert [result(applies(times(f))) for f in (2, 3)] == [8, 12]
    assert [result(applies_all((times(f), tl.abs))) for f in (2, 3)] == [8, 12]


def test_functions_as_arguments() -> None:
    assert [result(given, times(f)) for f in (2.0, 3.0)] == [8, 12]


def test_host_functions_and_what_they_call() -> None:
    assert [result(computes(lambda n, f=f: n * f)) for f in (1, 2)] == [12, 24]
    assert [result(scales(tl.constexpr_function(lambda n, f=f: n * f))) for f in (1, 2)] == [12, 24]


def test_globals_of_functions_change_between_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = computes(by_factor)
    for factor in (2, 3):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        monkeypatch.setitem(globals(), "SCALE", tl.constexpr(factor))
        assert [result(kernel), result(kernel)] == [12 * factor] * 2
        assert [result(given, scaled), result(given, scaled)] == [4 * factor] * 2


def test_results_of_microkernels() -> None:
    def rounds(fmt: str) -> Any:
        @dsa.microkernel(reference=lambda x: x, results=lambda x: dsa.TileSpec(x.shape, fmt))
        def rounded(k, x):
            given = k.result.fmt
            k.vector(k.result, lambda v, a: a if given == "fp32" else v.fcvt(a, given), x)

        @dsa.jit
        def kernel(x, y, n: dsa.constexpr):
            i = dsa.arange(0, n)
            dsa.store(y + i, rounded(dsa.load(x + i) + 4093) + 1)

        return kernel

    assert [result(rounds(fmt)) for fmt in ("fp32", "bf16")] == [4098, 4096]
