"""What the builtins mean in tile IR: one function per builtin, by family, in one table.

A lowering takes the emitter and the builtin's arguments by parameter name and gives the result.
"""

from __future__ import annotations

from collections.abc import Callable

from ..values import Operand
from . import (
    blocks,
    combine,
    control,
    creation,
    dot,
    dot_scaled,
    indexing,
    math,
    memory,
    reduce,
    shape,
)

TABLE: dict[str, Callable[..., Operand]] = {
    **creation.TABLE,
    **memory.TABLE,
    **blocks.TABLE,
    **math.TABLE,
    **reduce.TABLE,
    **shape.TABLE,
    **indexing.TABLE,
    **combine.TABLE,
    **dot.TABLE,
    **dot_scaled.TABLE,
    **control.TABLE,
}
"""Lowerings by builtin name. `range` and `static_range` are read by the parser where they stand in `for`."""
