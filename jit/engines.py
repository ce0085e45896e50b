"""The engines that DSA_EMULATOR chooses from, each ready to run one launch again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dsalang._runtime.residency import Sram

from . import knobs
from .arguments import Arguments
from .first_run import FirstRun, is_over_budget, is_small, spent
from .folder import open_cache
from .launch import Grid, bits_of, kept_by, memory_beyond, memory_of

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image
    from dsalang._backend.target import Target
    from dsalang._runtime.fast.engine import Program
    from dsalang._runtime.memory import Memory
    from dsalang._runtime.report import Run
    from dsalang._runtime.residency import Kept

_PROGRAMS = 256
_FEW = 4
"""Kernels of a process that get host code although they have only been launched once: loading the reference engine takes
as long as making it for one or two."""
_programs: OrderedDict[tuple[str, bool], Program] = OrderedDict()


class _Launch(NamedTuple):
    """A launch that is to be made ready; knobs are as they are then, which may be long before it runs."""

    find_image: Callable[[], Image]
    target: Target
    key: str
    arguments: Arguments
    grid: Grid
    memory: Memory
    engine: str
    seed: int
    timeline: bool

    def values(self, names: Iterable[str], flag: int) -> tuple[int, ...]:
        """The words that the image gets for its arguments."""
        return bits_of(self.arguments, list(names), flag)


def launcher(
    find_image: Callable[[], Image],
    target: Target,
    key: str,
    arguments: Arguments,
    grid: Grid,
    timeline: bool = False,
    sram: Sram | None = None,
    keeps: bool = False,
) -> Callable[[], Run]:
    """A launch of an image with all that can be done beforehand done.

    Args:
        find_image: gets the image, compiled when need be. Host code that is in the cache needs none.
        key: the cache key of the image.
        timeline: keep every instruction's times, however many there are.
        sram: what earlier launches have left on the cores; None for cores that nobody else uses.
        keeps: whether the image may leave something there, too.
    """
    from dsalang._runtime.report import Run

    if 0 in grid:
        image = find_image()
        return lambda: Run(image, target, ())
    memory, engine, seed = memory_of(arguments), knobs.EMULATOR.get(), knobs.SEED.get()
    launch = _Launch(find_image, target, key, arguments, grid, memory, engine, seed, timeline)
    if keeps and find_image().residency is not None:
        return _keeping(launch, find_image(), Sram() if sram is None else sram)
    run = _engine(launch)
    if sram is None:
        return run

    def evict_and_run() -> Run:
        if sram.held:
            sram.evict(0, find_image().sram_bytes)
        return run()

    return evict_and_run


def _keeping(launch: _Launch, image: Image, cores: Sram) -> Callable[[], Run]:
    """A launch of an image that leaves something in SRAM, or finds it there."""
    sources, identity = kept_by(image, launch.arguments)
    # An engine that only times leaves no data.
    identity = (launch.engine, *identity)

    def run(flag: int, kept: Kept) -> Run:
        return _engine(launch, flag, kept)()

    return partial(cores.launch, image, identity, sources, run)


def _engine(launch: _Launch, flag: int = 1, kept: Kept | None = None) -> Callable[[], Run]:
    """A run on the engine that was asked for; `flag` is what an image that keeps something is told."""
    find_image, target, key, arguments, grid, memory, name, seed, timeline = launch
    if name in ("fast", "timing"):
        from dsalang._runtime.fast.engine import Options as FastOptions
        from dsalang._runtime.fast.engine import UnsuitedError

        small = name == "fast" and kept is None and is_small(grid, memory)
        if small and _may_be_over_soon(find_image, target, key):
            image = find_image()
            spent.setdefault(key, 0.0)
            if not image.beyond:
                values = launch.values((argument.name for argument in image.arguments), flag)
                again = partial(_engine, launch, flag)
                return FirstRun(image, target, key, values, grid, memory, seed, again)
        try:
            program = program_of(find_image, target, key, name == "fast")
            values = launch.values((name for name, _ in program.outline.arguments), flag)
            options = FastOptions(timeline=timeline, kept=kept, seed=seed)
            if program.outline.beyond:
                found = memory_beyond(arguments)
                return lambda: program.launch(values, grid, found(), options).run()
            return program.launch(values, grid, memory, options).run
        except UnsuitedError:
            name = "reference" if name == "fast" else name
    from dsalang._runtime.reference.engine import run
    from dsalang._runtime.reference.options import Options

    slow = Options(
        functional=name != "timing",
        adversarial_seed=seed if name == "adversarial" else None,
        seed=seed,
        kept=kept,
    )
    engine: Callable[..., Run] = run
    image = find_image()
    values = launch.values((argument.name for argument in image.arguments), flag)
    if name == "riscv":
        from dsalang._runtime.riscv.engine import run as run_riscv

        engine = run_riscv
    if image.beyond:
        found = memory_beyond(arguments)
        return lambda: engine(image, target, values, grid, found(), slow)
    return partial(engine, image, target, values, grid, memory, slow)


def _may_be_over_soon(find_image: Callable[[], Image], target: Target, key: str) -> bool:
    """Whether a kernel may need no host code: this process has launched it for less time than that costs, and it is nowhere.

    One that another process has compiled has been launched before; a process that launches many of them is a test run.
    """
    if not knobs.TIERED.get() or (key, True) in _programs:
        return False
    if key in spent:
        return not is_over_budget(key)
    cache = open_cache()
    if cache is None or not cache.has(key):
        return True
    return len(_programs) >= _FEW and _host_code(find_image, target, key, True) is None


def _host_code(
    find_image: Callable[[], Image], target: Target, key: str, functional: bool
) -> Program | None:
    """The host code of an image that this process has, or the cache."""
    from dsalang._runtime.fast.engine import Program

    found = _programs.get((key, functional))
    if found is None:
        cache = None if knobs.DUMP.get() else open_cache()
        found = Program.found(cache, key, target, find_image, functional)
        if found is not None:
            _keep(key, functional, found)
    return found


def _keep(key: str, functional: bool, program: Program) -> None:
    _programs[key, functional] = program
    if len(_programs) > _PROGRAMS:
        _programs.popitem(last=False)


def program_of(
    find_image: Callable[[], Image], target: Target, key: str, functional: bool = True
) -> Program:
    """The host code of an image, kept for the next time. Raises UnsuitedError."""
    from dsalang._runtime.fast.engine import Program

    found = _host_code(find_image, target, key, functional)
    if found is None:
        cache = None if knobs.DUMP.get() else open_cache()
        found = Program(find_image(), target, cache, key, functional)
        _keep(key, functional, found)
    return found


def prepare_host(image: Image, target: Target, key: str) -> None:
    """Compile and load the host code of an image for the engine that DSA_EMULATOR names, where it has any."""
    from dsalang._runtime.fast.engine import UnsuitedError

    name = knobs.EMULATOR.get()
    if name in ("fast", "timing"):
        try:
            program_of(lambda: image, target, key, name == "fast").load()
        except UnsuitedError:
            return
