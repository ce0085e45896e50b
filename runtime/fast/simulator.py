"""The timing code as host code, compiled once per machine, and the memory it works on."""

from __future__ import annotations

import hashlib
import threading
import weakref
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dsalang._backend import formats
from dsalang._backend.isa.engines import QUEUED, Engine
from dsalang._backend.llvm.host import abi

from ..jitter import first_state
from . import timing
from .context import BATCH, LOG_RECORDS, Entry
from .loader import Code
from .objects import ObjectCache, load_or_make
from .outline import Outline, cycles_per_byte

Words = npt.NDArray[np.int64]
Rows = list[Words]
"""Batches of a timeline's rows."""
_FIELDS = {name: str(kind) for name, kind in timing.State.__annotations__.items()}
SLOT = {name: number for number, name in enumerate(_FIELDS)}
"""Position of each field of `timing.State`: an int itself, or the address of an array."""


def address(cache: ObjectCache | None) -> int:
    """The address of `timing.simulate` as host code."""
    return code(cache).symbols["simulate"]


def code(cache: ObjectCache | None) -> Code:
    """The object of the timing code and of the functions that images share; `symbols` has their addresses."""
    if not _CODE:
        here, units = Path(timing.__file__).parent, Path(abi.__file__).parent
        files = [
            here / f"{name}.py"
            for name in ("timing", "repeats", "timing_state", "common", "context")
        ]
        files += [units / f"{name}.py" for name in _UNIT_FILES]
        files += [units.parent / "ir.py", Path(formats.__file__)]
        key = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        _CODE.append(load_or_make(cache, f"timing-{key}", _module_text, SHARED, True))
    return _CODE[0]


SHARED = (
    "simulate", "dsa.flush", "dsa.simulate", "dsa.service", "dsa.trace_read", "dsa.append", "dsa.done", "dsa.moved",
    "dsa.execute", "dsa.address", "dsa.transfer", "dsa.compute",
    "dsa.broken", "dsa.print", "dsa.assert", "dsa.fault", "dsa.operand", "dsa.open", "dsa.fill", "dsa.large",
    "dsa.stream", "dsa.ahead", "dsa.place", "dsa.read", "dsa.no_read", "dsa.status", "dsa.finish", "dsa.put_back",
    "dsa.rows", "dsa.columns.2", "dsa.columns.4", "dsa.reduce.fsum", "dsa.reduce.fmaxnum",
    "dsa.block", "dsa.packing.fp32", "dsa.packing.fp16", "dsa.packing.bf16", "dsa.scheduled",
)  # fmt: skip
"""Names of the object's functions."""


_UNIT_FILES = (
    "abi", "build", "copies", "folds", "helpers", "host", "lanes", "mma_block", "reduce_rows", "shared", "transpose",
)  # fmt: skip
"""Files of the host code's generator that the object is made from."""

_CODE: list[Code] = []


def _module_text() -> str:
    from dsalang._backend.llvm.subset import module_text

    from . import common

    text = common.text() + module_text(timing.State, timing.FUNCTIONS, timing.INLINED)
    # the head is the compiler's to write
    return "\n".join(line for line in text.splitlines() if not line.startswith("target "))


class Layout:
    """Where things are in a core's memory, and what they are when a run begins.

    A memory is one block of words: the context, the fields and arrays of the timing state, traffic. `start` is
    the part that a run resets, but for addresses; `size` all of it.
    """

    def __init__(self, outline: Outline, active_cores: int, segments: int, timeline: bool) -> None:
        scalars, arrays = _state(outline, active_cores, timeline)
        self.state = Entry.SIZE + outline.operands
        self.labels = len(outline.arguments) + max(1, segments)
        self.traffic = self.state + len(_FIELDS)
        self.arrays: dict[str, int] = {}
        self.history = self.traffic + 2 * self.labels
        at = self.history + len(outline.arguments)
        for name, values in arrays.items():
            self.arrays[name] = at
            at += max(1, values.size)
        self.size = at
        # Rings of tokens and rows of the timeline need no reset, and they are the bulk.
        kept = min(self.arrays[name] for name in _UNRESET)
        self.start: Words = np.zeros(kept, np.int64)
        for name, value in scalars.items():
            self.start[self.state + SLOT[name]] = value
        for name, values in arrays.items():
            if name not in _UNRESET:
                self.start[self.arrays[name] : self.arrays[name] + values.size] = values
        self.start[Entry.WATCHED] = int(timeline)


class Log:
    """The records of a run that has ended. They stay where they were made until that memory is used again."""

    def __init__(self, memory: Memory) -> None:
        self._memory: Memory | None = memory
        self._count = int(memory.words[Entry.LOGGED])
        self._kept: Words | None = None
        self._lock = threading.Lock()

    def words(self) -> Words | None:
        """The records; None when they were more than are kept."""
        with self._lock:
            if self._memory is not None and self._count <= LOG_RECORDS:
                self._kept = self._memory.log[: self._count * timing.RECORD].copy()
            self._memory = None
            return self._kept


class Memory:
    """Everything one core's host code works on but SRAM. `words` is the block, `log` the trace."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.words: Words = np.zeros(layout.size, np.int64)
        self.address: int = self.words.__array_interface__["data"][0]
        self.log: Words = np.empty(timing.RECORD * LOG_RECORDS, np.int64)
        self._lent: weakref.ref[Log] | None = None
        trace: int = self.log.__array_interface__["data"][0]
        self.start = layout.start.copy()
        for name, offset in layout.arrays.items():
            self.start[layout.state + SLOT[name]] = self.pointer(offset)
        self.start[layout.state + SLOT["trace"]] = trace
        self.start[Entry.STATE] = self.pointer(layout.state)
        self.start[Entry.TRACE] = self.start[Entry.TRACE_AT] = self.start[Entry.LOG] = trace
        self.start[Entry.TRACE_END] = trace + 8 * timing.RECORD * BATCH
        self.start[Entry.LOG_END] = trace + self.log.nbytes
        self.start[Entry.TRAFFIC] = self.pointer(layout.traffic)
        self.start[abi.Slot.HISTORY] = self.pointer(layout.history)
        self.reset()

    def set_noise(self, seed: int, core: int) -> None:
        """Begin the sequence of a core's late transfers."""
        self.words[self.layout.state + SLOT["noise"]] = first_state(seed, core)

    def pointer(self, offset: int) -> int:
        """The address of a word."""
        return self.address + 8 * offset

    def reset(self) -> None:
        """Bring everything back to the start of a run."""
        if self._lent is not None and (log := self._lent()) is not None:
            log.words()  # somebody may still ask for them
        self._lent = None
        self.words[: self.start.size] = self.start

    def result(self) -> Words:
        """A copy of what a run leaves."""
        words: Words = self.words[: self.start.size].copy()
        return words

    def records(self) -> Log:
        """All records of the run that has ended."""
        log = Log(self)
        self._lent = weakref.ref(log)
        return log

    def stuck_record(self, at: int) -> tuple[int, int]:
        """Template (or timing.WAIT) and first number of record `at` of the last batch."""
        trace = int(self.words[self.layout.state + SLOT["trace"]])
        start = (trace - int(self.words[Entry.LOG])) // 8 + at * timing.RECORD
        return int(self.log[start]), int(self.log[start + 1])

    def take_timeline(self, events: Rows, stands: Rows) -> None:
        """Move the rows of the timeline made since the last time to the ends of lists."""
        for name, counter, width, kept in (
            ("events", "event_count", timing.EVENT, events),
            ("stands", "stand_count", timing.STAND, stands),
        ):
            count = self.view.value(counter)
            kept.append(self.view.array(name, count * width).reshape(count, width).copy())
            self.words[self.layout.state + SLOT[counter]] = 0

    @property
    def view(self) -> View:
        """The timing state as it is now."""
        return View(self.layout, self.words)


class View:
    """Words of a memory, or a copy of them, by the names of the timing state."""

    def __init__(self, layout: Layout, words: Words) -> None:
        self._layout, self._words = layout, words

    def value(self, name: str) -> int:
        """A field of the timing state."""
        return int(self._words[self._layout.state + SLOT[name]])

    def array(self, name: str, count: int) -> Words:
        """The first entries of an array of the timing state."""
        start = self._layout.arrays[name]
        return self._words[start : start + count]


_UNRESET = (
    "events", "stands", "token_time", "token_reason", "take_time", "images", "marks", "spare",
)  # fmt: skip
_IMAGE_WORDS = 2048
"""The most that is compared to see whether the machine repeats itself."""


def _power_of_two(least: int) -> int:
    return 1 << max(0, (least - 1).bit_length())


def _state(
    outline: Outline, active_cores: int, timeline: bool
) -> tuple[dict[str, int], dict[str, Words]]:
    """The fields of `timing.State` at the start of a run; arrays that need no reset come last."""
    machine = outline.machine
    depth, semaphores = machine["queue_depth"], machine["semaphores"]
    ring = _power_of_two(depth)
    tokens = _power_of_two(2 * machine["semaphore_max"] + 2 * depth + 512)
    reasons = timing.BY_TEMPLATE + len(outline.columns["kind"])
    numerator, denominator = cycles_per_byte(machine, active_cores)
    scalars = {
        "depth": depth,
        "ring": ring,
        "tokens": tokens,
        "semaphores": semaphores,
        "most": machine["semaphore_max"],
        "reasons": reasons,
        "latency": machine["latency_cycles"],
        "jitter": machine["jitter_cycles"],
        "read_cycles": machine["read_cycles"],
        "cycles_num": numerator,
        "cycles_den": denominator,
        "timeline": int(timeline),
        "over_time": -1,
        "room": _IMAGE_WORDS,
    }
    columns = {**outline.columns, "taker": outline.taker}
    arrays = {name: np.array(values, np.int64) for name, values in columns.items()}
    engines = len(QUEUED)
    credits = np.zeros(semaphores, np.int64)
    credits[: len(outline.credits)] = outline.credits
    per_engine = (
        "issued", "started", "free", "completed", "busy", "count", "operations", "computed", "moving",
        "move_template", "move_start", "move_ready", "move_bytes", "move_address",
    )  # fmt: skip
    arrays |= {name: np.zeros(engines, np.int64) for name in per_engine}
    queues = ("q_template", "q_time", "q_first", "q_second", "q_address", "left")
    arrays |= {name: np.zeros(engines * ring, np.int64) for name in queues}
    arrays |= {"initial": credits, "sets": credits.copy(), "takes": np.zeros(semaphores, np.int64)}
    arrays["stalls"] = np.zeros(len(Engine) * reasons, np.int64)
    # What a batch can add: its own records, and what waited in the queues before it.
    rows_of_timeline = (BATCH + engines * (ring + 1)) if timeline else 0
    arrays |= {
        "seen": np.zeros(semaphores, np.int64),
        "sems": np.zeros(semaphores, np.int64),
        "images": np.zeros(2 * _IMAGE_WORDS, np.int64),
        "marks": np.zeros(21 + len(Engine) * reasons + semaphores, np.int64),
        "spare": np.zeros(5 * max(depth, machine["semaphore_max"]), np.int64),
        "token_time": np.zeros(semaphores * tokens, np.int64),
        "token_reason": np.zeros(semaphores * tokens, np.int64),
        "take_time": np.zeros(semaphores * tokens, np.int64),
        "events": np.zeros(timing.EVENT * rows_of_timeline, np.int64),
        "stands": np.zeros(4 * timing.STAND * rows_of_timeline, np.int64),
    }
    return scalars, arrays
