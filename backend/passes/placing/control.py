"""Control flow: carried scalars stay values of the control core, carried tiles are moved into their rings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from .emit import Placement, View, core_type
from .vector import copy, fill
from .walks import resolve

PlaceBlock = Callable[[Block], None]
"""Places all operations of a block but its terminator into the current place."""


def place_for(p: Placement, op: scf.ForOp, place_block: PlaceBlock) -> None:
    """A counted loop."""
    old = op.body.block
    carried = old.args[1:]
    scalars = [k for k, arg in enumerate(carried) if arg in p.in_core]
    inits = [p.core(op.iter_args[k]) for k in scalars]  # before moves overwrite what they read
    move(p, list(zip(op.iter_args, carried, strict=True)))
    lb, ub, step = (p.core(v) for v in (op.lb, op.ub, op.step))
    body = Block(arg_types=[lb.type, *(core_type(carried[k].type) for k in scalars)])
    new = scf.ForOp(lb, ub, step, inits, body)
    new.attributes.update(op.attributes)
    with p.block(body):
        p.define(old.args[0], body.args[0])
        for arg, k in zip(body.args[1:], scalars, strict=True):
            p.define(carried[k], arg)
        _fill_block(p, old, list(carried), place_block)
    p.emit(new)
    for result, k in zip(new.results, scalars, strict=True):
        p.define(op.results[k], result)


def place_if(p: Placement, op: scf.IfOp, place_block: PlaceBlock) -> None:
    """A conditional; both branches leave their tiles in the results' rings."""
    scalars = [k for k, result in enumerate(op.results) if result in p.in_core]
    condition = p.core(op.cond)
    blocks: list[Block] = []
    for region in op.regions:
        block = Block()
        blocks.append(block)
        with p.block(block):
            if region.blocks:
                _fill_block(p, region.block, list(op.results), place_block)
            elif not scalars:
                p.emit(scf.YieldOp())
    types = [core_type(op.results[k].type) for k in scalars]
    has_else = bool(op.false_region.blocks)
    new = scf.IfOp(condition, types, [blocks[0]], [blocks[1]] if has_else else None)
    p.emit(new)
    for result, k in zip(new.results, scalars, strict=True):
        p.define(op.results[k], result)


def place_while(p: Placement, op: scf.WhileOp, place_block: PlaceBlock) -> None:
    """A loop with a condition."""
    before, after = op.before_region.block, op.after_region.block
    scalars = [k for k, arg in enumerate(before.args) if arg in p.in_core]
    inits = [p.core(op.arguments[k]) for k in scalars]
    move(p, list(zip(op.arguments, before.args, strict=True)))
    passed = [k for k, arg in enumerate(after.args) if arg in p.in_core]
    first = Block(arg_types=[core_type(before.args[k].type) for k in scalars])
    second = Block(arg_types=[core_type(after.args[k].type) for k in passed])
    with p.block(first):
        for arg, k in zip(first.args, scalars, strict=True):
            p.define(before.args[k], arg)
        place_block(before)
        last = _terminator(before)
        assert isinstance(last, scf.ConditionOp)
        p.location = last.location
        condition = p.core(last.condition)
        values = [p.core(last.args[k]) for k in passed]
        move(p, list(zip(last.args, after.args, strict=True)))
        p.emit(scf.ConditionOp(condition, *values))
    with p.block(second):
        for arg, k in zip(second.args, passed, strict=True):
            p.define(after.args[k], arg)
        _fill_block(p, after, list(before.args), place_block)
    new = scf.WhileOp(inits, [arg.type for arg in second.args], [first], [second])
    new.attributes.update(op.attributes)
    p.location = op.location
    p.emit(new)
    for result, k in zip(new.results, passed, strict=True):
        p.define(op.results[k], result)


def _fill_block(
    p: Placement, old: Block, targets: Sequence[SSAValue], place_block: PlaceBlock
) -> None:
    """Place a block that yields into `targets` (carried values or results), with its terminator."""
    outside = p.location
    place_block(old)
    last = _terminator(old)
    p.location = last.location
    values = [p.core(value) for value, target in zip(last.operands, targets) if target in p.in_core]
    move(p, list(zip(last.operands, targets, strict=True)))
    p.emit(scf.YieldOp(*values))
    p.location = outside


def _terminator(block: Block) -> Operation:
    last = block.last_op
    assert last is not None
    return last


def move(p: Placement, pairs: Sequence[tuple[SSAValue, SSAValue]]) -> None:
    """Bring values into the rings of their targets, as if all at once; what is there already stays."""
    pending: list[tuple[View, View]] = []
    scalars: list[tuple[SSAValue, View]] = []
    for value, target in pairs:
        if target in p.in_core:
            continue
        ring = p.rings.of[target]
        walk = resolve(value)
        if not p.is_in_sram(value):
            scalars.append((value, p.ring_view(ring)))
        elif p.rings.of[walk.root] is not ring or not walk.is_contiguous:
            pending.append((p.view(value), p.ring_view(ring)))
    while pending:
        free = [
            pair for pair in pending
            if not any(pair[1].slot is other[0].slot for other in pending)
        ]  # fmt: skip
        if free:
            pending = [pair for pair in pending if pair is not free[0]]
            copy(p, *free[0])
        else:  # a cycle: the first source moves out of the way
            blocked, destination = pending[0]
            aside = p.temporary("copy", blocked.shape, blocked.fmt)
            copy(p, blocked, aside)
            pending[0] = (aside, destination)
    for value, view in scalars:
        fill(p, p.operand(value), view)
