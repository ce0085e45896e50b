"""What a finished core's memory says, as the report's data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsalang._backend.errors import LaunchError
from dsalang._backend.isa.engines import QUEUED, Engine

from ..report import Run
from . import timing
from .context import LOG_RECORDS
from .simulator import Layout, Log, Rows, View, Words

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image

    from ..stats import CoreStats, Reason, Traffic
    from .engine import Program
    from .worker import Worker


class Result(NamedTuple):
    """A finished core: the words of its memory that a run resets, and what Python collected."""

    core: int
    words: Words
    prints: Sequence[str]
    events: Rows
    stands: Rows
    records: Log

    @staticmethod
    def of(worker: Worker) -> Result:
        """Take it from a worker before its next run."""
        memory = worker.memory
        words = memory.result()
        return Result(
            worker.core, words, worker.prints, worker.events, worker.stands, memory.records()
        )


class Source(NamedTuple):
    """What results are read with: the program, the layout of its memory, labels of its traffic, how many cores, the seed of
    the target's jitter.
    """

    program: Program
    layout: Layout
    labels: Sequence[str]
    active: int
    seed: int


class FastRun(Run):
    """A report that reads the image and the cores' results when somebody looks at it."""

    def __init__(self, source: Source, results: Sequence[Result]) -> None:
        self.target = source.program.target
        self._source, self._results = source, results

    @cached_property
    def image(self) -> Image:  # type: ignore[override]
        """The image that ran."""
        return self._source.program.image

    @cached_property
    def cores(self) -> tuple[CoreStats, ...]:  # type: ignore[override]
        """Each core's figures."""
        return tuple(_core(result, self._source) for result in self._results)

    @cached_property
    def cycles(self) -> int:
        """Cycles from launch until the slowest core has finished."""
        if self._source.program.outline.fixed:
            return max(self._source.program.outline.fixed)
        layout = self._source.layout
        return max((_cycles(View(layout, result.words)) for result in self._results), default=0)

    def timeline(self, path: str | Path) -> Path:
        """As `Run.timeline`. A run that kept no timeline makes it from its log.

        Raises LaunchError when the run was too long for that.
        """
        return self.detailed().timeline(path)

    def detailed(self) -> Run:
        """The report with the timeline."""
        if self._source.program.outline.fixed:
            return Run(self.image, self.target, self.cores)
        source, cores = self._source, []
        for result in self._results:
            if not result.events:
                records = result.records.words()
                if records is None:
                    raise LaunchError(
                        f"the run issued more than {LOG_RECORDS} instructions on a core; its timeline was not kept",
                        hint="launch with timeline=True to keep it",
                    )
                events, stands = source.program.replay(
                    records, source.active, source.seed, result.core
                )
                result = result._replace(events=events, stands=stands)
            cores.append(_core(result, source))
        return Run(self.image, self.target, tuple(cores))

    def __reduce__(self) -> Any:
        return Run, (self.image, self.target, self.cores)


def _cycles(view: View) -> int:
    completed = view.array("completed", len(QUEUED))
    return max(view.value("time"), view.value("port_free"), int(completed.max()))


def _core(result: Result, source: Source) -> CoreStats:
    program = source.program
    if program.outline.fixed:
        stats = replace(program.schedule[result.core])
    else:
        stats = _simulated(result, source)
    stats.traffic = _traffic(result, source)
    stats.prints = list(result.prints)
    return stats


def _traffic(result: Result, source: Source) -> dict[str, Traffic]:
    from ..stats import Traffic

    layout, found = source.layout, dict[str, Traffic]()
    moved = result.words[layout.traffic : layout.traffic + 2 * layout.labels].tolist()
    for label, read, written in zip(source.labels, moved[::2], moved[1::2]):
        if read or written:
            total = found.setdefault(label, Traffic())
            total.read += read
            total.written += written
    return found


def _simulated(result: Result, source: Source) -> CoreStats:
    """What the timing code has found."""
    from ..stats import CoreStats, Event, Wait  # loaded when somebody looks

    view = View(source.layout, result.words)
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
    reasons = _reasons(source.program.outline.columns["engine"])
    stalls = view.array("stalls", len(Engine) * len(reasons)).reshape(len(Engine), len(reasons))
    for number, reason in zip(*np.nonzero(stalls)):
        stats.engines[Engine(int(number))].stalls[reasons[reason]] = int(stalls[number, reason])
    stats.port_busy, stats.burst_bytes = view.value("port_busy"), view.value("burst_bytes")
    for row in _all(result.events, timing.EVENT):
        stats.events.append(Event(Engine(row[0]), *row[1:]))
    for engine_number, reason, start, end in _all(result.stands, timing.STAND):
        stats.waits.append(Wait(Engine(engine_number), reasons[reason], start, end))
    stats.sort()
    return stats


def _all(parts: Rows, width: int) -> list[list[int]]:
    joined = np.concatenate(parts) if parts else np.empty((0, width), np.int64)
    return joined.tolist()  # type: ignore[no-any-return]


def _reasons(engines: Sequence[int]) -> list[Reason]:
    from ..stats import Reason

    return [
        Reason("not issued"),
        Reason("HBM port busy"),
        *(Reason("queue full", engine) for engine in QUEUED),
        *(Reason("semaphore", Engine(engine), number) for number, engine in enumerate(engines)),
    ]
