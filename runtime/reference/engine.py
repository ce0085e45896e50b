"""Runs an image on the reference engine: the readable definition of the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from dsalang._backend.errors import ImageError, LaunchError
from dsalang._backend.image.model import Image
from dsalang._backend.target import Target

from ..memory import Memory
from ..report import Run
from ..rv64 import ControlCore
from ..rv64_blocks import Block
from ..stats import CoreStats
from .core import Control, CoreRun
from .options import Options
from .prepare import prepare
from .races import Clocks
from .schedule import check_grid
from .state import CoreState

MakeControl = Callable[[int, int], Control]


def run(
    image: Image,
    target: Target,
    args: Sequence[int],
    grid: tuple[int, int, int],
    memory: Memory,
    options: Options | None = None,
    control: MakeControl | None = None,
) -> Run:
    """Run a kernel over a grid; stores go to the memory's arrays in place.

    Cores run one after another, core 0 first: they share nothing but HBM, whose bandwidth is split evenly.

    Args:
        args: one i64 per kernel argument: address, sign-extended integer, or float bits.
        grid: programs along each axis.
        control: makes the control core `(core, cores)`; None runs the image's RV64 code.

    Raises:
        ImageError: the image does not fit the target or is malformed.
        LaunchError: the arguments do not fit the image.
        DeviceError: the emulated machine stopped, with the kernel's source line.
    """
    options = options or Options()
    prepared = prepare(image, target)
    if len(args) != len(image.arguments):
        raise LaunchError(
            f"kernel {image.name!r} takes {len(image.arguments)} arguments, not {len(args)}"
        )
    check_grid(image, grid)
    if control is None and not image.code:
        raise ImageError(f"image {image.name!r} has no code for the control core")
    active = max(1, min(target.cores, prod(grid)))
    blocks: dict[int, Block] = {}
    finished: list[CoreStats] = []
    for core in range(active):
        machine: Control
        if control is None:
            machine = ControlCore(image, (*args, *grid), core, active, blocks)
        else:
            machine = control(core, active)
        state = CoreState(
            image,
            tuple(args),
            memory,
            Clocks(),
            options.check_races and options.functional,
            options.check_init,
        )
        if options.kept is not None and options.kept.restore(core, state.sram):
            state.initialised[options.kept.start : options.kept.stop] = 1
        finished.append(CoreRun(prepared, target, machine, state, options, core, active).run())
        if options.kept is not None:
            options.kept.save(core, state.sram)
    return Run(image, target, tuple(finished))
