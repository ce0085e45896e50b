"""Runs images as host code: functional and timed in one go, cores of the machine spread over threads."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dsalang._backend.errors import LaunchError
from dsalang._backend.image.model import Image
from dsalang._backend.llvm.host.abi import Segment
from dsalang._backend.target import Target

from ..memory import Memory as Hbm
from ..report import Run
from . import glue, program, simulator, timing
from .context import BATCH, Status
from .objects import ObjectCache, load_or_make
from .plan import rows_of, takers
from .results import FastRun, Result, Source
from .simulator import Memory, Rows, Words
from .worker import Worker

_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
_SIMULATE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_SWITCH_SECONDS = 0.05
"""How often the main thread looks up from waiting, so that Ctrl-C gets through."""


@dataclass(frozen=True)
class Options:
    """How to run: `timeline` keeps every instruction's times; `threads` limits host threads (None: all)."""

    timeline: bool = False
    threads: int | None = None
    write: Callable[[str], None] = print


DEFAULT = Options()


@dataclass(eq=False)
class Program:
    """An image as host code. Threads may run it at the same time.

    Args:
        cache: where host code is kept between processes.
        key: what the image was made from, for that cache; None takes the image itself.
        functional: move data and compute; False gives times only, takes every element of gathers, scatters
            and atomics as valid, and fails where the kernel's control flow reads a value back.
    """

    image: Image
    target: Target
    cache: ObjectCache | None = None
    key: str | None = None
    functional: bool = True
    _idle: dict[tuple[int, int, bool], list[Worker]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        image, target = self.image, self.target
        self.rows = rows_of(image, target)
        waited = glue.rewrite(image.glue, len(self.rows)).waited
        self.taker = takers(self.rows, waited, target.semaphores)
        ops = {row.name for row in self.rows}
        # Atomics of several cores take turns, and printed lines come core by core.
        self.ordered = "dma.atomic" in ops or bool(image.prints)
        self.names = [argument.name for argument in image.arguments]

    @cached_property
    def entry(self) -> Callable[[int, int, int, int], int]:
        """`dsa.run` as a C function; compiled when first asked for."""
        key = self.key or hashlib.sha256(self.image.file).hexdigest()

        def make() -> str:
            return program.build(self.image, self.target, self.rows, self.functional)

        kind = "image" if self.functional else "timing"
        self._code = load_or_make(self.cache, f"{kind}-{key}", make, (program.RUN,))
        return _ENTRY(self._code.symbols[program.RUN])

    def run(
        self,
        args: Sequence[int],
        grid: tuple[int, int, int],
        memory: Hbm,
        options: Options = DEFAULT,
    ) -> Run:
        """Run over a grid; stores go to the memory's arrays in place. Errors as in the reference engine."""
        image = self.image
        if len(args) != len(image.arguments):
            raise LaunchError(
                f"kernel {image.name!r} takes {len(image.arguments)} arguments, not {len(args)}"
            )
        active = max(1, min(self.target.cores, grid[0] * grid[1] * grid[2]))
        launch = _Launch(self, tuple(args), grid, memory, active, options)
        results = launch.run()
        labels = [*self.names, *(segment.label for segment in memory.segments)]

        def replay(records: Words) -> tuple[Rows, Rows]:
            return self.replay(records, active)

        return FastRun(
            image, self.target, Source(self.rows, launch.sample, labels, replay), results
        )

    def replay(self, records: Words, active: int) -> tuple[Rows, Rows]:
        """The timeline of a run whose records are all there: rows of events and of stalls."""
        memory = Memory(self.image, self.target, self.rows, self.taker, active, 0, True)
        simulate = _SIMULATE(simulator.address(self.cache))
        events, stands = Rows(), Rows()
        batch = BATCH * timing.RECORD
        for start in range(0, max(1, records.size), batch):
            part = records[start : start + batch]
            memory.log[: part.size] = part
            last = start + batch >= records.size
            simulate(memory.pointer(memory.state), part.size // timing.RECORD, int(last))
            memory.take_timeline(events, stands)
        return events, stands

    def worker(self, active: int, segments: int, timeline: bool) -> Worker:
        """A worker that nobody uses."""
        key = (active, segments, timeline)
        with self._lock:
            idle = self._idle.get(key)
            if idle:
                return idle.pop()
        memory = Memory(self.image, self.target, self.rows, self.taker, active, segments, timeline)
        simulate = simulator.address(self.cache)
        return Worker(self.image, self.target, self.rows, memory, simulate)

    def give_back(self, worker: Worker, active: int, segments: int, timeline: bool) -> None:
        """Let others use a worker."""
        with self._lock:
            self._idle.setdefault((active, segments, timeline), []).append(worker)


class _Launch:
    """One run of a program."""

    def __init__(
        self,
        program_: Program,
        args: tuple[int, ...],
        grid: tuple[int, int, int],
        memory: Hbm,
        active: int,
        options: Options,
    ) -> None:
        self.program, self.args, self.hbm = program_, args, memory
        self.active, self.options = active, options
        values = [*args, *grid]
        self.values = np.array([v & (1 << 64) - 1 for v in values], np.uint64)
        self.address: int = self.values.__array_interface__["data"][0]
        self.segments = segment_table(memory)
        self.sample: Memory
        self.workers: list[Worker] = []

    def run(self) -> list[Result]:
        """The results of all cores, by core."""
        limit = self.options.threads or os.cpu_count() or 1
        threads = 1 if self.program.ordered else min(limit, self.active)
        if threads == 1:
            worker = self.take()
            try:
                return [self.core(worker, core) for core in range(self.active)]
            finally:
                self.release()
        return self.parallel(threads)

    def take(self) -> Worker:
        """A worker of this launch's own."""
        worker = self.program.worker(self.active, len(self.segments), self.options.timeline)
        self.workers.append(worker)
        self.sample = worker.memory
        return worker

    def release(self) -> None:
        """Give the workers back."""
        for worker in self.workers:
            self.program.give_back(worker, self.active, len(self.segments), self.options.timeline)
        self.workers = []

    def core(self, worker: Worker, core: int) -> Result:
        """Run one core."""
        worker.start(core, self.address, self.segments, self.args, self.hbm, self.options.write)
        status = self.program.entry(worker.memory.address, self.address, core, self.active)
        if status != Status.DONE or worker.memory.value("over_time") >= 0:
            worker.check(status)
        return Result.of(worker)

    def parallel(self, threads: int) -> list[Result]:
        """Cores on several threads. The error of the lowest core counts, as when they run in order."""
        _ = self.program.entry  # compiled once, not by every thread
        results: list[Result | None] = [None] * self.active
        errors: dict[int, BaseException] = {}
        pending = iter(range(self.active))
        lock = threading.Lock()

        def work(worker: Worker) -> None:
            while True:
                with lock:
                    core = next(pending, None)
                    if core is None or errors:
                        return
                try:
                    results[core] = self.core(worker, core)
                except BaseException as error:
                    with lock:
                        errors[core] = error
                    return

        workers = [self.take() for _ in range(threads)]
        futures = [_pool().submit(work, worker) for worker in workers]
        try:
            while wait(futures, _SWITCH_SECONDS, FIRST_EXCEPTION).not_done:
                pass
        except BaseException:
            with lock:
                errors.setdefault(self.active, KeyboardInterrupt())
            while wait(futures, _SWITCH_SECONDS).not_done:
                for worker in workers:
                    worker.stop()
            raise
        finally:
            self.release()
        if errors:
            raise errors[min(errors)]
        return [result for result in results if result is not None]


def segment_table(memory: Hbm) -> npt.NDArray[np.int64]:
    """The segments as units read them."""
    table = np.zeros((len(memory.segments), Segment.SIZE), np.int64)
    for row, segment in zip(table, memory.segments):
        host: int = segment.data.__array_interface__["data"][0]
        row[:] = (segment.address, segment.end, segment.writable, host - segment.address)
    return table


_threads: ThreadPoolExecutor | None = None


def _pool() -> ThreadPoolExecutor:
    global _threads
    if _threads is None:
        _threads = ThreadPoolExecutor(os.cpu_count() or 1, "dsalang")
    return _threads


_PROGRAMS = 64
_programs: OrderedDict[int, Program] = OrderedDict()


def program_of(image: Image, target: Target) -> Program:
    """The program of an image, kept for the next time."""
    found = _programs.get(id(image))
    if found is None or found.image is not image or found.target != target:
        found = _programs[id(image)] = Program(image, target)
        if len(_programs) > _PROGRAMS:
            _programs.popitem(last=False)
    return found


def run(
    image: Image,
    target: Target,
    args: Sequence[int],
    grid: tuple[int, int, int],
    memory: Hbm,
    options: Options = DEFAULT,
) -> Run:
    """Run a kernel over a grid, as `reference.engine.run` does."""
    return program_of(image, target).run(args, grid, memory, options)
