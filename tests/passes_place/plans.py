"""Plans of slots and addresses at random, in place of those that a search finds to be fast.

Whichever plan fits has to be right, so tests of correctness see more of them this way, and a search takes seconds.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence

import pytest
from xdsl.dialects import func

from dsalang._backend.alloc.pack import ORDERS
from dsalang._backend.passes.buffer_model import Work
from dsalang._backend.passes.buffer_search import Choice, Space
from dsalang._backend.passes.sram import LIVES, room


class RandomPlans:
    """Stands for the search of the buffer pass. `chosen` counts the plans that were not the first of all."""

    def __init__(self, seed: int) -> None:
        self.rng, self.chosen = random.Random(seed), 0

    def __call__(
        self, kernel: func.FuncOp, space: Space, starts: Sequence[Sequence[Choice]], work: Work
    ) -> Choice | None:
        """Any plan that fits."""
        rng, plain = self.rng, starts[0][0]
        for most in (3, 2, 1, 1) * 5:  # the more slots, the less fits
            slots = tuple(
                rng.randint(use.least, max(use.least, min(most, space.limits.get(n, 0))))
                if n in space.limits
                else plain.slots[n]
                for n, use in enumerate(space.uses)
            )
            levels = tuple(rng.randrange(len(LIVES)) for _ in space.uses)
            choice = Choice(slots, levels, rng.randrange(len(ORDERS)))
            if space.addresses(choice)[1] <= room(space.uses, space.target):
                self.chosen += 1
                return choice
        found = [choice for start in starts for choice in start]
        fitting = [
            choice
            for choice in found
            if space.addresses(choice)[1] <= room(space.uses, space.target)
        ]
        return rng.choice(fitting) if fitting else None


def use_random_plans(monkeypatch: pytest.MonkeyPatch, seed: int) -> RandomPlans:
    """Let the buffer pass take any plan where the SRAM is short."""
    plans = RandomPlans(seed)
    module = importlib.import_module("dsalang._backend.passes.buffer")
    monkeypatch.setattr(module, "_search", plans)
    return plans
