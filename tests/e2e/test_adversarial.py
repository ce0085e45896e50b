"""A few seeds of `benchmarks/adversarial.py`: identical bits under random delays, and a broken program that is not."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
from suite import CASES

from dsalang import Target
from dsalang._backend.errors import DeviceError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from adversarial import Trial, random_differing, suite_trial

EDGE = Target.by_name("edge")
SEEDS = 2


@pytest.mark.parametrize("name", CASES)
def test_suite(name: str) -> None:
    assert suite_trial(name, EDGE).differing(SEEDS) == []


@pytest.mark.parametrize("number", range(6))
def test_random_kernels(number: int) -> None:
    assert random_differing(number, SEEDS, EDGE) == []


def test_deep_queues_and_few_semaphores() -> None:
    for changes in ({"queue_depth": 1}, {"semaphores": 2}, {"semaphore_max": 1}):
        target = dataclasses.replace(EDGE, **changes)
        assert suite_trial("matmul_odd", target).differing(SEEDS) == []


def without_waits(trial: Trial) -> Trial:
    """The same image, but no engine waits for the loads."""
    image = trial.image
    sems = {t.instruction.fields["sem"] for t in image.templates if _sets_on(t, "LD")}
    credits = tuple(8 if number in sems else count for number, count in enumerate(image.credits))
    return dataclasses.replace(trial, image=dataclasses.replace(image, credits=credits))


def _sets_on(template: object, engine: str) -> bool:
    instruction = template.instruction  # type: ignore[attr-defined]
    return instruction.op == "set" and instruction.engine.name == engine


def test_a_missing_flag_is_noticed() -> None:
    broken = without_waits(suite_trial("add_odd", EDGE))
    with pytest.raises(DeviceError):
        broken.bits(1)


def test_the_knobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_EMULATOR", "adversarial")
    cycles = []
    for seed in ("3", "4", "3"):
        monkeypatch.setenv("DSA_SEED", seed)
        case = CASES["add_odd"]()
        cycles.append(case.launch().cycles)
        case.check()
    assert cycles[0] == cycles[2] != cycles[1]
