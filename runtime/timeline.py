"""A run as Chrome trace JSON: a process per core, a thread per engine, an event per instruction and per stall."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsalang._backend.isa.table import Engine

from .files import write_for_user
from .rings import ring_at

if TYPE_CHECKING:
    from .report import Run
    from .stats import CoreStats, Event, Wait


def trace(run: Run) -> dict[str, Any]:
    """The trace as plain data; times are in microseconds of the machine."""
    events: list[dict[str, Any]] = []
    for core in run.cores:
        events += _names(core)
        events += [_event(run, core, event) for event in core.events]
        events += [_wait(run, core, wait) for wait in core.waits]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def write(run: Run, path: Path) -> Path:
    """Write the trace to `path`, which appears whole or not at all."""
    return write_for_user(path, json.dumps(trace(run)).encode(), "the timeline")


def _names(core: CoreStats) -> list[dict[str, Any]]:
    named: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": core.core, "args": {"name": f"core {core.core}"}}
    ]
    for engine in Engine:
        thread = {"pid": core.core, "tid": int(engine), "args": {"name": engine.name}}
        named.append({"ph": "M", "name": "thread_name", **thread})
    return named


def _event(run: Run, core: CoreStats, event: Event) -> dict[str, Any]:
    template = run.image.templates[event.template]
    at = ring_at(run.image, event.address)
    label = f" {at[0].label}[{at[1]}]" if at else ""
    details: dict[str, Any] = {"start_cycle": event.start, "complete_cycle": event.complete}
    if template.loc:
        details["source"] = str(template.loc)
    if template.hbm_arg >= 0:
        details["array"] = run.image.arguments[template.hbm_arg].name
    name = template.instruction.op + label
    return _slice(run, core, event, name, "instruction", details)


def _wait(run: Run, core: CoreStats, wait: Wait) -> dict[str, Any]:
    return _slice(run, core, wait, run.words(wait.reason), "stall", {"start_cycle": wait.start})


def _slice(
    run: Run, core: CoreStats, what: Event | Wait, name: str, kind: str, details: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": kind,
        "pid": core.core,
        "tid": int(what.engine),
        "ts": run.target.microseconds(what.start),
        "dur": run.target.microseconds(what.end - what.start),
        "args": details,
    }
