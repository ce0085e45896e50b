"""Control flow that is known: constant conditions, loops of zero or one trip, values carried for nothing."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from .simplify_fold import int_constant
from .simplify_regions import carried, inline_block, replace_results, terminator


def trip_count(op: scf.ForOp) -> int | None:
    """How often a loop runs, None when unknown."""
    if op.lb is op.ub:
        return 0
    lb, ub, step = int_constant(op.lb), int_constant(op.ub), int_constant(op.step)
    if lb is None or ub is None:
        return None
    if lb >= ub:
        return 0
    if step is None or step <= 0:
        return None
    return -((lb - ub) // step)


def rewrite_control(op: Operation) -> bool:
    """Simplify one `scf` op; True when it has been replaced by other ops before its place."""
    if isinstance(op, scf.IfOp):
        return _rewrite_if(op)
    if isinstance(op, scf.ForOp):
        return _rewrite_for(op)
    if isinstance(op, scf.WhileOp):
        return _rewrite_while(op)
    return False


def _rewrite_if(op: scf.IfOp) -> bool:
    condition = int_constant(op.cond)
    if condition is not None:
        region = op.true_region if condition else op.false_region
        replace_results(op, inline_block(region.block, op, ()) if region.blocks else ())
        return True
    if op.results:
        yields = [terminator(r.block).operands for r in op.regions]
        for result, yes, no in zip(op.results, *yields, strict=True):
            if yes is no:
                result.replace_all_uses_with(yes)
    return False


def _rewrite_for(op: scf.ForOp) -> bool:
    trips = trip_count(op)
    if trips == 0:
        replace_results(op, tuple(op.iter_args))
        return True
    if trips == 1:
        values = inline_block(op.body.block, op, (op.lb, *op.iter_args))
        replace_results(op, values)
        return True
    for init, argument, yielded, result in carried(op):
        if yielded is argument or yielded is init:
            argument.replace_all_uses_with(init)
            result.replace_all_uses_with(init)
    return False


def _rewrite_while(op: scf.WhileOp) -> bool:
    before, after = op.before_region.block, op.after_region.block
    condition = int_constant(terminator(before).operands[0])
    if condition == 0:
        values = inline_block(before, op, tuple(op.arguments))
        replace_results(op, values[1:])
        return True
    outward = terminator(before).operands[1:]
    for value, argument, result in zip(outward, after.args, op.results, strict=True):
        if not _inside(value, before):
            argument.replace_all_uses_with(value)
            result.replace_all_uses_with(value)
    yielded = terminator(after).operands
    for init, argument, value in zip(op.arguments, before.args, yielded, strict=True):
        if value is init:
            argument.replace_all_uses_with(init)
    for init, argument, value in zip(op.arguments, before.args, yielded, strict=True):
        passed = _passed(value, after, outward)
        if passed is argument:
            argument.replace_all_uses_with(init)
    return False


def _passed(value: SSAValue, after: Block, outward: Sequence[SSAValue]) -> SSAValue | None:
    """What the before region handed over as a block argument of the after region."""
    if isinstance(value, BlockArgument) and value.block is after:
        passed: SSAValue = outward[value.index]
        return passed
    return None


def _inside(value: SSAValue, block: Block) -> bool:
    """True when a value is defined in a block, whose ops can only see it and blocks around it."""
    owner = value.owner
    return (owner if isinstance(owner, Block) else owner.parent) is block
