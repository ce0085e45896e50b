"""How long a core takes without a static schedule: the machine's rules over its stream with all flags.

`docs/architecture.md` ("Machine time") has the rules. This follows the clock as the reference engine does,
over times only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from ..cost import issue_cycles
from ..isa.table import QUEUED, Engine
from ..target import Target
from .schedule_problem import Work
from .schedule_stream import Step


@dataclass
class _Queue:
    engine: int
    waiting: deque[tuple[int, int]] = field(
        default_factory=deque
    )  # (position in the stream, issued)
    free: int = 0
    completed: int = 0
    last_start: int = 0
    moving: tuple[int, int, int] | None = None  # (ready, transfer cycles, position)


@dataclass(frozen=True)
class Dynamic:
    """Cycles in all, and the start of each instruction; one that waited for the HBM port could have started
    later: the start is moved to where its transfer follows without a gap."""

    cycles: int
    start: tuple[int, ...]


def simulate(
    steps: Sequence[Step], work: Sequence[Work], credits: Sequence[int], target: Target
) -> Dynamic | None:
    """Run a core's stream; None when it gets stuck. `work` is by template."""
    return _Machine(steps, work, credits, target).run()


class _Machine:
    def __init__(
        self, steps: Sequence[Step], work: Sequence[Work], credits: Sequence[int], target: Target
    ) -> None:
        self.steps, self.work, self.target = steps, work, target
        self.queues = [_Queue(engine) for engine in QUEUED]
        self.tokens = [deque([0] * count) for count in credits]
        self.tokens += [deque() for _ in range(target.semaphores - len(credits))]
        self.landing: list[tuple[int, int, int]] = []
        self.control, self.at, self.port = 0, 0, 0
        self.start = [0] * len(steps)
        self.charge()

    def run(self) -> Dynamic | None:
        while (event := self.next()) is not None:
            time, kind, number = event
            if kind == 0:
                self.issue(time)
            elif kind == 1:
                self.begin(self.queues[number], time)
            elif kind == 2:
                self.move(self.queues[number], time)
            else:
                _, _, sem = heappop(self.landing)
                self.tokens[sem].append(time)
        if self.at < len(self.steps) or any(queue.waiting for queue in self.queues):
            return None
        cycles = max(self.control, self.port, *(queue.completed for queue in self.queues))
        starts = (s for s, step in zip(self.start, self.steps) if step.sem < 0)
        return Dynamic(cycles, tuple(starts))

    def next(self) -> tuple[int, int, int] | None:
        """The earliest event: (time, control core 0 / start 1 / transfer 2 / set 3, engine)."""
        best: tuple[int, int, int, int] | None = None
        if (time := self.control_time()) is not None:
            best = (time, 0, 0, 0)
        for queue in self.queues:
            key = None
            if queue.moving is not None:
                key = (max(queue.moving[0], self.port), 2, queue.moving[0], queue.engine)
            elif queue.waiting and (time := self.start_time(queue)) is not None:
                key = (time, 1, 0, queue.engine)
            if key is not None and (best is None or key < best):
                best = key
        if self.landing and (best is None or (self.landing[0][0], 3) < best[:2]):
            return self.landing[0][0], 3, 0
        return None if best is None else (best[0], best[1], best[3])

    def charge(self) -> None:
        """The control core pays for the step at hand, its own waits excepted."""
        if self.at < len(self.steps) and self.steps[self.at].engine != Engine.CORE:
            step = self.steps[self.at]
            self.control += issue_cycles(step.operands_before, self.target)

    def control_time(self) -> int | None:
        if self.at == len(self.steps):
            return None
        step = self.steps[self.at]
        if step.engine == Engine.CORE:
            tokens = self.tokens[step.sem]
            return max(self.control, tokens[0]) if tokens else None
        queue = self.queues[step.engine]
        full = len(queue.waiting) >= self.target.queue_depth
        return None if full else max(self.control, queue.last_start)

    def start_time(self, queue: _Queue) -> int | None:
        position, issued = queue.waiting[0]
        time, step = max(issued, queue.free), self.steps[position]
        if step.op != "wait":
            return time
        tokens = self.tokens[step.sem]
        return max(time, tokens[0]) if tokens else None

    def issue(self, time: int) -> None:
        step = self.steps[self.at]
        if step.engine == Engine.CORE:
            self.tokens[step.sem].popleft()
        else:
            self.queues[step.engine].waiting.append((self.at, time))
        self.control = time
        self.at += 1
        self.charge()

    def begin(self, queue: _Queue, time: int) -> None:
        position, _ = queue.waiting.popleft()
        step = self.steps[position]
        queue.free = queue.last_start = time
        self.start[position] = time
        if step.op == "set":
            heappush(self.landing, (max(time, queue.completed), position, step.sem))
        elif step.op == "wait":
            self.tokens[step.sem].popleft()
        else:
            work = self.work[step.template]
            if work.transfer >= 0:
                queue.moving = (time + work.busy, work.transfer, position)
            else:
                queue.free = queue.completed = time + work.busy

    def move(self, queue: _Queue, time: int) -> None:
        assert queue.moving is not None
        _, cycles, position = queue.moving
        work = self.work[self.steps[position].template]
        self.start[position] = time - work.busy
        queue.moving, queue.free, self.port = None, time + cycles, time + cycles
        queue.completed = max(queue.completed, queue.free + work.latency)
