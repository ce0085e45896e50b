"""Instructions with a fixed start on the machine: kept to the cycle, and every way of missing it is an error."""

from __future__ import annotations

import numpy as np
import pytest
from engine.machine import Program, simple_target

from dsalang._backend.errors import DeviceError


def program(**changes: int) -> tuple[Program, int]:
    p = Program(simple_target(hbm__latency_cycles=100, **changes))
    return p, p.array("x", np.arange(1024, dtype=np.uint8))


def at(p: Program, cycle: int) -> Program:
    p.call("at", cycle, 0)
    return p


def spans(p: Program) -> list[tuple[str, int, int, int]]:
    events = p.run().cores[0].events
    return [(event.engine.name, event.start, event.end, event.complete) for event in events]


def test_starts_are_exact_and_need_no_flags() -> None:
    p, x = program()
    at(p, 3).load(x, 0, 40, 1)
    at(p, 143).busy(5, 0, 128)
    at(p, 148).store(128, x + 512, 5, 1)
    assert spans(p) == [("LD", 3, 43, 143), ("VE", 143, 148, 148), ("ST", 148, 153, 253)]


def test_only_the_next_instruction_is_timed() -> None:
    p, x = program()
    at(p, 50).load(x, 0, 10, 1)
    p.load(x, 64, 10, 1)
    assert spans(p) == [("LD", 50, 60, 160), ("LD", 60, 70, 170)]


def violation(p: Program, text: str) -> None:
    with pytest.raises(DeviceError, match=text) as error:
        p.run()
    assert "timing violation" in str(error.value)
    assert error.value.loc is not None and error.value.loc.line == p.line


def test_data_that_is_not_there_yet() -> None:
    p, x = program()
    at(p, 3).load(x, 0, 40, 1)
    at(p, 142).busy(5, 0, 128)
    violation(p, "at cycle 142: VE vexec reads bytes .* while LD dma.load .* may still be writing")


def test_memory_that_is_still_read() -> None:
    p, x = program()
    at(p, 0).load(x, 0, 40, 1)
    at(p, 140).busy(10, 0, 128)
    at(p, 149).load(x, 0, 40, 1)
    violation(p, "LD dma.load writes bytes .* while VE vexec .* may still be reading")


def test_order_in_hbm() -> None:
    p, x = program()
    at(p, 0).load(x, 0, 40, 1)
    at(p, 140).store(0, x + 512, 40, 1)
    at(p, 279).load(x + 512, 64, 40, 1)
    violation(p, "while ST dma.store .* may still be writing")


def test_busy_engine() -> None:
    p, x = program()
    at(p, 0).load(x, 0, 40, 1)
    at(p, 39).load(x, 64, 40, 1)
    violation(p, "is to start at cycle 39, finds LD busy until cycle 40")


def test_busy_port() -> None:
    p, x = program(dma__setup_cycles=7)
    at(p, 0).load(x, 0, 40, 1)
    at(p, 147).load(x, 64, 40, 1)
    at(p, 186).store(0, x + 512, 40, 1)
    violation(p, "finds the HBM port busy until cycle 194, needing it at 193")


def test_late_issue() -> None:
    p, x = program(scalar__issue_cycles=8)
    at(p, 7).load(x, 0, 40, 1)
    violation(p, "is to start at cycle 7, is issued only at cycle 8")


def test_full_queue_makes_an_issue_late() -> None:
    p, x = program()
    p.target = simple_target(queue_depth=1)
    at(p, 10).load(x, 0, 10, 1)
    at(p, 20).load(x, 64, 10, 1)
    at(p, 5).store(0, x + 512, 1, 1)
    violation(p, "is to start at cycle 5, is issued only at cycle 10")
