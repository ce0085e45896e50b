"""The RV64 decode table against LLVM's own assembly printer."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsalang._backend.isa import rv64
from dsalang._backend.isa.rv64 import decode_rv64, disassemble_word

# Prints the code of a function as LLVM's assembly without aliases, and as words.
LLVM = r"""
import struct, sys
import llvmlite.binding as llvm
llvm.initialize_all_targets(); llvm.initialize_all_asmprinters()
llvm.set_option("", "-riscv-no-aliases")
target = llvm.Target.from_triple("riscv64-unknown-elf")
machine = target.create_target_machine(features="+m,-c,-relax", reloc="static", codemodel="small", opt=2)
module = llvm.parse_assembly('target triple = "riscv64-unknown-elf"\n' + sys.stdin.read())
sys.stdout.write(machine.emit_assembly(module) + "=====\n")
data = machine.emit_object(module)
shoff, shnum = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
for i in range(shnum):
    _, kind, flags, _, offset, size = struct.unpack_from("<IIQQQQ", data, shoff + 64 * i)
    if kind == 1 and flags & 4:
        sys.stdout.write(data[offset : offset + size].hex())
"""

OPS = (
    "add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "and", "or", "xor", "shl", "lshr", "ashr",
)  # fmt: skip


def every_operation() -> str:
    """LLVM IR that stores the result of every operation, at both widths and with immediates."""
    lines = ["define void @f(ptr %p, i64 %x, i64 %y) nounwind {", "start:"]
    lines += [" %a = trunc i64 %x to i32", " %b = trunc i64 %y to i32"]
    number = 0

    def store(type_: str, expression: str) -> None:
        nonlocal number
        number += 1
        lines.append(f" %v{number} = {expression}")
        lines.append(f" store volatile {type_} %v{number}, ptr %p")

    for op in OPS:
        store("i64", f"{op} i64 %x, %y")
        store("i32", f"{op} i32 %a, %b")
        if op not in ("sdiv", "udiv", "srem", "urem"):
            store("i64", f"{op} i64 %x, 21")
            store("i32", f"{op} i32 %a, 21")
    for type_ in ("i8", "i16", "i32", "i64"):
        for extension in ("sext", "zext"):
            loaded = f"%{extension}{type_}"
            lines.append(f" {loaded} = load volatile {type_}, ptr %p")
            lines.append(f" store volatile {type_} {loaded}, ptr %p")
            if type_ != "i64":
                store("i64", f"{extension} {type_} {loaded} to i64")
    for predicate in ("slt", "ult"):
        store("i1", f"icmp {predicate} i64 %x, %y")
        store("i1", f"icmp {predicate} i64 %x, 77")
    for predicate in ("eq", "ne", "slt", "sge", "ult", "uge"):
        lines.append(f" %c{predicate} = icmp {predicate} i64 %x, %y")
        lines.append(f" br i1 %c{predicate}, label %t{predicate}, label %f{predicate}")
        lines.append(f"t{predicate}:")
        lines.append(f" store volatile i64 {number}, ptr %p")
        lines.append(f" br label %f{predicate}")
        lines.append(f"f{predicate}:")
    lines += [" store volatile i64 1234567890123, ptr %p", " ret void", "}"]
    return "\n".join(lines)


def test_disassembly_agrees_with_llvm():
    run = subprocess.run(
        [sys.executable, "-c", LLVM], input=every_operation(), text=True, capture_output=True
    )
    assert run.returncode == 0, run.stderr
    assembly, code = run.stdout.split("=====\n")
    theirs = [
        line.split("#")[0].replace("\t", " ").strip()
        for line in assembly.splitlines()
        if line.startswith("\t") and not line.startswith("\t.")
    ]
    words = [
        int.from_bytes(bytes.fromhex(code[i : i + 8]), "little") for i in range(0, len(code), 8)
    ]
    ours = [disassemble_word(word, 4 * i) for i, word in enumerate(words)]
    assert len(theirs) == len(ours) > 100
    for a, b in zip(theirs, ours, strict=True):
        if ".L" in a:  # branch targets are labels there
            a, b = a.rpartition(",")[0], b.rpartition(",")[0]
        if a.startswith("lui"):
            a, b = a.partition(",")[0], b.partition(",")[0]
        assert a == b
    used = {text.split()[0] for text in ours}
    loads_stores_alu = {row.mnemonic for row in rv64.ROWS if row.opcode in (0x03, 0x23, 0x33, 0x3B)}
    assert len(used & loads_stores_alu) >= 30


def sign(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


@pytest.mark.parametrize("row", rv64.ROWS, ids=lambda row: row.mnemonic)
def test_every_row_decodes_its_own_encoding(row):
    registers = st.integers(0, 31)

    @settings(max_examples=20, derandomize=True, deadline=None)
    @given(registers, registers, registers, st.integers(0, (1 << 32) - 1))
    def check(rd, rs1, rs2, bits):
        base = row.opcode | row.funct3 << 12
        funct7 = row.funct7 << 25
        word, expected = {
            "R": (base | funct7 | rd << 7 | rs1 << 15 | rs2 << 20, (rd, rs1, rs2, 0)),
            "I": (
                base | rd << 7 | rs1 << 15 | (bits & 0xFFF) << 20,
                (rd, rs1, 0, sign(bits & 0xFFF, 12)),
            ),
            "H": (base | funct7 | rd << 7 | rs1 << 15 | (bits & 63) << 20, (rd, rs1, 0, bits & 63)),
            "W": (base | funct7 | rd << 7 | rs1 << 15 | (bits & 31) << 20, (rd, rs1, 0, bits & 31)),
            "S": (
                base | (bits & 31) << 7 | rs1 << 15 | rs2 << 20 | (bits >> 5 & 127) << 25,
                (0, rs1, rs2, sign(bits & 0xFFF, 12)),
            ),
            "B": (
                base
                | (bits >> 11 & 1) << 7
                | (bits >> 1 & 15) << 8
                | rs1 << 15
                | rs2 << 20
                | (bits >> 5 & 63) << 25
                | (bits >> 12 & 1) << 31,
                (0, rs1, rs2, sign(bits & 0x1FFE, 13)),
            ),
            "U": (
                row.opcode | rd << 7 | bits & 0xFFFFF000,
                (rd, 0, 0, sign(bits & 0xFFFFF000, 32)),
            ),
            "J": (
                row.opcode
                | rd << 7
                | (bits >> 12 & 0xFF) << 12
                | (bits >> 11 & 1) << 20
                | (bits >> 1 & 0x3FF) << 21
                | (bits >> 20 & 1) << 31,
                (rd, 0, 0, sign(bits & 0x1FFFFE, 21)),
            ),
            "N": (base, (0, 0, 0, 0)),
        }[row.form]
        decoded = decode_rv64(word)
        assert decoded == (row.mnemonic, *expected)
        assert disassemble_word(word, 0x1000).split()[0] in (row.mnemonic, "nop")

    check()


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.integers(0, (1 << 32) - 1))
def test_any_word_has_a_text(word):
    text = disassemble_word(word, 0)
    assert (decode_rv64(word) is None) == text.startswith(".word")


def test_calls_are_named():
    assert disassemble_word(rv64.custom_0(0), 0) == "dsa.issue a0, a0, a1"
    assert disassemble_word(rv64.custom_0(4), 0) == "dsa.assert a0, a0, a1"
    assert disassemble_word(rv64.custom_0(5), 0) == "dsa.at a0, a0, a1"
    assert decode_rv64(rv64.custom_0(6)) is None
