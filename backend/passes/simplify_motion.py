"""Loop-invariant code motion: out of the innermost loops first.

Every pure op can run when the loop does not, so it moves whenever its operands come from outside. A
load moves only when the loop surely runs and nothing in it may write what it reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from ..dialects import tile
from .simplify_control import trip_count
from .simplify_dead import READS, is_removable
from .simplify_regions import each_loop_last

_WRITES: tuple[type[Operation], ...] = (tile.StoreBoxOp, tile.ScatterOp, tile.AtomicListOp)


def hoist_invariants(function: func.FuncOp) -> bool:
    """Move what does not change out of loops; True when anything moved."""
    groups = alias_groups(function)
    moved = False

    def visit(loop: Operation) -> None:
        nonlocal moved
        movable_loads = _movable_loads(loop, groups)
        for region in loop.regions:
            moved |= _hoist(region.block, loop, movable_loads)

    for block in function.body.blocks:
        each_loop_last(block, visit)
    return moved


def alias_groups(function: func.FuncOp) -> Sequence[int] | None:
    """`dsa.alias`: per kernel argument the number of its alias group; None when the function has none."""
    attribute = function.attributes.get("dsa.alias")
    return tile.ints(attribute) if isinstance(attribute, DenseArrayBase) else None


def argument_of(op: Operation) -> int:
    """The kernel argument behind an analysed memory op, -1 when unknown."""
    attribute = op.properties.get("arg")
    return attribute.value.data if isinstance(attribute, IntegerAttr) else -1


ANY_MEMORY = -1
"""What `memory_of` gives for an op that may touch whatever another one touches."""


def memory_of(op: Operation, groups: Sequence[int] | None) -> int:
    """A number of the memory that an op touches: two ops surely touch different memory when theirs differ and
    neither is ANY_MEMORY."""
    argument = argument_of(op)
    return ANY_MEMORY if argument < 0 or groups is None else groups[argument]


def may_alias(a: Operation, b: Operation, groups: Sequence[int] | None) -> bool:
    """True unless the two memory ops surely touch different memory."""
    left, right = argument_of(a), argument_of(b)
    if left < 0 or right < 0:
        return True
    if left == right or groups is None:
        return True
    return groups[left] == groups[right]


def _movable_loads(loop: Operation, groups: Sequence[int] | None) -> set[Operation]:
    if not isinstance(loop, scf.ForOp) or not (trip_count(loop) or 0) > 0:
        return set()
    writes: list[Operation] = []
    loads: list[Operation] = []
    for op in loop.body.block.walk():
        if op.parent is loop.body.block and isinstance(op, READS):
            loads.append(op)
        elif isinstance(op, _WRITES):
            writes.append(op)
        elif not is_removable(op) and not isinstance(op, (scf.YieldOp, scf.ConditionOp)):
            return set()
    return {load for load in loads if not any(may_alias(load, w, groups) for w in writes)}


def _hoist(block: Block, loop: Operation, movable_loads: set[Operation]) -> bool:
    moved = False
    assert loop.parent is not None
    for op in tuple(block.ops):
        pure = not op.regions and op is not block.last_op and op.has_trait(Pure)
        if (pure or op in movable_loads) and not any(_defined_in(v, block) for v in op.operands):
            block.detach_op(op)
            loop.parent.insert_op_before(op, loop)
            moved = True
    return moved


def _defined_in(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    return (owner if isinstance(owner, Block) else owner.parent) is block
