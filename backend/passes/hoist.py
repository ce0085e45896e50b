"""hoist: what every program of a core would load or compute alike is done once, before the grid loop.

An instruction moves when its operands do not depend on the program, nothing else writes its result, and no
instruction of the kernel may write the HBM that it reads. A core that runs has a program at least, so the
instruction would have run anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import dsa
from ..target import Target
from .effects import Effects, alias_groups, effects_of, grid_loop, is_arithmetic, may_alias
from .sram import RingUse, fit, pipelined_slots, ring_uses, room


def hoist(module: ModuleOp, target: Target) -> None:
    """Move what does not depend on the program out of the grid loop, as far as the SRAM can keep it."""
    for kernel in module.ops:
        if isinstance(kernel, func.FuncOp):
            grid = grid_loop(kernel)
            if grid is not None:
                _hoist(kernel, grid, target)


def _hoist(kernel: func.FuncOp, grid: scf.ForOp, target: Target) -> None:
    body = grid.body.block
    effects = {op: effects_of(op) for op in body.ops}
    movable = _movable(body, effects, alias_groups(kernel))
    uses = ring_uses(kernel)
    while movable:
        written = _written(movable, effects)
        moving = [use for use in uses if use.slot in written]
        if fits(uses, {use.slot: use.bytes for use in moving}, target):
            break
        biggest = max(moving, key=lambda use: use.bytes)
        movable = {op for op in movable if biggest.slot not in effects[op].slots}
        movable = _settle(movable, body, effects)
    slots = {slot for op in movable for slot in effects[op].slots}
    outside = _arithmetic(body)
    for op in list(body.ops):
        if op in movable or op in outside or (op.results and op.results[0] in slots):
            body.detach_op(op)
            kernel.body.block.insert_op_before(op, grid)


def _arithmetic(body: Block) -> set[Operation]:
    """The arithmetic of a block that needs nothing from it."""
    found: set[Operation] = set()
    for op in body.ops:
        if is_arithmetic(op) and not op.regions and not _inside(op.operands, body, found):
            found.add(op)
    return found


def _inside(values: Sequence[SSAValue], body: Block, found: set[Operation]) -> bool:
    """Whether a value comes from the block, other than from what has been found to be movable."""
    return any(
        value.owner is body
        or (isinstance(value.owner, Operation) and _stays(value.owner, body, found))
        for value in values
    )


def _stays(owner: Operation, body: Block, found: set[Operation]) -> bool:
    return owner.parent is body and owner not in found


def _movable(
    body: Block, effects: dict[Operation, Effects], groups: Sequence[int] | None
) -> set[Operation]:
    """The instructions that do the same in every program."""
    stored = {arg for e in effects.values() for arg, role in e.hbm if "w" in role}
    found: set[Operation] = set()
    for op in body.ops:
        if isinstance(op, dsa.AssertOp):
            break  # What comes later may rely on what has been asserted.
        hbm = effects[op].hbm
        reads_only = all(role == "r" and not _stored(arg, stored, groups) for arg, role in hbm)
        if isinstance(op, dsa.IssueOp) and reads_only and dsa.own_call(op) is None:
            found.add(op)
    return _settle(found, body, effects)


def _stored(arg: int, stored: Collection[int], groups: Sequence[int] | None) -> bool:
    return any(may_alias(groups, arg, other) for other in stored)


def _settle(
    found: set[Operation], body: Block, effects: dict[Operation, Effects]
) -> set[Operation]:
    """Without what needs or shares slots with an instruction that stays, until nothing more goes."""
    arithmetic = _arithmetic(body)
    writes = Counter(s for e in effects.values() for s, roles in e.slots.items() if "w" in roles)
    # What is written again may be read in between.
    again = {slot for slot, count in writes.items() if count > 1}
    while True:
        staying = [e for op, e in effects.items() if op not in found]
        changing = {slot for e in staying for slot, roles in e.slots.items() if "w" in roles}
        changing |= again
        values = {
            # Of slots only the parts that are computed: acquires move with what needs them.
            op: [v for v in op.operands if not isinstance(v.owner, dsa.AcquireOp)]
            for op in found
        }
        kept = {
            op
            for op in found
            if changing.isdisjoint(effects[op].slots)
            and not _inside(values[op], body, arithmetic)
            and all("w" not in roles or _at_home(s, body) for s, roles in effects[op].slots.items())
        }
        if kept == found:
            return found
        found = kept


def _at_home(slot: SSAValue, body: Block) -> bool:
    return isinstance(slot.owner, Operation) and slot.owner.parent is body


def _written(movable: set[Operation], effects: dict[Operation, Effects]) -> set[SSAValue]:
    return {slot for op in movable for slot, roles in effects[op].slots.items() if "w" in roles}


def fits(uses: Sequence[RingUse], kept: Mapping[SSAValue, int], target: Target) -> bool:
    """Whether the SRAM that is left when some slots are kept all the time still lets loads overlap.

    Args:
        kept: bytes by slot.
    """
    taken = sum(size + target.sram_align_bytes for size in kept.values())
    rest = [use for use in uses if use.slot not in kept]
    left = room(rest, target) - taken
    if left <= 0:
        return False
    return fit(rest, pipelined_slots(rest), replace(target, sram_bytes=left), False) is not None
