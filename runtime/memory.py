"""HBM as the emulated machine sees it: a few arrays at made-up addresses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

GARBAGE = 0xFF
"""What every byte of SRAM holds at the start: NaN in every float format that has one."""


@dataclass(frozen=True)
class Segment:
    """A stretch of HBM.

    Attributes:
        address: HBM address of the first byte.
        data: the bytes, 1-D uint8 and contiguous; stores go straight into it.
        label: the name of the array in messages.
        writable: False for arrays that a kernel must not store to.
    """

    address: int
    data: Bytes
    label: str
    writable: bool = True

    @property
    def end(self) -> int:
        """One past the last byte's address."""
        return self.address + self.data.size


class Memory:
    """The segments of a launch. They must not overlap in address; empty ones are never found."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self.segments = sorted(
            (s for s in segments if s.data.size), key=lambda segment: segment.address
        )
        for before, after in zip(self.segments, self.segments[1:]):
            if before.end > after.address:
                raise ValueError(f"HBM segments {before.label} and {after.label} overlap")
        self._starts = [segment.address for segment in self.segments]

    def find(self, address: int) -> Segment | None:
        """The segment that holds the byte at `address`."""
        position = bisect_right(self._starts, address) - 1
        if position >= 0 and address < self.segments[position].end:
            return self.segments[position]
        return None
