"""The SRAM of an emulated core in the host's memory. Slots that share a place (`llvm/host/sharing.py`) are where the first is."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from dsalang._backend.llvm.host.abi import LINE_BYTES
from dsalang._backend.llvm.host.sharing import granule

from ..memory import GARBAGE

Bytes = npt.NDArray[np.uint8]
_HUGE_PAGE = 2 << 20


class Scratchpad:
    """`size` bytes; `shared` rings are given by address, slots, bytes from slot to slot.

    Attributes:
        data: the bytes, from a cache line on: vectors across two of them take twice as long.
        places: what to add to an address, per 2 ** `place_bits` bytes and beyond the last one.
    """

    def __init__(self, size: int, shared: Sequence[Sequence[int]]) -> None:
        self.data: Bytes = _memory(max(1, size))
        self.size, self.shared = size, shared
        self.place_bits = granule(shared).bit_length() - 1 if shared else 63
        self.places = _places(size, shared, self.place_bits)
        # Later runs find what the one before left: filling megabytes takes longer than many kernels run, and it is
        # the reference engine that finds reads of what nobody wrote.
        self.data.fill(GARBAGE)

    def unfolded(self) -> Bytes:
        """The bytes where the core has them, a copy if need be; slots of a shared ring all hold what the latest one holds."""
        found = self.data[: self.size]
        if self.shared:
            found = found.copy()
        for address, slots, stride in self.shared:
            for slot in range(1, slots):
                at = address + slot * stride
                room = found[at : at + stride]
                room[:] = self.data[address : address + room.size]
        return found


def _memory(size: int) -> Bytes:
    """Bytes from a cache line on. Megabytes are in huge pages where the system has them: the rows of a tile are in more
    pages than the host looks up fast.
    """
    huge = size >= _HUGE_PAGE // 2 and hasattr(mmap, "MADV_HUGEPAGE")
    line = _HUGE_PAGE if huge else LINE_BYTES
    if huge:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # shared memory may have no huge pages
        memory = mmap.mmap(-1, -(-size // line) * line + line, flags)
        with suppress(OSError):  # a kernel without
            memory.madvise(mmap.MADV_HUGEPAGE)
        raw = np.frombuffer(memory, np.uint8)
    else:
        raw = np.empty(size + line, np.uint8)
    start = -int(raw.__array_interface__["data"][0]) % line
    return raw[start : start + size]


def _places(size: int, shared: Sequence[Sequence[int]], bits: int) -> npt.NDArray[np.int64]:
    last = -(-size >> bits)
    table = np.zeros(last + 1, np.int64)
    for address, slots, stride in shared:
        for slot in range(1, slots):
            start = address + slot * stride
            table[start >> bits : (start + stride) >> bits] = -slot * stride
    table[last] = 0
    return table
