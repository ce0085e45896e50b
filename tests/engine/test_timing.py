"""Machine time, against figures worked out by hand from docs/architecture.md, "Machine time"."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsalang._backend.image.model import RingInfo
from dsalang._backend.isa.table import Engine
from dsalang._runtime.stats import Event, Reason

from .machine import CORE, LD, ST, VE, Program, simple_target


def span(event: Event) -> tuple[str, int, int, int]:
    return event.engine.name, event.start, event.end, event.complete


def spans(program: Program, **options: Any) -> list[tuple[str, int, int, int]]:
    result = program.run(**options)
    return [span(event) for event in result.cores[0].events]


def data(program: Program, count: int = 1024) -> int:
    return program.array("x", np.zeros(count, np.uint8))


def test_latency_overlaps_across_queued_transfers() -> None:
    p = Program(simple_target(hbm__latency_cycles=100))
    x = data(p)
    p.load(x, 0, 40, 1)
    p.load(x, 64, 30, 1)
    assert spans(p) == [("LD", 0, 40, 140), ("LD", 40, 70, 170)]


def test_setup_precedes_each_transfer_and_bursts_round_up() -> None:
    p = Program(simple_target(dma__setup_cycles=7, hbm__burst_bytes=64))
    x = data(p)
    p.load(x, 0, 40, 1)
    p.load(x, 64, 65, 1)
    assert spans(p) == [("LD", 0, 71, 71), ("LD", 71, 206, 206)]


def test_set_takes_effect_at_completion_and_later_instructions_run_meanwhile() -> None:
    p = Program(simple_target(hbm__latency_cycles=100))
    x = data(p)
    p.load(x, 0, 10, 1)
    p.set(LD, 0)
    p.load(x, 64, 10, 1)
    p.wait(VE, 0)
    p.busy(5, 0, 128)
    assert spans(p) == [("LD", 0, 10, 110), ("LD", 10, 20, 120), ("VE", 110, 115, 115)]


def test_load_and_store_share_the_port_first_come_first_served() -> None:
    p = Program(simple_target(dma__setup_cycles=3))
    x = data(p)
    p.load(x, 0, 50, 1)
    p.sync(LD, ST, 0)
    p.load(x, 64, 50, 1)
    p.store(0, x + 512, 20, 1)
    p.load(x, 128, 10, 1)
    # Second load and store are both ready at 56: the load goes first. The third load is ready at 109.
    assert spans(p) == [
        ("LD", 0, 53, 53), ("LD", 53, 106, 106), ("ST", 53, 126, 126), ("LD", 106, 136, 136),
    ]  # fmt: skip
    stalls = p.run()
    assert stalls.stalls(ST)["HBM port busy"] == 50
    assert stalls.stalls(LD)["HBM port busy"] == 17
    assert stalls.cores[0].port_busy == 130


def test_issue_costs_depend_on_open_fields_and_a_full_queue_stalls_the_core() -> None:
    p = Program(simple_target(scalar__issue_cycles=5, scalar__operand_cycles=2, queue_depth=1))
    x = data(p)
    p.load(x, 0, 100, 1, open=(("fill", 3),))  # issued at 7
    p.load(x, 128, 100, 1)  # issued at 12, starts at 107
    p.load(x, 256, 100, 1)  # issued at 17, but enters the queue at 107; starts at 207
    p.busy(10, 0, 1024)  # issued at 112
    result = p.run(check_races=False, check_init=False)
    assert sorted(span(event) for event in result.cores[0].events) == [
        ("LD", 7, 107, 107), ("LD", 107, 207, 207), ("LD", 207, 307, 307), ("VE", 112, 122, 122),
    ]  # fmt: skip
    assert result.stalls(CORE) == {"queue of LD full": 90}
    assert result.stalls(LD) == {"not issued": 7}
    assert result.busy(CORE) == 22


def test_control_core_wait_and_read() -> None:
    p = Program(simple_target(scalar__read_cycles=16))
    x = data(p)
    p.load(x, 0, 8, 1)
    p.sync(LD, CORE, 0)
    p.call("read", 0, 4)
    p.busy(3, 0, 64)
    assert spans(p) == [("LD", 0, 8, 8), ("VE", 24, 27, 27)]
    assert p.streams[0].results[3] == 0


def test_read_sign_extends() -> None:
    p = Program()
    x = p.array("x", np.array([-2], np.int16))
    p.load(x, 0, 1, 2)
    p.sync(LD, CORE, 0)
    p.call("read", 0, 2)
    p.run()
    assert p.streams[0].results[3] == -2


def test_bandwidth_is_shared_by_active_cores_only() -> None:
    p = Program(simple_target(cores=4))
    x = data(p)
    p.load(x, 0, 100, 1)
    for programs, cycles, cores in ((1, 100, 1), (3, 300, 3), (9, 400, 4)):
        result = p.run(grid=(programs, 1, 1))
        assert (result.cycles, len(result.cores)) == (cycles, cores)


@pytest.mark.parametrize("slots, transfer, total", [
    (1, 60_000, 1_600_000), (2, 60_000, 1_060_000), (1, 120_000, 2_200_000), (2, 120_000, 1_300_000),
])  # fmt: skip
def test_worked_figures(slots: int, transfer: int, total: int) -> None:
    """10 tiles, compute 100 µs, DMA 60 or 120 µs, at 1 GHz: one slot alternates, two overlap."""
    p = Program(simple_target(), sram_bytes=3 * 120_000)
    x = p.array("x", np.zeros(transfer, np.int8))
    empty, full = 0, 1
    p.credits[empty] = slots
    for tile in range(10):
        slot = 120_000 * (tile % slots)
        p.wait(LD, empty)
        p.load(x, slot, transfer, 1)
        p.set(LD, full)
        p.wait(VE, full)
        p.busy(100_000, slot, 240_000)
        p.set(VE, empty)
    assert p.run().microseconds * 1000 == total


def test_adversarial_delays_change_times_but_not_data() -> None:
    def program() -> tuple[Program, np.ndarray]:
        p = Program()
        x, out = np.arange(640, dtype=np.float32), np.zeros(640, np.float32)
        a, b = p.array("x", x), p.array("out", out)
        p.credits = [2, 0, 2, 0]
        for tile in range(10):
            at, to = 512 * (tile % 2), 1024 + 512 * (tile % 2)
            p.wait(LD, 0)
            p.load(a + 256 * tile, at, 64)
            p.sync(LD, VE, 1)
            p.wait(VE, 2)
            p.binary("fadd", "fp32", at, at, to, 64, 4)
            p.set(VE, 0)
            p.sync(VE, ST, 3)
            p.store(to, b + 256 * tile, 64)
            p.set(ST, 2)
        return p, out

    times = set()
    for seed in (None, 1, 2, 3):
        p, out = program()
        times.add(p.run(adversarial_seed=seed).cycles)
        assert np.array_equal(out, 2 * np.arange(640, dtype=np.float32))
    assert len(times) == 4


def test_report_and_timeline(tmp_path: Path) -> None:
    p = Program()
    x = data(p)
    p.rings.append(RingInfo("x tile", 0, 2, 64, 40, (40,), "int8", p.loc()))
    p.load(x, 64, 40, 1, argument=0)
    p.sync(LD, VE, 0)
    p.busy(20, 64, 128)
    result = p.run()
    assert result.cycles == 60
    assert result.microseconds == pytest.approx(0.06)
    assert result.utilisation(VE) == pytest.approx(20 / 60)
    assert result.stalls(VE) == {"waiting for LD, line 3": 40}
    assert (result.hbm["x"].read, result.hbm["x"].written, result.hbm_bytes) == (40, 0, 40)
    assert result.roofline.bound == "HBM bandwidth"
    assert result.roofline.operations == 20
    assert result.instructions == 2
    text = result.summary()
    for piece in ("60 cycles", "x tile", "waiting for LD, line 3 67%"):
        assert piece in text

    path = result.timeline(tmp_path / "deep" / "k.json")
    events = json.loads(path.read_text())["traceEvents"]
    work = [e for e in events if e.get("cat") == "instruction"]
    stalls = [e for e in events if e.get("cat") == "stall"]
    assert [(e["name"], e["ts"], e["dur"]) for e in stalls] == [
        ("waiting for LD, line 3", 0.0, 0.04)
    ]
    assert [e["name"] for e in work] == ["dma.load x tile[1]", "vexec"]
    assert work[0]["args"]["source"] == "k.py:2:1"
    assert work[0]["args"]["array"] == "x"
    assert (work[1]["ts"], work[1]["dur"]) == (0.04, 0.02)
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {engine.name for engine in Engine}
    assert [f.name for f in path.parent.iterdir()] == ["k.json"]


programs = st.lists(
    st.tuples(
        st.sampled_from(["load", "store", "busy", "pair", "core"]),
        st.integers(1, 60),
        st.sampled_from([LD, ST, VE]),
        st.sampled_from([LD, ST, VE]),
    ),
    max_size=25,
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(programs, st.integers(0, 9), st.integers(0, 20), st.integers(0, 5), st.integers(1, 3))
def test_every_cycle_is_accounted_for(
    steps: list[tuple[str, int, Engine, Engine]], setup: int, latency: int, issue: int, depth: int
) -> None:
    """Busy and stalled cycles add up, engines and the port do one thing at a time."""
    p = Program(
        simple_target(
            dma__setup_cycles=setup,
            hbm__latency_cycles=latency,
            scalar__issue_cycles=issue,
            queue_depth=depth,
        )
    )
    x = data(p)
    p.credits = [0] * 32
    for number, (kind, size, source, to) in enumerate(steps):
        if kind == "load":
            p.load(x, 0, size, 1)
        elif kind == "store":
            p.store(512, x, size, 1)
        elif kind == "busy":
            p.busy(size, 1024, 2048)
        elif kind == "pair":
            p.sync(source, to, number)
        else:
            p.sync(source, CORE, number)
    result = p.run(check_races=False, check_init=False)
    core = result.cores[0]
    transfers = 0
    for engine in (LD, ST, VE):
        events = [e for e in core.events if e.engine is engine]
        for before, after in itertools.pairwise(events):
            assert before.end <= after.start and before.complete <= after.complete
        assert all(e.end <= e.complete <= result.cycles for e in events)
        stats = core.engines[engine]
        stalled = sum(stats.stalls.values())
        last = events[-1].end if events else 0
        assert last <= stats.busy + stalled <= result.cycles
        assert stats.instructions == len(events)
        transfers += sum(e.end - e.start - setup for e in events if engine is not VE)
    ports = sum(s[1] for s in steps if s[0] in ("load", "store"))
    assert core.port_busy == ports <= result.cycles
    waited = sum(core.engines[e].stalls.get(Reason("HBM port busy"), 0) for e in (LD, ST))
    assert transfers == ports + waited
    control = core.engines[CORE]
    assert control.busy == issue * control.instructions
    assert control.busy + sum(control.stalls.values()) <= result.cycles
    assert result.cycles == p.run(check_races=False, check_init=False).cycles
