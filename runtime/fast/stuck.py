"""Errors of timing: deadlocks and semaphores that overflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsalang._backend.errors import DeviceError
from dsalang._backend.isa.table import QUEUED

from ..reference.messages import Waiter, deadlock_error, overflow_error
from . import timing

if TYPE_CHECKING:
    from .worker import Worker


def overflowed(worker: Worker) -> DeviceError:
    """The first semaphore that overflowed."""
    memory = worker.memory.view
    template = memory.value("over_template")
    return overflow_error(
        memory.value("over_sem"),
        worker.target.semaphore_max + 1,
        worker.target.semaphore_max,
        worker.rows[template].engine,
        worker.image.templates[template].loc,
    )


def deadlock(worker: Worker) -> DeviceError:
    """Who waits for what, now that nothing moves."""
    memory, engines = worker.memory.view, len(QUEUED)
    issued, started = memory.array("issued", engines), memory.array("started", engines)
    ring = memory.value("ring")
    queue = memory.array("q_template", engines * ring)
    waits = []
    for engine in QUEUED:
        if issued[engine] > started[engine]:
            template = int(queue[engine * ring + (started[engine] & (ring - 1))])
            waits.append(Waiter(engine.name, worker.rows[template].sem, template))
    full = None
    at = memory.value("at")
    if at < memory.value("records"):
        code, first = worker.memory.stuck_record(at)
        if code == timing.WAIT:
            waits.append(Waiter("the control core", first, -1))
        else:
            full = worker.rows[code].engine
    prepared = tuple(row.prepared for row in worker.rows)
    return deadlock_error(worker.core, worker.image, prepared, waits, full)
