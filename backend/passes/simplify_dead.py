"""Dead code: ops, results of `scf.if`, and values carried around loops, by marking what is needed.

A carried value is dead when nothing but its own update uses it, so counting uses is not enough.
`scf.while` is kept: nothing says that it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import func, scf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ..dialects import tile
from ..dialects.definition import is_pure, operands_of
from .simplify_regions import erase, keep_arguments, keep_operands, keep_results, terminator

READS: tuple[type[Operation], ...] = (tile.LoadOp, tile.LoadBoxOp, tile.GatherOp)
"""Ops that read memory and do nothing else."""

_REMOVABLE = frozenset((*READS, scf.ForOp, scf.IfOp))
_TERMINATORS = frozenset((scf.YieldOp, scf.ConditionOp, tile.YieldOp))


def is_removable(op: Operation) -> bool:
    """True when an op may go if nobody uses its results (its regions aside)."""
    return type(op) in _REMOVABLE or is_pure(op)


def remove_dead(function: func.FuncOp) -> None:
    """Erase everything that neither has an effect nor feeds one."""
    marks = _Marks(function)
    for block in function.body.blocks:
        for op in tile.operations(block):
            if not is_removable(op) and type(op) not in _TERMINATORS:
                marks.need(op)
    marks.run()
    for block in function.body.blocks:
        _sweep(block, marks)


class _Marks:
    """What is needed: ops, and the values among results and block arguments of `scf` ops."""

    def __init__(self, function: func.FuncOp) -> None:
        self.ops: set[Operation] = {function}
        self.values: set[SSAValue] = set()
        self.work: list[SSAValue] = []

    def need(self, op: Operation) -> None:
        """An op runs, hence the op around it, with what decides whether and how often it runs."""
        around: Operation | None = op
        while around is not None and around not in self.ops:
            self.ops.add(around)
            decides = _DECIDES.get(type(around), operands_of)
            self.work += decides(around)
            around = around.parent_op()

    def run(self) -> None:
        """Follow values to their definitions."""
        while self.work:
            value = self.work.pop()
            if value in self.values:
                continue
            self.values.add(value)
            if type(value) is OpResult:
                self.need(value.op)
                if value.op.regions:
                    self._result(value.op, value.index)
            elif type(value) is BlockArgument:
                self._argument(value)

    def _result(self, op: Operation, index: int) -> None:
        if isinstance(op, scf.ForOp):
            self._slot(op, index)
        elif isinstance(op, scf.IfOp):
            self.work += [terminator(r.block).operands[index] for r in op.regions]
        elif isinstance(op, scf.WhileOp):
            self.work.append(terminator(op.before_region.block).operands[index + 1])

    def _argument(self, value: BlockArgument) -> None:
        op, index = value.block.parent_op(), value.index
        if isinstance(op, scf.ForOp) and index > 0:
            self._slot(op, index - 1)
        elif isinstance(op, scf.WhileOp) and value.block is op.before_region.block:
            self.work += [op.arguments[index], terminator(op.after_region.block).operands[index]]
        elif isinstance(op, scf.WhileOp):
            self.work.append(terminator(op.before_region.block).operands[index + 1])

    def _slot(self, op: scf.ForOp, index: int) -> None:
        block = op.body.block
        self.work += [op.iter_args[index], terminator(block).operands[index]]
        self.values.add(block.args[index + 1])


_DECIDES: dict[type[Operation], Callable[[Any], Sequence[SSAValue]]] = {
    scf.ForOp: lambda op: operands_of(op)[:3],
    scf.IfOp: lambda op: operands_of(op)[:1],
    scf.WhileOp: lambda op: operands_of(terminator(op.before_region.block))[:1],
    scf.YieldOp: lambda op: (),
    scf.ConditionOp: lambda op: (),
}
"""The operands on which it depends whether and how often control flow runs; all other ops need all of theirs."""


def _sweep(block: Block, marks: _Marks) -> None:
    """Erase from the end, so that users go before what they use; a dead op's yields go before it."""
    op = block.last_op
    while op is not None:
        before = op.prev_op
        if op not in marks.ops:
            if type(op) not in (scf.YieldOp, scf.ConditionOp):
                erase(op)
        elif op.regions:
            sweep = _SWEEPS.get(type(op))
            if sweep is not None:
                sweep(op, marks)
        op = before


def _sweep_for(op: scf.ForOp, marks: _Marks) -> None:
    block = op.body.block
    pairs = zip(block.args[1:], op.results, strict=True)
    keep = [a in marks.values or r in marks.values for a, r in pairs]
    keep_operands(terminator(block), 0, keep)
    _sweep(block, marks)
    keep_operands(op, 3, keep)
    keep_results(op, keep)
    keep_arguments(block, 1, keep)


def _sweep_if(op: scf.IfOp, marks: _Marks) -> None:
    keep = [result in marks.values for result in op.results]
    for region in op.regions:
        for block in region.blocks:
            keep_operands(terminator(block), 0, keep)
            _sweep(block, marks)
    keep_results(op, keep)


def _sweep_while(op: scf.WhileOp, marks: _Marks) -> None:
    before, after = op.before_region.block, op.after_region.block
    inward = [argument in marks.values for argument in before.args]
    pairs = zip(after.args, op.results, strict=True)
    outward = [a in marks.values or r in marks.values for a, r in pairs]
    keep_operands(terminator(before), 1, outward)
    keep_operands(terminator(after), 0, inward)
    _sweep(before, marks)
    _sweep(after, marks)
    keep_operands(op, 0, inward)
    keep_results(op, outward)
    keep_arguments(before, 0, inward)
    keep_arguments(after, 0, outward)


_SWEEPS: dict[type[Operation], Callable[[Any, _Marks], None]] = {
    scf.ForOp: _sweep_for,
    scf.IfOp: _sweep_if,
    scf.WhileOp: _sweep_while,
}
