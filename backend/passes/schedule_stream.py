"""A core's stream of instructions and flags: the data, and facts about a kernel that it is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func
from xdsl.ir import Block, SSAValue

from ..cost import array, scalar, valid_box
from ..dialects import dsa
from ..dialects.tile import ints
from ..isa.table import NONE, Engine
from ..llvm.table_glue import Operand


@dataclass(frozen=True, slots=True)
class Access:
    """What an instruction does to memory: to SRAM bytes [low, high), or to HBM of `arg` when that is ≥ -1.

    Bounds of HBM are relative to the argument; low > high: anywhere.
    """

    low: int
    high: int
    reads: bool
    writes: bool
    arg: int = -2
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction (`template` of the static image), or a set or wait (`sem` ≥ 0).

    `operands_before` is the number of run-time operands that it has without a static schedule.
    """

    op: str
    engine: Engine
    template: int = -1
    operands: tuple[Operand, ...] = ()
    operands_before: int = 0
    accesses: tuple[Access, ...] = ()
    program: int = -1
    sem: int = -1


def strings_of(kernel: func.FuncOp, name: str) -> list[str]:
    """An attribute that is an array of strings."""
    return [str(entry.data) for entry in kernel.attributes[name]]  # type: ignore[attr-defined]


def constants_of(block: Block) -> set[SSAValue]:
    """Values that the glue knows when it is compiled, as `llvm/glue.py` folds them."""
    found: set[SSAValue] = set()
    for op in block.walk():
        folds = isinstance(op, arith.ConstantOp) or (
            op.name in ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast")
            and op.operands[0] in found
        )
        if isinstance(op, dsa.AcquireOp):
            ring = op.ring.owner
            folds = isinstance(ring, dsa.RingOp) and ring.slots.value.data == 1
        if folds:
            found.update(op.results)
    return found


def reach_of(fields: dict[str, int | tuple[int, ...]], base: int) -> tuple[int, int]:
    """Bytes of HBM from the first to the last one of a box; (1, 0) when that is not known."""
    box = valid_box(fields)
    if any(lo == hi for lo, hi in box):
        return base, base
    if any(index != NONE for index in array(fields, "index")):
        return 1, 0
    low = high = base
    for (first, end), stride in zip(box, array(fields, "hbm_stride")):
        ends = (first * stride, (end - 1) * stride)
        low, high = low + min(ends), high + max(ends)
    return low, high + scalar(fields, "elem_bytes")


def alias_groups(kernel: func.FuncOp) -> Sequence[int]:
    """Arguments with equal numbers may overlap."""
    return ints(kernel.attributes["dsa.alias"])
