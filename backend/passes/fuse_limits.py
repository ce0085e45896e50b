"""The limits of `vexec`: cutting a cluster into parts that fit.

A part is a run of the cluster's members in program order, so cutting keeps the clusters acyclic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.dialects import arith, func, scf
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import tile
from ..dialects.types import shape_of
from ..isa.table import (
    MAX_VECTOR_DIMS,
    MAX_VECTOR_INPUTS,
    MAX_VECTOR_OUTPUTS,
    MAX_VECTOR_SCALARS,
    VECTOR_REGISTERS,
)
from .fuse_walks import Leaf, Reading, is_scalar_float_map, space_of

_OPERAND_REGISTERS = 5
"""Registers for the operands of one operation that are loaded for it, its result, and one to spare."""


def cut(
    members: Sequence[int],
    ops: Sequence[Operation],
    reads: Mapping[Operation, Reading],
    readers: Mapping[SSAValue, Sequence[Operation]],
    in_memory: set[SSAValue],
) -> list[list[int]]:
    """The members (numbers of ops, in order) as runs that a vector program can hold.

    `readers` are the ops that read a value, one entry for each of their leaves.
    """
    uses: dict[SSAValue, int] = {}
    outside: set[SSAValue] = set()
    member_ops = {ops[k] for k in members}
    for member in member_ops:
        value = member.results[0]
        found = readers.get(value, ())
        inside = sum(op in member_ops for op in found)
        if inside:
            uses[value] = inside
        if inside < len(found) or value in in_memory:
            outside.add(value)
    parts: list[list[int]] = []
    start = 0
    while start < len(members):
        rest = (ops[members[at]] for at in range(start, len(members)))
        count = _longest_run(rest, reads, outside, uses)
        parts.append(list(members[start : start + count]))
        start += count
    return parts


def _longest_run(
    members: Iterable[Operation],
    reads: Mapping[Operation, Reading],
    outside: set[SSAValue],
    uses: Mapping[SSAValue, int],
) -> int:
    """How many members from the first one on fit into one program."""
    run = _Run(outside, uses)
    best = 1
    for count, op in enumerate(members, 1):
        if not run.add(op, reads[op]):
            break
        if run.outputs <= MAX_VECTOR_OUTPUTS:
            best = count
    return best


class _Run:
    """Inputs, scalars, outputs and registers of a growing run of members."""

    def __init__(self, outside: set[SSAValue], uses: Mapping[SSAValue, int]) -> None:
        self.outside = outside
        self.total = uses
        self.inputs: set[Leaf] = set()
        self.scalars: set[SSAValue] = set()
        self.remade: set[Leaf] = set()
        self.members: set[SSAValue] = set()
        self.left: dict[SSAValue, int] = {}
        self.kept = 0

    @property
    def outputs(self) -> int:
        """Results that something after the run needs."""
        return self.kept + len(self.left)

    def add(self, op: Operation, read: Reading) -> bool:
        """Take one more member; False when inputs, scalars or registers run out."""
        for leaf in read.leaves:
            self._read(leaf)
        self.remade.update(read.remade)
        value = op.results[0]
        self.members.add(value)
        if value in self.outside:
            self.kept += 1
        elif self.total.get(value):
            self.left[value] = self.total[value]
        rank = len(space_of(value))
        coordinates = 2 * rank if rank > MAX_VECTOR_DIMS else 0
        registers = self.outputs + len(self.remade) + coordinates + _OPERAND_REGISTERS
        return (
            len(self.inputs) <= MAX_VECTOR_INPUTS
            and len(self.scalars) <= MAX_VECTOR_SCALARS
            and registers <= VECTOR_REGISTERS
        )

    def _read(self, leaf: Leaf) -> None:
        value = leaf.value
        if value in self.members:
            if value in self.left:
                self.left[value] -= 1
                if not self.left[value]:
                    del self.left[value]
        elif shape_of(value.type):
            self.inputs.add(leaf)
        elif not isinstance(value.owner, arith.ConstantOp):
            self.scalars.add(value)
            if may_be_in_sram(value):
                self.inputs.add(leaf)


def may_be_in_sram(value: SSAValue, depth: int = 8) -> bool:
    """False for scalars that the control core surely holds; the place pass decides about the others."""
    owner = value.owner
    if isinstance(owner, Block):
        parent = owner.parent_op()
        counter = isinstance(parent, scf.ForOp) and value is owner.args[0]
        return not (counter or isinstance(parent, func.FuncOp))
    if isinstance(owner, (arith.ConstantOp, tile.ProgramIdOp, tile.NumProgramsOp, tile.PtrCastOp)):
        return False
    if isinstance(owner, tile.MapOp) and not is_scalar_float_map(owner) and depth > 0:
        return any(may_be_in_sram(v, depth - 1) for v in owner.args)
    return True
