"""Slots that can be one place for whoever runs instructions in the order of issue, one after the other.

A ring has several slots so that engines can work at the same time. An emulator that executes an instruction when it is
issued is done with a slot when the ring turns to the next; with all slots in one place, the tiles that
it works on stay in the host's first cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .abi import LINE_BYTES

if TYPE_CHECKING:  # a launch that finds its host code loads no images
    from ...image.model import Image, RingInfo


class Shared(NamedTuple):
    """A ring whose slots may all be where its first one is."""

    address: int
    slots: int
    stride_bytes: int

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.address + self.slots * self.stride_bytes


def shared_slots(image: Image) -> tuple[Shared, ...]:
    """Rings of the image whose slots may share a place: nobody looks back at an earlier slot, or shares the memory.

    A static schedule issues instructions in another order than the program's, so there are none.
    """
    if image.timing is not None:
        return ()
    found = []
    for ring, apart in zip(image.rings, _apart(image.rings)):
        several = ring.slots > 1 and ring.turns == 1 and not ring.kept
        aligned = ring.address % LINE_BYTES == 0 and ring.stride_bytes % LINE_BYTES == 0
        if several and aligned and apart:
            found.append(Shared(ring.address, ring.slots, ring.stride_bytes))
    return tuple(found)


def granule(shared: Sequence[Sequence[int]]) -> int:
    """The largest power of two of which all addresses and strides of the rings are multiples; 0 without rings."""
    bits = 0
    for address, _, stride in shared:
        bits |= address | stride
    return bits & -bits


def _apart(rings: Sequence[RingInfo]) -> list[bool]:
    """Per ring whether no other one has bytes of it."""
    apart = [True] * len(rings)
    last, reach = -1, 0  # the ring that reaches furthest so far, and how far
    for k in sorted(range(len(rings)), key=lambda k: rings[k].address):
        ring = rings[k]
        end = ring.address + ring.slots * ring.stride_bytes
        if last >= 0 and ring.address < reach and end > ring.address:
            apart[k] = apart[last] = False
        if end > reach:
            last, reach = k, end
    return apart
