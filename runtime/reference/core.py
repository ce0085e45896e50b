"""One core as a discrete-event simulation: control core, four queues, semaphores, HBM port.

The rules are those of docs/architecture.md, "Machine time". What they leave open is decided here:

- The next event is always the earliest one. In the same cycle the control core goes first, then
  instructions start in the order LD, ST, MM, VE, then transfers begin (by the time they became ready,
  then LD before ST), then sets take effect.
- An instruction, `set` and `wait` too, leaves its queue when the engine is free. `set` and `wait` take no
  time on an engine; a wait of the control core, a print and an assertion take none there.
- A transfer of no bytes takes its turn at the port like any other.
- Memory changes when an instruction starts. Programs without races cannot tell.
- An instruction that was issued after the call `at` starts at the cycle named there. That its queue, its
  operands and the HBM port are ready by then is the schedule's promise: where they are not, it is an error.
  In a gather, scatter or atomic with a fixed start all elements count, masked off or not.

All times are whole cycles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Protocol

from dsalang._backend import formats
from dsalang._backend.cost import (
    FieldValue,
    compute_cycles,
    dma_bytes,
    operations,
    scalar,
    transfer_cycles,
)
from dsalang._backend.errors import DeviceError, ImageError
from dsalang._backend.isa.rv64 import CALLS
from dsalang._backend.isa.table import QUEUED, Engine
from dsalang._backend.target import Target

from ..jitter import first_state, lateness, next_state
from ..stats import CoreStats, Event, Reason, Wait
from .messages import Waiter, deadlock_error, overflow_error
from .options import Options
from .prepare import Prepared
from .races import NOTHING, Clock
from .schedule import TimeClock, check_promise, timing_violation
from .semaphores import Semaphores, Token
from .state import CoreState, Current
from .text import print_line
from .units import SEMANTICS, read_scalar

Call = tuple[int, int, int]
_CONTROL, _START, _TRANSFER, _LAND = range(4)


class Control(Protocol):
    """Whatever plays the control core: the glue (`rv64.ControlCore`) or a hand-made stream of calls."""

    def run(self) -> Generator[Call, int, None]:
        """Yield calls `(number in rv64.CALLS, a0, a1)`, take their results."""

    def values(self, address: int, count: int) -> tuple[int, ...]:
        """`count` operands of a call at `address` in the control core's memory."""


@dataclass(slots=True)
class Issued:
    """An instruction in a queue: which template, its fields, when it was issued, what the issuer knew.

    `sem` is the semaphore of a set or wait, -1 for others; `waits` tells a wait. `at` is the cycle at which
    a static schedule has it start, None without one.
    """

    template: int
    prepared: Prepared
    fields: dict[str, FieldValue]
    sem: int
    waits: bool
    time: int
    clock: Clock
    at: int | None


@dataclass(slots=True)
class Transfer:
    """A DMA instruction between its start and its transfer."""

    issued: Issued
    start: int
    ready: int
    bytes: int


@dataclass(slots=True)
class Queue:
    """An engine: its queue, when it is free, when what it started is complete.

    `learned` is what the control core last told it.
    """

    engine: Engine
    waiting: deque[Issued] = field(default_factory=deque)
    free: int = 0
    completed: int = 0
    last_start: int = 0
    transfer: Transfer | None = None
    learned: Clock = NOTHING


class CoreRun:
    """The simulation of one core. `run` does all of it."""

    def __init__(
        self,
        prepared: tuple[Prepared, ...],
        target: Target,
        control: Control,
        state: CoreState,
        options: Options,
        core: int,
        active_cores: int,
    ) -> None:
        self._prepared, self._target, self._options = prepared, target, options
        self._control, self._calls = control, control.run()
        self._state, self._clocks = state, state.clocks
        self._active = active_cores
        self._queues = {engine: Queue(engine) for engine in QUEUED}
        self._semaphores = Semaphores(target.semaphores, state.image.credits)
        self._port_free = 0
        self._time = 0  # When the control core can do its pending call.
        self._call: Call | None = None
        self._issue: Issued | None = None
        self._knowledge: Clock = NOTHING  # What the control core knows; shared by what it issues.
        self._random = None if state.image.timing else options.random(core)
        self._noise = first_state(options.seed, core)
        self._at: int | None = None  # When the next issued instruction is to start.
        self._clock_of_time = TimeClock(self._clocks)
        self.stats = CoreStats(core)

    def run(self) -> CoreStats:
        """Run until everything has completed."""
        self._fetch(None)
        while (event := self._next()) is not None:
            time, kind, engine = event
            if self._options.tick is not None:
                self._options.tick()
            if self._options.max_cycles is not None and time > self._options.max_cycles:
                raise DeviceError(f"the kernel ran for more than {self._options.max_cycles} cycles")
            if kind == _CONTROL:
                self._do_call(time)
            elif kind == _START:
                self._start(self._queues[engine], time)
            elif kind == _TRANSFER:
                self._begin_transfer(self._queues[engine], time)
            else:
                self._land()
        if self._call is not None or any(q.waiting for q in self._queues.values()):
            raise self._deadlock()
        ends = (q.completed for q in self._queues.values())
        self.stats.cycles = max(self._time, self._port_free, *ends)
        check_promise(self._state.image, self.stats.core, self.stats.cycles)
        self.stats.traffic = self._state.traffic
        self.stats.sort()
        return self.stats

    # The next event

    def _next(self) -> tuple[int, int, Engine] | None:
        best: tuple[int, int, int, Engine] | None = None
        time = self._control_time()
        if time is not None:
            best = (time, _CONTROL, 0, Engine.CORE)
        for engine, queue in self._queues.items():
            key: tuple[int, int, int, Engine] | None = None
            if (transfer := queue.transfer) is not None:
                begin = max(transfer.ready, self._port_free)
                key = (begin, _TRANSFER, transfer.ready, engine)
            elif queue.waiting and (time := self._start_time(queue)) is not None:
                key = (time, _START, 0, engine)
            if key is not None and (best is None or key < best):
                best = key
        landing = self._semaphores.next_landing()
        if landing is not None and (best is None or (landing, _LAND) < best[:2]):
            return landing, _LAND, Engine.CORE
        return None if best is None else (best[0], best[1], best[3])

    def _control_time(self) -> int | None:
        if self._call is None:
            return None
        kind = CALLS[self._call[0]]
        if kind == "issue":
            assert self._issue is not None
            queue = self._queues[self._issue.prepared.engine]
            full = len(queue.waiting) >= self._target.queue_depth
            return None if full else max(self._time, queue.last_start)
        if kind == "wait":
            token = self._semaphores.first(self._call[1])
            return None if token is None else max(self._time, token.time)
        return self._time

    def _start_time(self, queue: Queue) -> int | None:
        head = queue.waiting[0]
        time = max(head.time, queue.free)
        if head.at is not None:
            return max(time, head.at)
        if not head.waits:
            return time
        token = self._semaphores.first(head.sem)
        return None if token is None else max(time, token.time)

    # The control core

    def _fetch(self, result: int | None) -> None:
        """Let the control core run up to its next call."""
        try:
            self._call = next(self._calls) if result is None else self._calls.send(result)
        except StopIteration:
            self._call = None
            return
        number, a0, a1 = self._call
        if number >= len(CALLS):
            raise ImageError(
                f"the control core made an unknown call, custom-0 with funct3 {number}"
            )
        if CALLS[number] == "issue":
            self._prepare_issue(a0, a1)
        elif CALLS[number] == "wait" and a0 >= len(self._semaphores):
            raise ImageError(f"the control core waits on semaphore {a0}, which does not exist")

    def _prepare_issue(self, template: int, address: int) -> None:
        if template >= len(self._prepared):
            raise ImageError(f"the control core issued template {template}, which does not exist")
        prepared = self._prepared[template]
        values = self._control.values(address, len(prepared.open)) if prepared.open else ()
        fields = prepared.bind(values)
        sem = scalar(fields, "sem") if "sem" in fields else -1
        if sem >= len(self._semaphores):
            raise ImageError(f"semaphore {sem} does not exist")
        waits = prepared.op == "wait"
        self._issue = Issued(template, prepared, fields, sem, waits, 0, self._knowledge, self._at)
        self._at = None
        cost = self._jitter(prepared.issue_cycles)
        self._time += cost
        self.stats.engines[Engine.CORE].busy += cost

    def _do_call(self, time: int) -> None:
        assert self._call is not None
        number, a0, a1 = self._call
        kind = CALLS[number]
        stats = self.stats.engines[Engine.CORE]
        result = 0
        if kind == "issue":
            assert self._issue is not None
            queue = self._queues[self._issue.prepared.engine]
            self._stall(Engine.CORE, Reason("queue full", queue.engine), self._time, time)
            self._issue.time = time
            queue.waiting.append(self._issue)
            stats.instructions += 1
        elif kind == "wait":
            token = self._semaphores.take(a0)
            self._clocks.join(Engine.CORE, token.clock)
            self._knowledge = self._clocks.token(Engine.CORE)
            reason = Reason("semaphore", token.setter, token.template)
            self._stall(Engine.CORE, reason, self._time, time)
        elif kind == "at":
            self._at = a0
        else:
            result, cycles = self._other_call(kind, a0, a1)
            stats.busy += cycles
            time += cycles
        self._time = time
        self._fetch(result)

    def _other_call(self, kind: str, a0: int, a1: int) -> tuple[int, int]:
        """Do a read, print or assertion: the result and the cycles."""
        state, image = self._state, self._state.image
        state.current = Current(Engine.CORE, self._clocks.start(Engine.CORE), -1)
        self._knowledge = self._clocks.token(Engine.CORE)
        if kind == "read":
            if not self._options.functional:
                raise DeviceError("timing without data: the kernel reads a value back to the core")
            fmt = formats.BY_CODE.get(a1)
            if fmt is None:
                raise ImageError(f"the control core reads a value of unknown format {a1}")
            return read_scalar(state, a0, fmt), self._jitter(self._target.scalar.read_cycles)
        table: tuple[object, ...] = image.prints if kind == "print" else image.asserts
        if a0 >= len(table):
            raise ImageError(f"the control core refers to {kind} {a0}, which does not exist")
        if kind == "print":
            values = self._control.values(a1, len(image.prints[a0].fmts))
            line = print_line(state, image.prints[a0], values, self.stats.core)
            self.stats.prints.append(line)
            self._options.write(line)
        elif a1 == 0:
            info = image.asserts[a0]
            raise DeviceError(
                f"device assertion failed on core {self.stats.core}: {info.message}", info.loc
            )
        return 0, 0

    # The engines

    def _start(self, queue: Queue, time: int) -> None:
        issued = queue.waiting.popleft()
        engine, op, fields = queue.engine, issued.prepared.op, issued.fields
        if issued.at is not None:
            self._check_start(issued, queue, time)
        stats = self.stats.engines[engine]
        self._stall(engine, Reason("not issued"), queue.free, issued.time)
        arrived = max(queue.free, issued.time)
        queue.free = queue.last_start = time
        if issued.clock is not queue.learned:
            self._clocks.join(engine, issued.clock)
            queue.learned = issued.clock
        if op == "set":
            effect = max(time, queue.completed)
            token = Token(effect, self._clocks.token(engine), engine, issued.template)
            self._semaphores.set_at(issued.sem, token)
            return
        if op == "wait":
            token = self._semaphores.take(issued.sem)
            self._clocks.join(engine, token.clock)
            self._stall(engine, Reason("semaphore", token.setter, token.template), arrived, time)
            return
        stats.instructions += 1
        valid = self._execute(issued, engine)
        cycles = self._jitter(compute_cycles(op, fields, issued.prepared.program, self._target))
        if engine in (Engine.LD, Engine.ST):
            # How many elements are valid is data, on which a schedule must not depend.
            moved = dma_bytes(op, fields, self._target, valid if issued.at is None else None)
            queue.transfer = Transfer(issued, time, time + cycles, moved)
            return
        queue.free = queue.completed = time + cycles
        if issued.at is not None:
            self._clock_of_time.completes(engine, queue.completed)
        stats.busy += cycles
        work = operations(op, fields, issued.prepared.program)
        self.stats.operations[engine] = self.stats.operations.get(engine, 0) + work
        self._record(issued, time, queue.free, queue.completed)

    def _execute(self, issued: Issued, engine: Engine) -> int | None:
        number = self._clocks.start(engine)
        if not self._options.functional:
            return None
        self._state.current = Current(engine, number, issued.template, issued.at)
        return SEMANTICS[issued.prepared.op](self._state, issued.fields, issued.prepared.program)

    def _check_start(self, issued: Issued, queue: Queue, time: int) -> None:
        """A scheduled instruction starts at its cycle, and knows what is over by then; else it is a violation."""
        assert issued.at is not None
        if issued.time > issued.at:
            raise self._violation(issued, f"is issued only at cycle {issued.time}")
        if time > issued.at:
            raise self._violation(issued, f"finds {queue.engine.name} busy until cycle {time}")
        self._clock_of_time.advance(queue.engine, time)

    def _violation(self, issued: Issued, reason: str) -> DeviceError:
        prepared = issued.prepared
        loc = prepared.template.loc
        return timing_violation(prepared.engine, prepared.op, issued.at, reason, loc)

    def _begin_transfer(self, queue: Queue, time: int) -> None:
        transfer = queue.transfer
        assert transfer is not None
        if transfer.issued.at is not None and time > transfer.ready:
            raise self._violation(
                transfer.issued,
                f"finds the HBM port busy until cycle {time}, needing it at {transfer.ready}",
            )
        stats = self.stats.engines[queue.engine]
        cycles = self._jitter(transfer_cycles(transfer.bytes, self._target, self._active))
        end = time + cycles
        queue.transfer, queue.free, self._port_free = None, end, end
        latency = self._jitter(self._target.hbm.latency_cycles) + self._hbm_jitter()
        queue.completed = max(queue.completed, end + latency)
        if transfer.issued.at is not None:
            self._clock_of_time.completes(queue.engine, queue.completed)
        self._stall(queue.engine, Reason("HBM port busy"), transfer.ready, time)
        stats.busy += transfer.ready - transfer.start + cycles
        self.stats.port_busy += cycles
        self.stats.burst_bytes += transfer.bytes
        self._record(transfer.issued, transfer.start, end, queue.completed)

    def _land(self) -> None:
        number, token = self._semaphores.land()
        if self._semaphores.count(number) > self._target.semaphore_max:
            raise overflow_error(
                number,
                self._semaphores.count(number),
                self._target.semaphore_max,
                token.setter,
                self._state.location(token.template),
            )

    def _record(self, issued: Issued, start: int, end: int, complete: int) -> None:
        if self._options.timeline:
            address = issued.prepared.address(issued.fields)
            engine = issued.prepared.engine
            self.stats.events.append(Event(engine, issued.template, start, end, complete, address))

    def _stall(self, engine: Engine, reason: Reason, start: int, end: int) -> None:
        if end > start:
            stalls = self.stats.engines[engine].stalls
            stalls[reason] = stalls.get(reason, 0) + end - start
            if self._options.timeline:
                self.stats.waits.append(Wait(engine, reason, start, end))

    def _jitter(self, cycles: int) -> int:
        """Cycles as the target states them; in an adversarial run anything from there up."""
        return cycles if self._random is None else cycles + int(self._random.expovariate(0.002))

    def _hbm_jitter(self) -> int:
        """Cycles by which HBM answers late, on a machine whose HBM does that."""
        self._noise = next_state(self._noise)
        return lateness(self._noise, self._target.hbm.jitter_cycles)

    # Deadlock

    def _deadlock(self) -> DeviceError:
        waits: list[Waiter] = []
        full: Engine | None = None
        for engine, queue in self._queues.items():
            if queue.waiting:
                head = queue.waiting[0]
                waits.append(Waiter(engine.name, head.sem, head.template))
        if self._call is not None:
            if CALLS[self._call[0]] == "wait":
                waits.append(Waiter("the control core", self._call[1], -1))
            elif self._issue is not None:
                full = self._issue.prepared.engine
        return deadlock_error(self.stats.core, self._state.image, self._prepared, waits, full)
