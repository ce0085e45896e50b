"""Scalar constants as numbers and bits."""

from __future__ import annotations

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Block, SSAValue

from ...dialects import tile
from ...dialects.types import format_of

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def constant_bits(op: arith.ConstantOp) -> int:
    """The bits of a scalar constant as a non-negative number."""
    fmt = format_of(op.result.type)
    if isinstance(op.value, IntegerAttr):
        return op.value.value.data & ((1 << fmt.bits) - 1)
    assert isinstance(op.value, FloatAttr)
    number = np.array(op.value.value.data, np.float64).astype(fmt.storage)
    return int(number.view(_UNSIGNED[fmt.bytes]))


def signed(bits: int, width: int) -> int:
    """Bits read as a two's complement number.

    >>> signed(255, 8), signed(1, 1)
    (-1, -1)
    """
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> (width - 1) else bits


def is_zeros(value: SSAValue) -> bool:
    """True for a tile that is zero bits everywhere, made by a `tile.fused` of its own."""
    op = value.owner
    if not isinstance(op, tile.FusedOp) or len(op.results) != 1:
        return False
    last = op.body.block.last_op
    assert last is not None
    source = last.operands[0]
    if isinstance(source.owner, Block):
        source = op.args[op.body.block.args.index(source)]
    return isinstance(source.owner, arith.ConstantOp) and constant_bits(source.owner) == 0
