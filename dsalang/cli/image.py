"""`dsa objdump`: what a device image holds."""

from __future__ import annotations

import argparse
from pathlib import Path

from dsalang._backend.errors import UserError
from dsalang._backend.image.elf import load
from dsalang._backend.image.objdump import objdump

from .compile import Commands


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    p = commands.add_parser(
        "objdump",
        help="disassemble a device image",
        description="Show an image: arguments, SRAM map, semaphores, instructions, vector programs, code.",
    )
    p.add_argument("image", type=Path, help="an image file, from `dsa compile --emit image`")
    p.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the image."""
    try:
        data = options.image.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {options.image}: {error.strerror}") from None
    print(objdump(load(data)), end="")
    return 0
