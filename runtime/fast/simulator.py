"""The timing code as host code, compiled once per machine, and the memory it works on."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dsalang._backend.image.model import Image
from dsalang._backend.isa.table import QUEUED, Engine
from dsalang._backend.target import Target

from . import timing
from .context import BATCH, LOG_RECORDS, Entry
from .objects import ObjectCache, load_or_make
from .plan import Row, cycles_per_byte

Words = npt.NDArray[np.int64]
Rows = list[Words]
"""Batches of a timeline's rows."""
_FIELDS = {name: str(kind) for name, kind in timing.State.__annotations__.items()}
SLOT = {name: number for number, name in enumerate(_FIELDS)}
"""Position of each field of `timing.State`: an int itself, or the address of an array."""


@functools.cache
def address(cache: ObjectCache | None) -> int:
    """The address of `timing.simulate` as host code."""
    key = hashlib.sha256(inspect.getsource(timing).encode()).hexdigest()
    code = load_or_make(cache, f"timing-{key}", _module_text, ("simulate",))
    _KEPT.append(code)
    return code.symbols["simulate"]


_KEPT: list[object] = []


def _module_text() -> str:
    from dsalang._backend.llvm.subset import module_text

    text = module_text(timing.State, timing.FUNCTIONS)
    # the head is the compiler's to write
    return "\n".join(line for line in text.splitlines() if not line.startswith("target "))


class Memory:
    """Everything one core's host code works on but SRAM: context, timing state, trace, traffic; one block.

    `words` is the block, `start` what it holds when a run begins; the offsets are in words.
    """

    def __init__(
        self,
        image: Image,
        target: Target,
        rows: Sequence[Row],
        taker: Sequence[int],
        active_cores: int,
        segments: int,
        timeline: bool,
    ) -> None:
        scalars, arrays = _state(image, target, rows, taker, active_cores, timeline)
        widest = max((len(row.prepared.open) for row in rows), default=0)
        self.state = Entry.SIZE + widest
        self.labels = len(image.arguments) + max(1, segments)
        at = self.state + len(_FIELDS)
        self.traffic = at
        at += 2 * self.labels
        self.arrays: dict[str, int] = {}
        for name, values in arrays.items():
            self.arrays[name] = at
            at += max(1, values.size)
        self.words: Words = np.zeros(at, np.int64)
        self.address: int = self.words.__array_interface__["data"][0]
        for name, value in scalars.items():
            self.words[self.state + SLOT[name]] = value
        for name, values in arrays.items():
            start = self.arrays[name]
            self.words[start : start + values.size] = values
            self.words[self.state + SLOT[name]] = self.pointer(start)
        self.log: Words = np.empty(timing.RECORD * LOG_RECORDS, np.int64)
        trace: int = self.log.__array_interface__["data"][0]
        words = self.words
        words[self.state + SLOT["trace"]] = words[Entry.LOG] = trace
        words[Entry.LOG_END] = trace + self.log.nbytes
        words[Entry.STATE] = self.pointer(self.state)
        words[Entry.TRACE] = words[Entry.TRACE_AT] = trace
        words[Entry.TRACE_END] = trace + 8 * timing.RECORD * BATCH
        words[Entry.TRAFFIC] = self.pointer(self.traffic)
        words[Entry.WATCHED] = int(timeline)
        # Rings of tokens and rows of the timeline need no reset, and they are the bulk.
        self.kept = min(self.arrays[name] for name in _UNRESET)
        self.start: Words = self.words[: self.kept].copy()

    def pointer(self, offset: int) -> int:
        """The address of a word."""
        return self.address + 8 * offset

    def reset(self) -> None:
        """Bring everything back to the start of a run."""
        self.words[: self.kept] = self.start

    def view(self, words: Words) -> View:
        """Words of a run that has ended, by name."""
        return View(self, words)

    def value(self, name: str) -> int:
        """A field of the timing state."""
        return int(self.words[self.state + SLOT[name]])

    def records(self) -> Words | None:
        """All records of the run that has ended; None when they were more than are kept."""
        count = int(self.words[Entry.LOGGED])
        return None if count > LOG_RECORDS else self.log[: count * timing.RECORD].copy()

    def stuck_record(self, at: int) -> tuple[int, int]:
        """Template (or timing.WAIT) and first number of record `at` of the last batch."""
        start = (self.value("trace") - int(self.words[Entry.LOG])) // 8 + at * timing.RECORD
        return int(self.log[start]), int(self.log[start + 1])

    def take_timeline(self, events: Rows, stands: Rows) -> None:
        """Move the rows of the timeline made since the last time to the ends of lists."""
        for name, counter, width, kept in (
            ("events", "event_count", timing.EVENT, events),
            ("stands", "stand_count", timing.STAND, stands),
        ):
            count = self.value(counter)
            kept.append(self.array(name, count * width).reshape(count, width).copy())
            self.words[self.state + SLOT[counter]] = 0

    def array(self, name: str, count: int) -> Words:
        """The first entries of an array of the timing state."""
        start = self.arrays[name]
        return self.words[start : start + count]


class View:
    """A copy of a memory's words, with the names of their places."""

    def __init__(self, memory: Memory, words: Words) -> None:
        self._memory, self._words = memory, words

    def value(self, name: str) -> int:
        """A field of the timing state."""
        return int(self._words[self._memory.state + SLOT[name]])

    def array(self, name: str, count: int) -> Words:
        """The first entries of an array of the timing state."""
        start = self._memory.arrays[name]
        return self._words[start : start + count]


_UNRESET = ("events", "stands", "token_time", "token_reason", "take_time")


def _power_of_two(least: int) -> int:
    return 1 << max(0, (least - 1).bit_length())


def _state(
    image: Image,
    target: Target,
    rows: Sequence[Row],
    taker: Sequence[int],
    active_cores: int,
    timeline: bool,
) -> tuple[dict[str, int], dict[str, Words]]:
    """The fields of `timing.State` at the start of a run; arrays that need no reset come last."""
    ring = _power_of_two(target.queue_depth)
    tokens = _power_of_two(2 * target.semaphore_max + 2 * target.queue_depth + 512)
    reasons = timing.BY_TEMPLATE + len(rows)
    numerator, denominator = cycles_per_byte(target, active_cores)
    scalars = {
        "depth": target.queue_depth,
        "ring": ring,
        "tokens": tokens,
        "most": target.semaphore_max,
        "reasons": reasons,
        "latency": target.hbm.latency_cycles,
        "read_cycles": target.scalar.read_cycles,
        "cycles_num": numerator,
        "cycles_den": denominator,
        "timeline": int(timeline),
        "over_time": -1,
    }
    columns = {
        "kind": [row.kind for row in rows],
        "engine": [row.engine for row in rows],
        "sem": [row.sem for row in rows],
        "issue": [row.issue for row in rows],
        "cycles": [row.cycles for row in rows],
        "work": [row.work for row in rows],
        "address": [row.address for row in rows],
        "taker": list(taker),
    }
    arrays = {name: np.array(values, np.int64) for name, values in columns.items()}
    engines, semaphores = len(QUEUED), target.semaphores
    credits = np.zeros(semaphores, np.int64)
    credits[: len(image.credits)] = image.credits
    per_engine = (
        "issued", "started", "free", "completed", "busy", "count", "operations", "computed", "moving",
        "move_template", "move_start", "move_ready", "move_bytes", "move_address", "dirty",
    )  # fmt: skip
    arrays |= {name: np.zeros(engines, np.int64) for name in per_engine}
    queues = ("q_template", "q_time", "q_first", "q_second", "q_address", "left")
    arrays |= {name: np.zeros(engines * ring, np.int64) for name in queues}
    arrays |= {"initial": credits, "sets": credits.copy(), "takes": np.zeros(semaphores, np.int64)}
    arrays["stalls"] = np.zeros(len(Engine) * reasons, np.int64)
    # What a batch can add: its own records, and what waited in the queues before it.
    rows_of_timeline = (BATCH + engines * (ring + 1)) if timeline else 0
    arrays |= {
        "token_time": np.zeros(semaphores * tokens, np.int64),
        "token_reason": np.zeros(semaphores * tokens, np.int64),
        "take_time": np.zeros(semaphores * tokens, np.int64),
        "events": np.zeros(timing.EVENT * rows_of_timeline, np.int64),
        "stands": np.zeros(4 * timing.STAND * rows_of_timeline, np.int64),
    }
    return scalars, arrays
