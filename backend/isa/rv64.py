"""RV64IM plus custom-0: one decode table, for the disassembler and for executing the glue.

`decode_rv64(word)` gives mnemonic, registers and immediate; the operation of each row is in its `doc`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

CUSTOM_0 = 0x0B
"""Major opcode of the calls into the machine; funct3 selects one, a0 and a1 are the arguments, a0 the result."""

CALLS: tuple[str, ...] = ("issue", "wait", "read", "print", "assert", "at")
"""What funct3 of a custom-0 instruction calls; symbol `__dsa_<name>` in the object before linking."""

NOP = 0x00000013

REGISTERS: tuple[str, ...] = (
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
    "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
)  # fmt: skip


class Decoded(NamedTuple):
    """A decoded word. Fields that the encoding lacks are 0; `imm` is sign-extended (lui, auipc: shifted by 12)."""

    mnemonic: str
    rd: int
    rs1: int
    rs2: int
    imm: int


@dataclass(frozen=True)
class Row:
    """An instruction: `form` is one of R I S B U J H (shift, 6-bit amount) W (shift, 5-bit) N (no operands)."""

    mnemonic: str
    form: str
    opcode: int
    funct3: int = 0
    funct7: int = 0
    doc: str = ""


def _rows() -> tuple[Row, ...]:
    rows = [
        Row("lui", "U", 0x37, doc="rd = imm"),
        Row("auipc", "U", 0x17, doc="rd = pc + imm"),
        Row("jal", "J", 0x6F, doc="rd = pc + 4; pc += imm"),
        Row("jalr", "I", 0x67, 0, doc="rd = pc + 4; pc = (rs1 + imm) & ~1"),
        Row("fence", "N", 0x0F, 0, doc="nothing on this machine"),
    ]
    for name, funct3, condition in (
        ("beq", 0, "rs1 == rs2"),
        ("bne", 1, "rs1 != rs2"),
        ("blt", 4, "rs1 < rs2, signed"),
        ("bge", 5, "rs1 >= rs2, signed"),
        ("bltu", 6, "rs1 < rs2, unsigned"),
        ("bgeu", 7, "rs1 >= rs2, unsigned"),
    ):
        rows.append(Row(name, "B", 0x63, funct3, doc=f"pc += imm if {condition}"))
    for funct3, name in enumerate(("lb", "lh", "lw", "ld", "lbu", "lhu", "lwu")):
        rows.append(Row(name, "I", 0x03, funct3, doc="rd = memory[rs1 + imm]"))
    for funct3, name in enumerate(("sb", "sh", "sw", "sd")):
        rows.append(Row(name, "S", 0x23, funct3, doc="memory[rs1 + imm] = rs2"))
    for name, funct3, doc in (
        ("addi", 0, "rs1 + imm"),
        ("slti", 2, "rs1 < imm, signed"),
        ("sltiu", 3, "rs1 < imm, unsigned"),
        ("xori", 4, "rs1 ^ imm"),
        ("ori", 6, "rs1 | imm"),
        ("andi", 7, "rs1 & imm"),
    ):
        rows.append(Row(name, "I", 0x13, funct3, doc=f"rd = {doc}"))
    for form, opcode, suffix in (("H", 0x13, ""), ("W", 0x1B, "w")):
        rows.append(Row(f"slli{suffix}", form, opcode, 1, 0x00, "rd = rs1 << imm"))
        rows.append(Row(f"srli{suffix}", form, opcode, 5, 0x00, "rd = rs1 >> imm, logical"))
        rows.append(Row(f"srai{suffix}", form, opcode, 5, 0x20, "rd = rs1 >> imm, arithmetic"))
    rows.append(Row("addiw", "I", 0x1B, 0, doc="rd = low word of rs1 + imm, sign-extended"))
    register_ops = (
        ("add", 0, 0x00, "rs1 + rs2"),
        ("sub", 0, 0x20, "rs1 - rs2"),
        ("sll", 1, 0x00, "rs1 << rs2"),
        ("slt", 2, 0x00, "rs1 < rs2, signed"),
        ("sltu", 3, 0x00, "rs1 < rs2, unsigned"),
        ("xor", 4, 0x00, "rs1 ^ rs2"),
        ("srl", 5, 0x00, "rs1 >> rs2, logical"),
        ("sra", 5, 0x20, "rs1 >> rs2, arithmetic"),
        ("or", 6, 0x00, "rs1 | rs2"),
        ("and", 7, 0x00, "rs1 & rs2"),
        ("mul", 0, 0x01, "rs1 * rs2"),
        ("mulh", 1, 0x01, "high half of rs1 * rs2, signed"),
        ("mulhsu", 2, 0x01, "high half of rs1 * rs2, signed by unsigned"),
        ("mulhu", 3, 0x01, "high half of rs1 * rs2, unsigned"),
        ("div", 4, 0x01, "rs1 / rs2, signed; -1 for rs2 = 0"),
        ("divu", 5, 0x01, "rs1 / rs2, unsigned; all ones for rs2 = 0"),
        ("rem", 6, 0x01, "rs1 % rs2, signed; rs1 for rs2 = 0"),
        ("remu", 7, 0x01, "rs1 % rs2, unsigned; rs1 for rs2 = 0"),
    )
    word_ops = {"add", "sub", "sll", "srl", "sra", "mul", "div", "divu", "rem", "remu"}
    for name, funct3, funct7, doc in register_ops:
        rows.append(Row(name, "R", 0x33, funct3, funct7, f"rd = {doc}"))
        if name in word_ops:
            text = f"rd = {doc}, on the low words, sign-extended"
            rows.append(Row(f"{name}w", "R", 0x3B, funct3, funct7, text))
    for funct3, name in enumerate(CALLS):
        rows.append(Row(f"dsa.{name}", "R", CUSTOM_0, funct3, 0, f"rd = __dsa_{name}(rs1, rs2)"))
    return tuple(rows)


ROWS: tuple[Row, ...] = _rows()
BY_MNEMONIC: dict[str, Row] = {row.mnemonic: row for row in ROWS}


def _key(row: Row) -> tuple[int, int, int]:
    if row.form in "UJ":
        return row.opcode, -1, -1
    if row.form in "ISBN":
        return row.opcode, row.funct3, -1
    return row.opcode, row.funct3, row.funct7


_BY_KEY: dict[tuple[int, int, int], Row] = {_key(row): row for row in ROWS}


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


# Kernels have many words in common: those of the stack, of calls, of small constants.
@lru_cache(maxsize=4096)
def decode_rv64(word: int) -> Decoded | None:
    """The instruction of a 32-bit word, None when it is not RV64IM or custom-0.

    >>> decode_rv64(0x00150513)
    Decoded(mnemonic='addi', rd=10, rs1=10, rs2=0, imm=1)
    """
    opcode, funct3, funct7 = word & 0x7F, word >> 12 & 7, word >> 25 & 0x7F
    row = (
        _BY_KEY.get((opcode, -1, -1))
        or _BY_KEY.get((opcode, funct3, -1))
        or _BY_KEY.get((opcode, funct3, funct7 & 0x7E if opcode == 0x13 else funct7))
    )
    if row is None:
        return None
    rd, rs1, rs2 = word >> 7 & 31, word >> 15 & 31, word >> 20 & 31
    name = row.mnemonic
    if row.form == "R":
        return Decoded(name, rd, rs1, rs2, 0)
    if row.form == "I":
        return Decoded(name, rd, rs1, 0, _signed(word >> 20, 12))
    if row.form in "HW":
        return Decoded(name, rd, rs1, 0, word >> 20 & (63 if row.form == "H" else 31))
    if row.form == "S":
        return Decoded(name, 0, rs1, rs2, _signed(funct7 << 5 | rd, 12))
    if row.form == "B":
        return Decoded(name, 0, rs1, rs2, branch_offset(word))
    if row.form == "U":
        return Decoded(name, rd, 0, 0, _signed(word & 0xFFFFF000, 32))
    if row.form == "J":
        return Decoded(name, rd, 0, 0, jump_offset(word))
    return Decoded(name, 0, 0, 0, 0)


def branch_offset(word: int) -> int:
    """The signed byte offset of a B-form word."""
    bits = (word >> 31 & 1) << 12 | (word >> 7 & 1) << 11 | (word >> 25 & 63) << 5
    return _signed(bits | (word >> 8 & 15) << 1, 13)


def jump_offset(word: int) -> int:
    """The signed byte offset of a J-form word."""
    bits = (word >> 31 & 1) << 20 | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11
    return _signed(bits | (word >> 21 & 0x3FF) << 1, 21)


def custom_0(funct3: int) -> int:
    """The word `custom-0 rd=a0, rs1=a0, rs2=a1`."""
    return CUSTOM_0 | 10 << 7 | funct3 << 12 | 10 << 15 | 11 << 20


def disassemble_word(word: int, address: int) -> str:
    """A word as text; branch and jump targets are absolute."""
    d = decode_rv64(word)
    if d is None:
        return f".word {word:#010x}"
    if word == NOP:
        return "nop"
    rd, rs1, rs2 = REGISTERS[d.rd], REGISTERS[d.rs1], REGISTERS[d.rs2]
    row = BY_MNEMONIC[d.mnemonic]
    operands = {
        "R": f"{rd}, {rs1}, {rs2}",
        "I": f"{rd}, {d.imm}({rs1})" if row.opcode in (0x03, 0x67) else f"{rd}, {rs1}, {d.imm}",
        "H": f"{rd}, {rs1}, {d.imm}",
        "W": f"{rd}, {rs1}, {d.imm}",
        "S": f"{rs2}, {d.imm}({rs1})",
        "B": f"{rs1}, {rs2}, {address + d.imm:#x}",
        "U": f"{rd}, {d.imm >> 12 & 0xFFFFF:#x}",
        "J": f"{rd}, {address + d.imm:#x}",
        "N": "",
    }[row.form]
    return f"{d.mnemonic} {operands}".rstrip()
