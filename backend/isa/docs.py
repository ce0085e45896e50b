"""The instruction set's page, `docs/isa.md`, generated from the tables.

`python -m dsalang._backend.isa.docs > docs/isa.md` writes it; a test fails when it is stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from .. import formats
from .encode import LAYOUTS
from .rv64 import CALLS
from .table import INVALID_OFFSET, NONE, OPCODES, AtomicKind, Engine, Opcode, ReduceKind
from .vector_ops import VECTOR_OPS
from .vprog import SPECIAL_CODES

_HEAD = f"""# Instruction set

Generated from `backend/isa/` by `python -m dsalang._backend.isa.docs > docs/isa.md`; do not edit.

An instruction covers a whole tile. It enters the queue of one engine with all its fields; in an image it is a
template, some of whose fields are open and come from the control core when it is issued. Everything is
little-endian. An instruction starts with a header of 8 bytes (opcode u16, engine u8, reserved u8, size in bytes
u32), then its fields follow at natural alignment, filled up with zeros to a multiple of 8.

SRAM addresses are bytes from the start of the core's SRAM; an optional one that is absent is {NONE:#x}, `none` in
text. Strides are in bytes, sizes in elements. Entry d of an array belongs to dim d, the outermost first. A
gather or scatter offset of {INVALID_OFFSET} skips its element.

In text, an instruction is `name.ENGINE field=value …` with the fields that differ from their default; `?j` is
an open field, filled by operand j.
"""

_PACKED = """Formats of 4 bits are packed: a byte holds two numbers that are neighbours along K, the first one in its low half. Only
the operands A and B of an `mma` have them; for all other instructions such data are bytes.
"""

_PROGRAMS = """## Vector programs

A `vexec` runs a vector program at every point of its iteration space: straight-line micro-ops on 32 registers.
The binary form is a header of 32 bytes (number of micro-ops u32; number of inputs, scalars, outputs u8; reserved
u8; format codes of 8 inputs, 8 scalars, 4 outputs; 4 reserved) and 24 bytes per micro-op (operation u16, format
of the result u8, format of the last source u8, destination u8, number of sources u8, 3 sources u8, 7 reserved,
immediate u64). In text, `r2 = fadd.fp32 r0, r1`, `r1 = fcvt.fp32<fp16> r0`, `r0 = in.fp16 0`,
`r3 = const.fp32 0x3f800000`, `out.fp16 r4, 0`; the first line gives the formats of the operands:
`program inputs(fp16) scalars() outputs(fp16)`.
"""

_CALLS = {
    "issue": ("template number", "address of one i64 per open field", "–"),
    "wait": ("semaphore", "0", "–"),
    "read": ("SRAM address", "format code", "the value, sign-extended"),
    "print": ("print number", "address of i64 values", "–"),
    "assert": ("assertion number", "condition", "–"),
    "at": ("cycle at which the next issued instruction starts, exactly", "0", "–"),
}


def isa_page() -> str:
    """The text of `docs/isa.md`."""
    parts = [_HEAD, "## Engines\n\n" + _kinds(Engine)]
    parts.append("## Number formats\n\n" + _table(("code", "name", "bits", "kind"), _format_rows()))
    parts.append(_PACKED)
    parts += map(_instruction, OPCODES)
    parts += [
        "## Kinds of reduce and scan\n\n" + _kinds(ReduceKind),
        "## Kinds of atomic\n\n" + _kinds(AtomicKind),
        _PROGRAMS,
        _table(("code", "operation", "operands", "result", "cost", "meaning"), _operation_rows()),
        "## The control core\n\nRV64IM, and custom-0 with rd = a0, rs1 = a0, rs2 = a1:\n",
        _table(("funct3", "instruction", "a0", "a1", "result"), _call_rows()),
    ]
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(str(c).replace('|', chr(92) + '|') for c in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _kinds(enum: type[IntEnum]) -> str:
    return _table(("code", "name"), ((int(kind), kind.name) for kind in enum))


def _format_rows() -> Iterable[Sequence[object]]:
    return ((fmt.code, fmt.name, fmt.bits, fmt.kind) for fmt in (*formats.FORMATS, *formats.PACKED))


def _instruction(row: Opcode) -> str:
    layout = LAYOUTS[row.name]
    engines = ", ".join(engine.name for engine in row.engines)
    rows = [
        (
            layout.offsets[field.name],
            field.name,
            field.type + (f" × {field.count}" if field.count > 1 else ""),
            (field.role or "") + (", optional" if field.optional else ""),
            field.doc,
        )
        for field in row.fields
    ]
    return (
        f"## {row.name}\n\n{row.doc[0].upper()}{row.doc[1:]}.\n\n"
        f"Opcode {row.code}, {layout.size} bytes, engines {engines}.\n\n"
        + _table(("byte", "field", "type", "role", "meaning"), rows)
    )


def _operation_rows() -> Iterable[Sequence[object]]:
    special = {
        "in": "read SRAM input k",
        "scalar": "read scalar input k",
        "const": "the immediate's bits",
        "index": "coordinate of dim k, int32",
        "out": "write to output k",
    }
    for name, code in SPECIAL_CODES.items():
        yield code, f"`{name}`", "any" if name == "out" else "", "", "free", special[name]
    for op in VECTOR_OPS:
        yield op.code, f"`{op.name}`", ", ".join(op.operands), op.result, op.cost, op.doc


def _call_rows() -> Iterable[Sequence[object]]:
    return ((number, f"`dsa.{name}`", *_CALLS[name]) for number, name in enumerate(CALLS))


if __name__ == "__main__":
    print(isa_page(), end="")
