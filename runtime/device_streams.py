"""Streams and events: asynchronous work on a device, and when it would happen in the machine's time.

Work is carried out by one thread per device, in the order in which it was submitted; an event can only be waited
for once it has been recorded, so that order suits every stream. In the machine's time, streams run side by
side: kernels share the cores, copies to the device one copy engine and copies to the host another. Each of the
three takes work in the order of submission, which starts when the stream's earlier work has ended, too. A
stream with cores of its own has three of its own, and the cores' share of HBM's bandwidth: what runs elsewhere
does not change its times. All work counts as submitted at time 0. A copy
takes HBM's latency and its bytes at HBM's bandwidth; copies and kernels do not slow each other down.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsalang._backend.errors import LaunchError

if TYPE_CHECKING:
    from dsalang._backend.target import Target

    from .device import Device

CORES, COPY_IN, COPY_OUT = "cores", "copy in", "copy out"


@dataclass(frozen=True)
class Span:
    """Work in the machine's time, in microseconds.

    `resource` is CORES, COPY_IN or COPY_OUT of a part of the device: "" is what all streams share.
    """

    stream: str
    part: str
    resource: str
    label: str
    start: float
    end: float


class Clock:
    """When resources are free."""

    def __init__(self) -> None:
        self.free: dict[tuple[str, str], float] = {}
        self.spans: list[Span] = []

    def place(self, stream: Stream, resource: str, label: str, microseconds: float) -> Span:
        """Put work on a resource after the stream's earlier work."""
        key = (stream.part, resource)
        start = max(stream.time, self.free.get(key, 0.0))
        span = Span(stream.name, stream.part, resource, label, start, start + microseconds)
        stream.time = self.free[key] = span.end
        self.spans.append(span)
        return span


class Pending:
    """Work that has been submitted. `span` is its place in the machine's time once it is done."""

    def __init__(self, stream: Stream) -> None:
        self.span: Span | None = None
        self.stream = stream
        self._done = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether the work is done, well or not."""
        return self._done.is_set()

    def result(self) -> Any:
        """Wait; the report of a launch, the array of a copy to the host. Raises what the work raised."""
        error = self.error()
        if error is not None:
            self.stream.tell(error)
            raise error
        return self._value

    def error(self) -> BaseException | None:
        """Wait; what the work raised, None when it went well."""
        self.stream.device.check_not_inside()
        self._done.wait()
        return self._error

    def value_now(self) -> Any:
        """The value of work that is done, for work behind it. Raises its error."""
        if self._error is not None:
            raise self._error
        return self._value

    def finish(self, value: Any, error: BaseException | None) -> None:
        """Called by the device's thread."""
        self._value, self._error = value, error
        self._done.set()


class Event:
    """A point on a stream: everything submitted before it."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending

    @property
    def pending(self) -> Pending:
        """The work that stands for the event."""
        return self._pending

    def wait(self) -> None:
        """Wait until the event is reached. Raises the error of the work before it."""
        self._pending.result()

    @property
    def microseconds(self) -> float:
        """When the event is reached in the machine's time; waits for it."""
        return float(self._pending.result())

    def elapsed(self, end: Event) -> float:
        """Microseconds of the machine's time from this event to a later one."""
        return end.microseconds - self.microseconds


class Stream:
    """Work in order, beside other streams. Threads may share one.

    When work fails, what has been submitted behind it fails with the same error, until `result`, `wait` or
    `synchronize` has raised it.

    Args:
        device: where the work is done.
        name: for timelines; "" makes one up.
        cores: how many cores of the device are this stream's alone until it is closed; None shares the others.
            Kernels on it are compiled for these cores. It starts when the cores have done what is on them.
        realtime: take only kernels with a static schedule, so that all latencies are known; needs `cores`.

    Raises LaunchError when the device does not have so many cores left; one is always shared.
    """

    def __init__(
        self, device: Device, name: str = "", cores: int | None = None, realtime: bool = False
    ) -> None:
        self.device = device
        self.name = name or f"stream {self.device.new_stream_number()}"
        self.time = 0.0
        self.realtime = realtime
        self.part, self._target = "", None
        if realtime and cores is None:
            raise LaunchError(
                "a real-time stream without cores of its own", hint="say how many: cores=1"
            )
        if cores is not None:
            self._target = device.reserve(self, cores)
            self.part = self.name
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._told: BaseException | None = None
        self._last: Pending | None = None

    def __repr__(self) -> str:
        return f"<Stream {self.name} of {self.device}>"

    @property
    def target(self) -> Target:
        """The machine that kernels on this stream run on: the device, or a part of it."""
        return self._target or self.device.shared_target

    def start_after_shared(self) -> None:
        """Let the cores of this stream be free when the shared ones are."""

        def catch_up() -> None:
            self.time = max(self.time, self.device.clock.free.get(("", CORES), 0.0))

        self.device.executor.put(catch_up)

    def close(self) -> None:
        """Wait until all is done, then give the stream's own cores back."""
        if self._last is not None:
            self._last.error()
        self.device.release(self)

    def launch(self, run: Callable[[], Any], label: str, alive: object = None) -> Pending:
        """Submit a launch, which returns a report. `kernel[grid](…, stream=s)` does it."""

        def work() -> tuple[Any, float]:
            from .report import Run

            report = run()
            return report, report.microseconds if isinstance(report, Run) else 0.0

        return self._submit(CORES, label, work, alive)

    def copy(
        self, resource: str, size: int, function: Callable[[], Any], alive: object = None
    ) -> Pending:
        """Submit a copy of `size` bytes; `resource` is COPY_IN or COPY_OUT."""
        target = self.target
        latency = target.microseconds(target.hbm.latency_cycles)
        microseconds = latency + size / target.hbm.bytes_per_second * 1e6
        label = f"{resource} {size} bytes"
        return self._submit(resource, label, lambda: (function(), microseconds), alive)

    def record(self) -> Event:
        """An event behind everything that is on the stream now."""
        pending = Pending(self)
        self._put(pending, lambda: self.time)
        return Event(pending)

    def wait(self, event: Event) -> None:
        """Let work that is submitted from now on come after an event of any stream of the device."""
        if event.pending.stream.device is not self.device:
            raise LaunchError("a stream can only wait for events of its own device")

        def catch_up() -> None:
            self.time = max(self.time, event.pending.value_now())

        self._put(Pending(self), catch_up)

    def synchronize(self) -> None:
        """Wait until all is done. Raises the error of failed work unless `result` or `wait` has raised it already."""
        last = self._last
        if last is not None and last.error() is not self._told:
            last.result()

    def tell(self, error: BaseException) -> None:
        """The user gets the error: what is submitted from now on is done again."""
        self._told = error

        def clear() -> None:
            if self._error is error:
                self._error = None

        self.device.executor.put(clear)

    def _submit(
        self, resource: str, label: str, work: Callable[[], tuple[Any, float]], alive: object
    ) -> Pending:
        pending = Pending(self)

        def do() -> Any:
            _ = alive  # arrays live until the work is done
            value, microseconds = work()
            pending.span = self.device.clock.place(self, resource, label, microseconds)
            return value

        self._put(pending, do)
        return pending

    def _put(self, pending: Pending, do: Callable[[], Any]) -> None:
        def step() -> None:
            value, error = None, self._error
            if error is None:
                try:
                    value = do()
                except BaseException as raised:
                    error = self._error = raised
            pending.finish(value, error)

        with self._lock:
            self._last = pending
            self.device.executor.put(step)


class Executor:
    """A device's thread, started when there is something to do."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, step: Callable[[], None]) -> None:
        """Submit a step, which raises nothing."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._loop, daemon=True, name="dsalang device"
                )
                self._thread.start()
        self._queue.put(step)

    @property
    def inside(self) -> bool:
        """Whether the caller is a step."""
        return threading.current_thread() is self._thread

    def drain(self) -> None:
        """Wait until all that has been put is done."""
        if self._thread is not None and not self.inside:
            reached = threading.Event()
            self.put(reached.set)
            reached.wait()

    def _loop(self) -> None:
        while True:
            self._queue.get()()
