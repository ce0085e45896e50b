"""Which loops are rotated, and into what."""

from __future__ import annotations

import textwrap
from random import Random
from typing import Any

import pytest
from sync_kernels import R, kernel, machine, steps_text
from sync_oracle import credits_of, races, record, simulate
from xdsl.dialects.builtin import ModuleOp

from dsalang._backend.dialects import dsa
from dsalang._backend.isa.table import QUEUED, Engine
from dsalang._backend.passes.check import find_hazards
from dsalang._backend.passes.effects import Effects
from dsalang._backend.passes.skew import skew
from dsalang._backend.passes.skew_stages import _round_trips, _Work
from dsalang._backend.passes.sync import sync

RINGS = {name: R(2) for name in ("x", "s", "p", "acc")}
FIRST = [("acq", "x"), ("ld", "x", {"arg": 0}), ("acq", "s"), ("mm", "x", "x", "s")]
SECOND = [("acq", "p"), ("ve", ["s"], ["p"]), ("mm", "p", "p", "acc")]
ROTATED = """
    for
      for
        if
          dma.load
          mma
        --
        if
          vexec
          mma
        --
"""


def skewed(steps: list[Any], alias: list[int] | None = None) -> ModuleOp:
    module = kernel(RINGS, [("acq", "acc"), ("for", steps)], alias)
    skew(module, machine())
    module.verify()
    return module


def is_rotated(module: ModuleOp) -> bool:
    return any(isinstance(op, dsa.HeldOp) for op in module.walk())


def test_a_loop_goes_round_one_half_ahead() -> None:
    module = skewed(FIRST + SECOND)
    assert steps_text(module) == textwrap.dedent(ROTATED).strip()
    held = [op for op in module.walk() if isinstance(op, dsa.HeldOp)]
    assert [op.current.owner.ring.owner.label.data for op in held] == ["s"]  # type: ignore[union-attr]


def test_a_rotated_loop_is_synchronised() -> None:
    module = skewed(FIRST + SECOND)
    sync(module, machine())
    assert find_hazards(module, machine()) == []
    credits = credits_of(module)
    for run in range(8):
        trace = record(module, run)
        assert races(trace, credits, list(range(8))) == []
        assert simulate(trace, credits, 15, 4, run) == ""


@pytest.mark.parametrize(
    "steps",
    [
        FIRST,
        [*FIRST, ("acq", "p"), ("ve", ["s"], ["p"]), ("st", "p", {"arg": 1})],
        [*FIRST, ("mm", "x", "s", "acc")],
    ],
)
def test_a_loop_without_a_round_trip_stays(steps: list[Any]) -> None:
    assert not is_rotated(skewed(steps))


def test_what_the_second_half_stores_the_first_must_not_load_too_early() -> None:
    steps = [*FIRST, *SECOND, ("st", "p", {"arg": 1})]
    assert is_rotated(skewed(steps))
    assert not is_rotated(skewed(steps, alias=[0, 0, 2, 3]))


def test_what_is_carried_from_the_second_half_to_the_first_forbids_it() -> None:
    assert not is_rotated(skewed([("acq", "s"), ("mm", "acc", "acc", "s"), *SECOND]))


def _searched(works: list[Any], start: Any, engine: Any) -> set[int]:
    """Round trips by search, a path at a time: works of the engine behind one of another engine."""
    ends, seen, todo = set[int](), set[tuple[int, bool]](), [(start, False)]
    while todo:
        work, away = todo.pop()
        for later in work.feeds:
            mine = engine in later.effects.engines
            if mine and away:
                ends.add(works.index(later))
            key = (id(later), away or not mine)
            if key not in seen:
                seen.add(key)
                todo.append((later, away or not mine))
    return ends if engine in start.effects.engines else set()


@pytest.mark.parametrize("seed", range(20))
def test_round_trips_are_those_of_a_search(seed: int) -> None:
    random = Random(seed)
    engines = list(QUEUED)
    works = [
        _Work(dsa.AcquireOp, Effects(engines=set(random.sample(engines, random.choice([1, 1, 2])))), [])  # type: ignore[arg-type]
        for _ in range(9)
    ]  # fmt: skip
    for n, work in enumerate(works):
        work.feeds = [later for later in works[n + 1 :] if random.random() < 0.3]
    expected = [set[int]().union(*(_searched(works, w, e) for e in engines)) for w in works]
    found = [{m for m in range(9) if bits >> m & 1} for bits in _round_trips(works)]
    assert found == expected


def test_thousands_of_works_that_depend_on_each_other() -> None:
    """Unrolled loops had no end of it: cubic, and a closure of operations for each pair."""
    works = [_Work(dsa.AcquireOp, Effects(engines={Engine.ST}), []) for _ in range(1500)]  # type: ignore[arg-type]
    for n, work in enumerate(works):
        work.feeds = works[n + 1 :]
    assert not any(_round_trips(works))
