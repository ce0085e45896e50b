"""The embodied workloads of `benchmarks/embodied.py` on `edge`: right, and within the bench's figures."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from embodied import TOLERANCE, lines


def test_every_workload_holds_its_figure() -> None:
    found = list(lines("edge"))
    assert len(found) == 8
    assert [f"{line.name}: {line.bad}" for line in found if line.bad] == []
    assert {line.name for line in found if not line.error <= TOLERANCE} == set()
