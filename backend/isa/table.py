"""The one table of instructions.

Encoder, decoder, assembler, disassembler, emulator dispatch, cost functions, the checkers and the
documentation page all read it. Adding an instruction is one row here, one semantic function in
`runtime/reference/units.py` and one cost function in `cost.py`.

A field has a fixed binary type, a count (arrays), and a role:

- `sram_r`, `sram_w`, `sram_rw`: a byte address in the core's SRAM that the instruction reads, writes, both;
- `hbm_r`, `hbm_w`, `hbm_rw`: a byte address in HBM, likewise;
- `sem`: a semaphore number;
- None: anything else.

An SRAM address field marked `optional` is absent when it holds `NONE`.
Strides are in bytes, sizes in elements. In an array field entry d belongs to dim d, the outermost first;
entries at and past `ndim` are 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from .engines import QUEUED as QUEUED
from .engines import Engine as Engine

NONE = 0xFFFF_FFFF
"""SRAM address that means "no operand here"."""

INVALID_OFFSET = -(1 << 63)
"""Entry of a gather/scatter index tile that means "this element is masked off"."""

MAX_DMA_DIMS = 5
MAX_VECTOR_DIMS = 4
MAX_VECTOR_INPUTS = 8
MAX_VECTOR_SCALARS = 8
MAX_VECTOR_OUTPUTS = 4
VECTOR_REGISTERS = 32
SCALE_BLOCK = 32
"""Elements along K that share a scale, as OCP's microscaling formats have it."""


@dataclass(frozen=True)
class Field:
    """A field of an instruction. `type` is one of u8 u16 u32 u64 i32 i64; `count` > 1 makes it an array.

    `values` says how its numbers are named in text: "format", "operand" (a format that the tensor engine multiplies),
    "reduce" (ReduceKind), "atomic" (AtomicKind), "program" (its number).
    """

    name: str
    type: str
    count: int = 1
    role: str | None = None
    optional: bool = False
    doc: str = ""
    values: str = ""


@dataclass(frozen=True)
class Opcode:
    """A row of the instruction table. `engines` are the queues it may be issued to."""

    name: str
    code: int
    engines: tuple[Engine, ...]
    fields: tuple[Field, ...]
    doc: str = ""
    by_name: dict[str, Field] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {f.name: f for f in self.fields})


def _dma_shape(sram_role: str, hbm_role: str) -> tuple[Field, ...]:
    n = MAX_DMA_DIMS
    return (
        Field("elem_bytes", "u8", doc="bytes of one element: 1, 2, 4 or 8"),
        Field("ndim", "u8", doc="number of dims, 0 to 5"),
        Field("size", "u32", n, doc="elements per dim"),
        Field("hbm", "u64", role=hbm_role, doc="byte address of element (0, …, 0)"),
        Field("hbm_stride", "i64", n, doc="bytes between neighbours per dim"),
        Field("sram", "u32", role=sram_role, doc="byte address of element (0, …, 0)"),
        Field("sram_stride", "i32", n, doc="bytes between neighbours per dim"),
        Field("lo", "i32", n, doc="first valid index per dim"),
        Field("hi", "i32", n, doc="one past the last valid index per dim"),
        Field(
            "index",
            "u32",
            n,
            role="sram_r",
            optional=True,
            doc="index vector per dim: element i is at index[i] * hbm_stride; contiguous, of index_fmt",
        ),
        Field(
            "index_fmt", "u8", doc="format of the index vectors: int32 or int64", values="format"
        ),
    )


def _element_list(sram_role: str) -> tuple[Field, ...]:
    n = MAX_DMA_DIMS
    return (
        Field("elem_bytes", "u8", doc="bytes of one element: 1, 2, 4 or 8"),
        Field("ndim", "u8", doc="number of dims, 0 to 5"),
        Field("size", "u32", n, doc="elements per dim"),
        Field(
            "offset",
            "u32",
            role="sram_r",
            doc="int64 byte offsets, row-major contiguous; INVALID_OFFSET skips",
        ),
        Field("sram", "u32", role=sram_role, doc="byte address of element (0, …, 0)"),
        Field("sram_stride", "i32", n, doc="bytes between neighbours per dim"),
    )


def _vector_shape() -> tuple[Field, ...]:
    n = MAX_VECTOR_DIMS
    return (
        Field("ndim", "u8", doc="number of dims, 0 to 4"),
        Field("size", "u32", n, doc="iteration space per dim"),
    )


def _block_scales(name: str, row: str) -> tuple[Field, ...]:
    return (
        Field(
            f"scale_{name}",
            "u32",
            role="sram_r",
            optional=True,
            doc=f"address of E8M0 bytes: per {row} one for every {SCALE_BLOCK} along K, contiguous",
        ),
        Field(f"ld_scale_{name}", "i32", doc=f"bytes between the scales of a {row} and the next"),
        Field(f"batch_scale_{name}", "i32", doc="bytes between the scales of products"),
    )


LD, ST, MM, VE = Engine.LD, Engine.ST, Engine.MM, Engine.VE

OPCODES: tuple[Opcode, ...] = (
    Opcode(
        "set",
        1,
        QUEUED,
        (Field("sem", "u8", role="sem"),),
        "add one to a semaphore once all earlier instructions of this queue have completed",
    ),
    Opcode(
        "wait",
        2,
        (*QUEUED, Engine.CORE),
        (Field("sem", "u8", role="sem"),),
        "hold this queue (or the control core) until the semaphore is above zero, then take one",
    ),
    Opcode(
        "dma.load",
        3,
        (LD,),
        (
            *_dma_shape("sram_w", "hbm_r"),
            Field(
                "keep",
                "u8",
                doc="1: leave SRAM as it is outside the valid box; 0: write `fill` there",
            ),
            Field("fill", "u64", doc="bit pattern written outside the valid box"),
        ),
        "copy a box of HBM into SRAM",
    ),
    Opcode(
        "dma.store",
        4,
        (ST,),
        _dma_shape("sram_r", "hbm_w"),
        "copy the valid box of an SRAM tile to HBM",
    ),
    Opcode(
        "dma.gather",
        5,
        (LD,),
        (
            *_element_list("sram_w"),
            Field("hbm", "u64", role="hbm_r", doc="base byte address"),
            Field("fill", "u64", doc="bit pattern of skipped elements"),
        ),
        "load elements one by one from hbm + offset",
    ),
    Opcode(
        "dma.scatter",
        6,
        (ST,),
        (*_element_list("sram_r"), Field("hbm", "u64", role="hbm_w", doc="base byte address")),
        "store elements one by one to hbm + offset, in row-major order",
    ),
    Opcode(
        "dma.atomic",
        7,
        (ST,),
        (
            *_element_list("sram_r"),
            Field("hbm", "u64", role="hbm_rw", doc="base byte address"),
            Field("kind", "u8", doc="an AtomicKind", values="atomic"),
            Field("fmt", "u8", doc="format of the elements", values="format"),
            Field(
                "compare",
                "u32",
                role="sram_r",
                optional=True,
                doc="compared values (cas), laid out as the operand",
            ),
            Field(
                "old",
                "u32",
                role="sram_w",
                optional=True,
                doc="where the old values go, laid out as the operand",
            ),
        ),
        "read-modify-write elements one by one at hbm + offset, in row-major order",
    ),
    Opcode(
        "mma",
        16,
        (MM,),
        (
            Field("fmt_a", "u8", doc="format of A", values="operand"),
            Field("fmt_b", "u8", doc="format of B", values="operand"),
            Field(
                "fmt_d",
                "u8",
                doc="format of the accumulator D: fp32, bf16, int32, or fp64 for fp64",
                values="format",
            ),
            Field("trans_a", "u8", doc="1: A is stored [K, M]"),
            Field("trans_b", "u8", doc="1: B is stored [N, K]"),
            Field("accumulate", "u8", doc="1: D += A·B; 0: D = A·B"),
            Field("batch", "u32", doc="number of independent products"),
            Field("m", "u32", doc="rows of D"),
            Field("n", "u32", doc="columns of D"),
            Field("k", "u32", doc="length of the products; 0 clears D"),
            Field("a", "u32", role="sram_r", doc="address of A"),
            Field(
                "lda",
                "i32",
                doc="bytes between stored rows of A; packed formats store pairs along K as bytes",
            ),
            Field("batch_a", "i32", doc="bytes between products in A"),
            Field("b", "u32", role="sram_r", doc="address of B"),
            Field("ldb", "i32", doc="bytes between stored rows of B"),
            Field("batch_b", "i32", doc="bytes between products in B"),
            Field("d", "u32", role="sram_rw", doc="address of D"),
            Field("ldd", "i32", doc="bytes between rows of D"),
            Field("batch_d", "i32", doc="bytes between products in D"),
            *_block_scales("a", "row of A"),
            *_block_scales("b", "column of B"),
        ),
        "matrix multiply-accumulate D[M,N] (+)= A[M,K]·B[K,N]",
    ),
    Opcode(
        "vexec",
        24,
        (VE,),
        (
            Field(
                "program", "u32", doc="number of the vector program in the image", values="program"
            ),
            *_vector_shape(),
            Field("inputs", "u8", doc="number of SRAM inputs"),
            Field("scalars", "u8", doc="number of scalar inputs"),
            Field("outputs", "u8", doc="number of outputs"),
            Field(
                "in",
                "u32",
                MAX_VECTOR_INPUTS,
                role="sram_r",
                optional=True,
                doc="address per input",
            ),
            Field(
                "in_stride",
                "i32",
                MAX_VECTOR_INPUTS * MAX_VECTOR_DIMS,
                doc="strides per input and dim; 0 broadcasts",
            ),
            Field("scalar", "u64", MAX_VECTOR_SCALARS, doc="bit pattern per scalar input"),
            Field(
                "out",
                "u32",
                MAX_VECTOR_OUTPUTS,
                role="sram_w",
                optional=True,
                doc="address per output",
            ),
            Field(
                "out_stride",
                "i32",
                MAX_VECTOR_OUTPUTS * MAX_VECTOR_DIMS,
                doc="strides per output and dim",
            ),
        ),
        "run a vector program at every point of an iteration space",
    ),
    Opcode(
        "reduce",
        25,
        (VE,),
        (
            Field("kind", "u8", doc="a ReduceKind", values="reduce"),
            Field("fmt", "u8", doc="format of input and output", values="format"),
            *_vector_shape(),
            Field("axis", "u8", doc="the dim that is reduced"),
            Field("in", "u32", role="sram_r", doc="address of the input"),
            Field("in_stride", "i32", MAX_VECTOR_DIMS, doc="strides of the input"),
            Field("out", "u32", role="sram_w", optional=True, doc="address of the output (values)"),
            Field(
                "out_stride",
                "i32",
                MAX_VECTOR_DIMS,
                doc="strides of the outputs; the axis entry is 0",
            ),
            Field(
                "arg",
                "u32",
                role="sram_w",
                optional=True,
                doc="address of the int32 positions (argmax, argmin)",
            ),
            Field(
                "arg_stride",
                "i32",
                MAX_VECTOR_DIMS,
                doc="strides of the positions; the axis entry is 0",
            ),
        ),
        "reduce one dim",
    ),
    Opcode(
        "scan",
        26,
        (VE,),
        (
            Field(
                "kind", "u8", doc="a ReduceKind: sum, prod, max, min, and, or, xor", values="reduce"
            ),
            Field("fmt", "u8", doc="format of input and output", values="format"),
            Field("reverse", "u8", doc="1: from the end of the axis"),
            *_vector_shape(),
            Field("axis", "u8", doc="the dim that is scanned"),
            Field("in", "u32", role="sram_r", doc="address of the input"),
            Field("in_stride", "i32", MAX_VECTOR_DIMS, doc="strides of the input"),
            Field("out", "u32", role="sram_w", doc="address of the output"),
            Field("out_stride", "i32", MAX_VECTOR_DIMS, doc="strides of the output"),
        ),
        "inclusive scan along one dim",
    ),
    Opcode(
        "take",
        27,
        (VE,),
        (
            Field("fmt", "u8", doc="format of input and output", values="format"),
            Field("picks_fmt", "u8", doc="format of the indices: int32 or int64", values="format"),
            *_vector_shape(),
            Field("axis", "u8", doc="the dim along which elements are picked"),
            Field("length", "u32", doc="size of the input along the axis; it is `size` elsewhere"),
            Field("in", "u32", role="sram_r", doc="address of the input"),
            Field("in_stride", "i32", MAX_VECTOR_DIMS, doc="strides of the input"),
            Field("picks", "u32", role="sram_r", doc="address of the indices"),
            Field("picks_stride", "i32", MAX_VECTOR_DIMS, doc="strides of the indices"),
            Field("out", "u32", role="sram_w", doc="address of the output"),
            Field("out_stride", "i32", MAX_VECTOR_DIMS, doc="strides of the output"),
        ),
        "pick elements along one dim by indices; an index outside of it gives zero bits",
    ),
)

BY_NAME: dict[str, Opcode] = {op.name: op for op in OPCODES}
BY_CODE: dict[int, Opcode] = {op.code: op for op in OPCODES}


class ReduceKind(IntEnum):
    """What `reduce` and `scan` do. `s`/`u` are signed and unsigned; `f…num` ignores NaN, `f…` returns it."""

    FSUM = 0
    FMAX = 1
    FMIN = 2
    FMAXNUM = 3
    FMINNUM = 4
    ISUM = 5
    SMAX = 6
    SMIN = 7
    UMAX = 8
    UMIN = 9
    AND = 10
    OR = 11
    XOR = 12
    FPROD = 13
    IPROD = 14


class AtomicKind(IntEnum):
    """What `dma.atomic` does."""

    FADD = 0
    IADD = 1
    FMAX = 2
    FMIN = 3
    SMAX = 4
    SMIN = 5
    UMAX = 6
    UMIN = 7
    AND = 8
    OR = 9
    XOR = 10
    XCHG = 11
    CAS = 12


ATOMIC_OPS: dict[AtomicKind, str] = {
    AtomicKind.FADD: "fadd",
    AtomicKind.IADD: "iadd",
    AtomicKind.FMAX: "fmax",
    AtomicKind.FMIN: "fmin",
    AtomicKind.SMAX: "smax",
    AtomicKind.SMIN: "smin",
    AtomicKind.UMAX: "umax",
    AtomicKind.UMIN: "umin",
    AtomicKind.AND: "iand",
    AtomicKind.OR: "ior",
    AtomicKind.XOR: "ixor",
}
"""The elementwise operation that an atomic does; XCHG and CAS are none."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: an opcode's name, the engine whose queue it enters, and its field values.

    Array fields hold tuples of `count` ints. Fields that are absent from `fields` are 0
    (`NONE` for optional SRAM addresses).
    """

    op: str
    engine: Engine
    fields: dict[str, int | tuple[int, ...]]
