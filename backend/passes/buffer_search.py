"""Slots and addresses for rings that do not all get what they want: local search.

A choice says how many slots each ring gets, how freely each shares its memory (an index of `sram.LIVES`), and in
which order they are packed. Where the SRAM is short these depend on each other: a second slot for one ring may be paid
by an address that makes two engines wait for each other. So choices are compared by their cycles: many by a rehearsal,
the best of them by a trial.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from ..alloc.pack import ORDERS, first_fit, peak
from ..target import Target
from .sram import LIVES, RingUse, addresses_of, buffers, room

Cost = tuple[float, int]
"""Cycles, and bytes of SRAM in use."""

Measure = Callable[[Sequence[int], Sequence[int]], float]
"""Cycles for the slots and addresses of rings."""

WORTH = 0.999
"""A change has to bring the cycles below this share, or bytes down at equal cycles."""


@dataclass(frozen=True)
class Choice:
    """Slots and the level of reuse by ring, and which of `alloc.pack.ORDERS` packs them."""

    slots: tuple[int, ...]
    levels: tuple[int, ...]
    order: int = 0


@dataclass(frozen=True)
class Space:
    """What can be chosen for a kernel; `limits` are the most slots of the rings whose slots are open."""

    uses: Sequence[RingUse]
    limits: Mapping[int, int]
    target: Target

    def addresses(self, choice: Choice) -> tuple[list[int], int]:
        """The address of each ring, and one past the last byte in use."""
        problem = buffers(self.uses, choice.slots, choice.levels, self.target)
        offsets = first_fit(sorted(problem, key=ORDERS[choice.order]))
        return addresses_of(self.uses, offsets), peak(problem, offsets)

    def changes(self, choice: Choice) -> Iterator[Choice]:
        """All choices that differ in one respect."""
        slots = choice.slots
        for order in range(len(ORDERS)):
            if order != choice.order:
                yield replace(choice, order=order)
        for n, limit in self.limits.items():
            if slots[n] < limit:
                yield replace(choice, slots=_changed(slots, n, slots[n] + 1))
            if slots[n] > self.uses[n].least:
                fewer = _changed(slots, n, slots[n] - 1)
                yield replace(choice, slots=fewer)
                for m, other in self.limits.items():
                    if m != n and slots[m] < other:
                        yield replace(choice, slots=_changed(fewer, m, slots[m] + 1))
        for n, level in enumerate(choice.levels):
            for other in range(len(LIVES)):
                if other != level:
                    yield replace(choice, levels=_changed(choice.levels, n, other))


def _changed(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


class Search:
    """Searches for cheap choices with a measure that is asked at most so many times."""

    def __init__(self, space: Space, measure: Measure, most: int) -> None:
        self.space, self.measure, self.left = space, measure, most
        self.known: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}

    def cost(self, choice: Choice) -> Cost:
        """What a choice costs; infinite when it does not fit."""
        addresses, top = self.space.addresses(choice)
        if top > room(self.space.uses, self.space.target):
            return inf, top
        key = choice.slots, tuple(addresses)
        if key not in self.known:
            self.left -= 1
            self.known[key] = self.measure(*key)
        return self.known[key], top

    def cheapest(self, choices: Collection[Choice]) -> Choice:
        """The cheapest one."""
        return min(choices, key=self.cost)

    def improve(self, choice: Choice, most: int) -> Choice:
        """Take any change that is cheaper until there is none, or `most` measurements are made."""
        cost, rng, end = self.cost(choice), random.Random(0), self.left - most
        improved = True
        while improved:
            improved = False
            changes = list(self.space.changes(choice))
            rng.shuffle(changes)
            for changed in changes:
                if self.left <= max(0, end):
                    return choice
                new = self.cost(changed)
                if new[0] < cost[0] * WORTH or (new[0] <= cost[0] and new[1] < cost[1]):
                    cost, choice, improved = new, changed, True
                    break
        return choice
