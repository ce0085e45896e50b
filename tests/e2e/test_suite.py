"""Every kernel of the suite, from Python to the machine, on every shipped target."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from suite import CASES, Case

import dsalang as dsa
from dsalang._backend.dialects import parse_ir
from dsalang._backend.passes.check_deletion import deletion_report

TARGETS = ("edge", "edge-server", "center")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_right_and_the_same_twice(name: str, target: str) -> None:
    case = CASES[name]()
    fresh = copy.deepcopy(case.outputs)
    first = case.launch(target=target)
    case.check()
    bits = [out.tobytes() for out in case.outputs]
    for out, clean in zip(case.outputs, fresh, strict=True):
        out[...] = clean
    second = case.launch(target=target)
    assert [out.tobytes() for out in case.outputs] == bits
    assert (first.cycles, first.hbm_bytes) == (second.cycles, second.hbm_bytes)


@pytest.mark.parametrize("name", CASES)
def test_interpreter_agrees(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_INTERPRET", "1")
    case = CASES[name]()
    assert "interpreted" in repr(case.launch())
    case.check()


def compiled(case: Case, target: str) -> dsa.CompiledKernel:
    """What the launch of a case compiles."""
    return case.kernel.warmup(*case.args, grid=case.grid, **case.meta, target=target)


@pytest.mark.parametrize("name", CASES)
def test_every_pair_of_flags_is_needed_or_proven_redundant(name: str) -> None:
    case = CASES[name]()
    kernel = compiled(case, "edge")
    module = parse_ir(kernel.text["dsa"])
    report = deletion_report(module, dsa.Target.by_name("edge"))
    assert report.pairs > 0
    assert report.caught + report.redundant == report.pairs
    print(f"{name}: {report.pairs} pairs, {report.caught} caught, {report.redundant} redundant")


def test_outputs_of_suite_start_different_from_the_answer() -> None:
    for make in CASES.values():
        case = make()
        assert max(case.errors()) > 1e-3, f"{case.name} would pass without running"
        assert all(np.isfinite(out.astype(np.float64)).all() for out in case.outputs)
