"""Walks a kernel's loops until they are in a steady state, and takes the rest of their iterations at its pace.

A loop is in a steady state when the machine comes back to a state it has been in: from there on it repeats itself as
long as the instructions cost the same. Whether they do is looked up for the iterations to be left out (`Preview`), as if the
core computed nothing but what costs depend on. A loop that does not come back is taken at the pace of its last iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from ..dialects.locations import from_ir
from ..errors import UserError
from .machine import Counts, Machine
from .program import Body, Calc, CoreWait, If, Issue, Loop, Read, Values, While

PATIENCE = 64
"""Iterations after which a loop that has not come back is taken at its pace."""
LOOKS = 2048
"""Iterations to look at one by one; of the others every so many-th."""


@dataclass
class Mark:
    """The beginning of an iteration."""

    time: int
    counts: Counts
    carried: list[int]


@dataclass
class Walk:
    """A walk over a kernel. `left_out` counts iterations that were not walked, `exact` tells that all repeated others."""

    machine: Machine
    exact: bool = True
    walked: int = 0
    left_out: int = 0
    longest: int = 0

    def run(self, body: Body, values: Values) -> None:
        """Execute a block on the machine."""
        machine = self.machine
        for step in body.steps:
            if isinstance(step, Calc):
                step.run(values)
            elif isinstance(step, Issue):
                machine.issue(step.entry(values))
            elif isinstance(step, Loop):
                self.loop(step, values)
            elif isinstance(step, CoreWait):
                machine.wait(step.sem)
            elif isinstance(step, If):
                choose(step, values, self.run)
            elif isinstance(step, While):
                self.while_(step, values)
            elif isinstance(step, Read):
                machine.read()
                _forget(step, values)

    def while_(self, step: While, values: Values) -> None:
        """Run a loop whose condition comes from numbers."""
        passed = [values[number] for number in step.initial]
        while True:
            _set(values, step.first, passed)
            self.run(step.before, values)
            condition, *passed = (values[number] for number in step.before.passed)
            _set(values, step.second, passed)
            if not condition:
                break
            self.run(step.after, values)
            passed = [values[number] for number in step.after.passed]
        _set(values, step.results, passed)

    def loop(self, loop: Loop, values: Values) -> None:
        """Run a counted loop as far as needed."""
        trips = trips_of(loop, values)
        self.longest = max(self.longest, trips)
        low, step = values[loop.low], values[loop.step]
        carried = [values[number] for number in loop.initial]
        marks: list[Mark] = []
        seen: dict[Hashable, int] = {}
        at = 0
        while at < trips:
            marks.append(Mark(self.machine.time, self.machine.counts.copy(), carried))
            period = self.period(seen, len(marks) - 1) if trips - at > 1 else 0
            if period:
                more = self.alike(loop, values, marks, at, trips, period) // period
                if more:
                    carried = self.skip(marks, period, more)
                    at += more * period
                    marks, seen = [], {}
                    continue
                seen = {}
            values[loop.counter] = low + at * step
            _set(values, loop.carried, carried)
            self.run(loop.body, values)
            self.walked += 1
            carried = [values[number] for number in loop.body.passed]
            at += 1
        _set(values, loop.results, carried)

    def period(self, seen: dict[Hashable, int], number: int) -> int:
        """After how many iterations the loop repeats itself, 0 when that is not known."""
        state = self.machine.state()
        before = seen.get(state)
        if before is not None:
            return number - before
        seen[state] = number
        if len(seen) > PATIENCE:
            self.exact = False
            return PATIENCE // 2
        return 0

    def skip(self, marks: list[Mark], period: int, times: int) -> list[int]:
        """Leave out `times` periods; the values carried behind them."""
        first, last = marks[-1 - period], marks[-1]
        self.machine.advance(times * (last.time - first.time))
        self.machine.counts.plus(first.counts, last.counts, times)
        self.left_out += times * period
        return [b + times * (b - a) for a, b in zip(first.carried, last.carried, strict=True)]

    def alike(
        self, loop: Loop, values: Values, marks: list[Mark], at: int, trips: int, period: int
    ) -> int:
        """How many iterations from `at` on cost what those one or more periods before cost, as far as looked up."""
        last, before = marks[-1].carried, marks[-1 - period].carried
        trial = list(values)

        def look(number: int) -> Hashable:
            trial[loop.counter] = values[loop.low] + number * values[loop.step]
            moved = [
                b + (number - at) * (b - a) // period for a, b in zip(before, last, strict=True)
            ]
            _set(trial, loop.carried, moved)
            return tuple(Preview(loop.body, trial).found)

        past = [look(at - period + k) for k in range(period)]

        def same(number: int) -> bool:
            return look(number) == past[(number - at) % period]

        good, bad = at - 1, trips
        stride = 1 + (trips - at) // LOOKS
        for number in (
            *range(at, min(trips, at + LOOKS)),
            *range(at + LOOKS, trips, stride),
            trips - 1,
        ):
            if not same(number):
                bad = number
                break
            good = number
        while bad - good > 1:
            middle = (good + bad) // 2
            if same(middle):
                good = middle
            else:
                bad = middle
        return good + 1 - at


def trips_of(loop: Loop, values: Values) -> int:
    """Iterations of a counted loop."""
    low, high, step = (values[number] for number in (loop.low, loop.high, loop.step))
    return max(0, -(-(high - low) // step))


def choose(step: If, values: Values, run: Callable[[Body, Values], None]) -> None:
    """Run the arm of an `if` that its condition chooses."""
    body = step.then if values[step.condition] else step.other
    if body is not None:
        run(body, values)
        _set(values, step.results, [values[number] for number in body.passed])


class Preview:
    """What one execution of a block issues, loops sampled at three of their iterations.

    `found` is equal for executions that cost the same; `weight` is an estimate of their engines' cycles.
    """

    def __init__(self, body: Body, values: Values) -> None:
        self.found: list[Hashable] = []
        self.weight = 0.0
        self._scale = 1.0
        self._run(body, values)

    def _run(self, body: Body, values: Values) -> None:
        for step in body.costly:
            if isinstance(step, Calc):
                step.run(values)
            elif isinstance(step, Issue):
                entry = step.entry(values)
                self.found.append(entry)
                self.weight += self._scale * (entry.cycles + entry.bytes)
            elif isinstance(step, If):
                choose(step, values, self._run)
            elif isinstance(step, Loop):
                self._loop(step, values)
            elif isinstance(step, Read):
                _forget(step, values)

    def _loop(self, loop: Loop, values: Values) -> None:
        trips = trips_of(loop, values)
        self.found.append(trips)
        start = carried = [values[number] for number in loop.initial]
        slope = [0] * len(start)
        samples = sorted({0, trips // 2, trips - 1}) if trips else []
        scale, self._scale = self._scale, self._scale * trips / max(1, len(samples))
        for number in samples:
            values[loop.counter] = values[loop.low] + number * values[loop.step]
            _set(values, loop.carried, [a + number * d for a, d in zip(start, slope, strict=True)])
            self._run(loop.body, values)
            carried = [values[n] for n in loop.body.passed]
            if number == 0:
                slope = [b - a for a, b in zip(start, carried, strict=True)]
        self._scale = scale
        _set(values, loop.results, carried)


def _set(values: Values, numbers: tuple[int, ...], new: list[int]) -> None:
    for number, value in zip(numbers, new, strict=True):
        values[number] = value


def _forget(step: Read, values: Values) -> None:
    """Any value will do for what only addresses depend on. Raises UserError where costs do."""
    if step.matters:
        raise UserError(
            "the kernel's course depends on data that it loads, so its time cannot be predicted",
            from_ir(step.op.location),
            "launch it, or measure it with DSA_EMULATOR=reference",
        )
    values[step.result] = 0
