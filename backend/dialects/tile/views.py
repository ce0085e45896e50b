"""Elements in another arrangement: views of a tile, tiles side by side, elements picked."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, var_operand_def

from ..attributes import i32_attribute, i64_array, ints
from ..definition import PureOp, op_definition, require
from ..types import element_type, shape_of, with_shape


@op_definition
class ExpandDimsOp(PureOp):
    """Insert a dim of size 1 before `axis`."""

    name = "tile.expand_dims"
    value = operand_def()
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def __init__(self, value: SSAValue, axis: int) -> None:
        shape = list(shape_of(value.type))
        shape.insert(axis, 1)
        super().__init__(
            operands=[value],
            properties={"axis": i32_attribute(axis)},
            result_types=[with_shape(element_type(value.type), tuple(shape))],
        )


@op_definition
class BroadcastOp(PureOp):
    """Repeat dims of size 1 up to the result's shape; the ranks are equal."""

    name = "tile.broadcast"
    value = operand_def()
    result = result_def(TensorType)

    def __init__(self, value: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(
            operands=[value], result_types=[with_shape(element_type(value.type), tuple(shape))]
        )

    def verify_(self) -> None:
        source, target = shape_of(self.value.type), shape_of(self.result.type)
        ok = len(source) == len(target) and all(s in (1, t) for s, t in zip(source, target))
        require(ok, f"cannot broadcast {source} to {target}")


@op_definition
class ReshapeOp(PureOp):
    """The same elements in row-major order under another shape (a tile of rank 0 is a scalar)."""

    name = "tile.reshape"
    value = operand_def()
    result = result_def()

    def __init__(self, value: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(
            operands=[value], result_types=[with_shape(element_type(value.type), tuple(shape))]
        )


@op_definition
class PermuteOp(PureOp):
    """Dim d of the result is dim order[d] of the operand."""

    name = "tile.permute"
    value = operand_def()
    order = prop_def(DenseArrayBase)
    result = result_def(TensorType)

    def __init__(self, value: SSAValue, order: Sequence[int]) -> None:
        shape = shape_of(value.type)
        super().__init__(
            operands=[value],
            properties={"order": i64_array(order)},
            result_types=[with_shape(element_type(value.type), tuple(shape[d] for d in order))],
        )


@op_definition
class SliceOp(PureOp):
    """Element i of a dim of the result is element starts[d] + i * steps[d] of the operand's; steps may be negative."""

    name = "tile.slice"
    value = operand_def(TensorType)
    starts = prop_def(DenseArrayBase)
    steps = prop_def(DenseArrayBase)
    result = result_def(TensorType)

    def __init__(
        self, value: SSAValue, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]
    ) -> None:
        super().__init__(
            operands=[value],
            properties={"starts": i64_array(starts), "steps": i64_array(steps)},
            result_types=[with_shape(element_type(value.type), tuple(shape))],
        )

    def verify_(self) -> None:
        source, target = shape_of(self.value.type), shape_of(self.result.type)
        starts, steps = ints(self.starts), ints(self.steps)
        require(len(source) == len(target) == len(starts) == len(steps), "ranks differ")
        for size, count, start, step in zip(source, target, starts, steps):
            inside = 0 <= start < size and 0 <= start + (count - 1) * step < size
            require(inside, f"{count} elements from {start} by {step} leave a dim of size {size}")


VIEWS: tuple[type[Operation], ...] = (ExpandDimsOp, BroadcastOp, ReshapeOp, PermuteOp, SliceOp)
"""Ops that only change how a tile's memory is walked."""


@op_definition
class ConcatOp(PureOp):
    """Tiles one after the other along `axis`; the other dims are equal."""

    name = "tile.concat"
    args = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def __init__(self, args: Sequence[SSAValue], axis: int) -> None:
        shape = list(shape_of(args[0].type))
        shape[axis] = sum(shape_of(arg.type)[axis] for arg in args)
        super().__init__(
            operands=[list(args)],
            properties={"axis": i32_attribute(axis)},
            result_types=[with_shape(element_type(args[0].type), tuple(shape))],
        )

    def verify_(self) -> None:
        axis = self.axis.value.data
        others = {
            tuple(n for d, n in enumerate(shape_of(v.type)) if d != axis)
            for v in (*self.args, self.result)
        }
        require(len(others) == 1, "the dims beside the axis differ")
        total = sum(shape_of(arg.type)[axis] for arg in self.args)
        require(total == shape_of(self.result.type)[axis], "the sizes along the axis do not add up")


@op_definition
class TakeOp(PureOp):
    """result[…, i, …] = value[…, index[…, i, …], …] along `axis`; zero bits for an index outside of it.

    The index is int32 or int64 and has the shape of the result, that of the value beside the axis.
    """

    name = "tile.take"
    value = operand_def(TensorType)
    index = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def __init__(self, value: SSAValue, index: SSAValue, axis: int) -> None:
        super().__init__(
            operands=[value, index],
            properties={"axis": i32_attribute(axis)},
            result_types=[with_shape(element_type(value.type), shape_of(index.type))],
        )

    def verify_(self) -> None:
        axis = self.axis.value.data
        shapes = [list(shape_of(v.type)) for v in (self.value, self.index, self.result)]
        require(shapes[1] == shapes[2], "the index has another shape than the result")
        for shape in shapes[:2]:
            del shape[axis]
        require(shapes[0] == shapes[1], "the dims beside the axis differ")
        require(element_type(self.index.type) in (i32, i64), "an index is int32 or int64")
