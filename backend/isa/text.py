"""The text form of instructions and vector programs, and its parser.

An instruction is its name and engine, then the fields that differ from their default:

    mma.MM fmt_a=fp16 fmt_b=fp16 fmt_d=fp32 batch=1 m=64 n=64 k=32 a=?0 lda=64 b=0x400 ldb=128 d=?1 ldd=256

`?j` is an open field: operand j of the template fills it. A vector program is a line with the formats of
its operands and one micro-op per line; `<…>` is the source format where it differs from the result's:

    program inputs(fp16, fp16) scalars(fp32) outputs(fp16)
    r0 = in.fp16 0
    r1 = in.fp16 1
    r0 = fadd.fp16 r0, r1
    r1 = fcvt.fp32<fp16> r0
    r2 = scalar.fp32 0
    r1 = fmul.fp32 r1, r2
    r1 = fcvt.fp16<fp32> r1
    out.fp16 r1, 0
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum

from .. import formats
from .check import check_program, default, normalized
from .table import BY_NAME, NONE, AtomicKind, Engine, Field, Instruction, ReduceKind
from .vector_ops import BY_NAME as VECTOR_OPS
from .vprog import CONST, OUT, SPECIAL_CODES, MicroOp, VectorProgram

_FORMATS = {"format": formats.BY_CODE, "operand": formats.OPERANDS_BY_CODE}
_ENUMS: dict[str, type[IntEnum]] = {"reduce": ReduceKind, "atomic": AtomicKind}


class AsmSyntaxError(ValueError):
    """Text that is not an instruction or a vector program."""


# Vector programs


def print_program(program: VectorProgram) -> str:
    """The text of a vector program, one line per micro-op."""
    head = (
        f"program inputs({', '.join(program.inputs)}) scalars({', '.join(program.scalars)}) "
        f"outputs({', '.join(program.outputs)})"
    )
    return "\n".join([head, *map(_print_micro_op, program.ops)])


def _print_micro_op(op: MicroOp) -> str:
    fmt = op.fmt if op.src_fmt == op.fmt else f"{op.fmt}<{op.src_fmt}>"
    operands = [f"r{src}" for src in op.srcs]
    if op.op in SPECIAL_CODES:
        operands.append(hex(op.imm) if op.op == CONST else str(op.imm))
    target = "" if op.op == OUT else f"r{op.dst} = "
    return f"{target}{op.op}.{fmt} {', '.join(operands)}"


_NAMES = r"\(([^()]*)\)"
_HEAD = re.compile(rf"program inputs{_NAMES} scalars{_NAMES} outputs{_NAMES}")
_MICRO_OP = re.compile(r"(?:r(\d+) = )?([a-z0-9]+)\.([a-z0-9]+)(?:<([a-z0-9]+)>)? (.*)", re.ASCII)


def parse_program(text: str) -> VectorProgram:
    """The vector program of a text. Raises AsmSyntaxError when it is malformed in form or content."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    head = _HEAD.fullmatch(lines[0]) if lines else None
    if head is None:
        raise AsmSyntaxError(
            "a vector program starts with `program inputs(…) scalars(…) outputs(…)`"
        )
    inputs, scalars, outputs = (
        tuple(name.strip() for name in group.split(",") if name.strip()) for group in head.groups()
    )
    ops = tuple(map(_parse_micro_op, lines[1:]))
    program = VectorProgram(inputs, scalars, outputs, ops)
    try:
        check_program(program)
    except ValueError as error:
        raise AsmSyntaxError(str(error)) from None
    return program


def _parse_micro_op(line: str) -> MicroOp:
    match = _MICRO_OP.fullmatch(line)
    if match is None:
        raise AsmSyntaxError(f"not a micro-op: {line!r}")
    dst, op, fmt, src_fmt, rest = match.groups()
    if (dst is None) != (op == OUT) or (op not in SPECIAL_CODES and op not in VECTOR_OPS):
        raise AsmSyntaxError(f"not a micro-op: {line!r}")
    operands = [part.strip() for part in rest.split(",")]
    imm = _integer(operands.pop()) if op in SPECIAL_CODES else 0
    srcs = tuple(_register(operand) for operand in operands)
    return MicroOp(op, fmt, src_fmt or fmt, int(dst or 0), srcs, imm)


def _register(text: str) -> int:
    match = re.fullmatch(r"r(\d{1,4})", text, re.ASCII)
    if match is None:
        raise AsmSyntaxError(f"not a register: {text!r}")
    return int(match[1])


def _integer(text: str) -> int:
    if not re.fullmatch(r"-?(0x[0-9a-f]{1,16}|[0-9]{1,20})", text, re.ASCII):
        raise AsmSyntaxError(f"not an integer: {text!r}")
    return int(text, 0) if "0x" in text else int(text)


# Instructions


def print_instruction(instruction: Instruction, open_fields: Sequence[str] = ()) -> str:
    """The text of an instruction; `open_fields` names the open ones in operand order, as in a Template."""
    full = normalized(instruction)
    operand = {name: f"?{number}" for number, name in enumerate(open_fields)}
    parts = [f"{full.op}.{full.engine.name}"]
    for field in BY_NAME[full.op].fields:
        value = full.fields[field.name]
        if isinstance(value, int):
            # for addresses, semaphores and programs, 0 is a number like any other
            is_number = field.role is not None or field.values == "program"
            shown = value != default(field) or (is_number and not field.optional)
            if field.name in operand or shown:
                parts.append(f"{field.name}={operand.get(field.name) or _value(field, value)}")
            continue
        entries = [
            operand.get(f"{field.name}.{d}") or _value(field, v) for d, v in enumerate(value)
        ]
        fill = _value(field, NONE if field.optional else 0)
        while entries and entries[-1] == fill:
            entries.pop()
        if entries:
            parts.append(f"{field.name}=[{','.join(entries)}]")
    return " ".join(parts)


def _value(field: Field, value: int) -> str:
    if field.optional and value == NONE:
        return "none"
    if field.values in _FORMATS and value in _FORMATS[field.values]:
        return _FORMATS[field.values][value].name
    if field.values in _ENUMS and value in _ENUMS[field.values]._value2member_map_:
        return _ENUMS[field.values](value).name.lower()
    is_address = field.role is not None and field.role != "sem"
    return hex(value) if is_address or field.type == "u64" else str(value)


def parse_instruction(text: str) -> tuple[Instruction, tuple[str, ...]]:
    """The instruction of a text, all fields filled in, and the names of its open fields in operand order."""
    head, *assignments = text.split()[:256] or [""]
    name, _, engine = head.rpartition(".")
    if name not in BY_NAME or engine not in Engine.__members__:
        raise AsmSyntaxError(f"not an instruction: {head!r}")
    fields: dict[str, int | tuple[int, ...]] = {}
    operands: dict[int, str] = {}
    for assignment in assignments:
        field_name, _, value = assignment.partition("=")
        field = BY_NAME[name].by_name.get(field_name)
        if field is None or field_name in fields:
            raise AsmSyntaxError(f"{name} has no (second) field {field_name!r}")
        fields[field_name] = _parse_field(field, value, operands)
    if sorted(operands) != list(range(len(operands))):
        raise AsmSyntaxError("open fields are not numbered ?0, ?1, …")
    try:
        instruction = normalized(Instruction(name, Engine[engine], fields))
    except ValueError as error:
        raise AsmSyntaxError(str(error)) from None
    return instruction, tuple(operands[number] for number in sorted(operands))


def _parse_field(field: Field, text: str, operands: dict[int, str]) -> int | tuple[int, ...]:
    if field.count == 1:
        return _parse_value(field, text, field.name, operands)
    if not (text.startswith("[") and text.endswith("]")):
        raise AsmSyntaxError(f"field {field.name} is an array, not {text!r}")
    entries = text[1:-1].split(",")
    return tuple(
        _parse_value(field, entry, f"{field.name}.{d}", operands) for d, entry in enumerate(entries)
    )


def _parse_value(field: Field, text: str, name: str, operands: dict[int, str]) -> int:
    if text.startswith("?"):
        number = _integer(text[1:])
        if number in operands:
            raise AsmSyntaxError(f"operand ?{number} stands twice")
        operands[number] = name
        return 0
    if field.optional and text == "none":
        return NONE
    for fmt in _FORMATS.get(field.values, {}).values():
        if text == fmt.name or text in fmt.aliases:
            return fmt.code
    if field.values in _ENUMS and text.upper() in _ENUMS[field.values].__members__:
        return int(_ENUMS[field.values][text.upper()])
    return _integer(text)
