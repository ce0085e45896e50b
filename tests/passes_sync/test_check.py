"""What the checker finds, on kernels with semaphores placed by hand."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from sync_kernels import R, kernel, machine

from dsalang._backend.errors import InternalError
from dsalang._backend.passes import check as check_pass
from dsalang._backend.passes.check import check, find_hazards
from dsalang._backend.passes.check_deletion import deletion_report


def kinds(
    rings: dict[str, R],
    steps: list[Any],
    credits: list[int],
    alias: list[int] | None = None,
    most: int = 15,
) -> list[str]:
    hazards = find_hazards(kernel(rings, steps, alias, credits), machine(most=most))
    return sorted(hazard.kind for hazard in hazards)


PASSES = Path(check_pass.__file__).parent
X = {"x": R(2)}
LOAD = [("acq", "x"), ("wait", "LD", 1), ("ld", "x"), ("set", "LD", 0)]
USE = [("wait", "VE", 0), ("ve", ["x"], []), ("set", "VE", 1)]


def test_a_full_and_an_empty_semaphore_make_a_ring_safe() -> None:
    assert kinds(X, LOAD + USE, [0, 2]) == []
    assert kinds(X, LOAD + USE, [0, 1]) == []


def test_a_credit_too_many_lets_the_load_overwrite_a_slot_in_use() -> None:
    assert kinds(X, LOAD + USE, [0, 3]) == ["race"]


def test_a_held_slot_is_the_one_of_the_turn_before() -> None:
    use = [("held", "x", 1, "before"), ("wait", "VE", 0), ("ve", ["before"], []), ("set", "VE", 1)]
    assert kinds(X, LOAD + use, [1, 1]) == []
    assert kinds(X, LOAD + use, [2, 1]) == ["race"]
    assert kinds(X, LOAD + use, [1, 2]) == ["race"]


def test_the_message_names_instructions_ring_and_lines() -> None:
    module = kernel(X, [("acq", "x"), ("ld", "x"), ("ve", ["x"], [])])
    text = "race: VE vexec can start before LD dma.load is done with ring 'x' (k.py:6:1, k.py:5:1)"
    hazards = find_hazards(module, machine())
    assert text in [hazard.message for hazard in hazards]
    assert {str(loc) for loc in hazards[0].locs} == {"k.py:5:1", "k.py:6:1"}
    with pytest.raises(InternalError, match=r"not safe to run(.|\n)*VE vexec can start before"):
        check(module, machine())


def test_sync_and_check_share_no_code() -> None:
    for name, other in (("check", "sync"), ("sync", "check")):
        files = sorted(PASSES.glob(f"{name}*.py"))
        assert files
        for file in files:
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom):
                    assert not (node.module or "").startswith(other), file


def test_a_wait_that_nothing_feeds_is_a_deadlock() -> None:
    steps = [("acq", "x"), ("wait", "LD", 1), ("ld", "x"), *USE, ("set", "LD", 0)]
    assert kinds(X, steps, [0, 2]) == ["deadlock"]


def test_a_set_in_one_arm_only_is_unbalanced() -> None:
    assert kinds({}, [("if", [("set", "LD", 0)], [])], [0]) == ["unbalanced"]
    assert kinds({}, [("for", [("set", "LD", 0)])], [0]) == ["unbalanced"]
    once_more = [("while", [("set", "LD", 0)], [("wait", "VE", 0)])]
    assert "unbalanced" in kinds({}, once_more, [0])


def test_a_source_that_runs_ahead_overflows() -> None:
    steps = [("set", "LD", 0), ("wait", "VE", 0)]
    assert kinds({}, steps, [0]) == ["overflow"]
    held = [("wait", "LD", 1), *steps, ("set", "VE", 1)]
    assert kinds({}, held, [0, 15]) == []
    assert kinds({}, held, [0, 16]) == ["overflow", "overflow"]
    assert kinds({}, held, [0, 2], most=2) == []


def test_semaphores_beyond_the_target_are_refused() -> None:
    steps = [("set", "LD", 32), ("wait", "LD", 32)]
    assert kinds({}, steps, []) == ["overflow", "overflow"]


def test_two_engines_must_not_compete_for_tokens() -> None:
    steps = [("set", "LD", 0), ("wait", "VE", 0), ("set", "LD", 0), ("wait", "MM", 0)]
    assert "race" in kinds({}, steps, [0])


def test_the_control_core_cannot_set() -> None:
    with pytest.raises(InternalError, match="no set"):
        find_hazards(kernel({}, [("set", "CORE", 0)]), machine())


def test_drains_of_several_engines_share_a_semaphore() -> None:
    drains = [step for e in ("LD", "VE") for step in (("set", e, 0), ("wait", "CORE", 0))]
    steps = [("acq", "x"), ("ld", "x"), *drains, ("ve", ["x"], []), *drains]
    assert kinds(X, steps, [0]) == []
    both = [("set", "LD", 0), ("set", "VE", 0), ("wait", "CORE", 0), ("wait", "CORE", 0)]
    assert "overflow" in kinds(X, both, [0])


def test_a_read_needs_a_wait_of_the_control_core() -> None:
    steps = [("acq", "x"), ("ve", [], ["x"]), ("set", "VE", 0), ("wait", "CORE", 0), ("read", "x")]
    assert kinds(X, steps, [0]) == []
    assert kinds(X, [s for s in steps if s[0] not in ("set", "wait")], []) == ["race"]


def test_a_transfer_reads_what_an_earlier_one_of_its_queue_writes() -> None:
    rings = {"i": R(2), "x": R(2)}
    load, use = [("acq", "i"), ("ld", "i")], [("acq", "x"), ("ld", "x", "i")]
    assert kinds(rings, load + use, []) == ["race"]
    assert kinds(rings, [*load, ("set", "LD", 0), ("wait", "LD", 0), *use], [0]) == []


@pytest.mark.parametrize(("alias", "found"), [([0, 1], []), ([0, 0], ["race"])])
def test_hbm_within_a_program(alias: list[int], found: list[str]) -> None:
    steps = [("acq", "x"), ("st", "x", {"arg": 0}), ("acq", "y"), ("ld", "y", {"arg": 1})]
    assert kinds({"x": R(), "y": R()}, steps, [], alias) == found


def test_hbm_around_a_loop_but_not_between_programs() -> None:
    rings = {"x": R(), "y": R()}
    steps = [("acq", "x"), ("acq", "y"), ("ld", "y", {"arg": 0}), ("st", "x", {"arg": 0})]
    ordered = [*steps[:3], ("set", "LD", 0), ("wait", "ST", 0), steps[3]]
    held = [("wait", "LD", 1), *ordered, ("set", "ST", 1)]
    assert kinds(rings, held, [0, 9]) == []
    assert kinds(rings, [("for", held)], [0, 9]) == ["race"]
    assert kinds(rings, [("for", held)], [0, 1]) == []


def test_a_loop_that_does_not_run_orders_nothing() -> None:
    inside = [("set", "LD", 0), ("wait", "VE", 0)]
    steps = [("acq", "x"), ("ld", "x"), ("for", inside), ("ve", ["x"], [])]
    assert "race" in kinds(X, steps, [0])
    always = [("acq", "x"), ("ld", "x"), ("while", inside, []), ("ve", ["x"], [])]
    messages = [h.message for h in find_hazards(kernel(X, always, None, [0]), machine())]
    assert not any("VE vexec can start" in message for message in messages)


def test_rings_that_share_memory() -> None:
    steps = [("acq", "x"), ("ve", [], ["x"]), ("acq", "y"), ("mm", "y", "y", "y")]
    assert kinds({"x": R(1, 0), "y": R(1, 64)}, steps, []) == []
    assert kinds({"x": R(1, 0), "y": R(1, 60)}, steps, []) == ["race", "race"]
    assert kinds({"x": R(2, 0), "y": R(1, 64)}, steps, []) == ["race", "race"]


def test_deletion_reports_what_is_needless() -> None:
    twice = [("wait", "VE", 2), *USE]
    report = deletion_report(
        kernel(X, [*LOAD, ("set", "LD", 2), *twice], None, [0, 2, 0]), machine()
    )
    assert (report.pairs, report.caught, report.redundant) == (3, 1, 2)
    assert [str(loc) for loc in report.redundant_at[1]] == ["k.py:8:1", "k.py:9:1"]
