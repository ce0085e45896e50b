"""Errors of the emulated machine: the fast engine says what the reference engine says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsalang as dsa
from dsalang._backend.errors import DeviceError


@dsa.jit
def copies(x, out, n, STEP: dsa.constexpr, BLOCK: dsa.constexpr):
    offs = dsa.program_id(0) * BLOCK + dsa.arange(0, BLOCK)
    dsa.store(out + offs, dsa.load(x + offs * STEP))


@dsa.jit
def picks(x, at, out, BLOCK: dsa.constexpr):
    offs = dsa.arange(0, BLOCK)
    dsa.store(out + offs, dsa.load(x + dsa.load(at + offs)))


@dsa.jit
def asserts(x, n):
    value = dsa.load(x + n)
    dsa.device_assert(value < 10, "too big")
    dsa.device_print("value", value)
    dsa.store(x, value + 1)


def message(
    monkeypatch: pytest.MonkeyPatch, engine: str, kernel: Any, *args: Any, **kw: Any
) -> str:
    monkeypatch.setenv("DSA_EMULATOR", engine)
    monkeypatch.setenv("DSA_CACHE", "0")
    with pytest.raises(DeviceError) as error:
        kernel[(2,)](*args, **kw)
    return str(error.value)


@pytest.mark.parametrize("step", (1, 3))
def test_out_of_bounds(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    x, out = np.zeros(100, np.float32), np.zeros(128, np.float32)
    said = [
        message(monkeypatch, engine, copies, x, out, 100, STEP=step, BLOCK=64)
        for engine in ("fast", "reference")
    ]
    assert said[0] == said[1]
    assert "'x'" in said[0] and "mask" in said[0] and "test_errors.py:17" in said[0]


def test_store_out_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.zeros(128, np.float32), np.zeros(100, np.float32)
    said = [
        message(monkeypatch, engine, copies, x, out, 100, STEP=1, BLOCK=64)
        for engine in ("fast", "reference")
    ]
    assert said[0] == said[1] and "'out'" in said[0]


def test_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.zeros(128, np.float32), np.zeros(128, np.float32)
    out.flags.writeable = False
    said = [
        message(monkeypatch, engine, copies, x, out, 100, STEP=1, BLOCK=64)
        for engine in ("fast", "reference")
    ]
    assert said[0] == said[1] and "read-only" in said[0]


def test_gather_out_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.zeros(64, np.float32), np.zeros(16, np.float32)
    at = np.arange(16, dtype=np.int32)
    at[7] = 10_000
    said = [
        message(monkeypatch, engine, picks, x, at, out, BLOCK=16)
        for engine in ("fast", "reference")
    ]
    assert said[0] == said[1] and "'x'" in said[0]


def test_assertions_and_prints(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    shown = []
    for engine in ("fast", "reference"):
        x = np.array([1, 2, 30], np.int32)
        assert "too big" in message(monkeypatch, engine, asserts, x, 2)
        run = asserts[(1,)](x, 1)
        shown.append((capsys.readouterr().out, run.prints, x.tolist()))
    assert shown[0] == shown[1]
    assert "value" in shown[0][0]


def test_a_run_after_an_error_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.ones(128, np.float32), np.zeros(128, np.float32)
    message(monkeypatch, "fast", copies, x[:100].copy(), out, 100, STEP=1, BLOCK=64)
    copies[(2,)](x, out, 128, STEP=1, BLOCK=64)
    assert out.all()
