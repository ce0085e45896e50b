"""Share of the machine's limit that kernels reach: every row of `benchmarks/roofline.py`, in exact cycles."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from roofline import ROWS, Row, execute, limits

from dsalang import Target

TARGETS = ["edge", pytest.param("center", marks=pytest.mark.slow)]


@pytest.mark.parametrize("target_name", TARGETS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_kernel_reaches_its_share_of_the_limit(row: Row, target_name: str) -> None:
    target = Target.by_name(target_name)
    shot = row.shot(target)
    result = execute(shot, target)
    found = limits(shot, result, target)
    share = max(found.values()) / result.cycles
    assert row.least <= share <= 1, found


def test_the_limit_counts_no_byte_twice() -> None:
    """The traffic of a limit is what has to move at least: all of every array, once (twice: a second pass)."""
    target = Target.by_name("edge")
    for row in ROWS:
        shot = row.shot(target)
        result = execute(shot, target)
        moved = sum(core.burst_bytes for core in result.cores)
        assert shot.traffic <= moved, row.name
