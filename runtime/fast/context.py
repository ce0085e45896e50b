"""What the host code of an image finds in memory: the context of a core, one i64 per entry."""

from __future__ import annotations

from enum import IntEnum

from dsalang._backend.llvm.host.abi import Slot

RUN = "dsa.run"
"""The function of an image's host code that runs a core."""


class Entry(IntEnum):
    """Entries behind those that units know (`abi.Slot`)."""

    SRAM = Slot.SIZE  # address of the scratchpad
    TRACE = Slot.SIZE + 1  # address of the batch of records that is being made
    TRACE_AT = Slot.SIZE + 2  # address of the next record
    TRACE_END = Slot.SIZE + 3
    STATE = Slot.SIZE + 4  # address of the timing state
    SIMULATE = Slot.SIZE + 5  # address of `timing.simulate`
    SERVICE = Slot.SIZE + 6  # address of the function that calls Python with a Service
    STATUS = Slot.SIZE + 7  # a Status; anything but 0 ends the run
    DETAIL = Slot.SIZE + 8  # FAULT: a Fault; ASSERT: its number; READ: the SRAM address
    TEMPLATE = Slot.SIZE + 9  # FAULT: the template
    FORMAT = Slot.SIZE + 10  # READ: the format's code
    STOP = Slot.SIZE + 11  # set by another thread to end the run
    BUDGET = Slot.SIZE + 12  # work until Python is asked whether to go on
    TRAFFIC = Slot.SIZE + 13  # address of pairs (read, written): per argument, then per segment
    WATCHED = Slot.SIZE + 14  # 1: Python wants the timeline after each batch
    FIRST = Slot.SIZE + 15  # operands of a service, and its results
    SECOND = Slot.SIZE + 16
    LOG = Slot.SIZE + 17  # address of the first record that is kept
    LOG_END = Slot.SIZE + 18
    LOGGED = Slot.SIZE + 19  # records so far
    SIZE = Slot.SIZE + 20


class Status(IntEnum):
    """Why a run ended."""

    DONE = 0
    FAULT = 1
    STUCK = 2
    ASSERT = 3
    STOPPED = 4
    READ = 5
    RAISED = 6  # Python raised in a service
    NO_DATA = 7  # the control core wants data of a run without


class Service(IntEnum):
    """What host code asks of Python; a result other than 0 ends the run."""

    POLL = 0
    PRINT = 1
    TIMELINE = 2
    COST = 3


POLL_WORK = 1 << 26
"""Work between two polls, in bytes moved and operations: some milliseconds."""
BATCH = 4096
"""Records of the trace between two runs of the timing code."""
LOG_RECORDS = 8 * BATCH
"""Records kept after a run; a run of no more can show its timeline afterwards."""
