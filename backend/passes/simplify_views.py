"""Views of splats, views of views, and pointer arithmetic that does nothing."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ..dialects import tile
from ..dialects.types import shape_of
from .simplify_emit import Emitter
from .simplify_fold import int_constant


def rewrite_view(op: Operation) -> SSAValue | None:
    """A value equal to a view's result, or None; may shorten a chain of views in place."""
    value, result = op.operands[0], op.results[0]
    inner = value.owner
    if isinstance(inner, tile.SplatOp):
        shape = shape_of(result.type)
        return Emitter.at(op).splat(inner.value, shape) if shape else inner.value
    if isinstance(op, (tile.BroadcastOp, tile.ReshapeOp)):
        if value.type == result.type:
            return value
        if isinstance(inner, type(op)):
            op.operands = (inner.operands[0],)
    elif isinstance(op, tile.PermuteOp):
        return _rewrite_permute(op)
    elif isinstance(op, tile.SliceOp):
        return _rewrite_slice(op)
    return None


def _rewrite_slice(op: tile.SliceOp) -> SSAValue | None:
    starts, steps, shape = tile.ints(op.starts), tile.ints(op.steps), shape_of(op.result.type)
    inner = op.value.owner
    if isinstance(inner, tile.SliceOp):
        outer = tuple(zip(tile.ints(inner.starts), tile.ints(inner.steps)))
        starts = tuple(first + i * step for i, (first, step) in zip(starts, outer))
        steps = tuple(k * step for k, (_, step) in zip(steps, outer))
        op.properties.update(starts=tile.i64_array(starts), steps=tile.i64_array(steps))
        op.operands = (inner.value,)
    elif isinstance(inner, tile.IotaOp) and (steps[0] == 1 or shape[0] == 1):
        return (
            Emitter.at(op)
            .insert(tile.IotaOp(inner.start.value.data + starts[0], shape[0]))
            .results[0]
        )
    forward = all(n == 1 or k == 1 for n, k in zip(shape, steps))
    return op.value if op.value.type == op.result.type and forward else None


def _rewrite_permute(op: tile.PermuteOp) -> SSAValue | None:
    order = tile.ints(op.order)
    inner = op.value.owner
    if isinstance(inner, tile.PermuteOp):
        first = tile.ints(inner.order)
        order = tuple(first[d] for d in order)
        op.properties["order"] = tile.i64_array(order)
        op.operands = (inner.value,)
    return op.value if order == tuple(range(len(order))) else None


def rewrite_pointer(op: Operation) -> SSAValue | None:
    """A value equal to the result of an `addptr` or `ptr_cast`, or None."""
    if isinstance(op, tile.AddPtrOp):
        return op.ptr if int_constant(op.offset) == 0 else None
    if op.operands[0].type == op.results[0].type:
        return op.operands[0]
    inner = op.operands[0].owner
    if isinstance(inner, tile.PtrCastOp):
        op.operands = (inner.value,)
        return op.operands[0] if op.operands[0].type == op.results[0].type else None
    return None
