"""Text form: round trip of everything, and what is no text."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isa_strategies import instructions, open_names, vector_programs

from dsalang._backend.isa.check import normalized
from dsalang._backend.isa.table import OPCODES, Engine, Instruction, ReduceKind
from dsalang._backend.isa.text import (
    AsmSyntaxError,
    parse_instruction,
    parse_program,
    print_instruction,
    print_program,
)
from dsalang._backend.isa.vector_ops import VECTOR_OPS


@pytest.mark.parametrize("row", OPCODES, ids=lambda row: row.name)
def test_round_trip_of_every_instruction(row):
    @settings(max_examples=25, derandomize=True, deadline=None)
    @given(instructions(row), st.data())
    def check(instruction, data):
        names = open_names(instruction)
        chosen = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=6))
        opened = {**instruction.fields}
        for name in chosen:
            field, _, entry = name.partition(".")
            value = opened[field]
            if isinstance(value, int):
                opened[field] = 0
            else:
                opened[field] = tuple(0 if d == int(entry) else v for d, v in enumerate(value))
        template = Instruction(instruction.op, instruction.engine, opened)
        text = print_instruction(template, chosen)
        assert parse_instruction(text) == (template, tuple(chosen))

    check()


@pytest.mark.parametrize("op", VECTOR_OPS, ids=lambda op: op.name)
def test_round_trip_of_every_micro_op(op):
    @settings(max_examples=3, derandomize=True, deadline=None)
    @given(vector_programs(op.name))
    def check(program):
        assert parse_program(print_program(program)) == program

    check()


def test_text_is_short_and_readable():
    fields = {"kind": ReduceKind.FMAX, "fmt": 13, "ndim": 2, "size": (4, 8), "axis": 1, "in": 256}
    text = print_instruction(Instruction("reduce", Engine.VE, fields), ("out",))
    assert text == "reduce.VE kind=fmax fmt=fp32 ndim=2 size=[4,8] axis=1 in=0x100 out=?0"


def test_open_entries_of_arrays():
    instruction, names = parse_instruction("dma.load.LD size=[1,?1] index=[none,?0] lo=[-4]")
    assert names == ("index.1", "size.1")
    assert instruction.fields["lo"] == (-4, 0, 0, 0, 0)
    assert instruction == normalized(instruction)


def test_program_text():
    text = """
        program inputs(fp16, fp16) scalars(fp32) outputs(fp16)
        r0 = in.fp16 0
        r1 = fcvt.fp32<fp16> r0
        r2 = const.fp32 0x3f800000
        r1 = fadd.fp32 r1, r2
        r1 = fcvt.fp16<fp32> r1
        out.fp16 r1, 0
    """
    program = parse_program(text)
    assert program.inputs == ("fp16", "fp16") and program.scalars == ("fp32",)
    assert program.ops[2].imm == 0x3F800000
    assert program.ops[1].src_fmt == "fp16"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mma",
        "mma.XX",
        "mma.VE",
        "mma.MM q=1",
        "mma.MM m=",
        "mma.MM m=1 m=1",
        "mma.MM m=0x",
        "mma.MM m=-1",
        "mma.MM m=?1",
        "mma.MM m=?0 n=?0",
        "mma.MM m=[1]",
        "vexec.VE size=1",
        "vexec.VE size=[1,2,3,4,5]",
        "mma.MM fmt_a=fp99",
        "mma.MM m=99999999999",
    ],
)
def test_bad_instruction_text(text):
    with pytest.raises(AsmSyntaxError):
        parse_instruction(text)


HEAD = "program inputs(fp16) scalars() outputs()\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "r0 = in.fp16 0",
        HEAD + "in.fp16 0",
        HEAD + "r0 = in.fp16 1",
        HEAD + "r0 = in.fp16 x",
        HEAD + "r0 = frob.fp16 0",
        HEAD + "r0 = in.fp16 0\nr1 = fneg.fp16 0",
        HEAD + "r0 = in.fp16 0\nr1 = fneg.fp16 r2",
        HEAD + "r0 = in.fp16 0\nr1 = fneg.fp16",
        HEAD + "r99 = in.fp16 0",
        "program inputs(fp99) scalars() outputs()",
    ],
)
def test_bad_program_text(text):
    with pytest.raises(AsmSyntaxError):
        parse_program(text)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.text(alphabet="mafdexecin.VEMLD=?[],0x19- rtop()\n", max_size=60))
def test_any_text_is_parsed_or_refused(text):
    for parse in (parse_instruction, parse_program):
        with contextlib.suppress(AsmSyntaxError):
            parse(text)
