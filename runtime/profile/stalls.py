"""Why engines stood still: for whom, for which buffer, at which line."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dsalang._backend.image.model import Image
from dsalang._backend.isa.table import Engine

from ..rings import ring_at
from ..stats import CoreStats, Event, Wait

_DMA = (Engine.LD, Engine.ST)


@dataclass(frozen=True)
class Stall:
    """Cycles that an engine stood still for one reason.

    Attributes:
        reason: in words.
        waits_for: the engine, or "CORE", "HBM"; "" when nobody.
        buffer: the tile that was not there yet, or that was still in use.
        line: source line of the instruction that was waited for.
    """

    engine: str
    reason: str
    waits_for: str
    buffer: str
    line: int | None
    cycles: int


def stalls_of(image: Image, cores: Sequence[CoreStats]) -> list[Stall]:
    """All stalls, those of one reason as one, the longest first."""
    total: dict[tuple[str, str, str, str, int | None], int] = defaultdict(int)
    for core in cores:
        trace = _Trace(image, core.events)
        for wait in core.waits:
            total[trace.reason(wait)] += wait.end - wait.start
    found = [Stall(*key, cycles) for key, cycles in total.items()]
    return sorted(found, key=lambda stall: (-stall.cycles, stall.engine, stall.reason))


class _Trace:
    """The events of a core by engine, in order of completion and of start."""

    def __init__(self, image: Image, events: Sequence[Event]) -> None:
        self.image = image
        self.by_engine: dict[Engine, list[Event]] = defaultdict(list)
        for event in events:
            self.by_engine[event.engine].append(event)
        self.starts = {e: [event.start for event in of] for e, of in self.by_engine.items()}
        self.completes = {e: [event.complete for event in of] for e, of in self.by_engine.items()}

    def reason(self, wait: Wait) -> tuple[str, str, str, str, int | None]:
        name, why = wait.engine.name, wait.reason
        if why.what == "not issued":
            return name, "waiting for the control core to issue", "CORE", "", None
        if why.what == "HBM port busy":
            return name, "HBM port busy", "HBM", "", None
        if why.what == "queue full" and why.engine is not None:
            return name, f"queue of {why.engine.name} full", why.engine.name, "", None
        if why.engine is None or why.template < 0:
            return name, why.what if why.what != "semaphore" else "no credit", "", "", None
        loc = self.image.templates[why.template].loc
        buffer, needed = self.buffer(wait, why.engine)
        words = (
            f"waiting for {why.engine.name} to {needed}"
            if buffer
            else f"waiting for {why.engine.name}"
        )
        return name, words, why.engine.name, buffer, loc.line if loc else None

    def buffer(self, wait: Wait, other: Engine) -> tuple[str, str]:
        """The buffer that the two engines hand over, and what the other one has to do with it."""
        before = self.last(other, wait.end)
        after = self.first(wait.engine, wait.end)
        if other is Engine.LD:
            return self.label(before), "load"
        if other is Engine.ST:
            return self.label(before), "store and free"
        if wait.engine is Engine.LD:
            return self.label(after), "free"
        if wait.engine is Engine.ST:
            return self.label(after), "finish"
        return self.label(before), "finish"

    def last(self, engine: Engine, time: int) -> Event | None:
        """What an engine completed last by a time."""
        at = bisect_right(self.completes.get(engine, []), time)
        return self.by_engine[engine][at - 1] if at else None

    def first(self, engine: Engine, time: int) -> Event | None:
        """What an engine starts first from a time on."""
        at = bisect_left(self.starts.get(engine, []), time)
        of = self.by_engine.get(engine, [])
        return of[at] if at < len(of) else None

    def label(self, event: Event | None) -> str:
        at = ring_at(self.image, event.address) if event else None
        return at[0].label if at else ""
