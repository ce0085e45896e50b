"""Vector programs: what the fuse pass makes of elementwise operations."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import prop_def, region_def, result_def, traits_def, var_operand_def, var_result_def
from xdsl.traits import IsTerminator, Pure, ReturnLike

from ..attributes import i32_attribute, i64_array
from ..definition import DialectOp, PureOp, op_definition
from ..types import with_shape


@op_definition
class YieldOp(DialectOp):
    """Ends the body of a `tile.fused`."""

    name = "tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), ReturnLike())

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(values)])


@op_definition
class IndexOp(PureOp):
    """Inside a `tile.fused`: the int32 coordinate along a dim of the iteration space."""

    name = "tile.index"
    dim = prop_def(IntegerAttr)
    result = result_def(i32)

    def __init__(self, dim: int) -> None:
        super().__init__(properties={"dim": i32_attribute(dim)}, result_types=[i32])


@op_definition
class FusedOp(DialectOp):
    """A vector program (made by the fuse pass): scalar ops run at every point of `sizes`.

    Operand j is a tile or a scalar; `dims[j][e]` is the iteration dim that dim e of operand j follows
    (-1 for a dim of size 1 that is broadcast); a scalar has an empty list. Block argument j is its element.
    The body holds `tile.map`, `arith.constant` and `tile.index` ops on scalars and ends in `tile.yield`.
    Results are tiles of shape `sizes` (scalars for rank 0).
    """

    name = "tile.fused"
    args = var_operand_def()
    sizes = prop_def(DenseArrayBase)
    dims = prop_def(ArrayAttr)
    body = region_def("single_block")
    res = var_result_def()
    traits = traits_def(Pure())

    def __init__(
        self,
        args: Sequence[SSAValue],
        sizes: Sequence[int],
        dims: Sequence[Sequence[int]],
        body: Block,
    ) -> None:
        terminator = body.last_op
        assert isinstance(terminator, YieldOp)
        super().__init__(
            operands=[list(args)],
            properties={
                "sizes": i64_array(sizes),
                "dims": ArrayAttr([i64_array(d) for d in dims]),
            },
            regions=[Region(body)],
            result_types=[[with_shape(v.type, tuple(sizes)) for v in terminator.values]],
        )


def operations(block: Block) -> list[Operation]:
    """The operations of a block and of those nested in it, in program order; not those of vector programs."""
    found: list[Operation] = []
    op = block.first_op
    while op is not None:
        found.append(op)
        if op.regions and not isinstance(op, FusedOp):
            for region in op.regions:
                for inner in region.blocks:
                    found += operations(inner)
        op = op.next_op
    return found
