"""Before placing: constants that are written into a carried value's ring are made where they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from ...dialects import tile


def remake_constants(ops: Sequence[Operation]) -> None:
    """Give every carried value, `if` result and accumulator that starts as a constant tile a producer of its own.

    A constant tile is shared and hoisted by earlier passes; the ring it initialises is overwritten, so it
    would have to be copied, which costs as much as making it again and holds memory meanwhile.
    """
    for op in ops:
        for index in _moved_operands(op):
            value = op.operands[index]
            producer = value.owner
            if not isinstance(producer, tile.FusedOp) or not _is_cheap(producer):
                continue
            if value.has_one_use() and producer.parent is op.parent:
                continue
            copy = producer.clone()
            copy.location = producer.location
            assert op.parent is not None
            op.parent.insert_op_before(copy, op)
            op.operands[index] = copy.results[0]
            if not value.uses:
                Rewriter.erase_op(producer)


def _moved_operands(op: Operation) -> Iterator[int]:
    if isinstance(op, scf.ForOp):
        yield from range(3, len(op.operands))
    elif isinstance(op, scf.WhileOp | scf.YieldOp):
        yield from range(len(op.operands))
    elif isinstance(op, scf.ConditionOp):
        yield from range(1, len(op.operands))
    elif isinstance(op, tile.DotOp) and op.acc is not None:
        yield 2
    elif isinstance(op, tile.MICROKERNELS):
        yield from (index for index in tile.ints(op.in_place) if index >= 0)


def _is_cheap(op: tile.FusedOp) -> bool:
    """True for a program that makes one result from constants, coordinates and scalars."""
    walks = [dims for dims in op.dims if isinstance(dims, DenseArrayBase)]
    return len(op.results) == 1 and not any(tile.ints(dims) for dims in walks)
