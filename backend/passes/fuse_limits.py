"""The limits of `vexec`: cutting a cluster into parts that fit.

A part is a run of the cluster's members in program order, so cutting keeps the clusters acyclic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith, func, scf
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import tile
from ..dialects.types import shape_of
from ..isa.table import (
    MAX_VECTOR_INPUTS,
    MAX_VECTOR_OUTPUTS,
    MAX_VECTOR_SCALARS,
    VECTOR_REGISTERS,
)
from .fuse_walks import Leaf, is_scalar_float_map

_OPERAND_REGISTERS = 4
"""Registers for the operands of one operation that are loaded for it, and one to spare."""


def cut(
    members: Sequence[int],
    ops: Sequence[Operation],
    reads: Mapping[Operation, Sequence[Leaf]],
    in_memory: set[SSAValue],
) -> list[list[int]]:
    """The members (numbers of ops, in order) as runs that a vector program can hold."""
    inside = {ops[k].results[0] for k in members}
    uses: dict[SSAValue, int] = {}
    outside = set(in_memory)
    member_ops = {ops[k] for k in members}
    for op, read in reads.items():
        for leaf in read:
            if leaf.value in inside:
                if op in member_ops:
                    uses[leaf.value] = uses.get(leaf.value, 0) + 1
                else:
                    outside.add(leaf.value)
    parts: list[list[int]] = []
    rest = list(members)
    while rest:
        count = _longest_run([ops[k] for k in rest], reads, outside, uses)
        parts.append(rest[:count])
        rest = rest[count:]
    return parts


def _longest_run(
    members: Sequence[Operation],
    reads: Mapping[Operation, Sequence[Leaf]],
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
        self.members: set[SSAValue] = set()
        self.left: dict[SSAValue, int] = {}
        self.kept = 0

    @property
    def outputs(self) -> int:
        """Results that something after the run needs."""
        return self.kept + len(self.left)

    def add(self, op: Operation, read: Sequence[Leaf]) -> bool:
        """Take one more member; False when inputs, scalars or registers run out."""
        for leaf in read:
            self._read(leaf)
        value = op.results[0]
        self.members.add(value)
        if value in self.outside:
            self.kept += 1
        elif self.total.get(value):
            self.left[value] = self.total[value]
        return (
            len(self.inputs) <= MAX_VECTOR_INPUTS
            and len(self.scalars) <= MAX_VECTOR_SCALARS
            and self.outputs + _OPERAND_REGISTERS + _remade(op) <= VECTOR_REGISTERS
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


def _remade(op: Operation) -> int:
    """Registers for cheap tiles that are made for one operation."""
    return len(op.operands)
