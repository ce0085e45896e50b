"""What is loaded next comes near while vectors are computed.

A load waits for the host's memory, and only a few hundred instructions after it can run meanwhile. So a load notes
where the next one probably is (`helpers.py`), and vector instructions fetch a line of that into the second cache with each vector.
Too early for the first one, which holds what is computed on.
"""

from __future__ import annotations

from .abi import LINE_BYTES, Slot
from .build import I32, I64, PTR, VOID, Int, Value, constant
from .unit import Unit

_VECTORS = 16
"""A row of fewer vectors fetches nothing."""


class Fetch:
    """Lines that one row of `vectors` vectors fetches: one with each, as long as there are some."""

    def __init__(self, unit: Unit, vectors: int) -> None:
        self.unit, self.bytes = unit, vectors * LINE_BYTES
        self.worth = vectors >= _VECTORS
        if self.worth:
            self.ahead: Value = unit.load(I64, unit.context, 8 * Slot.AHEAD)
            self.left: Value = unit.load(I64, unit.context, 8 * Slot.AHEAD_BYTES)
            self.start: Value = unit.b.inttoptr(self.ahead, PTR)

    def line(self, offset: Int) -> None:
        """Fetch the line at an offset; where none is left the one behind the last, which costs nothing again."""
        if not self.worth:
            return
        unit = self.unit
        near = unit.at(self.start, unit.math("umin", unit.i64(offset), self.left))
        read, second_cache, data = (constant(I32, n) for n in (0, 2, 1))
        unit.call("llvm.prefetch.p0", VOID, near, read, second_cache, data)

    def end(self) -> None:
        """Note what has been fetched."""
        if not self.worth:
            return
        unit = self.unit
        done = unit.math("umin", constant(I64, self.bytes), self.left)
        unit.put(Slot.AHEAD, unit.b.add(self.ahead, done))
        unit.put(Slot.AHEAD_BYTES, unit.b.sub(self.left, done))
