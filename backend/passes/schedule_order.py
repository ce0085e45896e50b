"""Start times for a core's instructions: list scheduling, kept only where it is the shortest found.

A schedule is an order in which the control core issues; every queue is in that order. `decode` gives each
instruction the earliest start that the order allows, with everything priced that the machine makes a kernel
pay for: the control core's cycles per issue, room in the queues, engines, the HBM port, completion.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from ..isa.table import QUEUED
from ..target import Target
from .schedule_problem import Problem

PASSES = 4
"""Rounds of backward and forward improvement."""


@dataclass(frozen=True)
class Timed:
    """`order` is the order of issue, `start` is by instruction; `cycles` is when everything is over."""

    order: tuple[int, ...]
    start: tuple[int, ...]
    cycles: int


class _Port:
    """The HBM port: which cycles are taken."""

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []

    def take(self, ready: int, cycles: int) -> int:
        """Take the first `cycles` free cycles in a row that are not before `ready`."""
        begins, ends = self.begins, self.ends
        at = bisect_right(ends, ready)
        begin = ready
        while at < len(begins) and begins[at] < begin + max(cycles, 1):
            begin = max(begin, ends[at])
            at += 1
        begins.insert(at, begin)
        ends.insert(at, begin + cycles)
        return begin


def decode(problem: Problem, order: Sequence[int], target: Target) -> Timed:
    """The earliest starts for an order of issue."""
    depth, port, control = target.queue_depth, _Port(), 0
    free, starts = [0] * len(QUEUED), [[] for _ in QUEUED]  # type: list[int], list[list[int]]
    start, complete = [0] * len(problem), [0] * len(problem)
    for number in order:
        work = problem.work[number]
        queue = starts[work.engine]
        control += work.issue
        if len(queue) >= depth:
            control = max(control, queue[-depth])
        earliest = max(control, free[work.engine])
        for other in problem.after[number]:
            earliest = max(earliest, complete[other])
        if work.transfer >= 0:
            earliest = port.take(earliest + work.busy, work.transfer) - work.busy
        start[number] = earliest
        complete[number] = earliest + work.takes
        free[work.engine] = earliest + work.holds
        queue.append(earliest)
    cycles = max((s + w.holds + w.latency for s, w in zip(start, problem.work)), default=0)
    return Timed(tuple(order), tuple(start), max(cycles, control))


def tails(problem: Problem) -> list[int]:
    """Cycles from each instruction's start to the end of the longest chain behind it."""
    longest = [work.holds + work.latency for work in problem.work]
    for number in range(len(problem) - 1, -1, -1):
        for other in problem.after[number]:
            work = problem.work[other]
            longest[other] = max(longest[other], work.takes + longest[number])
        for other in problem.behind[number]:
            longest[other] = max(longest[other], problem.work[other].holds + longest[number])
    return longest


def lower_bound(problem: Problem) -> int:
    """No schedule is shorter: the longest chain, and each resource's work with the least before and behind it."""
    if not len(problem):
        return 0
    tail = tails(problem)
    head = [work.issue for work in problem.work]
    for number in range(len(problem)):
        for other in problem.after[number]:
            head[number] = max(head[number], head[other] + problem.work[other].takes)
        for other in problem.behind[number]:
            head[number] = max(head[number], head[other] + problem.work[other].holds)
    bound = max(h + t for h, t in zip(head, tail))
    for engine in QUEUED:
        mine = [n for n, work in enumerate(problem.work) if work.engine == engine]
        if mine:
            held = sum(problem.work[n].holds for n in mine)
            last = min(tail[n] - problem.work[n].holds for n in mine)
            bound = max(bound, min(head[n] for n in mine) + held + last)
    moves = [n for n, work in enumerate(problem.work) if work.transfer >= 0]
    if moves:
        held = sum(problem.work[n].transfer for n in moves)
        first = min(head[n] + problem.work[n].busy for n in moves)
        last = min(tail[n] - problem.work[n].holds for n in moves)
        bound = max(bound, first + held + last)
    issues = sum(work.issue for work in problem.work)
    return max(bound, issues + min(tail))


def by_priority(problem: Problem, urgency: Sequence[int]) -> list[int]:
    """An order that respects all dependences and takes the most urgent of what may come next."""
    missing = [len(a) + len(b) for a, b in zip(problem.after, problem.behind)]
    users: list[list[int]] = [[] for _ in problem.work]
    for number in range(len(problem)):
        for other in (*problem.after[number], *problem.behind[number]):
            users[other].append(number)
    ready: list[tuple[int, int]] = []
    for number, count in enumerate(missing):
        if count == 0:
            heappush(ready, (urgency[number], number))
    order = []
    while ready:
        _, number = heappop(ready)
        order.append(number)
        for user in users[number]:
            missing[user] -= 1
            if missing[user] == 0:
                heappush(ready, (urgency[user], user))
    return order


def backward(problem: Problem, timed: Timed) -> list[int]:
    """The latest starts that keep the length, by the same rules without issue and queues: how urgent each is."""
    limit = timed.cycles
    latest_end = [limit] * len(problem)
    free = [limit] * len(QUEUED)
    latest = [0] * len(problem)
    by_completion = sorted(
        range(len(problem)), key=lambda n: timed.start[n] + problem.work[n].takes, reverse=True
    )
    for number in _reversed_order(problem, by_completion):
        work = problem.work[number]
        end = min(latest_end[number], free[work.engine] + work.latency)
        latest[number] = end - work.takes
        free[work.engine] = min(free[work.engine], latest[number])
        for other in problem.after[number]:
            latest_end[other] = min(latest_end[other], latest[number])
        for other in problem.behind[number]:
            before = problem.work[other]
            latest_end[other] = min(latest_end[other], latest[number] + before.latency)
    return latest


def _reversed_order(problem: Problem, preferred: Sequence[int]) -> list[int]:
    """`preferred`, changed so that users come before what they use."""
    position = [0] * len(problem)
    for place, number in enumerate(preferred):
        position[number] = place
    # An order of the reversed problem: who is used goes after its users.
    order = by_priority(problem, [-place for place in position])
    return order[::-1]


def best(problem: Problem, target: Target) -> Timed:
    """The shortest of: program order, the most critical first, and rounds of improvement on the better one."""
    chosen = decode(problem, range(len(problem)), target)
    bound = lower_bound(problem)
    if chosen.cycles <= bound:
        return chosen
    critical = by_priority(problem, [-tail for tail in tails(problem)])
    chosen = min(chosen, decode(problem, critical, target), key=lambda timed: timed.cycles)
    for _ in range(PASSES):
        if chosen.cycles <= bound:
            break
        better = min(
            (
                decode(problem, by_priority(problem, urgency), target)
                for urgency in (backward(problem, chosen), chosen.start)
            ),
            key=lambda timed: timed.cycles,
        )
        if better.cycles >= chosen.cycles:
            break
        chosen = better
    return chosen


def replay(problem: Problem, start: Sequence[int], target: Target) -> Timed | None:
    """The given starts in program order, with the time that flags took left out; None when they cannot be kept."""
    control, starts = 0, [[] for _ in QUEUED]  # type: int, list[list[int]]
    complete = [s + work.takes for s, work in zip(start, problem.work)]
    for number, work in enumerate(problem.work):
        queue = starts[work.engine]
        control += work.issue
        if len(queue) >= target.queue_depth:
            control = max(control, queue[-target.queue_depth])
        late = any(complete[other] > start[number] for other in problem.after[number])
        if control > start[number] or late:
            return None
        queue.append(start[number])
    ends = (s + w.holds + w.latency for s, w in zip(start, problem.work))
    return Timed(tuple(range(len(problem))), tuple(start), max(control, *ends, 0))
