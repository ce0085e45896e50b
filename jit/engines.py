"""The engines that DSA_EMULATOR chooses from, each ready to run one launch again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from . import knobs
from .arguments import Arguments
from .folder import open_cache
from .launch import Grid, argument_bits, memory_of

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image
    from dsalang._backend.target import Target
    from dsalang._runtime.fast.engine import Program
    from dsalang._runtime.report import Run

_PROGRAMS = 256
_programs: OrderedDict[tuple[str, bool], Program] = OrderedDict()


def launcher(
    find_image: Callable[[], Image],
    target: Target,
    key: str,
    arguments: Arguments,
    grid: Grid,
    timeline: bool = False,
) -> Callable[[], Run]:
    """A launch of an image with all that can be done beforehand done.

    Args:
        find_image: gets the image, compiled when need be. Host code that is in the cache needs none.
        key: the cache key of the image.
        timeline: keep every instruction's times, however many there are.
    """
    from dsalang._runtime.report import Run

    if 0 in grid:
        image = find_image()
        return lambda: Run(image, target, ())
    memory = memory_of(arguments)
    name = knobs.EMULATOR.get()
    if name in ("fast", "timing"):
        from dsalang._runtime.fast.engine import Options as FastOptions
        from dsalang._runtime.fast.engine import UnsuitedError

        try:
            program = program_of(find_image, target, key, name == "fast")
            values = _values(arguments, [name for name, _ in program.outline.arguments])
            return program.launch(values, grid, memory, FastOptions(timeline=timeline)).run
        except UnsuitedError:
            name = "reference" if name == "fast" else name
    from dsalang._runtime.reference.engine import run
    from dsalang._runtime.reference.options import Options

    options = Options(
        functional=name != "timing",
        adversarial_seed=knobs.SEED.get() if name == "adversarial" else None,
        seed=knobs.SEED.get(),
    )
    image = find_image()
    values = _values(arguments, [argument.name for argument in image.arguments])
    if name == "riscv":
        from dsalang._runtime.riscv.engine import run as run_riscv

        return partial(run_riscv, image, target, values, grid, memory, options)
    return partial(run, image, target, values, grid, memory, options)


def _values(arguments: Arguments, names: Sequence[str]) -> tuple[int, ...]:
    return tuple(argument_bits(arguments, name) for name in names)


def program_of(
    find_image: Callable[[], Image], target: Target, key: str, functional: bool = True
) -> Program:
    """The host code of an image, kept for the next time. Raises UnsuitedError."""
    from dsalang._runtime.fast.engine import Program

    found = _programs.get((key, functional))
    if found is None:
        cache = None if knobs.DUMP.get() else open_cache()
        found = Program.found(cache, key, target, find_image, functional)
        if found is None:
            found = Program(find_image(), target, cache, key, functional)
        _programs[key, functional] = found
        if len(_programs) > _PROGRAMS:
            _programs.popitem(last=False)
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
