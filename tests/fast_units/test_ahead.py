"""What loads say of the next one, and what vector instructions fetch of it."""

from __future__ import annotations

import numpy as np

from dsalang._backend.isa.vprog import MicroOp, VectorProgram
from dsalang._backend.llvm.host.abi import Slot

from .harness import PAGE, Case, Machine, call_unit, compile_units

ROW = 2048
"""Bytes of the loads."""


def load(rows: int = 1, apart: int = ROW) -> Case:
    """A load of rows of 512 fp32 each."""
    fields = {
        "elem_bytes": 4, "ndim": 2, "size": (rows, ROW // 4), "hbm": PAGE, "hbm_stride": (apart, 4),
        "sram": 0, "sram_stride": (ROW, 4), "lo": (0, 0), "hi": (rows, ROW // 4),
    }  # fmt: skip
    arrays = [np.zeros(1 << 16, np.uint8)]
    return Case("dma.load", fields, {"hbm": PAGE}, None, np.zeros(1 << 14, np.uint8), arrays, argument=0)  # fmt: skip


def ahead(machine: Machine) -> tuple[int, int]:
    """Where the next load is taken to be, from the array's start on, and its bytes."""
    place, left = (int(machine.context[slot]) for slot in (Slot.AHEAD, Slot.AHEAD_BYTES))
    return place - machine.arrays[0].ctypes.data, left


def after(case: Case, *starts: int) -> Machine:
    """A machine after loads from these bytes of the array."""
    (unit,) = compile_units([case])
    machine = Machine(case)
    for start in starts:
        machine.values[0] = PAGE + start
        assert call_unit(unit, machine) == 0
    return machine


def test_the_next_load_is_as_far_as_the_last_one() -> None:
    assert ahead(after(load(), 0, ROW)) == (2 * ROW, ROW)
    assert ahead(after(load(), 0, 3 * ROW)) == (6 * ROW, ROW)
    assert ahead(after(load(), 4 * ROW, 3 * ROW)) == (2 * ROW, ROW)
    assert ahead(after(load(2), 0, 2 * ROW)) == (4 * ROW, 2 * ROW)


def test_what_is_not_worth_a_guess() -> None:
    assert ahead(after(load(), 0))[1] == 0  # the first one
    assert ahead(after(load(), ROW, ROW))[1] == 0  # the same again
    apart = after(load(2, 2 * ROW), 0, ROW)
    assert int(apart.context[Slot.AHEAD]) == 0  # rows that are apart


def test_vectors_fetch_what_is_left_once() -> None:
    row = ROW // 4
    ops = (
        MicroOp("in", "fp32", "fp32", 0, (), 0),
        MicroOp("fadd", "fp32", "fp32", 0, (0, 0), 0),
        MicroOp("out", "fp32", "fp32", 0, (0,), 0),
    )
    fields = {
        "program": 0, "ndim": 1, "size": (row,), "inputs": 1, "scalars": 0, "outputs": 1,
        "in": (0,), "in_stride": (4, 0, 0, 0), "scalar": (0,), "out": (4096,),
        "out_stride": (4, 0, 0, 0),
    }  # fmt: skip
    program = VectorProgram(("fp32",), (), ("fp32",), ops)
    case = Case("vexec", fields, {}, program, np.zeros(1 << 14, np.uint8))
    (unit,) = compile_units([case])
    machine, there = Machine(case), np.zeros(1 << 14, np.uint8)
    start = there.ctypes.data
    machine.context[Slot.AHEAD], machine.context[Slot.AHEAD_BYTES] = start, ROW + 512
    for left in (512, 512):  # what is left then is too little for a row
        assert call_unit(unit, machine) == 0
        assert int(machine.context[Slot.AHEAD]) == start + ROW
        assert int(machine.context[Slot.AHEAD_BYTES]) == left
