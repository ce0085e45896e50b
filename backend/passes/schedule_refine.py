"""Local search over orders of issue, for the cores that decide how long a kernel takes."""

from __future__ import annotations

from random import Random

from ..target import Target
from .schedule_order import Timed, by_priority, decode, lower_bound
from .schedule_problem import Problem

BUDGET = 20_000
"""Instructions placed in the search of one core: about a tenth of a second."""


def refine(problem: Problem, timed: Timed, target: Target) -> Timed:
    """A schedule that is not longer: instructions are moved to and fro as long as that does not hurt.

    Moves are random with a fixed seed, so that the same kernel always has the same schedule.
    """
    rng, bound = Random(len(problem)), lower_bound(problem)
    for _ in range(BUDGET // max(1, len(problem))):
        if timed.cycles <= bound:
            break
        urgency = list(timed.start)
        for _ in range(rng.randint(1, 2)):
            reach = max(1, timed.cycles // rng.choice((5, 20, 80)))
            urgency[rng.randrange(len(problem))] += rng.randint(-reach, reach)
        moved = decode(problem, by_priority(problem, urgency), target)
        if moved.cycles <= timed.cycles:
            timed = moved
    return timed
