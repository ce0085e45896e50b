"""Predictions against the engine that runs every instruction, in cycles and in what is busy for how long."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from suite import CASES
from suite import kernels as suite_kernels

import dsalang as dsa
import dsalang.language as tl
from dsalang import Target
from dsalang._backend.errors import LaunchError, UserError
from dsalang._backend.isa.table import Engine
from dsalang._backend.predict import Prediction, walk
from dsalang._backend.predict.machine import Entry, Kind, Machine
from dsalang._jit.compiled import CompiledKernel
from dsalang._runtime.memory import Memory
from dsalang._runtime.reference.engine import run
from dsalang._runtime.reference.options import Options
from dsalang._runtime.report import Run

EDGE = Target.by_name("edge")
DATA_DEPENDENT = {"running_length"}


def emulated(kernel: CompiledKernel, grid: tuple[int, ...], values: dict[str, Any]) -> Run:
    """A run without data."""
    args = [
        (number + 1) << 36 if argument.is_pointer else int(values.get(argument.name, 0))
        for number, argument in enumerate(kernel.image.arguments)
    ]
    x, y, z = (*grid, 1, 1)[:3]
    options = Options(timeline=False, functional=False)
    return run(kernel.image, kernel.target, args, (x, y, z), Memory([]), options)


def check(
    kernel: CompiledKernel, grid: tuple[int, ...], values: dict[str, Any], error: float
) -> Prediction:
    found, real = kernel.predict(grid, values), emulated(kernel, grid, values)
    assert abs(found.cycles - real.cycles) <= error * real.cycles
    core = max(real.cores, key=lambda core: core.cycles)
    for engine in Engine:
        busy = core.engines[engine].busy
        assert abs(found.busy[engine.name] - busy) <= max(error, 0.02 if error else 0) * busy
    assert abs(found.hbm_bytes - core.burst_bytes) <= error * core.burst_bytes
    return found


def scalars(kernel: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    names = [param.name for param in kernel.source.params]
    return {n: v for n, v in zip(names, args) if isinstance(v, (int, np.integer))}


@pytest.mark.parametrize("target", ["edge", "center"])
@pytest.mark.parametrize("name", CASES)
def test_suite(name: str, target: str) -> None:
    case = CASES[name]()
    kernel = case.kernel.warmup(*case.args, grid=case.grid, **case.meta, target=target)
    values = scalars(case.kernel, case.args)
    try:
        check(kernel, case.grid, {k: v for k, v in values.items() if k in _names(kernel)}, 0.03)
    except UserError as error:
        assert name in DATA_DEPENDENT and "depends on data" in str(error)


def _names(kernel: CompiledKernel) -> set[str]:
    return {a.name for a in kernel.image.arguments if not a.is_pointer}


def add(target: Target, block: int = 1024) -> CompiledKernel:
    return suite_kernels.vector_add.compile(  # type: ignore[no-any-return]
        "*fp32:16, *fp32:16, *fp32:16, i32", constants={"BLOCK": block}, target=target
    )


def test_long_loops_are_not_walked_to_their_end() -> None:
    found = check(add(EDGE), (3000,), {"n": 3000 * 1024}, 0.0)
    assert found.exact and found.walked < 60 and found.walked + found.left_out == 3000


def test_a_masked_tail_is_walked() -> None:
    found = check(add(EDGE), (500,), {"n": 499 * 1024 + 17}, 0.0)
    assert found.exact and found.left_out > 400


def test_programs_with_nothing_to_do() -> None:
    check(add(EDGE), (800,), {"n": 400 * 1024}, 0.0)


def product(
    target: Target, size: int, blocks: tuple[int, int, int]
) -> tuple[CompiledKernel, Any, Any]:
    names = ("M", "N", "K", "stride_am", "stride_bk", "stride_cm")
    bm, bn, bk = blocks
    constants = dict(
        stride_ak=1, stride_bn=1, stride_cn=1, BLOCK_M=bm, BLOCK_N=bn, BLOCK_K=bk, GROUP_M=4,
        ACC=tl.float32,
    )  # fmt: skip
    signature = {"a": "*fp16:16", "b": "*fp16:16", "c": "*fp16:16", **dict.fromkeys(names, "i32")}
    ordered = {
        p.name: signature[p.name] for p in suite_kernels.matmul.source.params if p.name in signature
    }
    kernel = suite_kernels.matmul.compile(ordered, constants=constants, target=target)
    grid = (-(-size // bm) * -(-size // bn),)
    return kernel, grid, dict.fromkeys(names, size)


@pytest.mark.parametrize("size", [1024, 1000])
def test_product_with_and_without_ragged_edges(size: int) -> None:
    kernel, grid, values = product(EDGE, size, (64, 64, 32))
    found = check(kernel, grid, values, 0.03)
    assert found.exact and (size == 1000 or found.walked < 500)


@pytest.mark.parametrize("patience", [24, 64])
def test_a_loop_that_does_not_come_back_goes_on_at_its_pace(
    patience: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk.Walk, "period", _never(patience))
    found = check(add(EDGE), (600,), {"n": 600 * 1024}, 0.03)
    assert not found.exact and found.walked <= patience * 3 // 2 + 2 and found.left_out > 450


def _never(patience: int) -> Any:
    """As if no state ever returned."""

    def period(self: walk.Walk, seen: dict[Any, int], number: int) -> int:
        seen[number] = number
        self.exact = self.exact and len(seen) <= patience
        return patience // 2 if len(seen) > patience else 0

    return period


@settings(derandomize=True, deadline=None, max_examples=4, phases=[Phase.generate])
@given(st.data())
def test_random_machines(data: st.DataObject) -> None:
    pick = data.draw
    target = dataclasses.replace(
        EDGE,
        queue_depth=pick(st.integers(1, 20)),
        hbm=dataclasses.replace(
            EDGE.hbm,
            bytes_per_second=pick(st.sampled_from([7, 64, 333])) * 10**9,
            latency_cycles=pick(st.sampled_from([0, 77, 5000])),
        ),
        scalar=dataclasses.replace(EDGE.scalar, issue_cycles=pick(st.integers(0, 60))),
        cores=pick(st.sampled_from([1, 3])),
    )
    check(add(target, 256), (400,), {"n": 399 * 256 + 5}, 0.03)
    kernel, grid, values = product(target, 500, (64, 64, 64))
    check(kernel, grid, values, 0.03)


@dsa.jit
def counted(x, out, n):
    total = tl.load(x)
    i = 0
    while i < tl.load(n):
        total += 1.0
        i += 1
    tl.store(out, total)


def test_a_course_that_depends_on_data_is_refused_with_its_line() -> None:
    kernel = counted.compile("*fp32, *fp32, *i32", target=EDGE)
    with pytest.raises(UserError, match="depends on data") as info:
        kernel.predict(1)
    assert "tl.load(n)" in str(info.value)


def test_a_static_schedule_takes_what_it_promises() -> None:
    case = CASES["add_odd"]()
    kernel = case.kernel.warmup(*case.args, grid=case.grid, **case.meta, schedule="static")
    found = kernel.predict(case.grid, {"n": 10_007})
    assert (
        found.exact
        and found.cycles == kernel.latency_cycles == case.launch(schedule="static").cycles
    )


@dsa.jit
def picked(x, rows, out, B: tl.constexpr):
    row = tl.load(rows + tl.program_id(0))
    at = tl.arange(0, B)
    tl.store(out + tl.program_id(0) * B + at, tl.load(x + row * B + at))


def test_data_that_only_addresses_depend_on_does_no_harm() -> None:
    x, out = np.arange(64 * 512, dtype=np.float32).reshape(64, 512), np.zeros((40, 512), np.float32)
    rows = np.arange(40, dtype=np.int32)[::-1].copy()
    real = picked[(40,)](x, rows, out, B=512, target=EDGE)
    assert np.array_equal(out, x[rows])
    kernel = picked.warmup(x, rows, out, B=512, grid=(40,), target=EDGE)
    found = kernel.predict(40)
    assert found.cycles == real.cycles and found.busy["CORE"] == real.busy(Engine.CORE)


def test_unknown_values_are_refused() -> None:
    with pytest.raises(LaunchError, match="no scalar argument 'm'"):
        add(EDGE).predict(1, {"m": 3})


def test_bound_and_time() -> None:
    found = add(EDGE, 32768).predict((64,), {"n": 64 * 32768})
    assert found.bound == "HBM bandwidth"
    assert found.microseconds == EDGE.microseconds(found.cycles)


def test_a_state_that_returns_means_a_repeating_future() -> None:
    machine = Machine(EDGE, (1, 0), {0: Engine.LD, 1: Engine.VE}, 1)
    load = Entry(Kind.DMA, Engine.LD, 18, 32, 4096)
    work = Entry(Kind.COMPUTE, Engine.VE, 12, 90)
    seen: dict[Any, int] = {}
    ends = []
    for turn in range(200):
        state = machine.state()
        if state in seen:
            break
        seen[state] = turn
        for entry in (
            Entry(Kind.WAIT, Engine.LD, 8, sem=0), load, Entry(Kind.SET, Engine.LD, 8, sem=1),
            Entry(Kind.WAIT, Engine.VE, 8, sem=1), work, Entry(Kind.SET, Engine.VE, 8, sem=0),
        ):  # fmt: skip
            machine.issue(entry)
        ends.append(machine.time)
    period = turn - seen[state]
    assert 0 < period < 10 and turn < 60
    before, counts = machine.time, machine.counts.copy()
    machine.advance(1000)
    assert machine.state() == state
    assert machine.time == before + 1000 and machine.counts == counts
