"""Share of the machine's limit that kernels reach: every row of `benchmarks/roofline.py`, in exact cycles."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from roofline import ROWS, Row, Shot, execute, limits

from dsalang import Target
from dsalang._runtime.report import Run

TARGETS = ["edge", pytest.param("center", marks=pytest.mark.slow)]


@cache
def measured(row: Row, target_name: str) -> tuple[Shot, Run, dict[str, float]]:
    """A row's launch, its run, and the target's limits for it."""
    target = Target.by_name(target_name)
    shot = row.shot(target)
    result = execute(shot, target)
    return shot, result, limits(shot, result, target)


@pytest.mark.parametrize("target_name", TARGETS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_kernel_reaches_its_share_of_the_limit(row: Row, target_name: str) -> None:
    _, result, found = measured(row, target_name)
    assert row.least <= max(found.values()) / result.cycles <= 1, found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_limit_counts_only_bytes_that_have_to_move(row: Row) -> None:
    shot, result, _ = measured(row, "edge")
    assert shot.traffic <= sum(core.burst_bytes for core in result.cores)
