"""A control core played by Unicorn: every instruction but custom-0 is executed by somebody else's emulator.

Unicorn does not know custom-0 and reports it as an illegal instruction, interrupt 2, with the pc already past
it. That is where `run` yields the call, as `rv64.ControlCore` does, and goes on with its result in rd.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from typing import Any

from dsalang._backend.errors import DeviceError, ImageError
from dsalang._backend.isa.rv64 import CALLS, CUSTOM_0

from ..rv64 import STACK_BYTES
from . import extra
from .elf_file import BareProgram

ILLEGAL_INSTRUCTION = 2
_PAGE = 4096
_MASK = (1 << 64) - 1

Call = tuple[int, int, int]
OnCall = Callable[[int, Call, int], None]
"""Told the core, its call, and how many of its instructions have retired up to the call, it included."""


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


class UnicornCore:
    """One core's control processor: code and constants, behind them the arguments, then the stack.

    Args:
        program: what to run.
        args: one i64 per kernel argument, then the three grid sizes.
        core, cores: this core's number and how many run.
        on_call: an observer of calls.

    Attributes:
        retired: instructions executed so far; a custom-0 call counts as one.
    """

    def __init__(
        self,
        program: BareProgram,
        args: Sequence[int],
        core: int,
        cores: int,
        on_call: OnCall | None = None,
    ) -> None:
        self._unicorn, self._names = extra.unicorn(), extra.registers()
        u = self._unicorn
        self._uc: Any = u.Uc(u.UC_ARCH_RISCV, u.UC_MODE_RISCV64)
        self._core, self._on_call, self.retired = core, on_call, 0
        base = program.address // _PAGE * _PAGE
        code_end = program.address + len(program.memory)
        args_at = base + _pages(code_end - base)
        block = struct.pack(f"<{len(args)}Q", *(value & _MASK for value in args))
        stack_at = args_at + _pages(len(block) + 1)  # a page also for no arguments
        # A page of its own, behind one that is not mapped. Emulation ends before anything there executes.
        self._return = stack_at + STACK_BYTES + _PAGE
        self._uc.mem_map(base, args_at - base, u.UC_PROT_READ | u.UC_PROT_EXEC)
        self._uc.mem_map(args_at, stack_at - args_at, u.UC_PROT_READ)
        self._uc.mem_map(stack_at, STACK_BYTES, u.UC_PROT_READ | u.UC_PROT_WRITE)
        self._uc.mem_map(self._return, _PAGE, u.UC_PROT_READ | u.UC_PROT_EXEC)
        self._uc.mem_write(program.address, program.memory)
        self._uc.mem_write(args_at, block)
        self._pc = program.entry
        for register, value in ((1, self._return), (2, stack_at + STACK_BYTES), (10, args_at),
                                (11, core), (12, cores)):  # fmt: skip
            self._write(register, value)
        self._interrupt: int | None = None
        self._uc.hook_add(u.UC_HOOK_INTR, self._stop)
        self._uc.hook_add(u.UC_HOOK_BLOCK, self._count)

    def _stop(self, uc: Any, number: int, _: object) -> None:
        self._interrupt = number
        uc.emu_stop()

    def _count(self, _uc: Any, _address: int, size: int, _: object) -> None:
        # Blocks are straight-line code, entered at the top and left at the end.
        self.retired += size // 4

    def _read(self, register: int) -> int:
        return int(self._uc.reg_read(self._names.UC_RISCV_REG_X0 + register))

    def _write(self, register: int, value: int) -> None:
        self._uc.reg_write(self._names.UC_RISCV_REG_X0 + register, value & _MASK)

    def values(self, address: int, count: int) -> tuple[int, ...]:
        """`count` signed 64-bit values from the core's memory: the operands of a call."""
        try:
            return struct.unpack(f"<{count}q", self._uc.mem_read(address, 8 * count))
        except self._unicorn.UcError:
            raise DeviceError(
                f"the control core passed operands at bad address {address:#x}"
            ) from None

    def run(self) -> Generator[Call, int, None]:
        """Run the kernel; yields custom-0 calls and takes their results. Ends when the kernel returns."""
        while True:
            self._interrupt = None
            try:
                self._uc.emu_start(self._pc, self._return)
            except self._unicorn.UcError as error:
                where = self._uc.reg_read(self._names.UC_RISCV_REG_PC)
                raise DeviceError(
                    f"the control core stopped in the code at {where:#x}: {error}"
                ) from None
            self._pc = int(self._uc.reg_read(self._names.UC_RISCV_REG_PC))
            if self._interrupt is None and self._pc == self._return:
                return
            rd, call = self._call()
            if self._on_call is not None:
                self._on_call(self._core, call, self.retired)
            result = yield call
            if rd:
                self._write(rd, result)

    def _call(self) -> tuple[int, Call]:
        """The custom-0 instruction that has just trapped: rd and the call."""
        at = self._pc - 4
        word = int.from_bytes(self._uc.mem_read(at, 4), "little")
        number = word >> 12 & 7
        known = word & 0x7F == CUSTOM_0 and word >> 25 == 0 and number < len(CALLS)
        if self._interrupt != ILLEGAL_INSTRUCTION or not known:
            raise ImageError(f"the control core met an unknown instruction {word:#010x} at {at:#x}")
        return word >> 7 & 31, (number, self._read(word >> 15 & 31), self._read(word >> 20 & 31))
