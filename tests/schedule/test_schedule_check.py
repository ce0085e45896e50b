"""The independent check of schedules: what the scheduler emits passes, and anything tighter does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from suite import CASES

from dsalang._backend.errors import InternalError
from dsalang._backend.passes import schedule as pass_
from dsalang._backend.passes.schedule_check import Scheduled, check_schedule
from dsalang._jit.images import Images

Core = list[Scheduled]


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function from a case's name to what is checked when it is compiled."""
    monkeypatch.setenv("DSA_CACHE", "0")
    seen: list[tuple[Any, ...]] = []

    def watch(*args: Any) -> tuple[int, ...]:
        seen.append(args)
        return check_schedule(*args)

    monkeypatch.setattr(pass_, "check_schedule", watch)

    def of(name: str) -> tuple[Any, ...]:
        case = CASES[name]()
        monkeypatch.setattr(case.kernel, "_images", Images(case.kernel.source))
        case.kernel.warmup(*case.args, grid=case.grid, **case.meta, schedule="static")
        return seen[-1]

    return of


def moved(core: Core, number: int, cycles: int) -> Core:
    """One instruction starts earlier or later."""
    changed = list(core)
    issue = dataclasses.replace(core[number].issue, start=core[number].issue.start + cycles)
    changed[number] = dataclasses.replace(core[number], issue=issue)
    return changed


def refused(core: Core, rest: Sequence[Any]) -> bool:
    try:
        check_schedule([core], *rest)
    except InternalError:
        return True
    return False


@pytest.mark.parametrize("name", ["add_odd", "matmul_fp8", "softmax_strided", "histogram"])
def test_nothing_can_start_a_cycle_earlier(name: str, emitted: Any) -> None:
    cores, *rest = emitted(name)
    (core,) = cores
    early = [n for n in range(len(core)) if not refused(moved(core, n, -1), rest)]
    assert early == []


@pytest.mark.parametrize("name", ["matmul_fp8", "softmax_strided"])
def test_order_of_the_program_is_kept(name: str, emitted: Any) -> None:
    """Two instructions that swap their places in the program depend on each other the wrong way round."""
    cores, *rest = emitted(name)
    (core,) = cores
    caught = 0
    by_program = sorted(range(len(core)), key=lambda n: core[n].position)
    for first, second in pairwise(by_program):
        changed = list(core)
        a, b = core[first], core[second]
        changed[first] = dataclasses.replace(a, position=b.position)
        changed[second] = dataclasses.replace(b, position=a.position)
        caught += refused(changed, rest)
    assert caught > len(core) // 4


def test_length_is_worked_out(emitted: Any) -> None:
    cores, *rest = emitted("add_bf16")
    (core,) = cores
    cycles = check_schedule(cores, *rest)[0]
    last = max(range(len(core)), key=lambda n: core[n].issue.start)
    assert check_schedule([moved(core, last, 100)], *rest) == (cycles + 100,)
