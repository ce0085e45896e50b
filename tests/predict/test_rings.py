"""Two points of `benchmarks/rings.py`: no other choice of slots is much faster than the compiler's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import rings


@pytest.mark.parametrize(
    ("name", "latency", "bandwidth"), [("vector add", 1600, 4.0), ("matmul, large tiles", 400, 4.0)]
)
def test_no_other_choice_is_faster(name: str, latency: int, bandwidth: float) -> None:
    target = rings.machine(latency, bandwidth)
    kernel = rings.Kernel(rings.SHOTS[name](target), target)
    slots = kernel.chosen()
    assert slots is not None
    chosen = kernel.predicted(slots)
    assert chosen is not None and chosen.cycles == kernel.emulated(slots)
    tried = list(kernel.others(slots))
    assert len(tried) > len(slots)
    best = min(tried, key=lambda choice: choice.cycles)
    assert best.cycles >= (1 - rings.ALLOWED) * chosen.cycles, f"{best} against {chosen}"
    worst = max(tried, key=lambda choice: choice.cycles)
    assert worst.cycles > 1.05 * chosen.cycles, "the choice makes no difference here"
