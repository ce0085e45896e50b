"""The mailbox between a driver and the process that plays its device, in shared memory.

`Command` and `Reply` have C's layout; `tests/driver/worker_driver.c` declares the same. A byte over a socket is
the doorbell: one to the worker for each command, one back for its reply. Behind the mailbox, from the next
multiple of 4096 on, is the device's memory, whose first byte has address `MEMORY_BASE`.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum

MAGIC = 0x44534131
MEMORY_BASE = 0x1_0000_0000
BLOCKS = 1024
ARGUMENTS = 256
MESSAGE_BYTES = 4096
_PAGE = 4096


class Operation(IntEnum):
    """What a command asks for."""

    HELLO = 1
    LOAD = 2
    LAUNCH = 3


class Status(IntEnum):
    """What functions of a driver return; `dsa_driver.h` has the same names."""

    OK = 0
    ABI = -1
    BAD_ARGUMENT = -2
    NO_MEMORY = -3
    BAD_IMAGE = -4
    KERNEL = -5
    TIMEOUT = -6
    LOST = -7
    CORRUPT = -8


class Block(ctypes.Structure):
    """A live allocation."""

    _fields_ = (("address", ctypes.c_uint64), ("bytes", ctypes.c_uint64))


class Command(ctypes.Structure):
    """What the driver asks of the worker."""

    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("sequence", ctypes.c_uint32),
        ("operation", ctypes.c_uint32),
        ("image", ctypes.c_uint32),
        ("memory_bytes", ctypes.c_uint64),
        ("image_address", ctypes.c_uint64),
        ("image_bytes", ctypes.c_uint64),
        ("grid", ctypes.c_uint32 * 3),
        ("arguments", ctypes.c_uint32),
        ("blocks", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("argument", ctypes.c_int64 * ARGUMENTS),
        ("block", Block * BLOCKS),
    )


class Reply(ctypes.Structure):
    """What the worker answers. From `bytes_per_microsecond` to `target_digest` only HELLO is answered."""

    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("sequence", ctypes.c_uint32),
        ("status", ctypes.c_int32),
        ("image", ctypes.c_uint32),
        ("microseconds", ctypes.c_double),
        ("bytes_per_microsecond", ctypes.c_double),
        ("cores", ctypes.c_uint32),
        ("clock_mhz", ctypes.c_uint32),
        ("target", ctypes.c_char * 64),
        ("target_digest", ctypes.c_char * 32),
        ("message", ctypes.c_char * MESSAGE_BYTES),
    )


class Mailbox(ctypes.Structure):
    """The beginning of the shared memory."""

    _fields_ = (("command", Command), ("reply", Reply))


MEMORY_OFFSET = -(-ctypes.sizeof(Mailbox) // _PAGE) * _PAGE
