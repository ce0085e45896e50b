"""Parts of a concatenation that are made where they belong: no tile of their own, no copy."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from ...dialects import tile
from ...dialects.types import format_of, shape_of
from .walks import Walk, regroup, resolve, row_major

Joins = dict[tile.FusedOp, tile.ConcatOp]
"""Fused operations that run at the place of a concatenation, into a part of its result."""


def find_joins(ops: Sequence[Operation]) -> Joins:
    """The fused operations whose one result goes into a concatenation in the same block, and nowhere else.

    Values do not change, so such an operation may run later, where the concatenation stands.
    """
    joins: Joins = {}
    for op in ops:
        if isinstance(op, tile.ConcatOp):
            for number, arg in enumerate(op.args):
                source = resolve(arg).root.owner
                if (
                    isinstance(source, tile.FusedOp)
                    and source.parent is op.parent
                    and _is_only_for(source, op)
                    and part_of(op, number, source) is not None
                ):
                    joins[source] = op
    return joins


def _is_only_for(source: tile.FusedOp, concat: tile.ConcatOp) -> bool:
    if len(source.results) != 1:
        return False
    value: SSAValue = source.results[0]
    while (user := _only_user(value)) is not concat:
        if not isinstance(user, tile.ReshapeOp | tile.ExpandDimsOp):
            return False
        value = user.results[0]
    return True


def _only_user(value: SSAValue) -> Operation | None:
    uses = list(value.uses)
    return uses[0].operation if len(uses) == 1 else None


def part_of(concat: tile.ConcatOp, number: int, source: tile.FusedOp) -> Walk | None:
    """Where the result of `source` lies in that of the concatenation whose operand `number` it is.

    None when no strides say that.
    """
    axis, value = concat.axis.value.data, source.results[0]
    elem_bytes = format_of(value.type).bytes
    strides = row_major(shape_of(concat.result.type), elem_bytes)
    before = sum(shape_of(arg.type)[axis] for arg in concat.args[:number])
    shape = shape_of(value.type)
    moved = regroup(shape_of(concat.args[number].type), strides, shape, elem_bytes)
    if moved is None:
        return None
    return Walk(concat.result, before * strides[axis], shape, moved, elem_bytes)
