"""Operations built and read without xdsl's declarations agree with what the declarations say."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f32, i32, i64
from xdsl.dialects.test import TestOp as Source
from xdsl.ir import Operation
from xdsl.irdl.operations import get_accessors_from_op_def

from dsalang._backend.dialects import dsa, tile
from dsalang._backend.dialects.attributes import i64_array, i64_attribute, ints, wrapped_integer
from dsalang._backend.dialects.types import with_shape

VALUES = Source(result_types=[i64, i32, with_shape(f32, (8, 8)), with_shape(i32, (8,)), f32])
ADDRESS, BOUND, TILE, INDEX, FILL = VALUES.results
BOX = {"wrapped": i64_array(()), "indexed": i64_array((1,)), "arg": i64_attribute(0)}
ARG = {"arg": i64_attribute(0)}


def box(fill: bool) -> Operation:
    lists = [[ADDRESS] * 2, [BOUND] * 2, [BOUND] * 2, [], [], [INDEX]]
    return tile.LoadBoxOp(
        operands=[ADDRESS, *lists, FILL if fill else None],
        properties=BOX,
        result_types=[TILE.type],
    )


OPS = [
    box(True),
    box(False),
    tile.GatherOp(operands=[ADDRESS, INDEX, None], properties=ARG, result_types=[INDEX.type]),
    tile.GatherOp(operands=[ADDRESS, INDEX, BOUND], properties=ARG, result_types=[INDEX.type]),
    tile.DotOp(TILE, TILE, None, TILE.type),
    tile.DotOp(TILE, TILE, TILE, TILE.type),
    tile.ConcatOp([TILE, TILE, TILE], 0),
    tile.ArgReduceOp("fmax", TILE, 1),
    tile.MapOp("fadd", [TILE, TILE]),
    dsa.RingOp("x", 64, (8,), "int32"),
    dsa.IssueOp("mma", {"m": ADDRESS}, {"n": 3}),
]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_names_read_what_the_declaration_says(op: Operation) -> None:
    op.verify()
    definition = type(op).get_irdl_definition()
    declared = get_accessors_from_op_def(definition, None)
    for name, _ in (*definition.operands, *definition.results):
        expected, found = declared[name].__get__(op), getattr(op, name)
        assert found is expected or tuple(found) == tuple(expected), name


def test_a_copy_is_the_same_operation() -> None:
    op = box(True)
    copy = op.clone()
    assert (type(copy), copy.properties, copy.location) == (type(op), op.properties, op.location)
    assert tuple(copy.operands) == tuple(op.operands)


def test_only_the_class_itself_is_an_instance() -> None:
    assert isinstance(OPS[0], tile.LoadBoxOp) and isinstance(OPS[0], Operation)
    assert not isinstance(OPS[0], tile.StoreBoxOp)


def test_attributes_are_made_once_and_wrap_where_asked() -> None:
    assert i64_array([1, -2]) is i64_array((1, -2)) and ints(i64_array([1, -2])) == (1, -2)
    assert wrapped_integer(300, with_shape(i32, ())).value.data == 300
    assert wrapped_integer(1 << 32 | 7, i32).value.data == 7
