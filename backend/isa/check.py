"""Well-formedness of instructions and vector programs, shared by the binary and the text form."""

from __future__ import annotations

from collections.abc import Callable

from .. import formats
from .table import (
    BY_NAME,
    MAX_VECTOR_DIMS,
    MAX_VECTOR_INPUTS,
    MAX_VECTOR_OUTPUTS,
    MAX_VECTOR_SCALARS,
    NONE,
    VECTOR_REGISTERS,
    Field,
    Instruction,
)
from .vector_ops import BY_NAME as VECTOR_OPS
from .vprog import CONST, IN, INDEX, OUT, SCALAR, SPECIAL_CODES, MicroOp, VectorProgram

BITS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "i32": 32, "i64": 64}


def type_range(type_: str) -> tuple[int, int]:
    """Smallest and largest value of a field type."""
    bits = BITS[type_]
    if type_[0] == "u":
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


SIZES = ("size", "batch", "m", "n", "k")
"""Fields that count something; they are at least 1, but for the k of an mma, which may be 0."""
PRESENT = ("scale_a", "scale_b")
"""Optional addresses that are there when they come at run time: their absence is what the instruction is."""


def run_time_range(name: str, type_: str) -> tuple[int, int]:
    """Smallest and largest value that a run-time operand may have for a field of a type."""
    low, high = type_range(type_)
    if name in SIZES:
        low = int(name != "k")
    return low, NONE - 1 if name in PRESENT else high


def default(field: Field) -> int | tuple[int, ...]:
    """The value of a field that an instruction does not mention."""
    value = NONE if field.optional else 0
    return value if field.count == 1 else (value,) * field.count


def normalized(instruction: Instruction) -> Instruction:
    """The instruction with every field of its row present, in the order of the table.

    Arrays that are too short are filled up with the default. Raises ValueError for an unknown
    instruction, engine or field, or a value outside its field.
    """
    row = BY_NAME.get(instruction.op)
    if row is None:
        raise ValueError(f"unknown instruction {instruction.op!r}")
    if instruction.engine not in row.engines:
        raise ValueError(f"{row.name} cannot be issued to {instruction.engine.name}")
    for name in instruction.fields:
        if name not in row.by_name:
            raise ValueError(f"{row.name} has no field {name!r}")
    fields = {
        f.name: _checked(f, instruction.fields[f.name])
        if f.name in instruction.fields
        else default(f)
        for f in row.fields
    }
    return Instruction(instruction.op, instruction.engine, fields)


def _checked(field: Field, value: int | tuple[int, ...]) -> int | tuple[int, ...]:
    low, high = type_range(field.type)
    entries = (value,) if isinstance(value, int) else value
    if isinstance(value, int) != (field.count == 1) or len(entries) > field.count:
        raise ValueError(f"field {field.name} holds {field.count} value(s), not {value!r}")
    for entry in entries:
        if not low <= entry <= high:
            raise ValueError(f"field {field.name} = {entry} does not fit {field.type}")
    if field.count == 1:
        return value
    fill = NONE if field.optional else 0
    return (*entries, *(fill,) * (field.count - len(entries)))


_FITS: dict[str, Callable[[formats.Format], bool]] = {
    "float": lambda f: f.is_float,
    "int": lambda f: not f.is_float,
    "bool": lambda f: f.kind == "bool",
    "any": lambda f: True,
}
_OPERANDS: dict[str, int] = {IN: 0, SCALAR: 0, CONST: 0, INDEX: 0, OUT: 1}


def check_program(program: VectorProgram) -> None:
    """Raise ValueError when a vector program is not well formed."""
    limits = (
        (program.inputs, MAX_VECTOR_INPUTS, "inputs"),
        (program.scalars, MAX_VECTOR_SCALARS, "scalars"),
        (program.outputs, MAX_VECTOR_OUTPUTS, "outputs"),
    )
    for names, most, what in limits:
        if len(names) > most:
            raise ValueError(f"{len(names)} {what}, at most {most} are possible")
        for name in names:
            _format(name)
    live: set[int] = set()
    written: list[int] = []
    for number, op in enumerate(program.ops):
        try:
            _check_op(op, program, live)
        except ValueError as error:
            raise ValueError(f"micro-op {number} ({op.op}): {error}") from None
        if op.op == OUT:
            written.append(op.imm)
        else:
            live.add(op.dst)
    if sorted(written) != list(range(len(program.outputs))):
        raise ValueError(f"outputs written are {written}, not each of {len(program.outputs)} once")


def _format(name: str) -> formats.Format:
    fmt = formats.BY_NAME.get(name)
    if fmt is None or fmt.name != name:
        raise ValueError(f"unknown format {name!r}")
    return fmt


def _check_op(op: MicroOp, program: VectorProgram, live: set[int]) -> None:
    fmt, src_fmt = _format(op.fmt), _format(op.src_fmt)
    row = VECTOR_OPS.get(op.op)
    if row is None and op.op not in SPECIAL_CODES:
        raise ValueError("unknown micro-op")
    arity = len(row.operands) if row else _OPERANDS[op.op]
    if len(op.srcs) != arity:
        raise ValueError(f"takes {arity} registers, not {len(op.srcs)}")
    for src in op.srcs:
        if src not in live:
            raise ValueError(f"register r{src} is read before it is written")
    if not 0 <= op.dst < VECTOR_REGISTERS or (op.op == OUT and op.dst):
        raise ValueError(f"no destination register r{op.dst}")
    if row is None:
        _check_special(op, fmt, src_fmt, program)
        return
    if op.imm:
        raise ValueError("takes no immediate")
    if not _FITS[row.operands[-1]](src_fmt):
        raise ValueError(f"does not take {src_fmt}")
    if row.result == "bool" and fmt.kind != "bool":
        raise ValueError(f"gives int1, not {fmt}")
    if row.result == "same" and (fmt.bits, fmt.is_float) != (src_fmt.bits, src_fmt.is_float):
        raise ValueError(f"gives the format of its operand {src_fmt}, not {fmt}")


def _check_special(
    op: MicroOp, fmt: formats.Format, src_fmt: formats.Format, program: VectorProgram
) -> None:
    if fmt != src_fmt:
        raise ValueError(f"cannot convert from {src_fmt} to {fmt}")
    if op.op == CONST:
        if not 0 <= op.imm < 1 << 8 * fmt.bytes:
            raise ValueError(f"immediate {op.imm:#x} does not fit {fmt}")
        return
    if op.op == INDEX:
        if not 0 <= op.imm < MAX_VECTOR_DIMS:
            raise ValueError(f"no dim {op.imm}")
        return
    names = {IN: program.inputs, SCALAR: program.scalars, OUT: program.outputs}[op.op]
    if not 0 <= op.imm < len(names):
        raise ValueError(f"no operand {op.imm}")
    if names[op.imm] != fmt.name:
        raise ValueError(f"operand {op.imm} is {names[op.imm]}, not {fmt}")
