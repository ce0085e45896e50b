"""Before fusing: operands of elementwise operations on tiles of many dims, spread out in steps.

The vector engine has few dims. Where a tile of more dims is read through broadcasts or permutations, the
walk is taken apart: each step moves one block of dims or repeats one, on a tile reshaped to at most four
dims, and the last result has the full shape row-major. Such operations then fold to one dim.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from ..dialects import tile
from ..dialects.definition import operands_of
from ..dialects.types import shape_of
from ..isa.table import MAX_VECTOR_DIMS
from .fuse_walks import CheapTiles, Place, is_view, own_place, space_of, through_views
from .simplify_emit import Emitter


def unfold_wide_walks(function: func.FuncOp, cheap: CheapTiles) -> None:
    """Rewrite the operands of a function's ops that walk more dims than the vector engine has."""
    for op in tile.operations(function.body.block):
        if is_view(op):
            continue
        for index, value in enumerate(operands_of(op)):
            if len(shape_of(value.type)) <= MAX_VECTOR_DIMS:
                continue
            if len(space_of(value)) > MAX_VECTOR_DIMS and is_view(value.owner):
                spread = _spread(op, value, cheap)
                if spread is not None:
                    op.operands[index] = spread


def _spread(op: Operation, value: SSAValue, cheap: CheapTiles) -> SSAValue | None:
    """The value as a tile that is read row-major; None when it is already, or is remade anyway."""
    root, place = through_views(value, own_place(value))
    walk = [p for p in place if p is not None]
    space = space_of(value)
    if walk == list(range(len(space))):
        return None
    if isinstance(op, tile.MapOp) and cheap.is_cheap(root.owner):
        return None
    emit = Emitter.at(op)
    return emit.reshape(_in_order(emit, root, place, space), shape_of(value.type))


def _in_order(emit: Emitter, root: SSAValue, place: Place, space: tuple[int, ...]) -> SSAValue:
    walk = [p for p in place if p is not None]
    sizes = [space[p] for p in walk]
    value = root
    for target, dim in enumerate(sorted(walk)):
        at = walk.index(dim)
        if at != target:
            skipped, after = prod(sizes[target:at]), prod(sizes[at + 1 :])
            value = emit.reshape(value, (prod(sizes[:target]), skipped, sizes[at], after))
            value = emit.insert(tile.PermuteOp(value, (0, 2, 1, 3))).results[0]
            for order in (walk, sizes):
                order.insert(target, order.pop(at))
    for dim, size in enumerate(space):
        if dim not in walk:
            before, after = prod(space[:dim]), prod(space[p] for p in walk if p > dim)
            value = emit.reshape(value, (before, 1, after))
            value = emit.broadcast(value, (before, size, after))
    return value
