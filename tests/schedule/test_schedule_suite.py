"""Every kernel of the suite with a static schedule: the machine reproduces it, to the cycle and to the bit."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
from fast.compare import both
from suite import CASES, Case

import dsalang as dsa

DATA_DEPENDENT = ("running_length",)
"""Kernels whose control flow depends on data."""
FIXED = [name for name in CASES if name not in DATA_DEPENDENT]


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    patch = pytest.MonkeyPatch()
    patch.setenv("DSA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


def launch(case: Case, **options: object) -> dsa.Run:
    """Run a case on fresh outputs."""
    fresh = copy.deepcopy(case.outputs)
    report = case.launch(**options)
    case.bits = [out.tobytes() for out in case.outputs]  # type: ignore[attr-defined]
    for out, clean in zip(case.outputs, fresh, strict=True):
        out[...] = clean
    return report


def compiled(case: Case, **options: object) -> dsa.CompiledKernel:
    """What a static launch of a case compiles."""
    options = {"schedule": "static", **options}
    return case.kernel.warmup(*case.args, grid=case.grid, **case.meta, **case.options, **options)


def check(name: str, target: str) -> None:
    """Times as scheduled, data as with flags, not slower than with flags."""
    case = CASES[name]()
    dynamic = launch(case, target=target)
    bits = case.bits  # type: ignore[attr-defined]
    static = launch(case, target=target, schedule="static")
    assert case.bits == bits  # type: ignore[attr-defined]
    kernel = compiled(case, target=target)
    schedule = kernel.schedule
    assert schedule is not None
    assert static.cycles == kernel.latency_cycles == schedule.cycles
    planned = sorted(
        (row.core, row.engine, row.template, row.start, row.end, row.complete)
        for row in schedule.rows
    )
    ran = sorted(
        (core.core, event.engine, event.template, event.start, event.end, event.complete)
        for core in static.cores
        for event in core.events
    )
    assert ran == planned
    assert schedule.bound_cycles <= schedule.cycles <= schedule.dynamic_cycles
    assert schedule.flags_dropped > 0
    assert static.cycles <= dynamic.cycles
    both_engines(kernel, case)


@pytest.mark.parametrize("name", FIXED)
def test_run_equals_schedule(name: str) -> None:
    check(name, "edge")


@pytest.mark.parametrize("name", ["add_odd", "matmul_odd", "layer_norm_odd", "attention_64_causal"])
def test_run_equals_schedule_on_many_cores(name: str) -> None:
    check(name, "center")


@pytest.mark.parametrize("name", ["matmul_fp8", "softmax_odd", "histogram"])
def test_no_jitter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds of the adversarial engine, two sets of data: one timeline."""
    monkeypatch.setenv("DSA_EMULATOR", "adversarial")
    timelines = []
    for seed in (1, 2):
        monkeypatch.setenv("DSA_SEED", str(seed))
        case = CASES[name]()
        for array in case.args:
            if hasattr(array, "dtype") and seed == 2:
                array[...] = array[::-1].copy()
        report = launch(case, schedule="static")
        timelines.append([core.events for core in report.cores])
    assert timelines[0] == timelines[1]


def test_latency_with_flags_is_what_the_machine_takes() -> None:
    for name in ("add_odd", "matvec", "attention_128"):
        case = CASES[name]()
        # A dynamic image of the same specialisation: all integers constant.
        kernel = compiled(case)
        spec = kernel.specialization
        dynamic = case.kernel.compile(spec.signature, spec.constants)
        assert kernel.schedule is not None
        assert kernel.schedule.dynamic_cycles == _run(dynamic, case).cycles


def ready(kernel: dsa.CompiledKernel, case: Case) -> tuple[Any, ...]:
    """What an engine runs: image, target, arguments, grid, memory."""
    from dsalang._jit.arguments import bind, classify
    from dsalang._jit.launch import argument_bits, grid_of, memory_of

    arguments = classify(case.kernel.source, bind(case.kernel.source, case.args, dict(case.meta)))
    values = [argument_bits(arguments, argument.name) for argument in kernel.image.arguments]
    return kernel.image, kernel.target, values, grid_of(case.grid, {}), memory_of(arguments)


def both_engines(kernel: dsa.CompiledKernel, case: Case) -> None:
    """The fast engine, which must take the image, and the reference engine: same bits, figures and timeline."""
    fresh = copy.deepcopy(case.outputs)
    both(*ready(kernel, case))
    for out, clean in zip(case.outputs, fresh, strict=True):
        out[...] = clean


def _run(kernel: dsa.CompiledKernel, case: Case) -> dsa.Run:
    from dsalang._runtime.reference.engine import run

    return run(*ready(kernel, case))


@pytest.mark.parametrize("seed", [0, 1])
def test_jitter_of_hbm_is_detected(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    edge = dsa.Target.by_name("edge")
    shaky = dataclasses.replace(edge, hbm=dataclasses.replace(edge.hbm, jitter_cycles=300))
    monkeypatch.setenv("DSA_SEED", str(seed))
    case = CASES["matmul_fp8"]()
    launch(case, target=edge)
    bits = case.bits  # type: ignore[attr-defined]
    launch(case, target=shaky)
    assert case.bits == bits  # type: ignore[attr-defined]
    with pytest.raises(dsa.DeviceError, match="timing violation"):
        case.launch(target=shaky, schedule="static")


def test_jitter_is_detected_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    edge = dsa.Target.by_name("edge")
    shaky = dataclasses.replace(edge, hbm=dataclasses.replace(edge.hbm, jitter_cycles=300))
    monkeypatch.setenv("DSA_EMULATOR", "timing")
    with pytest.raises(dsa.DeviceError, match="timing violation"):
        CASES["matmul_fp8"]().launch(target=shaky, schedule="static")
