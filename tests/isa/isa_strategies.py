"""Random instructions and vector programs."""

from __future__ import annotations

from hypothesis import strategies as st

from dsalang._backend import formats
from dsalang._backend.isa.check import type_range
from dsalang._backend.isa.table import OPCODES, VECTOR_REGISTERS, Instruction, Opcode
from dsalang._backend.isa.vector_ops import VECTOR_OPS
from dsalang._backend.isa.vprog import CONST, IN, INDEX, OUT, SCALAR, MicroOp, VectorProgram

FORMAT_NAMES = [fmt.name for fmt in formats.FORMATS]


@st.composite
def instructions(draw: st.DrawFn, row: Opcode | None = None) -> Instruction:
    """An instruction of a row of the table, every field present."""
    row = row or draw(st.sampled_from(OPCODES))
    fields: dict[str, int | tuple[int, ...]] = {}
    for field in row.fields:
        entry = st.integers(*type_range(field.type)) | st.sampled_from(type_range(field.type))
        if field.count == 1:
            fields[field.name] = draw(entry)
        else:
            size = field.count
            fields[field.name] = tuple(draw(st.lists(entry, min_size=size, max_size=size)))
    return Instruction(row.name, draw(st.sampled_from(row.engines)), fields)


def open_names(instruction: Instruction) -> list[str]:
    """Everything in an instruction that can be open."""
    names = []
    for name, value in instruction.fields.items():
        names += [name] if isinstance(value, int) else [f"{name}.{d}" for d in range(len(value))]
    return names


@st.composite
def vector_programs(draw: st.DrawFn, only: str | None = None) -> VectorProgram:
    """A well-formed vector program; with `only`, one of that operation."""
    names = st.sampled_from(FORMAT_NAMES)
    inputs = tuple(draw(st.lists(names, max_size=8)))
    scalars = tuple(draw(st.lists(names, max_size=8)))
    outputs = tuple(draw(st.lists(names, max_size=4)))
    registers = st.integers(0, VECTOR_REGISTERS - 1)
    live: list[int] = []
    ops: list[MicroOp] = []

    def define(op: str, fmt: str, src_fmt: str, srcs: tuple[int, ...] = (), imm: int = 0) -> None:
        dst = draw(registers)
        ops.append(MicroOp(op, fmt, src_fmt, dst, srcs, imm))
        live.append(dst)

    for number, fmt in enumerate(inputs):
        define(IN, fmt, fmt, imm=number)
    for number, fmt in enumerate(scalars):
        define(SCALAR, fmt, fmt, imm=number)
    fmt = formats.by_name(draw(names))
    define(CONST, fmt.name, fmt.name, imm=draw(st.integers(0, (1 << 8 * fmt.bytes) - 1)))
    define(INDEX, "int32", "int32", imm=draw(st.integers(0, 3)))
    rows = [row for row in VECTOR_OPS if only in (None, row.name)]
    for row in draw(st.lists(st.sampled_from(rows), min_size=1, max_size=12)):
        srcs = tuple(draw(st.sampled_from(live)) for _ in row.operands)
        fits = {"float": lambda f: f.is_float, "int": lambda f: not f.is_float}
        src_fmt = draw(st.sampled_from(formats.FORMATS).filter(fits.get(row.operands[-1], bool)))
        result = src_fmt.name
        if row.result == "bool":
            result = "int1"
        elif row.result == "cast":
            result = draw(names)
        define(row.name, result, src_fmt.name, srcs)
    for number, fmt_name in enumerate(outputs):
        ops.append(MicroOp(OUT, fmt_name, fmt_name, 0, (draw(st.sampled_from(live)),), number))
    return VectorProgram(inputs, scalars, outputs, tuple(ops))
