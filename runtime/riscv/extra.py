"""The packages of the extra `riscv`, imported when the engine is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dsalang._backend.errors import LaunchError


def _need(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise LaunchError(
            f"the RISC-V engine needs {package}, which cannot be imported: {error}",
            hint="pip install dsalang[riscv]",
        ) from None


def unicorn() -> Any:
    """The module `unicorn`. Raises LaunchError naming the extra when it is not installed."""
    return _need("unicorn", "unicorn")


def registers() -> Any:
    """The module `unicorn.riscv_const`."""
    return _need("unicorn.riscv_const", "unicorn")


def elffile() -> Any:
    """The module `elftools.elf.elffile`."""
    return _need("elftools.elf.elffile", "pyelftools")
