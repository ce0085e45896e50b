"""A kernel's first launches without host code: most kernels are launched once or a few times, and small ones are over on
the reference engine before LLVM has made host code of them. Both engines give the same bits and the same cycles.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dsalang._backend.collector import paused

from .launch import Grid

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image
    from dsalang._backend.target import Target
    from dsalang._runtime.memory import Memory
    from dsalang._runtime.report import Run

MOST_PROGRAMS = 64
MOST_BYTES = 1 << 20
"""Of memory that a first run may write to; it is copied, so that a run that is given up leaves no trace."""
MOST_SECONDS = 0.04
"""About what host code costs. When the launches of an image have taken as long on the reference engine, it gets host code, and
the run that is under way is given up: nobody pays more than twice (renting skis, until they would have been bought)."""
spent: dict[str, float] = {}
"""Seconds of this process on the reference engine, by the key of the image."""


class _TooLongError(Exception):
    """The run is worth host code."""


def is_over_budget(key: str) -> bool:
    """Whether an image has been launched for so long that host code would have been cheaper."""
    return spent.get(key, 0.0) >= MOST_SECONDS


def is_small(grid: Grid, memory: Memory) -> bool:
    """Whether a launch may be over soon, as far as can be told beforehand."""
    written = sum(segment.data.size for segment in memory.segments if segment.writable)
    return prod(grid) <= MOST_PROGRAMS and written <= MOST_BYTES


@dataclass(eq=False)
class FirstRun:
    """A launch that runs on the reference engine at first; `compiled` makes it a launch of host code, for ever after."""

    image: Image
    target: Target
    key: str
    values: Sequence[int]
    grid: Grid
    memory: Memory
    seed: int
    compiled: Callable[[], Callable[[], Run]]
    _next: Callable[[], Run] | None = None

    def __call__(self) -> Run:
        """Launch."""
        if self._next is None:
            found = None if is_over_budget(self.key) else self._attempt()
            if found is not None:
                return found
            self._next = self.compiled()
        return self._next()

    @paused()  # the collector's time is not the run's
    def _attempt(self) -> Run | None:
        """The run, None when it is not over in time; it has left no trace then."""
        from dsalang._runtime.reference.engine import run
        from dsalang._runtime.reference.options import Options

        if threading.active_count() > 1 and _has_atomics(self.image):
            spent[self.key] = MOST_SECONDS
            return None
        draft = _Draft(self.memory)
        lines: list[str] = []
        start = time.thread_time()
        end = start + MOST_SECONDS - spent.get(self.key, 0.0)

        def tick() -> None:
            if time.thread_time() > end:
                raise _TooLongError

        # What the fast engine does not check is not checked here, either: the two have to agree.
        options = Options(
            check_races=False,
            check_init=False,
            seed=self.seed,
            write=lines.append,
            tick=tick,
        )
        try:
            return run(self.image, self.target, self.values, self.grid, draft.memory, options)
        except _TooLongError:
            lines.clear()
            draft.drop()
            return None
        finally:
            spent[self.key] = spent.get(self.key, 0.0) + time.thread_time() - start
            draft.write()
            for line in lines:
                print(line)


class _Draft:
    """Copies of what a run may write to. Undoing what it wrote in place would undo what other threads wrote next to it."""

    def __init__(self, memory: Memory) -> None:
        from dsalang._runtime.memory import Memory

        segments = memory.segments
        copies = [replace(s, data=s.data.copy()) if s.writable else s for s in segments]
        self.memory = Memory(copies)
        self._written = [
            (s.data, copy.data, copy.data.copy()) for s, copy in zip(segments, copies) if s.writable
        ]

    def drop(self) -> None:
        """Forget what was written."""
        self._written.clear()

    def write(self) -> None:
        """Write what has changed where it belongs, and nothing else."""
        for data, new, old in self._written:
            np.copyto(data, new, where=new != old)


def _has_atomics(image: Image) -> bool:
    """Whether an image reads and writes in one step, as seen from other threads; a draft cannot."""
    return any(template.instruction.op == "dma.atomic" for template in image.templates)
