"""Which buffer an SRAM address belongs to, for messages and reports."""

from __future__ import annotations

from dsalang._backend.image.model import Image, RingInfo


def ring_at(image: Image, address: int) -> tuple[RingInfo, int] | None:
    """The ring and slot number that hold an address; of rings that share memory, one whose slot starts there."""
    found: tuple[RingInfo, int] | None = None
    for ring in image.rings:
        slot, offset = divmod(address - ring.address, max(1, ring.stride_bytes))
        if not 0 <= slot < ring.slots or offset >= ring.slot_bytes:
            continue
        if offset == 0:
            return ring, slot
        found = found or (ring, slot)
    return found


def place(image: Image, address: int) -> str:
    """The same in words.

    Rings are named by the label of their value.
    """
    at = ring_at(image, address)
    return f"slot {at[1]} of {at[0].label}" if at else "in no buffer"
