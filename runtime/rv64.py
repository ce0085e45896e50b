"""Executes the glue of an image: RV64IM code with custom-0 calls, the control core's real binary.

`ControlCore.run` is a
generator: it yields each custom-0 call as `(funct3, rs1, rs2)` and takes the call's result, so that the
emulated machine can stall the core for as long as it likes.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Sequence

from dsalang._backend.errors import DeviceError
from dsalang._backend.image.model import Image

from .rv64_blocks import MASK, Block

STACK_BYTES = 1 << 16
_RETURN = MASK - 15  # The kernel's return address; no code is there.
_SP, _RA, _A0 = 2, 1, 10

Call = tuple[int, int, int]


class ControlCore:
    """One core's control processor with its private memory: code, argument block, stack.

    Args:
        image: its `code`, `code_address` and `entry` are used.
        args: one i64 per kernel argument, then the three grid sizes.
        core, cores: this core's number and how many run.
        blocks: blocks by pc, to be shared by the cores of a launch.
    """

    def __init__(
        self,
        image: Image,
        args: Sequence[int],
        core: int,
        cores: int,
        blocks: dict[int, Block] | None = None,
    ) -> None:
        self._code, self._base = image.code, image.code_address
        self._blocks: dict[int, Block] = {} if blocks is None else blocks
        block = struct.pack(f"<{len(args)}Q", *(value & MASK for value in args))
        args_at = -(-len(image.code) // 16) * 16
        size = -(-(args_at + len(block)) // 16) * 16 + STACK_BYTES
        self._memory = bytearray(size)
        self._memory[: len(image.code)] = image.code
        self._memory[args_at : args_at + len(block)] = block
        self.registers = [0] * 32
        self.registers[_RA] = _RETURN
        self.registers[_SP] = self._base + size
        self.registers[_A0 : _A0 + 3] = [self._base + args_at, core, cores]
        self._pc = self._base + image.entry

    def values(self, address: int, count: int) -> tuple[int, ...]:
        """`count` signed 64-bit values from the core's memory: the operands of a call."""
        if not count:  # a print of plain text passes no address
            return ()
        try:
            return struct.unpack_from(f"<{count}q", self._memory, (address - self._base) & MASK)
        except (struct.error, OverflowError):
            raise DeviceError(
                f"the control core passed operands at bad address {address:#x}"
            ) from None

    def run(self) -> Generator[Call, int, None]:
        """Run the kernel; yields custom-0 calls and takes their results. Ends when the kernel returns."""
        x, memory, blocks = self.registers, self._memory, self._blocks
        pc = self._pc
        while pc != _RETURN:
            block = blocks.get(pc)
            if block is None:
                block = blocks[pc] = Block(self._code, self._base, pc)
            try:
                pc = block.step(x, memory)
            except (struct.error, OverflowError, IndexError):
                raise DeviceError(
                    f"the control core accessed memory outside its own in the code at {pc:#x}"
                ) from None
            if block.call is not None:
                rd, function, rs1, rs2 = block.call
                result = yield function, x[rs1], x[rs2]
                if rd:
                    x[rd] = result & MASK
