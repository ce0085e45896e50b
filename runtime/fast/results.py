"""What a finished core's memory says, as the report's data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dsalang._backend.image.model import Image
from dsalang._backend.isa.table import QUEUED, Engine
from dsalang._backend.target import Target

from ..report import CoreStats, Event, Reason, Run, Traffic, Wait
from . import timing
from .plan import Row
from .simulator import Memory, Words
from .worker import Worker

Rows = list[npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Result:
    """A finished core: the words of its memory that a run resets, and what Python collected."""

    core: int
    words: Words
    prints: Sequence[str]
    events: Rows
    stands: Rows

    @staticmethod
    def of(worker: Worker) -> Result:
        """Take it from a worker before its next run."""
        memory = worker.memory
        words = memory.words[: memory.kept].copy()
        return Result(worker.core, words, worker.prints, worker.events, worker.stands)


class FastRun(Run):
    """A report that reads the cores' results when somebody looks at it."""

    def __init__(
        self,
        image: Image,
        target: Target,
        rows: Sequence[Row],
        memory: Memory,
        labels: Sequence[str],
        results: Sequence[Result],
    ) -> None:
        self.__dict__.update(image=image, target=target)
        self.__dict__["_parts"] = (rows, memory, labels, results)

    @cached_property
    def cores(self) -> tuple[CoreStats, ...]:  # type: ignore[override]
        """Each core's figures."""
        rows, memory, labels, results = self.__dict__["_parts"]
        return tuple(_core(result, rows, memory, labels) for result in results)

    @cached_property
    def cycles(self) -> int:  # type: ignore[override]
        """Cycles from launch until the slowest core has finished."""
        _, memory, _, results = self.__dict__["_parts"]
        return max((_cycles(memory.view(result.words)) for result in results), default=0)

    def __reduce__(self) -> Any:
        return Run, (self.image, self.target, self.cores)


def _cycles(view: Any) -> int:
    completed = view.array("completed", len(QUEUED))
    return max(view.value("time"), view.value("port_free"), int(completed.max()))


def _core(result: Result, rows: Sequence[Row], memory: Memory, labels: Sequence[str]) -> CoreStats:
    view = memory.view(result.words)
    stats = CoreStats(result.core, cycles=_cycles(view))
    core = stats.engines[Engine.CORE]
    core.instructions, core.busy = view.value("core_issued"), view.value("core_busy")
    engines = len(QUEUED)
    columns = {
        name: view.array(name, engines).tolist()
        for name in ("count", "busy", "operations", "computed")
    }
    for engine in QUEUED:
        one = stats.engines[engine]
        one.instructions, one.busy = columns["count"][engine], columns["busy"][engine]
        if columns["computed"][engine]:
            stats.operations[engine] = columns["operations"][engine]
    reasons = _reasons(rows)
    stalls = view.array("stalls", len(Engine) * len(reasons)).reshape(len(Engine), len(reasons))
    for number, reason in zip(*np.nonzero(stalls)):
        stats.engines[Engine(int(number))].stalls[reasons[reason]] = int(stalls[number, reason])
    stats.port_busy, stats.burst_bytes = view.value("port_busy"), view.value("burst_bytes")
    moved = result.words[memory.traffic : memory.traffic + 2 * memory.labels].tolist()
    for label, read, written in zip(labels, moved[::2], moved[1::2]):
        if read or written:
            total = stats.traffic.setdefault(label, Traffic())
            total.read += read
            total.written += written
    stats.prints = list(result.prints)
    for row in _all(result.events, timing.EVENT):
        stats.events.append(Event(Engine(row[0]), *row[1:]))
    for engine_number, reason, start, end in _all(result.stands, timing.STAND):
        stats.waits.append(Wait(Engine(engine_number), reasons[reason], start, end))
    stats.sort()
    return stats


def _all(parts: Rows, width: int) -> list[list[int]]:
    joined = np.concatenate(parts) if parts else np.empty((0, width), np.int64)
    return joined.tolist()  # type: ignore[no-any-return]


def _reasons(rows: Sequence[Row]) -> list[Reason]:
    return [
        Reason("not issued"),
        Reason("HBM port busy"),
        *(Reason("queue full", engine) for engine in QUEUED),
        *(Reason("semaphore", row.engine, number) for number, row in enumerate(rows)),
    ]
