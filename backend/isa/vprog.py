"""Vector programs: what a `vexec` instruction runs at every point of its iteration space.

A program is straight-line code over `VECTOR_REGISTERS` registers. Besides the operations of
`vector_ops.py` there are five sources and sinks: `in k` (SRAM input k), `scalar k` (scalar input k),
`const` (immediate bits), `index d` (int32 coordinate of dim d), `out k` (write a register to output k).
"""

from __future__ import annotations

from dataclasses import dataclass

IN, SCALAR, CONST, INDEX, OUT = "in", "scalar", "const", "index", "out"
SPECIAL_CODES: dict[str, int] = {IN: 0, SCALAR: 1, CONST: 2, INDEX: 3, OUT: 4}


@dataclass(frozen=True)
class MicroOp:
    """One micro-op.

    Attributes:
        op: a name of `vector_ops.VECTOR_OPS` or one of in, scalar, const, index, out.
        fmt: name of the format of the result (of the stored value for `out`).
        src_fmt: name of the format of the (last) source operand; equals `fmt` unless the op converts or compares.
        dst: destination register (unused by `out`).
        srcs: source registers; `out` has one.
        imm: the operand number of in/scalar/out, the dim of index, the bit pattern of const.
    """

    op: str
    fmt: str
    src_fmt: str
    dst: int = 0
    srcs: tuple[int, ...] = ()
    imm: int = 0


@dataclass(frozen=True)
class VectorProgram:
    """A vector program and the formats of its operands (names of formats)."""

    inputs: tuple[str, ...]
    scalars: tuple[str, ...]
    outputs: tuple[str, ...]
    ops: tuple[MicroOp, ...]
