"""What a kernel is asked to keep in SRAM."""

from __future__ import annotations

from dataclasses import dataclass

FLAG = "(load)"
"""The name of the argument that is added to kernels that keep arrays; no parameter is called so."""


@dataclass(frozen=True)
class Resident:
    """What a kernel is to keep in SRAM.

    Attributes:
        loops: whether loads that loops repeat may be done once, before them.
        arrays: names of pointer arguments whose tiles stay from launch to launch.
        grid: the sizes of the grid that it is compiled for; only matters with arrays.
        top: where the bytes that stay end; 0 is the end of the SRAM.
        limit: where all other SRAM that the kernel uses ends at the latest; 0 is the end of the SRAM.
    """

    loops: bool = True
    arrays: tuple[str, ...] = ()
    grid: tuple[int, int, int] = (0, 0, 0)
    top: int = 0
    limit: int = 0


AUTOMATIC = Resident()
"""Nothing was asked for."""
