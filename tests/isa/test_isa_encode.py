"""Binary form: round trip of everything, refusal of anything else."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isa_strategies import instructions, vector_programs

from dsalang._backend.errors import ImageError
from dsalang._backend.isa.encode import (
    LAYOUTS,
    decode,
    decode_program,
    encode,
    encode_program,
)
from dsalang._backend.isa.table import NONE, OPCODES, Engine, Instruction
from dsalang._backend.isa.vector_ops import VECTOR_OPS
from dsalang._backend.isa.vprog import MicroOp, VectorProgram


@pytest.mark.parametrize("row", OPCODES, ids=lambda row: row.name)
def test_round_trip_of_every_instruction(row):
    @settings(max_examples=25, derandomize=True, deadline=None)
    @given(instructions(row), st.binary(max_size=9))
    def check(instruction, prefix):
        data = encode(instruction)
        assert len(data) == LAYOUTS[row.name].size
        decoded, end = decode(prefix + data, len(prefix))
        assert decoded == instruction
        assert end == len(prefix) + len(data)

    check()


def test_fields_stand_where_the_layout_says():
    data = encode(Instruction("mma", Engine.MM, {"m": 0x11223344, "lda": -2}))
    offsets = LAYOUTS["mma"].offsets
    assert data[:2] == (16).to_bytes(2, "little") and data[2] == Engine.MM
    assert struct.unpack_from("<I", data, offsets["m"]) == (0x11223344,)
    assert struct.unpack_from("<i", data, offsets["lda"]) == (-2,)


def test_absent_fields_get_their_default():
    decoded, _ = decode(encode(Instruction("vexec", Engine.VE, {"in": (64,)})))
    assert decoded.fields["in"] == (64,) + (NONE,) * 7
    assert decoded.fields["size"] == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("op", "engine", "fields", "message"),
    [
        ("nope", Engine.LD, {}, "unknown instruction"),
        ("mma", Engine.VE, {}, "cannot be issued to VE"),
        ("mma", Engine.MM, {"q": 1}, "no field 'q'"),
        ("mma", Engine.MM, {"m": -1}, "does not fit u32"),
        ("mma", Engine.MM, {"m": (1,)}, "holds 1 value"),
        ("vexec", Engine.VE, {"size": (1, 2, 3, 4, 5)}, "holds 4 value"),
    ],
)
def test_encoder_refuses(op, engine, fields, message):
    with pytest.raises(ValueError, match=message):
        encode(Instruction(op, engine, fields))


def damaged(at: int, value: int) -> bytes:
    data = bytearray(encode(Instruction("dma.load", Engine.LD, {})))
    data[at] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cut off"),
        (encode(Instruction("set", Engine.LD, {}))[:-1], "cut off"),
        (damaged(0, 99), "unknown opcode"),
        (damaged(2, Engine.MM), "cannot be issued"),
        (damaged(2, 200), "cannot be issued"),
        (damaged(3, 1), "reserved"),
        (damaged(4, 8), "wrong size"),
        (damaged(LAYOUTS["dma.load"].offsets["ndim"] + 1, 1), "reserved"),
    ],
)
def test_decoder_refuses(data, message):
    with pytest.raises(ImageError, match=message):
        decode(data)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(instructions(), st.data())
def test_damage_is_refused_or_is_another_instruction(instruction, data):
    encoded = bytearray(encode(instruction))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    try:
        decoded, _ = decode(bytes(encoded))
    except ImageError:
        return
    assert encode(decoded) == bytes(encoded)


@pytest.mark.parametrize("op", VECTOR_OPS, ids=lambda op: op.name)
def test_round_trip_of_every_micro_op(op):
    @settings(max_examples=3, derandomize=True, deadline=None)
    @given(vector_programs(op.name))
    def check(program):
        data = encode_program(program)
        assert decode_program(data) == (program, len(data))

    check()


@settings(max_examples=100, derandomize=True, deadline=None)
@given(vector_programs(), st.data())
def test_damaged_programs_are_refused_or_are_others(program, data):
    encoded = bytearray(encode_program(program))
    assert decode_program(b"xx" + encoded, 2) == (program, len(encoded) + 2)
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    try:
        decoded, end = decode_program(bytes(encoded))
    except ImageError:
        return
    assert encode_program(decoded) == bytes(encoded[:end])


def program(*ops: MicroOp) -> VectorProgram:
    return VectorProgram(("fp16",), ("fp32",), (), ops)


IN0 = MicroOp("in", "fp16", "fp16", 0, (), 0)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (program(MicroOp("fadd", "fp16", "fp16", 0, (0, 0))), "read before"),
        (program(IN0, MicroOp("fadd", "fp16", "fp16", 0, (0,))), "takes 2 registers"),
        (program(IN0, MicroOp("fadd", "fp16", "fp16", 32, (0, 0))), "no destination"),
        (program(IN0, MicroOp("nope", "fp16", "fp16", 0, (0, 0))), "unknown micro-op"),
        (program(IN0, MicroOp("fadd", "fp12", "fp16", 0, (0, 0))), "unknown format"),
        (program(IN0, MicroOp("iadd", "fp16", "fp16", 0, (0, 0))), "does not take fp16"),
        (program(IN0, MicroOp("fadd", "fp32", "fp16", 0, (0, 0))), "gives the format"),
        (program(IN0, MicroOp("feq", "fp16", "fp16", 0, (0, 0))), "gives int1"),
        (program(MicroOp("in", "fp16", "fp16", 0, (), 1)), "no operand 1"),
        (program(MicroOp("in", "fp32", "fp32", 0, (), 0)), "operand 0 is fp16"),
        (program(MicroOp("index", "int32", "int32", 0, (), 4)), "no dim 4"),
        (program(MicroOp("const", "int8", "int8", 0, (), 256)), "does not fit"),
        (VectorProgram((), (), ("fp16",), ()), "not each of 1 once"),
        (VectorProgram(("fp16",) * 9, (), (), ()), "at most 8"),
    ],
)
def test_malformed_programs_are_refused(broken, message):
    with pytest.raises(ValueError, match=message):
        encode_program(broken)
