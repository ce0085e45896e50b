"""Runs an image as the chip would: its RISC-V binary issues, the reference engine's units execute."""

from __future__ import annotations

from collections.abc import Sequence

from dsalang._backend.image.model import Image
from dsalang._backend.target import Target

from ..memory import Memory
from ..reference import engine as reference
from ..reference.options import Options
from ..report import Run
from .core import OnCall, UnicornCore
from .elf_file import read_program


def run(
    image: Image,
    target: Target,
    args: Sequence[int],
    grid: tuple[int, int, int],
    memory: Memory,
    options: Options | None = None,
    on_call: OnCall | None = None,
) -> Run:
    """Run a kernel over a grid, as `reference.engine.run` does, with Unicorn as the control core.

    Args:
        on_call: told every call of every core and the instructions retired on that core so far.

    Raises:
        LaunchError: unicorn or pyelftools is missing; the arguments do not fit the image.
        ImageError: the image is malformed, or two ELF readers disagree about it.
        DeviceError: the emulated machine stopped.
    """
    program = read_program(image)

    def control(core: int, cores: int) -> UnicornCore:
        return UnicornCore(program, (*args, *grid), core, cores, on_call)

    return reference.run(image, target, args, grid, memory, options, control)
