"""A small run of `fuzz.py`, with inputs that it is known to make."""

from __future__ import annotations

import random

import pytest

from . import fuzz as module
from .fuzz import fuzz
from .surfaces import SURFACES, Surface

COUNT = 200


@pytest.mark.parametrize("name", SURFACES)
def test_no_input_crashes(name: str) -> None:
    outcome = fuzz(SURFACES[name], 1, range(COUNT))
    assert not outcome.failures, outcome.failures[0][1]
    assert outcome.accepted + outcome.refused == COUNT
    assert outcome.refused > COUNT // 20  # the mutations do something
    assert outcome.accepted > 0  # and not only nonsense


def test_failures_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.1)

    def read(data: bytes) -> bool:
        if data[0] == 1:
            raise IndexError("boom")
        while data[0] == 2:
            pass
        return True

    surface = Surface(lambda rng: bytes([rng.randrange(3)]), read)
    outcome = fuzz(surface, 0, range(50), most_failures=3)
    assert len(outcome.failures) == 3
    assert all("boom" in text or "HangError" in text for _, text in outcome.failures)


def test_inputs_can_be_made_again() -> None:
    for surface in SURFACES.values():
        assert surface.make(random.Random(5)) == surface.make(random.Random(5))
