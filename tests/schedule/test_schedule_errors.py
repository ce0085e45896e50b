"""What a static schedule refuses, and what it says then."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl


@dsa.jit(schedule="static")
def add(x, y, out, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = offs < n
    tl.store(out + offs, tl.load(x + offs, mask=keep) + tl.load(y + offs, mask=keep), mask=keep)


@dsa.jit
def summed(x, out, n, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, n, BLOCK):
        total += tl.sum(tl.load(x + start + tl.arange(0, BLOCK)), axis=0)
    tl.store(out, total)


@dsa.jit
def follows(x, out):
    i = 0
    while tl.load(x + i) > 0:
        i += 1
    tl.store(out, i)


@dsa.jit
def picked(x, out, which):
    if tl.load(x) > which:
        tl.store(out, 1)


@dsa.jit
def chatty(x):
    tl.device_print("x", tl.program_id(0))


@dsa.jit
def scaled(x, out, factor, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out + offs, tl.load(x + offs) * factor)


def line_of(kernel: object, text: str) -> int:
    source = kernel.source  # type: ignore[attr-defined]
    with open(source.file, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return next(n for n, line in enumerate(lines, 1) if n >= source.first_line and text in line)


def test_deadline_is_enforced_when_compiling() -> None:
    kernel = add.compile("*fp32,*fp32,*fp32", {"n": 5000, "BLOCK": 1024}, grid=(5,))
    assert kernel.latency_us is not None and kernel.latency_cycles is not None
    assert kernel.latency_us == kernel.target.microseconds(kernel.latency_cycles)
    same = {"n": 5000, "BLOCK": 1024}
    add.compile("*fp32,*fp32,*fp32", same, grid=5, deadline_us=kernel.latency_us)
    tight = kernel.latency_us - 0.001
    with pytest.raises(dsa.CompileError) as error:
        add.compile("*fp32,*fp32,*fp32", same, grid=5, deadline_us=tight)
    text = str(error.value)
    assert f"{kernel.latency_cycles} cycles on edge" in text
    assert f"0.001 µs more than its deadline of {tight:g} µs" in text
    assert "its longest chain: " in text and "HBM latency" in text
    assert f"(most for dma.load of line {line_of(add, 'tl.load')})" in text
    assert error.value.loc is not None and error.value.loc.line == add.source.first_line


def test_deadline_of_a_launch_stops_it_before_it_runs() -> None:
    x = np.ones(5000, np.float32)
    out = np.zeros_like(x)
    with pytest.raises(dsa.CompileError, match="deadline of 1 µs"):
        add[(5,)](x, x, out, 5000, BLOCK=1024, deadline_us=1)
    assert not out.any()
    add[(5,)](x, x, out, 5000, BLOCK=1024, deadline_us=1000)
    assert (out == 2).all()


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "10", True])
def test_bad_deadlines(value: object) -> None:
    with pytest.raises(dsa.LaunchError, match="deadline_us"):
        dsa.jit(schedule="static", deadline_us=value)(add.fn)


def test_deadline_needs_a_static_schedule() -> None:
    x = np.ones(64, np.float32)
    with pytest.raises(dsa.LaunchError, match="without a static schedule"):
        summed[(1,)](x, x.copy(), 64, BLOCK=64, deadline_us=5)


def test_unknown_schedule() -> None:
    with pytest.raises(dsa.LaunchError, match='"dynamic" or "static"'):
        dsa.jit(schedule="fast")(add.fn)


def test_compile_needs_a_grid() -> None:
    with pytest.raises(dsa.LaunchError, match="without a grid"):
        add.compile("*fp32,*fp32,*fp32", {"n": 5000, "BLOCK": 1024})


def test_unknown_mask_bound_names_argument_and_line() -> None:
    with pytest.raises(dsa.CompileError, match="depends on argument 'n'") as error:
        add.compile("*fp32,*fp32,*fp32,i32", {"BLOCK": 1024}, grid=5)
    assert error.value.loc is not None
    assert error.value.loc.line == line_of(add, "tl.load")


def test_unknown_loop_bound() -> None:
    with pytest.raises(dsa.CompileError, match="bound of a loop depends on argument 'n'") as error:
        summed.compile("*fp32,*fp32,i32", {"BLOCK": 64}, schedule="static", grid=1)
    assert error.value.loc is not None
    assert error.value.loc.line == line_of(summed, "for start")


@pytest.mark.parametrize("kernel", [follows, picked])
def test_control_flow_on_data(kernel: object) -> None:
    x = np.zeros(8, np.int32)
    args = (x, x.copy()) if kernel is follows else (x, x.copy(), 3)
    with pytest.raises(dsa.CompileError, match="reads back from memory") as error:
        kernel[(1,)](*args, schedule="static")  # type: ignore[index]
    assert error.value.loc is not None


def test_prints() -> None:
    with pytest.raises(dsa.CompileError, match="cannot print"):
        chatty[(1,)](np.zeros(1, np.int32), schedule="static")


def test_float_arguments_stay_arguments() -> None:
    x = np.arange(64, dtype=np.float32)
    out = np.zeros_like(x)
    first = scaled[(1,)](x, out, 2.5, BLOCK=64, schedule="static")
    assert (out == x * np.float32(2.5)).all()
    second = scaled[(1,)](x, out, -3.0, BLOCK=64, schedule="static")
    assert (out == x * -3).all()
    assert first.image is second.image
    assert first.cycles == second.cycles


def test_image_is_for_one_grid() -> None:
    from dsalang._runtime.memory import Memory
    from dsalang._runtime.reference.engine import run

    kernel = add.compile("*fp32,*fp32,*fp32", {"n": 5000, "BLOCK": 1024}, grid=(5,))
    with pytest.raises(dsa.LaunchError, match="static schedule for grid"):
        run(kernel.image, kernel.target, (0, 0, 0), (4, 1, 1), Memory([]))


def test_empty_grid() -> None:
    x = np.ones(4, np.float32)
    assert add[(0,)](x, x, x, 4, BLOCK=4).cycles == 0


def test_text_names_engines_cycles_and_lines() -> None:
    kernel = add.compile("*fp32,*fp32,*fp32", {"n": 1024, "BLOCK": 1024}, grid=(1,))
    lines = str(kernel.schedule).splitlines()
    assert f"{kernel.latency_cycles} cycles" in lines[0]
    last = lines[-1].split()
    assert last[0] == "ST" and int(last[3]) == kernel.latency_cycles
    assert last[4:] == ["dma.store", str(line_of(add, "tl.store"))]


def test_dynamic_kernels_promise_nothing() -> None:
    kernel = summed.compile("*fp32,*fp32,i32", {"BLOCK": 64})
    assert kernel.schedule is None and kernel.latency_cycles is None and kernel.latency_us is None


def test_longest_chain_is_as_long_as_the_schedule() -> None:
    from dsalang._backend.image.schedule import longest_chain

    for n, grid in ((1024, 1), (5000, 5), (40_000, 40)):
        kernel = add.compile("*fp32,*fp32,*fp32", {"n": n, "BLOCK": 1024}, grid=grid)
        assert kernel.schedule is not None
        spans = longest_chain(kernel.schedule.rows)
        assert sum(span.cycles for span in spans) == kernel.latency_cycles
        assert all(span.cycles > 0 for span in spans)


def test_image_says_its_schedule() -> None:
    from dsalang._backend.image.elf import load
    from dsalang._backend.image.objdump import objdump

    kernel = add.compile("*fp32,*fp32,*fp32", {"n": 1000, "BLOCK": 1024}, grid=(1,))
    assert load(kernel.image.file) == kernel.image
    lines = objdump(kernel.image).splitlines()
    at = lines.index("static schedule:")
    assert lines[at + 1] == "  for grid 1x1x1, 8 flags left out"
    assert f"core 0: {kernel.latency_cycles} cycles" in lines[at + 2]
    assert kernel.schedule is not None
    assert [int(line.split()[0]) for line in lines[at + 3 : at + 7]] == [
        row.start for row in kernel.schedule.rows
    ]


def test_damaged_schedules_are_refused() -> None:
    import dataclasses

    from dsalang._backend.image.elf import link_image, load

    image = add.compile("*fp32,*fp32,*fp32", {"n": 1000, "BLOCK": 1024}, grid=(1,)).image
    timing = image.timing
    assert timing is not None
    for changes in (
        {"issues": ((99, 0),)},
        {"issues": ((0,),)},
        {"cycles": (1, 2)},
        {"grid": (1, 1)},
    ):
        damaged = dataclasses.replace(image, timing=dataclasses.replace(timing, **changes))
        with pytest.raises(dsa.ImageError, match="damaged image: its schedule"):
            load(link_image(damaged).file)
