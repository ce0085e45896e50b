"""Static schedules on the reference engine: what an engine knows by the clock, and promises that are broken."""

from __future__ import annotations

from collections import deque

from dsalang._backend.errors import DeviceError, LaunchError, Loc
from dsalang._backend.image.model import Image
from dsalang._backend.isa.table import QUEUED, Engine

from .races import Clocks

HINT = "the schedule holds for the target's figures; a machine with jitter needs schedule='dynamic'"


class TimeClock:
    """Tells an engine what is over: with fixed times the clock says what tokens say otherwise."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._pending: dict[Engine, deque[int]] = {engine: deque() for engine in QUEUED}
        self._over = dict.fromkeys(QUEUED, 0)

    def completes(self, engine: Engine, time: int) -> None:
        """The next instruction of `engine` is complete at `time`."""
        self._pending[engine].append(time)

    def advance(self, engine: Engine, now: int) -> None:
        """An instruction of `engine` starts now: it may rely on all that is complete."""
        known = self._clocks.known[engine]
        for other, pending in self._pending.items():
            while pending and pending[0] <= now:
                pending.popleft()
                self._over[other] += 1
            known[other] = max(known[other], self._over[other])


def timing_violation(
    engine: Engine, op: str, at: int | None, reason: str, loc: Loc | None
) -> DeviceError:
    """An instruction that cannot start as scheduled."""
    return DeviceError(
        f"timing violation: {engine.name} {op}, which is to start at cycle {at}, {reason}",
        loc,
        HINT,
    )


def check_grid(image: Image, grid: tuple[int, int, int]) -> None:
    """A static image is for one grid, and one that keeps tiles. Raises LaunchError for another one."""
    if image.residency is not None and image.residency.grid != grid:
        raise LaunchError(
            f"image {image.name!r} keeps tiles in SRAM for grid {image.residency.grid}, not for {grid}",
            hint="compile it for this grid",
        )
    if image.timing is not None and image.timing.grid != grid:
        raise LaunchError(
            f"image {image.name!r} has a static schedule for grid {image.timing.grid}, not for {grid}",
            hint="compile it for this grid",
        )


def check_promise(image: Image, core: int, cycles: int) -> None:
    """A core that ends at another cycle than its schedule says is a DeviceError."""
    if image.timing is None:
        return
    promised = image.timing.cycles[core]
    if cycles != promised:
        raise DeviceError(
            f"timing violation: core {core} ran {cycles} cycles, its schedule promises {promised}",
            hint=HINT,
        )
