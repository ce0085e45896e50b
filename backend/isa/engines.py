"""Who executes instructions. Apart from the table, so that a launch of a kernel that is compiled need not load it."""

from __future__ import annotations

from enum import IntEnum


class Engine(IntEnum):
    """Who executes an instruction. CORE is the scalar control core, the others have in-order queues."""

    LD = 0
    ST = 1
    MM = 2
    VE = 3
    CORE = 4


QUEUED = (Engine.LD, Engine.ST, Engine.MM, Engine.VE)
