"""What is loaded next comes near while vectors are computed.

A load waits for the host's memory, and only a few hundred instructions after it can run meanwhile. So a load notes
where the next one probably is (`helpers.py`), and vector instructions fetch a line of that into the second cache with each vector.
Too early for the first one, which holds what is computed on.
"""

from __future__ import annotations

from . import helpers
from .abi import LINE_BYTES
from .build import I32, I64, VOID, Int, Value, constant
from .unit import Unit

_VECTORS = 16
"""A row of fewer vectors fetches nothing."""


class Fetch:
    """Lines that one row of `vectors` vectors fetches, one with each; `near` is memory that is near already."""

    def __init__(self, unit: Unit, vectors: int, near: Value) -> None:
        self.unit = unit
        self.start: Value = None
        if vectors >= _VECTORS:
            bytes_ = constant(I64, vectors * LINE_BYTES)
            self.start = unit.b.call(helpers.ahead(unit.module), [unit.context, bytes_, near])

    def line(self, offset: Int) -> None:
        """Fetch the line at an offset."""
        if self.start is not None:
            read, second_cache, data = (constant(I32, n) for n in (0, 2, 1))
            where = self.unit.at(self.start, offset)
            self.unit.call("llvm.prefetch.p0", VOID, where, read, second_cache, data)
