"""Where the time of a run went, as figures, text, JSON and pictures."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dsalang._backend.image.uses import Uses
from dsalang._backend.isa.table import Engine

from ..files import write_for_user
from ..report import Run
from ..stats import CoreStats
from .lives import Life, lives_of, occupancy
from .stalls import Stall, stalls_of

BINS = 160
"""Parts of a run for which SRAM occupancy and busy shares are told."""


@dataclass(frozen=True)
class EngineShare:
    """Cycles of an engine, summed over cores. What is neither busy nor stalled is before or after its work."""

    engine: str
    instructions: int
    busy: int
    stalled: int


@dataclass(frozen=True)
class Profile:
    """A run and where its time went.

    Attributes:
        run: the engine's report, with its timeline.
        uses: the rings that each template of the image works on, where known.
    """

    run: Run
    uses: Sequence[Uses] | None = None

    @cached_property
    def core(self) -> CoreStats:
        """The core that pictures show: the slowest one."""
        return max(self.run.cores, key=lambda core: core.cycles)

    @cached_property
    def engines(self) -> tuple[EngineShare, ...]:
        """Busy and stall cycles by engine."""
        found = []
        for engine in Engine:
            stats = [core.engines[engine] for core in self.run.cores]
            found.append(
                EngineShare(
                    engine.name,
                    sum(s.instructions for s in stats),
                    sum(s.busy for s in stats),
                    sum(sum(s.stalls.values()) for s in stats),
                )
            )
        return tuple(found)

    @cached_property
    def stalls(self) -> list[Stall]:
        """Why engines stood still, the longest reason first."""
        return stalls_of(self.run.image, self.run.cores)

    @cached_property
    def lives(self) -> list[Life]:
        """When slots of SRAM were in use, on the slowest core. Empty where that is not known."""
        if self.uses is None or not self.run.cores:
            return []
        return lives_of(self.run.image, self.core.events, self.uses)

    @cached_property
    def occupancy(self) -> list[int]:
        """The most bytes of SRAM in use at once in each of `BINS` parts of the run, on the slowest core."""
        if not self.lives:
            return [self.run.image.sram_bytes] * BINS
        return occupancy(self.run.image, self.lives, self.run.cycles, BINS)

    def data(self) -> dict[str, Any]:
        """Everything as plain values."""
        run = self.run
        return {
            "kernel": run.image.name,
            "target": run.target.name,
            "cores": len(run.cores),
            "cycles": run.cycles,
            "microseconds": run.microseconds,
            "engines": [dataclasses.asdict(share) for share in self.engines],
            "stalls": [dataclasses.asdict(stall) for stall in self.stalls],
            "hbm": {
                "burst_bytes": run.hbm_bytes,
                "utilisation": run.hbm_utilisation,
                "arrays": {name: dataclasses.asdict(t) for name, t in run.hbm.items()},
            },
            "sram": {
                "bytes": run.target.sram_bytes,
                "allocated": run.image.sram_bytes,
                "in_use": self.occupancy,
                "rings": [
                    {
                        "label": ring.label, "address": ring.address, "slots": ring.slots,
                        "slot_bytes": ring.slot_bytes, "format": ring.fmt, "shape": list(ring.shape),
                        "line": ring.loc.line if ring.loc else None,
                    }
                    for ring in run.image.rings
                ],
            },
            "microkernels": [
                {
                    "op": choice.op, "kernel": choice.kernel, "ran": choice.ran, "reason": choice.reason,
                    "line": choice.loc.line, "generated_cycles": choice.generated_cycles,
                    "micro_cycles": choice.micro_cycles,
                }
                for choice in run.image.choices
            ],
            "roofline": dataclasses.asdict(run.roofline),
        }  # fmt: skip

    def json(self, path: str | Path) -> Path:
        """Write `data` as JSON."""
        return _write(path, json.dumps(self.data(), indent=1))

    def html(self, path: str | Path) -> Path:
        """Write one HTML file with everything in it: timeline, SRAM map and roofline as pictures."""
        from .html import document

        return _write(path, document(self))

    @property
    def text(self) -> str:
        """For a terminal."""
        from .text import text

        return text(self)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from .html import fragment

        return fragment(self)


def _write(path: str | Path, text: str) -> Path:
    return write_for_user(path, text.encode(), "the profile")
