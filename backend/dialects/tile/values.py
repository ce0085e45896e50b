"""Where values come from: programs' numbers, coordinates, constants, elementwise operations."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, TensorType, i1, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, var_operand_def

from ...isa.vector_ops import BY_NAME as VECTOR_OPS
from ..attributes import i32_attribute, text
from ..definition import PureOp, op_definition, require
from ..types import PtrType, element_type, shape_of, with_shape


@op_definition
class ProgramIdOp(PureOp):
    """The program's index along a grid axis (0, 1, 2)."""

    name = "tile.program_id"
    axis = prop_def(IntegerAttr)
    result = result_def(i32)

    def __init__(self, axis: int) -> None:
        super().__init__(properties={"axis": i32_attribute(axis)}, result_types=[i32])


@op_definition
class NumProgramsOp(PureOp):
    """The size of the grid along an axis."""

    name = "tile.num_programs"
    axis = prop_def(IntegerAttr)
    result = result_def(i32)

    def __init__(self, axis: int) -> None:
        super().__init__(properties={"axis": i32_attribute(axis)}, result_types=[i32])


@op_definition
class IotaOp(PureOp):
    """start, start + 1, … along the one dim of an int32 tile."""

    name = "tile.iota"
    start = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def __init__(self, start: int, length: int) -> None:
        super().__init__(
            properties={"start": i32_attribute(start)}, result_types=[with_shape(i32, (length,))]
        )


@op_definition
class SplatOp(PureOp):
    """A tile with one scalar (number or pointer) everywhere."""

    name = "tile.splat"
    value = operand_def()
    result = result_def(TensorType)

    def __init__(self, value: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(operands=[value], result_types=[with_shape(value.type, tuple(shape))])

    def verify_(self) -> None:
        require(element_type(self.result.type) == self.value.type, "element type differs")


@op_definition
class MapOp(PureOp):
    """An elementwise operation of the vector-op table on values of one shape."""

    name = "tile.map"
    fn = prop_def(StringAttr)
    args = var_operand_def()
    result = result_def()

    def __init__(self, fn: str, args: Sequence[SSAValue], element: Attribute | None = None) -> None:
        """`element` is the result's element type; needed for casts only."""
        row = VECTOR_OPS[fn]
        if row.result == "bool":
            element = i1
        elif row.result == "same":
            element = element_type(args[-1].type)
        assert element is not None
        super().__init__(
            operands=[list(args)],
            properties={"fn": text(fn)},
            result_types=[with_shape(element, shape_of(args[0].type))],
        )

    def verify_(self) -> None:
        row = VECTOR_OPS.get(self.fn.data)
        require(row is not None, f"unknown elementwise operation {self.fn.data!r}")
        assert row is not None
        require(
            len(self.args) == len(row.operands), f"{row.name} takes {len(row.operands)} operands"
        )
        shapes = {shape_of(v.type) for v in (*self.args, self.result)}
        require(len(shapes) == 1, f"shapes differ: {sorted(shapes)}")
        same = {
            element_type(v.type) for v in (self.args[1:] if row.name == "select" else self.args)
        }
        require(len(same) == 1, "element types differ")
        for kind, arg in zip(row.operands, self.args):
            is_int = isinstance(element_type(arg.type), IntegerType)
            is_ptr = isinstance(element_type(arg.type), PtrType)
            require(kind != "float" or not (is_int or is_ptr), f"{row.name} takes floats")
            require(kind != "int" or is_int, f"{row.name} takes integers")
