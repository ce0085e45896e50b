"""What moves out of the grid loop."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from sync_kernels import EDGE, R, kernel, machine, steps_text
from sync_oracle import credits_of, races, record, simulate

from dsalang._backend.passes.check import find_hazards
from dsalang._backend.passes.hoist import hoist
from dsalang._backend.passes.sync import sync
from dsalang._backend.target import Target

RINGS = {"w": R(1), "x": R(2), "y": R(2)}
WEIGHT = [("acq", "w"), ("ld", "w", {"arg": 0})]
FILL = ("for", [("ve", [], ["x"])])
STORE = ("st", "y", {"arg": 2})


def hoisted(steps: list[Any], alias: list[int] | None = None, target: Target = EDGE) -> list[str]:
    text = str(steps)
    used = {name: ring for name, ring in RINGS.items() if f"('acq', '{name}')" in text}
    module = kernel(used, steps, alias)
    hoist(module, target)
    module.verify()
    return steps_text(module).splitlines()


def test_a_load_that_every_program_does_is_done_once() -> None:
    steps = [*WEIGHT, ("acq", "x"), FILL, ("acq", "y"), ("ve", ["w", "x"], ["y"]), STORE]
    assert hoisted(steps) == ["dma.load", "for", "  for", "    vexec", "  vexec", "  dma.store"]


def test_what_is_made_of_it_moves_too() -> None:
    steps = [
        *WEIGHT,
        ("acq", "x"),
        ("ve", ["w"], ["x"]),
        ("acq", "y"),
        ("for", [("ve", ["x"], ["y"])]),
    ]
    assert hoisted(steps) == ["dma.load", "vexec", "for", "  for", "    vexec"]


@pytest.mark.parametrize(
    "steps",
    [
        [*WEIGHT, ("acq", "y"), ("ve", ["w"], ["y"]), ("for", [("ve", [], ["w"])]), STORE],
        [*WEIGHT, ("acq", "y"), ("for", [("ve", ["w"], ["y"])]), ("ve", ["w"], ["w"])],
        [("for", [*WEIGHT, ("acq", "y"), ("ve", ["w"], ["y"]), STORE])],
        [("if", WEIGHT, [])],
    ],
)
def test_what_changes_or_may_not_run_stays(steps: list[Any]) -> None:
    lines = hoisted(steps)
    assert lines[0] == "for"
    assert len([line for line in lines if "load" in line]) == 1


def test_what_the_kernel_may_store_to_is_loaded_each_time() -> None:
    steps = [*WEIGHT, ("acq", "y"), ("ve", ["w"], ["y"]), STORE]
    assert hoisted(steps)[0] == "dma.load"
    assert hoisted(steps, alias=[0, 1, 0, 3])[0] == "for"


def test_the_sram_must_have_room_for_it_all_the_time() -> None:
    steps = [*WEIGHT, ("acq", "x"), ("ld", "x", {"arg": 1}), ("ve", ["w", "x"], ["x"])]
    roomy = dataclasses.replace(EDGE, sram_bytes=1024)
    assert hoisted(steps, target=roomy)[0] == "dma.load"
    assert hoisted(steps, target=dataclasses.replace(EDGE, sram_bytes=128))[0] == "for"


def test_the_grid_loop_waits_for_it() -> None:
    module = kernel({"w": R(1), "y": R(2)}, [*WEIGHT, ("acq", "y"), ("ve", ["w"], ["y"]), STORE])
    hoist(module, machine())
    sync(module, machine())
    assert find_hazards(module, machine()) == []
    credits = credits_of(module)
    for run in range(4):
        trace = record(module, run)
        assert races(trace, credits, list(range(8))) == []
        assert simulate(trace, credits, 15, 4, run) == ""
