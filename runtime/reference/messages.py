"""Errors that every engine words alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsalang._backend.errors import DeviceError, Loc
from dsalang._backend.image.model import Image
from dsalang._backend.isa.table import Engine

from .prepare import Prepared


@dataclass(frozen=True)
class Waiter:
    """Somebody who waits on a semaphore; `template` is -1 for the control core."""

    who: str
    semaphore: int
    template: int


def overflow_error(
    semaphore: int, count: int, most: int, setter: Engine | None, loc: Loc | None
) -> DeviceError:
    """A semaphore holds more than it can."""
    return DeviceError(
        f"semaphore {semaphore} overflowed: {count} is above the {most} that it can hold; set by "
        f"{setter.name if setter is not None else 'nobody'}",
        loc,
    )


def deadlock_error(
    core: int,
    image: Image,
    prepared: Sequence[Prepared],
    waits: Sequence[Waiter],
    full: Engine | None,
) -> DeviceError:
    """Nothing moves any more; `full` is the engine whose full queue the control core waits for."""
    parts = []
    for wait in waits:
        loc = _location(image, wait.template)
        setters = sorted(
            {p.engine.name for p in prepared if p.op == "set" and p.fields["sem"] == wait.semaphore}
        )
        source = f"which {', '.join(setters)} sets" if setters else "which nobody sets"
        parts.append(
            f"{wait.who} waits on semaphore {wait.semaphore}, {source}{f' ({loc})' if loc else ''}"
        )
    if full is not None:
        parts.append(f"the control core waits for room in the full queue of {full.name}")
    first = _location(image, waits[0].template) if waits else None
    return DeviceError(f"deadlock on core {core}: {'; '.join(parts)}", first)


def _location(image: Image, template: int) -> Loc | None:
    return image.templates[template].loc if template >= 0 else None
