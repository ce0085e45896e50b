"""Surgery on `scf` ops in place: inlining bodies, adding and dropping carried values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.core import SSAValues


def inline_block(block: Block, before: Operation, args: Sequence[SSAValue]) -> list[SSAValue]:
    """Move a block's ops before an op, its arguments replaced; the values its terminator yields."""
    for argument, value in zip(block.args, args, strict=True):
        argument.replace_all_uses_with(value)
    terminator = block.last_op
    assert terminator is not None and before.parent is not None
    yielded = list(terminator.operands)
    block.erase_op(terminator)
    while (op := block.first_op) is not None:
        block.detach_op(op)
        before.parent.insert_op_before(op, before)
    return yielded


def erase(op: Operation) -> None:
    """Take an op out whose results have no uses. (`Block.erase_op` also gives its results new, erased users.)"""
    assert op.parent is not None and all(result.first_use is None for result in op.results)
    op.parent.detach_op(op)
    op.drop_all_references()


def replace_results(op: Operation, values: Sequence[SSAValue]) -> None:
    """Replace all results of an op and erase it."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    erase(op)


def add_result(op: Operation, type_: Attribute) -> SSAValue:
    """Append a result."""
    result: OpResult[Attribute] = OpResult(type_, op, len(op.results))
    op.results = SSAValues((*op.results, result))
    return result


def keep_results(op: Operation, keep: Sequence[bool]) -> None:
    """Drop the results that are not kept; they have no uses."""
    if all(keep):
        return
    kept = [r for r, k in zip(op.results, keep, strict=True) if k]
    for index, result in enumerate(kept):
        result.index = index
    op.results = SSAValues(kept)


def keep_operands(op: Operation, first: int, keep: Sequence[bool]) -> None:
    """Drop operands from number `first` on that are not kept."""
    if all(keep):
        return
    tail = [v for v, k in zip(op.operands[first:], keep, strict=True) if k]
    op.operands = (*op.operands[:first], *tail)


def keep_arguments(block: Block, first: int, keep: Sequence[bool]) -> None:
    """Drop block arguments from number `first` on that are not kept."""
    for argument, k in zip(tuple(block.args)[first:], keep, strict=True):
        if not k:
            block.erase_arg(argument)


def terminator(block: Block) -> Operation:
    """The last op of a block."""
    assert block.last_op is not None
    return block.last_op


def carry_in_for(op: scf.ForOp, init: SSAValue) -> tuple[BlockArgument, SSAValue]:
    """Carry one more value around a loop: its block argument and result. The caller extends the yield."""
    op.operands = (*op.operands, init)
    block = op.body.block
    return block.insert_arg(init.type, len(block.args)), add_result(op, init.type)


def carried(op: scf.ForOp) -> list[tuple[SSAValue, BlockArgument, SSAValue, OpResult[Attribute]]]:
    """Per carried value: initial value, block argument, yielded value, result."""
    block = op.body.block
    yielded = terminator(block).operands
    return list(zip(op.iter_args, block.args[1:], yielded, op.results, strict=True))


def each_loop_last(block: Block, visit: Callable[[Operation], None]) -> None:
    """Visit the loops of a block, inner ones before outer ones."""
    for op in tuple(block.ops):
        if op.regions:
            for region in op.regions:
                for inner in region.blocks:
                    each_loop_last(inner, visit)
            if isinstance(op, (scf.ForOp, scf.WhileOp)):
                visit(op)
