"""When the slots of SRAM were in use, told from a timeline and from which rings the templates work on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dsalang._backend.image.model import Image
from dsalang._backend.image.uses import Uses

from ..stats import Event


@dataclass(frozen=True)
class Life:
    """A slot of a ring in use: from the start of the first access to the completion of the last one."""

    ring: int
    slot: int
    start: int
    end: int


def lives_of(image: Image, events: Sequence[Event], uses: Sequence[Uses]) -> list[Life]:
    """The lives of all slots in the order in which they begin.

    An instruction that runs as often as its ring turns works on one slot each time; one that runs several times as
    often, in a loop of its own, works on each slot as many times.
    """
    of_ring: dict[int, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        for ring in uses[event.template]:
            of_ring[ring][event.template].append(event)
    found: list[Life] = []
    for ring, by_template in of_ring.items():
        turns = min(len(accesses) for accesses in by_template.values())
        starts, ends = [-1] * turns, [0] * turns
        for accesses in by_template.values():
            count = len(accesses)
            for number, event in enumerate(accesses):
                turn = number * turns // count
                if starts[turn] < 0 or event.start < starts[turn]:
                    starts[turn] = event.start
                ends[turn] = max(ends[turn], event.complete)
        slots = image.rings[ring].slots
        found += [Life(ring, n % slots, a, b) for n, (a, b) in enumerate(zip(starts, ends))]
    return sorted(found, key=lambda life: (life.start, life.ring))


def occupancy(image: Image, lives: Sequence[Life], cycles: int, bins: int) -> list[int]:
    """The most bytes in use at once in each of `bins` equal parts of a run.

    Rings that share memory are not in use at the same time, so sums are no larger than SRAM.
    """
    changes: dict[int, int] = defaultdict(int)
    for life in lives:
        changes[life.start] += image.rings[life.ring].slot_bytes
        changes[life.end] -= image.rings[life.ring].slot_bytes
    most, now, at = [0] * bins, 0, 0
    for time in sorted(changes):
        here = min(bins - 1, time * bins // max(1, cycles))
        for part in range(at, here + 1):
            most[part] = max(most[part], now)
        at, now = here, now + changes[time]
        most[here] = max(most[here], now)
    return most
