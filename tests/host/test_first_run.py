"""First launches of a small kernel run on the reference engine: nobody can tell, but by the missing host code."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang._jit import engines, first_run


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """Kernels that got host code, by key; the cache is empty."""
    monkeypatch.setenv("DSA_TIERED", "1")
    monkeypatch.setenv("DSA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(first_run, "MOST_SECONDS", 10.0)
    first_run.spent.clear()
    monkeypatch.setattr(engines, "_programs", OrderedDict())
    made: list[str] = []
    plain = engines.program_of

    def noted(find_image, target, key, functional=True):
        made.append(key)
        return plain(find_image, target, key, functional)

    monkeypatch.setattr(engines, "program_of", noted)
    return made


def forget(kernel):
    """As in a new process."""
    first_run.spent.clear()
    engines._programs.clear()
    kernel._launches.clear()


def make():
    @dsa.jit
    def kernel(x, n, STEPS: tl.constexpr):
        at = tl.program_id(0) * 16 + tl.arange(0, 16)
        for _ in range(STEPS):
            tl.store(x + at, tl.load(x + at) + n)

    return kernel


def spend(seconds=10.0):
    """As if the images so far had been launched for so long."""
    for key in first_run.spent:
        first_run.spent[key] = seconds


def test_host_code_is_made_when_launches_have_cost_as_much(compiled):
    kernel = make()
    x = np.zeros(32, np.int32)
    first = kernel[2](x, 5, 3)
    kernel[2](x, 5, 3)
    assert not compiled
    assert 0 < sum(first_run.spent.values()) < 10
    spend()
    second = kernel[2](x, 5, 3)
    assert len(compiled) == 1
    assert first.cycles == second.cycles
    assert (x == 45).all()
    third = np.zeros(32, np.int32)
    kernel[2](third, 5, 3)
    assert (third == 15).all()


def test_a_bound_launch_goes_on_with_host_code(compiled):
    x = np.zeros(16, np.int32)
    kernel = make()
    again, other = (kernel[1].bind(x, 1, 2) for _ in range(2))
    for turn in (1, 2, 3, 4):
        again()
        assert (x == 2 * turn).all()
        if turn == 2:
            assert not compiled
            spend()
    other()
    assert (x == 10).all()
    assert len(set(compiled)) == 1


def test_a_run_that_takes_long_starts_again_on_host_code(compiled, monkeypatch, capsys):
    monkeypatch.setattr(first_run, "MOST_SECONDS", 0.002)

    @dsa.jit
    def kernel(x, STEPS: tl.constexpr):
        print("begin")
        for k in range(STEPS):
            tl.store(x + k % 4, tl.load(x + k % 4) + 1)

    x = np.zeros(4, np.int32)
    kernel[1](x, 400)
    assert x.tolist() == [100] * 4
    assert len(compiled) == 1
    assert capsys.readouterr().out.count("begin") == 1


def test_what_is_not_small_gets_host_code_at_once(compiled):
    x = np.zeros(16 * (first_run.MOST_PROGRAMS + 1), np.int32)
    make()[first_run.MOST_PROGRAMS + 1](x, 1, 1)
    assert len(compiled) == 1


def test_another_process_has_compiled_it(compiled):
    x = np.zeros(16, np.int32)
    kernel = make()
    kernel[1](x, 7, 1)
    assert not compiled
    forget(kernel)
    kernel[1](x, 7, 1)
    assert len(compiled) == 1


def test_many_kernels_that_another_process_has_compiled(compiled, monkeypatch):
    x = np.zeros(16, np.int32)
    kernel = make()
    for steps in range(1, engines._FEW + 3):
        kernel[1](x, 7, steps)
    forget(kernel)
    for steps in range(1, engines._FEW + 3):
        kernel[1](x, 7, steps)
    assert len(compiled) == engines._FEW
    forget(kernel)
    for steps in range(1, engines._FEW + 3):  # host code that is there is used
        kernel[1](x, 7, steps)
    assert len(compiled) == 2 * engines._FEW


def test_errors_are_the_same(compiled):
    @dsa.jit
    def kernel(x):
        tl.device_assert(tl.load(x) == 1, "not one")

    x = np.zeros(1, np.int32)
    texts = []
    for _ in range(2):
        with pytest.raises(dsa.DeviceError) as caught:
            kernel[1](x)
        texts.append(str(caught.value))
        spend()
    assert texts[0] == texts[1]
    assert len(compiled) == 1


@pytest.mark.parametrize("given_up", [False, True])
def test_other_threads_write_next_to_it(compiled, monkeypatch, given_up):
    seconds = 0.02 if given_up else 10.0
    monkeypatch.setattr(first_run, "MOST_SECONDS", seconds)
    kernel, x = make(), np.zeros(64, np.int32)
    start = first_run._Draft.__init__

    def late(draft, memory):
        start(draft, memory)
        x[32:] = 7  # another thread's, while the kernel runs

    monkeypatch.setattr(first_run._Draft, "__init__", late)
    kernel[1](x, 1, 2000 if given_up else 3)
    assert bool(compiled) is given_up
    assert x.tolist() == [2000 if given_up else 3] * 16 + [0] * 16 + [7] * 32


def test_atomics_beside_other_threads_get_host_code(compiled):
    @dsa.jit
    def count(x):
        tl.atomic_add(x, 1)

    x, end = np.zeros(1, np.int32), threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        count[8](x)
    finally:
        end.set()
        thread.join()
    assert len(compiled) == 1
    assert x == 8


@pytest.mark.parametrize("tiered", ["0", "1"])
def test_a_bound_launch_keeps_its_knobs(compiled, monkeypatch, tiered):
    monkeypatch.setenv("DSA_TIERED", tiered)
    edge = dsa.Target.by_name("edge")
    late = dataclasses.replace(edge, hbm=dataclasses.replace(edge.hbm, jitter_cycles=700))
    x = np.zeros(16, np.int32)
    again = make()[1].bind(x, 1, 2, target=late)
    cycles = again().cycles
    monkeypatch.setenv("DSA_SEED", "5")
    assert again().cycles == cycles
    monkeypatch.setenv("DSA_EMULATOR", "timing")
    spend()
    assert again().cycles == cycles
    assert (x == 6).all()
