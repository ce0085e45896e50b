"""How a launch is to be run on the reference engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..residency import Kept


@dataclass(frozen=True)
class Options:
    """Options of a run.

    Attributes:
        timeline: keep every instruction's times for `Run.timeline`.
        functional: move data and compute; False gives times only, takes every element of gathers, scatters
            and atomics as valid, and fails where the kernel's control flow reads a value back.
        check_races: stop at accesses that no semaphore orders.
        check_init: stop at reads of SRAM that nothing has written.
        max_cycles: stop a kernel that runs for longer.
        adversarial_seed: add random delays wherever flags allow them. A correct program gives the same data;
            its times mean nothing. A static schedule has no such places: nothing changes.
        seed: of the jitter that the target itself has.
        write: called with each line that the kernel prints.
        tick: called before each event of a core; raises to stop the run.
        kept: what is in the SRAM of cores from an earlier launch, and what they leave in it.
    """

    timeline: bool = True
    functional: bool = True
    check_races: bool = True
    check_init: bool = True
    max_cycles: int | None = None
    adversarial_seed: int | None = None
    seed: int = 0
    write: Callable[[str], None] = print
    tick: Callable[[], None] | None = None
    kept: Kept | None = None

    def random(self, core: int) -> Random | None:
        """The source of a core's delays, None for a run by the rules."""
        if self.adversarial_seed is None:
            return None
        return Random(self.adversarial_seed * 65_537 + core)
