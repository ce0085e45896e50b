"""Runs images as host code: functional and timed in one go, cores of the machine spread over threads."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from dsalang._backend.errors import LaunchError
from dsalang._backend.llvm.host.abi import Segment
from dsalang._backend.target import Target

from ..memory import Memory as Hbm
from ..report import Run
from . import objects, outline, simulator, timing
from .context import BATCH, RUN, Status
from .outline import Outline
from .outline import UnsuitedError as UnsuitedError
from .results import FastRun, Result, Source
from .simulator import Layout, Memory, Rows, Words
from .worker import Worker

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from dsalang._backend.image.model import Image

    from ..residency import Kept
    from ..stats import CoreStats
    from .plan import Row

_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
_SIMULATE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_SWITCH_SECONDS = 0.05
"""How often the main thread looks up from waiting, so that Ctrl-C gets through."""


class Options(NamedTuple):
    """How to run.

    Attributes:
        timeline: keep every instruction's times.
        threads: limits host threads (None: all).
        kept: what is in the SRAM of cores from an earlier launch, and what they leave in it.
        seed: of the jitter that the target itself has.
    """

    timeline: bool = False
    threads: int | None = None
    write: Callable[[str], None] = print
    kept: Kept | None = None
    seed: int = 0


DEFAULT = Options()


class Program:
    """An image as host code. Threads may run it at the same time.

    Args:
        cache: where host code is kept between processes.
        key: what the image was made from, for that cache; None takes the image itself.
        functional: move data and compute; False gives times only, takes every element of gathers, scatters
            and atomics as valid, and fails where the kernel's control flow reads a value back.
    """

    def __init__(
        self,
        image: Image,
        target: Target,
        cache: objects.ObjectCache | None = None,
        key: str | None = None,
        functional: bool = True,
    ) -> None:
        from . import glue, plan  # not loaded where the host code is found

        self.image, self.target, self.rows = image, target, plan.rows_of(image, target)
        taker: tuple[int, ...] = ()
        if image.timing is not None:
            _ = self.schedule  # is kept by the machine
        else:
            self.glue = glue.rewrite(image.glue, len(self.rows))
            taker = plan.takers(self.rows, self.glue, image.credits, target.semaphores)
        key = key or hashlib.sha256(image.file).hexdigest()
        self._set_up(
            outline.outline_of(image, target, self.rows, taker), target, cache, key, functional
        )

    def _set_up(
        self,
        figures: Outline,
        target: Target,
        cache: objects.ObjectCache | None,
        key: str,
        functional: bool,
    ) -> None:
        self.outline, self.target, self.cache, self.functional = figures, target, cache, functional
        self._object_key = _object_key(key, functional)
        self._layouts: dict[tuple[int, int, bool], Layout] = {}
        self._idle: dict[int, list[Worker]] = {}
        self._lock = threading.Lock()

    @staticmethod
    def found(
        cache: objects.ObjectCache | None,
        key: str,
        target: Target,
        image: Callable[[], Image],
        functional: bool = True,
    ) -> Program | None:
        """The program of an image whose host code is in the cache; `image` gets the image when it is needed."""
        code = objects.find(
            cache, _object_key(key, functional), (RUN,), simulator.code(cache).symbols
        )
        if code is None:
            return None
        program = _Found.__new__(_Found)
        program.find_image = image
        program._set_up(Outline.unpack(code.note), target, cache, key, functional)
        return program

    @cached_property
    def entry(self) -> Callable[[int, int, int, int], int]:
        """`dsa.run` as a C function; compiled when first asked for."""

        def make() -> str:
            from . import fixed_code, program  # only who compiles needs them

            if self.outline.fixed:
                return fixed_code.build(self.image, self.target, self.rows, self.functional)
            return program.build(self.image, self.target, self.rows, self.glue, self.functional)

        note, shared = self.outline.pack(), simulator.code(self.cache).symbols
        self._code = objects.load_or_make(
            self.cache, self._object_key, make, (RUN,), note=note, known=shared
        )
        return _ENTRY(self._code.symbols[RUN])

    @cached_property
    def schedule(self) -> tuple[CoreStats, ...]:
        """Of an image with a static schedule what each core does when."""
        from . import fixed

        return fixed.times_of(self.image, self.target, self.rows)

    def load(self) -> None:
        """Have all host code compiled and loaded."""
        _ = self.entry
        simulator.address(self.cache)

    def run(
        self,
        args: Sequence[int],
        grid: tuple[int, int, int],
        memory: Hbm,
        options: Options = DEFAULT,
    ) -> Run:
        """Run over a grid; stores go to the memory's arrays in place. Errors as in the reference engine."""
        return self.launch(args, grid, memory, options).run()

    def launch(
        self,
        args: Sequence[int],
        grid: tuple[int, int, int],
        memory: Hbm,
        options: Options = DEFAULT,
    ) -> Launch:
        """A run made ready; the arrays must live when it runs. Raises LaunchError."""
        expected = len(self.outline.arguments)
        if len(args) != expected:
            raise LaunchError(
                f"kernel {self.outline.name!r} takes {expected} arguments, not {len(args)}"
            )
        if self.outline.grid and tuple(self.outline.grid) != grid:
            _check_grid(self.image, grid)
        return Launch(self, tuple(args), grid, memory, options)

    def replay(self, records: Words, active: int, seed: int, core: int) -> tuple[Rows, Rows]:
        """The timeline of a core's run whose records are all there: rows of events and of stalls."""
        memory = Memory(self.layout(active, 0, True))
        memory.set_noise(seed, core)
        simulate = _SIMULATE(simulator.address(self.cache))
        events, stands = Rows(), Rows()
        batch = BATCH * timing.RECORD
        for start in range(0, max(1, records.size), batch):
            part = records[start : start + batch]
            memory.log[: part.size] = part
            last = start + batch >= records.size
            simulate(memory.pointer(memory.layout.state), part.size // timing.RECORD, int(last))
            memory.take_timeline(events, stands)
        return events, stands

    def layout(self, active: int, segments: int, timeline: bool) -> Layout:
        """The layout of a core's memory."""
        key = (active, segments, timeline)
        with self._lock:
            if key not in self._layouts:
                self._layouts[key] = Layout(self.outline, active, segments, timeline)
            return self._layouts[key]

    @contextmanager
    def workers(self, layout: Layout, count: int) -> Iterator[list[Worker]]:
        """Workers that nobody else uses meanwhile."""
        with self._lock:
            idle = self._idle.setdefault(id(layout), [])
            taken = [idle.pop() for _ in range(min(count, len(idle)))]
        while len(taken) < count:
            taken.append(Worker(self, Memory(layout), simulator.address(self.cache)))
        try:
            yield taken
        finally:
            with self._lock:
                idle.extend(taken)


def _object_key(key: str, functional: bool) -> str:
    return f"{'image' if functional else 'timing'}-{outline.FORMAT}-{key}"


class _Found(Program):
    """A program whose image is found when it is needed."""

    find_image: Callable[[], Image]

    @cached_property
    def image(self) -> Image:  # type: ignore[override]
        """The image."""
        return self.find_image()

    @cached_property
    def rows(self) -> tuple[Row, ...]:  # type: ignore[override]
        """The image's templates."""
        from . import plan

        return plan.rows_of(self.image, self.target)


class Launch:
    """A program with arguments and a grid; `run` may be called again and again."""

    def __init__(
        self,
        program_: Program,
        args: tuple[int, ...],
        grid: tuple[int, int, int],
        memory: Hbm,
        options: Options,
    ) -> None:
        self.program, self.args, self.hbm, self.options = program_, args, memory, options
        figures = program_.outline
        self.active = active = max(1, min(figures.machine["cores"], grid[0] * grid[1] * grid[2]))
        values = [*args, *grid]
        self.values = np.array([v & (1 << 64) - 1 for v in values], np.uint64)
        self.address: int = self.values.__array_interface__["data"][0]
        self.segments = segment_table(memory)
        limit = options.threads or os.cpu_count() or 1
        self.threads = 1 if figures.ordered else min(limit, active)
        self.layout = program_.layout(active, len(self.segments), options.timeline)
        arguments = [name for name, _ in figures.arguments]
        labels = [*arguments, *(segment.label for segment in memory.segments)]
        self.source = Source(program_, self.layout, labels, active, options.seed)

    def run(self) -> Run:
        """Run; stores go to the memory's arrays in place."""
        with self.program.workers(self.layout, self.threads) as workers:
            if self.threads == 1:
                results = [self.core(workers[0], core) for core in range(self.active)]
            else:
                results = self.parallel(workers)
        return FastRun(self.source, results)

    def core(self, worker: Worker, core: int) -> Result:
        """Run one core."""
        worker.start(core, self.address, self.segments, self.args, self.hbm, self.options)
        kept = self.options.kept
        if kept is not None:
            kept.restore(core, worker.sram)
        status = self.program.entry(worker.memory.address, self.address, core, self.active)
        if status != Status.DONE or worker.memory.view.value("over_time") >= 0:
            worker.check(status)
        if kept is not None:
            kept.save(core, worker.sram)
        return Result.of(worker)

    def parallel(self, workers: list[Worker]) -> list[Result]:
        """Cores on several threads, of which this is one: waking others takes as long as a small core's work.

        The error of the lowest core counts, as when they run in order.
        """
        from concurrent.futures import FIRST_EXCEPTION, wait  # single-core runs do without

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

        futures = [_pool().submit(work, worker) for worker in workers[1:]]
        try:
            work(workers[0])
            for error in errors.values():
                if not isinstance(error, Exception):
                    raise error  # Ctrl-C, which only this thread hears
            while wait(futures, _SWITCH_SECONDS, FIRST_EXCEPTION).not_done:
                pass
        except BaseException:
            with lock:
                errors.setdefault(self.active, KeyboardInterrupt())
            while wait(futures, _SWITCH_SECONDS).not_done:
                for worker in workers:
                    worker.stop()
            raise
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
        from concurrent.futures import ThreadPoolExecutor

        _threads = ThreadPoolExecutor(os.cpu_count() or 1, "dsalang")
    return _threads


def _forget_threads() -> None:
    global _threads
    _threads = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)  # threads stay behind


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


def _check_grid(image: Image, grid: tuple[int, int, int]) -> None:
    from ..reference.schedule import check_grid  # not loaded where the host code is found

    check_grid(image, grid)


def run(
    image: Image,
    target: Target,
    args: Sequence[int],
    grid: tuple[int, int, int],
    memory: Hbm,
    options: Options = DEFAULT,
) -> Run:
    """Run a kernel over a grid, as `reference.engine.run` does."""
    _check_grid(image, grid)
    return program_of(image, target).run(args, grid, memory, options)
