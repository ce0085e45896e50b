"""The glue's executor against Unicorn, and its calls into the machine."""

from __future__ import annotations

import dataclasses
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsalang._backend.errors import DeviceError, ImageError
from dsalang._backend.isa.rv64 import BY_MNEMONIC, ROWS, Row, custom_0
from dsalang._runtime import rv64_blocks
from dsalang._runtime.rv64 import ControlCore

from .machine import Program

BASE = 0x10000
RET = 0x00008067
DATA_BYTES = 256
unicorn = pytest.importorskip("unicorn")


def encode(row: Row, rd: int, rs1: int, rs2: int, imm: int) -> int:
    word = row.opcode | row.funct3 << 12
    if row.form == "R":
        return word | rd << 7 | rs1 << 15 | rs2 << 20 | row.funct7 << 25
    if row.form == "I":
        return word | rd << 7 | rs1 << 15 | (imm & 0xFFF) << 20
    if row.form in "HW":
        amount = imm & (63 if row.form == "H" else 31)
        return word | rd << 7 | rs1 << 15 | amount << 20 | row.funct7 << 25
    if row.form == "S":
        return word | rs1 << 15 | rs2 << 20 | (imm & 31) << 7 | (imm >> 5 & 0x7F) << 25
    if row.form == "U":
        return row.opcode | rd << 7 | (imm & 0xFFFFF) << 12
    assert row.form == "B"
    field = (imm >> 12 & 1) << 31 | (imm >> 5 & 63) << 25 | (imm >> 1 & 15) << 8
    return word | rs1 << 15 | rs2 << 20 | field | (imm >> 11 & 1) << 7


def core_for(words: list[int], **changes: Any) -> ControlCore:
    code = b"".join(word.to_bytes(4, "little") for word in words)
    image = dataclasses.replace(Program().image(), code=code, code_address=BASE, entry=0)
    return ControlCore(dataclasses.replace(image, **changes), (), 0, 1)


def finish(core: ControlCore) -> None:
    for call in core.run():
        raise AssertionError(call)


INTERESTING = [0, 1, 2, (1 << 64) - 1, 1 << 63, (1 << 63) - 1, 1 << 31, (1 << 31) - 1, 0xFFFFFFFF]
word64 = st.one_of(st.sampled_from(INTERESTING), st.integers(0, (1 << 64) - 1))
arithmetic = [r for r in ROWS if r.form in "RIHWU" and r.opcode not in (0x0B, 0x67, 0x03)]
# x1 is the return address and x2 the stack pointer, so programs use x3 and up; x4 points at data.
register = st.integers(5, 15)
source = st.one_of(st.just(0), register)
operation = st.builds(
    encode, st.sampled_from(arithmetic), source, source, source, st.integers(-2048, 2047)
)
memory = st.one_of(
    st.builds(
        lambda row, rd, at: encode(row, rd, 4, 0, at),
        st.sampled_from([r for r in ROWS if r.opcode == 0x03]),
        register,
        st.integers(0, DATA_BYTES - 8),
    ),
    st.builds(
        lambda row, rs2, at: encode(row, 0, 4, rs2, at),
        st.sampled_from([r for r in ROWS if r.form == "S"]),
        register,
        st.integers(0, DATA_BYTES - 8),
    ),
)
# A branch over one or two instructions.
branch = st.builds(
    lambda row, a, b, skip: encode(row, 0, a, b, 4 + 4 * skip),
    st.sampled_from([r for r in ROWS if r.form == "B"]),
    source,
    source,
    st.integers(1, 2),
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    st.lists(st.one_of(operation, memory, branch), min_size=1, max_size=40),
    st.lists(word64, min_size=11, max_size=11),
)
def test_same_registers_and_memory_as_unicorn(words: list[int], values: list[int]) -> None:
    data = bytes(i * 37 & 0xFF for i in range(DATA_BYTES))
    nop = 0x13
    code = [*words, nop, nop, RET]
    code_bytes = b"".join(w.to_bytes(4, "little") for w in code) + data
    at = BASE + 4 * len(code)
    cores = [core_for([], code=code_bytes) for _ in range(2)]
    for core in cores:
        core.registers[4] = at
        core.registers[5:16] = values
    start = list(cores[0].registers)
    finish(cores[0])  # interpreted
    with patch.object(rv64_blocks, "OFTEN", 0):  # translated
        finish(cores[1])

    machine = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV64)
    machine.mem_map(BASE, 0x10000)
    machine.mem_write(BASE, code_bytes)
    first = unicorn.riscv_const.UC_RISCV_REG_X0
    for number in range(1, 32):
        machine.reg_write(first + number, start[number])
    machine.emu_start(BASE, BASE + 4 * (len(code) - 1))
    for core in cores:
        assert [machine.reg_read(first + n) for n in range(32)] == core.registers
        ours = b"".join(
            (v & (1 << 64) - 1).to_bytes(8, "little") for v in core.values(at, DATA_BYTES // 8)
        )
        assert bytes(machine.mem_read(at, DATA_BYTES)) == ours


def test_calls_carry_arguments_and_results() -> None:
    addi = BY_MNEMONIC["addi"]
    core = core_for([
        encode(addi, 10, 0, 0, 7), encode(addi, 11, 0, 0, -1), custom_0(2),
        encode(addi, 12, 10, 0, 1), custom_0(0), RET,
    ])  # fmt: skip
    calls = core.run()
    assert next(calls) == (2, 7, (1 << 64) - 1)
    assert calls.send(-5) == (0, (1 << 64) - 5, (1 << 64) - 1)
    with pytest.raises(StopIteration):
        calls.send(0)
    assert core.registers[12] == (1 << 64) - 4


def test_a_loop_and_a_jump_and_link() -> None:
    addi, jalr = BY_MNEMONIC["addi"], BY_MNEMONIC["jalr"]
    core = core_for([
        encode(addi, 5, 0, 0, 40),                        # t0 = 40: translated on the way
        encode(addi, 6, 6, 0, 3),                         # t1 += 3
        encode(addi, 5, 5, 0, -1),
        encode(BY_MNEMONIC["bne"], 0, 5, 0, -8),
        encode(BY_MNEMONIC["auipc"], 7, 0, 0, 0),         # t2 = pc
        encode(jalr, 7, 7, 0, 12),                        # t2 = return address; over the next word
        0xFFFFFFFF,
        RET,
    ])  # fmt: skip
    finish(core)
    assert core.registers[6] == 120
    assert core.registers[7] == BASE + 24


def test_arguments_are_where_the_abi_says() -> None:
    image = Program().image()
    image = dataclasses.replace(image, code=RET.to_bytes(4, "little"), code_address=BASE)
    core = ControlCore(image, (5, -1, 2, 3, 4), 6, 8)
    assert core.registers[11:13] == [6, 8]
    assert core.values(core.registers[10], 5) == (5, -1, 2, 3, 4)
    assert core.registers[2] % 16 == 0


def test_bad_code_is_an_error_not_a_crash() -> None:
    with pytest.raises(ImageError, match="unknown instruction 0xffffffff at 0x10000"):
        finish(core_for([0xFFFFFFFF]))
    with pytest.raises(ImageError, match="outside its code"):
        finish(core_for([0x13]))
    with pytest.raises(DeviceError, match="memory outside its own"):
        finish(core_for([encode(BY_MNEMONIC["ld"], 5, 0, 0, 8), RET]))
    with pytest.raises(DeviceError, match="bad address"):
        core_for([RET]).values(3, 1)
