"""Where values are alive, on a line of positions through the structured program.

Position p of an operation splits into 2p (it reads) and 2p + 1 (it writes), so a value whose last reader
may overwrite it in place ends at 2p, just before the results begin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue

from ...dialects import tile
from .joins import Joins
from .walks import Walk, is_view, resolve, root_of

Interval = tuple[int, int]
"""Both ends belong to it."""


@dataclass
class Positions:
    """The numbering of a program and who uses which root value."""

    start: dict[Operation, int] = field(default_factory=dict)
    end: dict[Operation, int] = field(default_factory=dict)
    block_start: dict[Block, int] = field(default_factory=dict)
    uses: dict[SSAValue, list[tuple[Operation, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )


def number(block: Block, joins: Joins) -> Positions:
    """Number every operation below `block`; bodies of `tile.fused` are not entered.

    What a fused operation of `joins` reads is read by the concatenation.
    """
    positions = Positions()
    _number(block, positions, 0, joins)
    return positions


def _number(block: Block, positions: Positions, at: int, joins: Joins) -> int:
    positions.block_start[block] = at
    at += 1
    for op in block.ops:
        positions.start[op] = at
        if not any(is_view(r) for r in op.results):
            reader = joins.get(op, op) if isinstance(op, tile.FusedOp) else op
            for index, operand in enumerate(op.operands):
                positions.uses[root_of(operand)].append((reader, index))
        if not isinstance(op, tile.FusedOp):
            for region in op.regions:
                if region.blocks:
                    at = _number(region.block, positions, at + 1, joins)
        positions.end[op] = at
        at += 1
    return at


def definition(value: SSAValue, positions: Positions) -> int:
    """The position at which the value begins."""
    owner = value.owner
    if isinstance(owner, Operation):
        return 2 * positions.end[owner] + 1
    parent = owner.parent_op()
    if isinstance(parent, scf.WhileOp):  # the body's arguments begin after the condition
        return 2 * positions.block_start[owner] + 1
    return 2 * positions.start[parent] + 1 if parent in positions.start else 1


def live_ranges(value: SSAValue, positions: Positions) -> list[Interval]:
    """Where the root value's memory must keep it."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    assert block is not None
    return _cover(block, definition(value, positions), positions.uses[value], value, positions)


def _cover(
    block: Block,
    begin: int,
    uses: Iterable[tuple[Operation, int]],
    value: SSAValue,
    positions: Positions,
) -> list[Interval]:
    by_ancestor: dict[Operation, list[tuple[Operation, int]]] = defaultdict(list)
    for use in uses:
        by_ancestor[_ancestor_in(use[0], block)].append(use)
    if not by_ancestor:
        return [(begin, begin)]
    last = max(by_ancestor, key=lambda op: positions.start[op])
    direct = [index for op, index in by_ancestor[last] if op is last]
    nested = [use for use in by_ancestor[last] if use[0] is not last]
    end = 2 * positions.start[last]
    if any(not _may_overwrite(last, index, value) for index in direct):
        end += 1
    if not nested:
        return [(begin, max(begin, end))]
    if not isinstance(last, scf.IfOp):  # a loop reads it again in its next iteration
        return [(begin, 2 * positions.end[last])]
    ranges = [(begin, max(begin, end))]
    for region in last.regions:
        inside = [use for use in nested if _inside(use[0], region)]
        if inside:
            start = 2 * positions.block_start[region.block]
            ranges += _cover(region.block, start, inside, value, positions)
    return ranges


def _ancestor_in(op: Operation, block: Block) -> Operation:
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None, "use outside of the defining block"
        op = parent
    return op


def _inside(op: Operation, region: Region) -> bool:
    return region.is_ancestor(op)


def _may_overwrite(op: Operation, index: int, value: SSAValue) -> bool:
    """True when a result of `op` may be written where operand `index`, a walk of `value`, is read."""
    if isinstance(op, tile.FusedOp):
        return is_pointwise(op, index)
    if isinstance(op, tile.DotOp):
        return op.acc is value and index == 2
    if isinstance(op, tile.MICROKERNELS):
        return index in tile.ints(op.in_place) and op.args[index] is value
    if isinstance(op, scf.ForOp):
        return index >= 3
    return isinstance(op, scf.WhileOp | scf.YieldOp | scf.ConditionOp | tile.MapOp)


def is_pointwise(op: tile.FusedOp, index: int) -> bool:
    """True when operand `index` is walked exactly as a row-major result of the op with its element size."""
    walk: Walk = resolve(op.args[index])
    sizes = tile.ints(op.sizes)
    dims = tile.ints(op.dims.data[index])
    return walk.is_contiguous and walk.shape == sizes and dims == tuple(range(len(sizes)))


def overlap(a: Iterable[Interval], b: Iterable[Interval]) -> bool:
    """True when the two sets of intervals meet.

    >>> overlap([(1, 4)], [(5, 6)]), overlap([(1, 5)], [(5, 6)])
    (False, True)
    """
    others = list(b)
    return any(lo <= end and begin <= hi for lo, hi in a for begin, end in others)
