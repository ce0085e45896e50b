"""The interface between the host code of instructions and the engine that calls it.

Each template of an image becomes a function `i64 unit(i8 *sram, i64 *values, i64 *context)`: it does what the
instruction does with the run-time operands `values` (one i64 per open field, as the glue passes them) and returns 0, or a
fault code. `context` is an array of i64 that belongs to one emulated core.

An access belongs to the segment of the template's kernel argument (`Template.hbm_arg`), where that is known, else to the
segment of its lowest byte, as in the reference engine. Units use the C library's malloc, free, memcpy, memset, fmodf and fmod.
"""

from __future__ import annotations

from enum import IntEnum

LINE_BYTES = 64
"""A cache line. `sram` should start at one: units work at any address, but vectors that cross lines take twice as long."""


class Slot(IntEnum):
    """Entries of `context`."""

    SEGMENTS = 0  # address of the segment table
    SEGMENT_COUNT = 1
    SRAM_BYTES = 2  # bytes of SRAM that may be touched (the image's)
    BURST_BYTES = 3  # out, DMA: bytes of HBM bursts that the transfer took, as cost.dma_bytes gives
    FAULT_ADDRESS = 4  # out, after a fault: the HBM or SRAM byte address
    FAULT_BYTES = 5  # out, after a fault: bytes of the access there
    FAULT_VALUE = 6  # out, after a fault: an operand's value, where that is the trouble
    FAULT_FIELD = 7  # out, after a fault: number of the open field, where that is the trouble
    READ_BYTES = 8  # out, DMA: bytes that went from HBM (payload)
    WRITTEN_BYTES = 9  # out, DMA: bytes that went to HBM (payload)
    SEGMENT = 10  # out, DMA: number of the segment that was touched last, -1 for none
    ARGUMENTS = 11  # address of the kernel's arguments, one i64 each
    PLACES = 12  # address of a table: what to add to an SRAM address, per granule (`sharing.py`) and beyond the last one
    PLACE_BITS = 13  # binary logarithm of the granule; 63 where all addresses are as they are: all entries are the first one
    HISTORY = 14  # address of an array: per kernel argument, the HBM address of the latest load through it
    AHEAD = 15  # address in the host's memory where the next tile to be loaded probably is, what has been fetched left out
    AHEAD_BYTES = 16  # bytes of it that are worth fetching beforehand
    SIZE = 20


class Segment(IntEnum):
    """Entries of one row of the segment table (rows sorted by start)."""

    START = 0
    END = 1
    WRITABLE = 2
    DELTA = 3  # what to add to an HBM address for the host's address of that byte
    SIZE = 4


class Fault(IntEnum):
    """What a unit returns."""

    NONE = 0
    HBM_BOUNDS = 1  # an access outside every segment, or across the end of one
    READ_ONLY = 2  # a store to a segment that is not writable
    SRAM_BOUNDS = 3
    OPERAND = 4  # a run-time operand is out of the field's range
    OVERFLOW = 5  # an int32 accumulator overflowed
