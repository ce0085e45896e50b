"""The binary form of instructions and vector programs, derived from the tables.

Everything is little-endian. An instruction is a header (opcode u16, engine u8, reserved u8, size in bytes
u32), then its fields in the order of the table at natural alignment, filled up to a multiple of 8. A vector
program is a header (micro-ops u32, number of inputs, scalars and outputs u8, reserved u8, format codes of
8 inputs, 8 scalars and 4 outputs, filled up to 32 bytes), then 24 bytes per micro-op. Reserved and fill
bytes are 0; a decoder refuses anything that the encoder would not have written.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .. import formats
from ..errors import ImageError
from .check import BITS, check_program, normalized
from .table import (
    BY_CODE,
    BY_NAME,
    MAX_VECTOR_INPUTS,
    MAX_VECTOR_OUTPUTS,
    MAX_VECTOR_SCALARS,
    OPCODES,
    Engine,
    Field,
    Instruction,
    Opcode,
)
from .vector_ops import BY_CODE as VECTOR_BY_CODE
from .vector_ops import BY_NAME as VECTOR_BY_NAME
from .vprog import SPECIAL_CODES, MicroOp, VectorProgram

_LETTER = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i", "i64": "q"}
_HEADER = struct.Struct("<HBBI")


@dataclass(frozen=True)
class Layout:
    """Where the fields of an instruction are: byte offsets by field name, and the total size in bytes."""

    size: int
    offsets: dict[str, int]
    struct: struct.Struct


def _layout(row: Opcode) -> Layout:
    parts = ["<HBBI"]
    offset = _HEADER.size
    offsets: dict[str, int] = {}
    for field in row.fields:
        width = BITS[field.type] // 8
        gap = -offset % width
        parts.append(f"{gap}x{field.count}{_LETTER[field.type]}")
        offsets[field.name] = offset + gap
        offset += gap + width * field.count
    parts.append(f"{-offset % 8}x")
    packer = struct.Struct("".join(parts))
    return Layout(packer.size, offsets, packer)


LAYOUTS: dict[str, Layout] = {row.name: _layout(row) for row in OPCODES}


def encode(instruction: Instruction) -> bytes:
    """The bytes of an instruction. Raises ValueError when a field does not exist or fit."""
    full = normalized(instruction)
    row, layout = BY_NAME[full.op], LAYOUTS[full.op]
    values: list[int] = [row.code, int(full.engine), 0, layout.size]
    for value in full.fields.values():
        if isinstance(value, int):
            values.append(value)
        else:
            values.extend(value)
    return layout.struct.pack(*values)


def decode(data: bytes, offset: int = 0) -> tuple[Instruction, int]:
    """The instruction at a byte offset, all fields present, and the offset behind it. Raises ImageError."""
    if offset < 0 or offset + _HEADER.size > len(data):
        raise ImageError(f"instruction at byte {offset} is cut off")
    code, engine, reserved, size = _HEADER.unpack_from(data, offset)
    row = BY_CODE.get(code)
    if row is None:
        raise ImageError(f"unknown opcode {code} at byte {offset}")
    layout = LAYOUTS[row.name]
    if size != layout.size or offset + size > len(data):
        raise ImageError(f"{row.name} at byte {offset} has the wrong size or is cut off")
    if engine not in map(int, row.engines):
        raise ImageError(f"{row.name} at byte {offset} cannot be issued to engine {engine}")
    values = layout.struct.unpack_from(data, offset)
    if reserved or layout.struct.pack(*values) != data[offset : offset + size]:
        raise ImageError(f"{row.name} at byte {offset} has reserved bytes that are not 0")
    fields = _fields(row.fields, values[4:])
    return Instruction(row.name, Engine(engine), fields), offset + size


def _fields(fields: tuple[Field, ...], values: tuple[int, ...]) -> dict[str, int | tuple[int, ...]]:
    result: dict[str, int | tuple[int, ...]] = {}
    at = 0
    for field in fields:
        result[field.name] = values[at] if field.count == 1 else values[at : at + field.count]
        at += field.count
    return result


# Vector programs

_COUNTS = (MAX_VECTOR_INPUTS, MAX_VECTOR_SCALARS, MAX_VECTOR_OUTPUTS)
_PROGRAM = struct.Struct("<I3Bx8B8B4B4x")
_MICRO_OP = struct.Struct("<HBBBB3B7xQ")
_SPECIAL_NAMES = {code: name for name, code in SPECIAL_CODES.items()}


def encode_program(program: VectorProgram) -> bytes:
    """The bytes of a vector program. Raises ValueError when it is not well formed."""
    check_program(program)
    groups = (program.inputs, program.scalars, program.outputs)
    codes: list[int] = []
    for names, count in zip(groups, _COUNTS, strict=True):
        codes += [formats.by_name(name).code for name in names] + [0] * (count - len(names))
    head = _PROGRAM.pack(len(program.ops), *map(len, groups), *codes)
    return head + b"".join(map(_encode_micro_op, program.ops))


def _encode_micro_op(op: MicroOp) -> bytes:
    code = SPECIAL_CODES[op.op] if op.op in SPECIAL_CODES else VECTOR_BY_NAME[op.op].code
    fmt, src_fmt = formats.by_name(op.fmt).code, formats.by_name(op.src_fmt).code
    srcs = (*op.srcs, 0, 0, 0)[:3]
    return _MICRO_OP.pack(code, fmt, src_fmt, op.dst, len(op.srcs), *srcs, op.imm)


def decode_program(data: bytes, offset: int = 0) -> tuple[VectorProgram, int]:
    """The vector program at a byte offset and the offset behind it. Raises ImageError."""
    if offset < 0 or offset + _PROGRAM.size > len(data):
        raise ImageError(f"vector program at byte {offset} is cut off")
    count, *rest = _PROGRAM.unpack_from(data, offset)
    end = offset + _PROGRAM.size + count * _MICRO_OP.size
    if end > len(data):
        raise ImageError(f"vector program at byte {offset} is cut off")
    try:
        inputs, scalars, outputs = _operand_formats(rest[:3], rest[3:])
        ops = tuple(
            _decode_micro_op(data, at) for at in range(offset + _PROGRAM.size, end, _MICRO_OP.size)
        )
        program = VectorProgram(inputs, scalars, outputs, ops)
        if encode_program(program) != data[offset:end]:
            raise ValueError("reserved bytes are not 0")
    except ValueError as error:
        raise ImageError(f"vector program at byte {offset}: {error}") from None
    return program, end


def _operand_formats(counts: list[int], codes: list[int]) -> list[tuple[str, ...]]:
    groups = []
    at = 0
    for used, count in zip(counts, _COUNTS, strict=True):
        if used > count:
            raise ValueError(f"{used} operands of a kind, at most {count} are possible")
        groups.append(tuple(_format_name(code) for code in codes[at : at + used]))
        at += count
    return groups


def _format_name(code: int) -> str:
    if code not in formats.BY_CODE:
        raise ValueError(f"unknown format {code}")
    return formats.BY_CODE[code].name


def _decode_micro_op(data: bytes, offset: int) -> MicroOp:
    code, fmt, src_fmt, dst, arity, *srcs, imm = _MICRO_OP.unpack_from(data, offset)
    if code in VECTOR_BY_CODE:
        name = VECTOR_BY_CODE[code].name
    elif code in _SPECIAL_NAMES:
        name = _SPECIAL_NAMES[code]
    else:
        raise ValueError(f"unknown micro-op {code}")
    return MicroOp(name, _format_name(fmt), _format_name(src_fmt), dst, tuple(srcs[:arity]), imm)
