"""What a run is reported as: figures of cores and engines, events of the timeline."""

from __future__ import annotations

from dataclasses import dataclass, field

from dsalang._backend.errors import LaunchError
from dsalang._backend.isa.engines import Engine


@dataclass(frozen=True, slots=True)
class Event:
    """An instruction on an engine: busy in [start, end), complete (for DMA: after the latency) at `complete`.

    `address` is the SRAM address of its result, for a store of its source.
    """

    engine: Engine
    template: int
    start: int
    end: int
    complete: int
    address: int


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an engine stood still: `engine` and `template` say who it waited for, None and -1 when nobody."""

    what: str
    engine: Engine | None = None
    template: int = -1


@dataclass(frozen=True, slots=True)
class Wait:
    """An engine that stood still in [start, end)."""

    engine: Engine
    reason: Reason
    start: int
    end: int


@dataclass
class EngineStats:
    """An engine of one core: instructions (`set` and `wait` not counted), busy cycles, stall cycles by reason."""

    instructions: int = 0
    busy: int = 0
    stalls: dict[Reason, int] = field(default_factory=dict)


@dataclass
class Traffic:
    """Bytes that kernel code read from and wrote to one array."""

    read: int = 0
    written: int = 0


class TrafficByArray(dict[str, Traffic]):
    """Traffic by the array's name; asking for one that there is none of is the user's error."""

    def __missing__(self, name: str) -> Traffic:
        raise LaunchError(
            f"there was no traffic of an array {name!r}", hint=f"arrays are {', '.join(self)}"
        )


@dataclass
class CoreStats:
    """A run of one core. `burst_bytes` is what HBM served, `port_busy` for how many cycles.

    `events` and `waits` are empty when the run kept no timeline.
    """

    core: int
    cycles: int = 0
    engines: dict[Engine, EngineStats] = field(
        default_factory=lambda: {engine: EngineStats() for engine in Engine}
    )
    port_busy: int = 0
    burst_bytes: int = 0
    operations: dict[Engine, int] = field(default_factory=dict)
    traffic: dict[str, Traffic] = field(default_factory=dict)
    prints: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)

    def sort(self) -> None:
        """Put events and waits in an order that does not depend on how an engine works."""
        self.events.sort(
            key=lambda e: (e.start, e.end, e.engine, e.complete, e.template, e.address)
        )
        self.waits.sort(key=lambda w: (w.start, w.end, w.engine, w.reason.what, w.reason.template))


@dataclass(frozen=True)
class Roofline:
    """Where a run stands: `intensity` is operations per byte, `bound` the resource that was busiest.

    `attained` and `roof` are operations per second: what was done, and what the tensor engine or HBM
    would allow at this intensity.
    """

    operations: int
    bytes: int
    intensity: float
    attained: float
    roof: float
    bound: str
