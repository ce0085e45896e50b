"""Executes the glue of an image: RV64IM code with custom-0 calls, the control core's real binary.

Basic blocks are translated to Python functions once per image and cached. `ControlCore.run` is a
generator: it yields each custom-0 call as `(funct3, rs1, rs2)` and takes the call's result, so that the
emulated machine can stall the core for as long as it likes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from dsalang._backend.errors import DeviceError, ImageError
from dsalang._backend.image.model import Image
from dsalang._backend.isa.rv64 import Decoded, decode_rv64

STACK_BYTES = 1 << 16
_MASK = (1 << 64) - 1
_RETURN = _MASK - 15  # The kernel's return address; no code is there.
_SP, _RA, _A0 = 2, 1, 10

Call = tuple[int, int, int]
Step = Callable[[list[int], bytearray], int]


def _s64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _s32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _quotient(a: int, b: int) -> int:
    """C's quotient: towards zero. The divisor is not 0."""
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def _div(a: int, b: int) -> int:
    return -1 if b == 0 else _quotient(a, b)


def _rem(a: int, b: int) -> int:
    return a if b == 0 else a - b * _quotient(a, b)


def _divu(a: int, b: int) -> int:
    return -1 if b == 0 else a // b


def _remu(a: int, b: int) -> int:
    return a if b == 0 else a % b


# Registers hold unsigned 64-bit values; {a} and {b} are rs1 and rs2 (or the immediate), and every
# result is masked by the caller.
_BINARY: dict[str, str] = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "sll": "{a} << ({b} & 63)",
    "slt": "+(({a} ^ SIGN) < (({b}) & MASK ^ SIGN))",
    "sltu": "+({a} < (({b}) & MASK))",
    "xor": "{a} ^ {b}",
    "srl": "{a} >> ({b} & 63)",
    "sra": "s64({a}) >> ({b} & 63)",
    "or": "{a} | {b}",
    "and": "{a} & {b}",
    "mul": "{a} * {b}",
    "mulh": "s64({a}) * s64({b}) >> 64",
    "mulhsu": "s64({a}) * {b} >> 64",
    "mulhu": "{a} * {b} >> 64",
    "div": "div(s64({a}), s64({b}))",
    "divu": "divu({a}, {b})",
    "rem": "rem(s64({a}), s64({b}))",
    "remu": "remu({a}, {b})",
    "addw": "s32({a} + {b})",
    "subw": "s32({a} - {b})",
    "sllw": "s32({a} << ({b} & 31))",
    "srlw": "s32(({a} & 0xFFFFFFFF) >> ({b} & 31))",
    "sraw": "s32({a}) >> ({b} & 31)",
    "mulw": "s32({a} * {b})",
    "divw": "s32(div(s32({a}), s32({b})))",
    "divuw": "s32(divu({a} & 0xFFFFFFFF, {b} & 0xFFFFFFFF))",
    "remw": "s32(rem(s32({a}), s32({b})))",
    "remuw": "s32(remu({a} & 0xFFFFFFFF, {b} & 0xFFFFFFFF))",
}
_IMMEDIATE = {
    "addi": "add", "slti": "slt", "sltiu": "sltu", "xori": "xor", "ori": "or", "andi": "and",
    "slli": "sll", "srli": "srl", "srai": "sra", "addiw": "addw", "slliw": "sllw",
    "srliw": "srlw", "sraiw": "sraw",
}  # fmt: skip
_BRANCH = {
    "beq": "{a} == {b}",
    "bne": "{a} != {b}",
    "blt": "({a} ^ SIGN) < ({b} ^ SIGN)",
    "bge": "({a} ^ SIGN) >= ({b} ^ SIGN)",
    "bltu": "{a} < {b}",
    "bgeu": "{a} >= {b}",
}
_LOADS = {"lb": "<b", "lh": "<h", "lw": "<i", "ld": "<Q", "lbu": "<B", "lhu": "<H", "lwu": "<I"}
_STORES = {"sb": ("<B", 0xFF), "sh": ("<H", 0xFFFF), "sw": ("<I", 0xFFFFFFFF), "sd": ("<Q", _MASK)}

_NAMES: dict[str, object] = {
    "MASK": _MASK, "SIGN": 1 << 63, "s64": _s64, "s32": _s32,
    "div": _div, "rem": _rem, "divu": _divu, "remu": _remu,
    **{f"get_{name}": struct.Struct(code).unpack_from for name, code in _LOADS.items()},
    **{f"put_{name}": struct.Struct(code).pack_into for name, (code, _) in _STORES.items()},
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A translated basic block: `step` gives the next pc; `call` is (rd, funct3, rs1, rs2) of its last word."""

    step: Step
    call: tuple[int, int, int, int] | None = None


@dataclass
class _Source:
    """Python source of a block under construction. Registers become locals, written back at the end."""

    base: int
    lines: list[str] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)

    def read(self, register: int) -> str:
        if register == 0:
            return "0"
        self.used.add(register)
        return f"x{register}"

    def write(self, register: int, expression: str) -> None:
        if register:
            self.used.add(register)
            self.written.add(register)
            self.lines.append(f"x{register} = ({expression}) & MASK")

    def emit(self, d: Decoded) -> None:
        """Translate an instruction that is not a jump, a branch or a call."""
        name = d.mnemonic
        if name in _BINARY:
            self.write(d.rd, _BINARY[name].format(a=self.read(d.rs1), b=self.read(d.rs2)))
        elif name in _IMMEDIATE:
            text = _BINARY[_IMMEDIATE[name]]
            self.write(d.rd, text.format(a=self.read(d.rs1), b=f"({d.imm})"))
        elif name in _LOADS:
            where = f"({self.read(d.rs1)} + {d.imm - self.base}) & MASK"
            self.write(d.rd, f"get_{name}(m, {where})[0]")
        elif name in _STORES:
            where = f"({self.read(d.rs1)} + {d.imm - self.base}) & MASK"
            self.lines.append(f"put_{name}(m, {where}, {self.read(d.rs2)} & {_STORES[name][1]:#x})")
        elif name == "lui":
            self.write(d.rd, str(d.imm))
        elif name != "fence":
            raise ImageError(f"the control core has no instruction {name}")

    def function(self, result: str) -> Step:
        body = [f"x{r} = x[{r}]" for r in sorted(self.used)] + self.lines
        body += [f"x[{r}] = x{r}" for r in sorted(self.written)] + [f"return {result}"]
        text = "def step(x, m):\n" + "".join(f"    {line}\n" for line in body)
        scope = dict(_NAMES)
        exec(compile(text, "<rv64 block>", "exec"), scope)
        step: Step = scope["step"]  # type: ignore[assignment]
        return step


def translate(code: bytes, base: int, pc: int) -> Block:
    """Translate the basic block at `pc` of code that starts at address `base`."""
    source = _Source(base)
    while True:
        offset = pc - base
        if offset % 4 or not 0 <= offset <= len(code) - 4:
            raise ImageError(f"the control core jumped to {pc:#x}, which is outside its code")
        word = int.from_bytes(code[offset : offset + 4], "little")
        d = decode_rv64(word)
        if d is None:
            raise ImageError(f"the control core met an unknown instruction {word:#010x} at {pc:#x}")
        if d.mnemonic.startswith("dsa."):
            return Block(source.function(str(pc + 4)), (d.rd, word >> 12 & 7, d.rs1, d.rs2))
        if d.mnemonic in _BRANCH:
            test = _BRANCH[d.mnemonic].format(a=source.read(d.rs1), b=source.read(d.rs2))
            return Block(source.function(f"{pc + d.imm} if {test} else {pc + 4}"))
        if d.mnemonic == "jal":
            source.write(d.rd, str(pc + 4))
            return Block(source.function(str(pc + d.imm)))
        if d.mnemonic == "jalr":
            # The target is read first: rd and rs1 may be the same register.
            source.lines.append(f"target = ({source.read(d.rs1)} + {d.imm}) & {_MASK - 1}")
            source.write(d.rd, str(pc + 4))
            return Block(source.function("target"))
        if d.mnemonic == "auipc":
            source.write(d.rd, str(pc + d.imm))
        else:
            source.emit(d)
        pc += 4


class ControlCore:
    """One core's control processor with its private memory: code, argument block, stack.

    Args:
        image: its `code`, `code_address` and `entry` are used.
        args: one i64 per kernel argument, then the three grid sizes.
        core, cores: this core's number and how many run.
        blocks: translated blocks by pc, to be shared by the cores of a launch.
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
        block = struct.pack(f"<{len(args)}Q", *(value & _MASK for value in args))
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
            return struct.unpack_from(f"<{count}q", self._memory, (address - self._base) & _MASK)
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
                block = blocks[pc] = translate(self._code, self._base, pc)
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
                    x[rd] = result & _MASK
