"""The scheduler on problems of its own: orders are kept, times are possible, bounds are bounds."""

from __future__ import annotations

import dataclasses
from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsalang._backend.isa.table import Engine
from dsalang._backend.passes.schedule_order import (
    Timed,
    best,
    by_priority,
    decode,
    lower_bound,
    replay,
    tails,
)
from dsalang._backend.passes.schedule_problem import Problem, Work
from dsalang._backend.passes.schedule_refine import refine
from dsalang._backend.target import Target

EDGE = Target.by_name("edge")
SMALL = dataclasses.replace(EDGE, queue_depth=2)
LD, ST, MM, VE = (int(e) for e in (Engine.LD, Engine.ST, Engine.MM, Engine.VE))


@st.composite
def problems(draw: st.DrawFn, most: int = 14) -> Problem:
    problem = Problem([], [], [])
    for number in range(draw(st.integers(0, most))):
        engine = draw(st.sampled_from((LD, ST, MM, VE)))
        dma = engine in (LD, ST)
        problem.work.append(
            Work(
                engine=engine,
                busy=draw(st.integers(0 if dma else 1, 40)),
                transfer=draw(st.integers(0, 60)) if dma else -1,
                latency=50 if dma else 0,
                issue=draw(st.integers(0, 12)),
            )
        )
        earlier = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        behind = {n for n in earlier if problem.work[n].engine == engine and draw(st.booleans())}
        problem.after.append(tuple(sorted(earlier - behind)))
        problem.behind.append(tuple(sorted(behind)))
    return problem


def faults(problem: Problem, timed: Timed, depth: int) -> list[str]:
    """What is wrong with a schedule, worked out from scratch."""
    found = []
    work, start = problem.work, timed.start
    if sorted(timed.order) != list(range(len(problem))):
        return ["not every instruction once"]
    place = {number: n for n, number in enumerate(timed.order)}
    for number in range(len(problem)):
        for other in problem.after[number]:
            begins = work[other].busy if work[other].transfer >= 0 else 0
            over = start[other] + max(begins + 1, work[other].holds + work[other].latency)
            if start[number] < over or place[other] > place[number]:
                found.append(f"{number} before the result of {other}")
        found += [
            f"{number} overtakes {other}"
            for other in problem.behind[number]
            if place[other] > place[number]
        ]
    control = 0
    for number in timed.order:
        control += work[number].issue
        queue = [n for n in timed.order[: place[number]] if work[n].engine == work[number].engine]
        if len(queue) >= depth:
            control = max(control, start[queue[-depth]])
        if start[number] < control:
            found.append(f"{number} before it is issued")
        if queue and start[number] < start[queue[-1]] + work[queue[-1]].holds:
            found.append(f"{number} on a busy engine")
    moves = sorted(
        (s + w.busy, s + w.busy + w.transfer) for s, w in zip(start, work) if w.transfer >= 0
    )
    if any(second[0] < first[1] for first, second in pairwise(moves)):
        found.append("transfers meet")
    ends = [s + w.holds + w.latency for s, w in zip(start, work)]
    if timed.cycles != max([control, *ends], default=0):
        found.append("the length is wrong")
    return found


@given(problems(), st.sampled_from((EDGE, SMALL)))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_schedules_are_possible(problem: Problem, target: Target) -> None:
    plain = decode(problem, range(len(problem)), target)
    chosen = best(problem, target)
    refined = refine(problem, chosen, target)
    for timed in (plain, chosen, refined):
        assert faults(problem, timed, target.queue_depth) == []
        assert timed.cycles >= lower_bound(problem)
    assert refined.cycles <= chosen.cycles <= plain.cycles


@given(problems(most=6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_bound_holds_for_all_orders(problem: Problem) -> None:
    lengths = []
    for order in permutations(range(len(problem))):
        place = {number: n for n, number in enumerate(order)}
        kept = all(
            place[other] < place[number]
            for number in order
            for other in (*problem.after[number], *problem.behind[number])
        )
        if kept:
            lengths.append(decode(problem, order, EDGE).cycles)
    assert min(lengths) >= lower_bound(problem)
    assert best(problem, EDGE).cycles <= max(lengths)


def test_priority_is_followed_where_dependences_allow() -> None:
    work = [Work(VE, 10, -1, 0, 1) for _ in range(4)]
    problem = Problem(work, [(), (), (1,), ()], [(), (), (), (2,)])
    assert by_priority(problem, [3, 2, 0, 0]) == [1, 2, 3, 0]
    assert tails(problem) == [10, 30, 20, 10]


def test_critical_chain_goes_first() -> None:
    """A long chain behind the last load: program order would leave it for the end."""
    load = Work(LD, 0, 100, 50, 1)
    problem = Problem(
        [load, load, load, Work(MM, 500, -1, 0, 1)], [(), (), (), (2,)], [(), (), (), ()]
    )
    chosen = best(problem, EDGE)
    assert chosen.order[0] == 2
    assert chosen.cycles == lower_bound(problem) == 1 + 100 + 50 + 500
    assert decode(problem, range(4), EDGE).cycles == 1 + 300 + 50 + 500


def test_transfers_fill_gaps_of_the_port() -> None:
    load, store = Work(LD, 30, 10, 0, 0), Work(ST, 0, 20, 0, 0)
    problem = Problem([load, store], [(), ()], [(), ()])
    timed = decode(problem, [0, 1], EDGE)
    assert timed.start == (0, 0)


def test_replay_refuses_what_cannot_be_issued() -> None:
    problem = Problem([Work(VE, 10, -1, 0, 5)], [()], [()])
    assert replay(problem, (5,), EDGE) == Timed((0,), (5,), 15)
    assert replay(problem, (4,), EDGE) is None


@pytest.mark.parametrize(("depth", "start"), [(1, 202), (2, 102), (3, 5)])
def test_full_queue_holds_the_control_core(depth: int, start: int) -> None:
    work = [Work(VE, 100, -1, 0, 1) for _ in range(4)] + [Work(MM, 1, -1, 0, 1)]
    problem = Problem(work, [()] * 5, [()] * 5)
    timed = decode(problem, range(5), dataclasses.replace(EDGE, queue_depth=depth))
    assert timed.start[4] == start
