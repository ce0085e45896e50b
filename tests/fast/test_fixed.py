"""Static schedules on the fast engine: times come from the schedule, data from host code, errors from the reference engine."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import numpy as np
import pytest
from e2e.random_runs import data_of, defined, launch_of, tiny_target
from e2e.random_text import write_kernel
from suite import CASES

import dsalang as dsa
from dsalang._backend.errors import CompileError, DeviceError, LaunchError
from dsalang._backend.image.model import Image
from dsalang._backend.isa.table import Engine
from dsalang._backend.llvm.table_glue import build_table_glue, read_table_glue
from dsalang._backend.target import Target
from dsalang._jit.arguments import bind, classify
from dsalang._jit.launch import argument_bits, memory_of
from dsalang._jit.schedule import fixed
from dsalang._runtime.fast.addresses import share
from dsalang._runtime.fast.engine import Options, Program, UnsuitedError
from dsalang._runtime.memory import Memory
from dsalang._runtime.reference.engine import run as run_reference
from dsalang._runtime.reference.options import Options as ReferenceOptions
from dsalang._runtime.reference.prepare import prepare

from .compare import both, same

EDGE = Target.by_name("edge")


@dsa.jit(schedule="static")
def scaled(x, out, n, factor, BLOCK: dsa.constexpr):
    offs = dsa.program_id(0) * BLOCK + dsa.arange(0, BLOCK)
    dsa.store(out + offs, dsa.load(x + offs) * factor, mask=offs < n)


@dsa.jit(schedule="static")
def picks(x, at, out, BLOCK: dsa.constexpr):
    offs = dsa.program_id(0) * BLOCK + dsa.arange(0, BLOCK)
    dsa.store(out + offs, dsa.load(x + dsa.load(at + offs)))


_X = np.arange(256, dtype=np.float32)
_OUT = np.zeros_like(_X)


def image_of_scaled() -> tuple[Image, list[int], Memory]:
    args, meta = (_X, _OUT, 250, 1.5), {"BLOCK": 64}
    image = scaled.warmup(*args, grid=(4,), **meta).image
    arguments = classify(scaled.source, bind(scaled.source, args, meta))
    values = [argument_bits(arguments, argument.name) for argument in image.arguments]
    return image, values, memory_of(arguments)


@pytest.mark.parametrize("seed", range(8))
def test_random_kernels(seed: int) -> None:
    kernel = write_kernel(Random(seed))
    target = tiny_target(Random(seed)) if seed % 2 else EDGE
    with defined(kernel.text) as function, np.errstate(all="ignore"):
        launch = launch_of(function, kernel, data_of(kernel, seed))
        launch.spec = fixed(launch.spec, launch.arguments, launch.grid)
        try:
            image = launch.image(target)
        except CompileError:
            return
        values = [argument_bits(launch.arguments, a.name) for a in image.arguments]
        both(image, target, values, launch.grid, memory_of(launch.arguments))


def test_without_data() -> None:
    image, values, memory = image_of_scaled()
    fast = Program(image, EDGE, functional=False).run(values, (4, 1, 1), memory)
    options = ReferenceOptions(functional=False)
    same(fast, run_reference(image, EDGE, values, (4, 1, 1), memory, options))


def test_templates_that_differ_in_addresses_share_host_code() -> None:
    case = CASES["softmax_odd"]()
    warm = case.kernel.warmup(*case.args, grid=case.grid, **case.meta, schedule="static")
    image = warm.image
    prepared = prepare(image, EDGE)
    shared = share(image, prepared)
    units = {one.unit for one in shared}
    assert len(units) < len(shared) / 2
    for one, whole in zip(shared, prepared, strict=True):
        operands = [0] * len(whole.open) + list(one.fixed)
        assert one.prepared.bind(operands) == whole.bind(operands[: len(whole.open)])


def test_what_each_core_issues_is_read_back() -> None:
    image, _, _ = image_of_scaled()
    assert build_table_glue(read_table_glue(image.glue)) == image.glue
    with pytest.raises(ValueError, match="no table"):
        read_table_glue("define void @f() { ret void }")


# Errors


def test_a_promise_that_is_not_kept() -> None:
    image, values, memory = image_of_scaled()
    assert image.timing is not None
    timing = dataclasses.replace(image.timing, cycles=(image.timing.cycles[0] + 1,))
    image = dataclasses.replace(image, timing=timing)
    with pytest.raises(UnsuitedError, match="promised"):
        Program(image, EDGE)
    with pytest.raises(DeviceError, match="its schedule promises"):
        run_reference(image, EDGE, values, (4, 1, 1), memory)


@pytest.mark.parametrize(
    ("engine", "cycle", "text"),
    [(Engine.LD, 1, "cannot start"), (Engine.VE, -1, "cannot start"), (Engine.ST, -2, "promised")],
)
def test_starts_that_the_machine_cannot_keep(engine: Engine, cycle: int, text: str) -> None:
    """The last instruction of an engine is put at a cycle before it is issued, where another one runs, or later."""
    image, _, _ = image_of_scaled()
    (issues,) = read_table_glue(image.glue)
    mine = [
        n for n, i in enumerate(issues) if image.templates[i.template].instruction.engine == engine
    ]
    before, last = issues[mine[-2]].start, issues[mine[-1]].start
    start = {1: 1, -1: before, -2: last + 50}[cycle]
    issues[mine[-1]] = dataclasses.replace(issues[mine[-1]], start=start)
    image = dataclasses.replace(image, glue=build_table_glue([issues]))
    with pytest.raises(UnsuitedError, match=text):
        Program(image, EDGE)


def test_transfers_that_meet() -> None:
    image, _, _ = image_of_scaled()
    events = Program(image, EDGE).schedule[0].events
    load = [event for event in events if event.engine == Engine.LD][-1]
    store = next(event for event in events if event.engine == Engine.ST)
    (issues,) = read_table_glue(image.glue)
    moved = [
        dataclasses.replace(issue, start=load.start + 2) if issue.start == store.start else issue
        for issue in issues
    ]
    cores = [sorted(moved, key=lambda issue: issue.start)]
    with pytest.raises(UnsuitedError, match="meet"):
        Program(dataclasses.replace(image, glue=build_table_glue(cores)), EDGE)


def test_jitter_and_fixed_times_are_for_the_reference_engine() -> None:
    shaky = dataclasses.replace(EDGE, hbm=dataclasses.replace(EDGE.hbm, jitter_cycles=300))
    data = np.arange(256, dtype=np.float32)
    image = scaled.warmup(
        data, data.copy(), 250, 1.5, grid=(4,), BLOCK=64, target=shaky, schedule="static"
    ).image
    with pytest.raises(UnsuitedError, match="jitter"):
        Program(image, shaky)


def test_another_grid() -> None:
    image, values, memory = image_of_scaled()
    said = []
    for run in (Program(image, EDGE).run, lambda *rest: run_reference(image, EDGE, *rest)):
        with pytest.raises(LaunchError) as error:
            run(values, (3, 1, 1), memory)
        said.append(str(error.value))
    assert said[0] == said[1]


def message(monkeypatch: pytest.MonkeyPatch, engine: str, *args: Any, **meta: Any) -> str:
    monkeypatch.setenv("DSA_EMULATOR", engine)
    kernel, *rest = args
    with pytest.raises(DeviceError) as error:
        kernel[(4,)](*rest, **meta)
    return str(error.value)


def test_out_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.zeros(200, np.float32), np.zeros(256, np.float32)
    said = [
        message(monkeypatch, engine, scaled, x, out, 256, 2.0, BLOCK=64)
        for engine in ("fast", "reference")
    ]
    assert said[0] == said[1]
    assert "'x'" in said[0] and "dsa.load(x + offs) * factor" in said[0]


def test_gather_out_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.zeros(64, np.float32), np.zeros(64, np.float32)
    at = np.arange(64, dtype=np.int32)
    at[37] = 10_000
    said = [
        message(monkeypatch, engine, picks, x, at, out, BLOCK=16)
        for engine in ("fast", "reference")
    ]
    assert said[0] == said[1] and "dsa.load(x + dsa.load(at + offs))" in said[0]


def test_host_code_of_another_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from dsalang._jit.folder import open_cache

    monkeypatch.setenv("DSA_CACHE_DIR", str(tmp_path))
    image, values, memory = image_of_scaled()
    cache = open_cache()
    first = Program(image, EDGE, cache, "a" * 64).run(values, (4, 1, 1), memory)
    found = Program.found(cache, "a" * 64, EDGE, lambda: image)
    assert found is not None
    again = found.run(values, (4, 1, 1), memory, Options(timeline=True))
    same(again, first)
    with pytest.raises(LaunchError):
        found.run(values, (2, 1, 1), memory)
