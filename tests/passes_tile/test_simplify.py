"""Rules of the simplify pass, on IR text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import scf

from dsalang._backend.dialects import tile
from dsalang._backend.passes.simplify import simplify
from dsalang._backend.passes.simplify_fold import fold

from .evaluate import elementwise
from .helpers import find, names, number, print_value, run

INT = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([0, 1, -1, 31, 32, -(2**31), 2**31 - 1])
BINARY = [
    "iadd",
    "isub",
    "imul",
    "sdiv",
    "udiv",
    "srem",
    "urem",
    "smin",
    "smax",
    "umin",
    "umax",
    "iand",
    "ior",
    "ixor",
    "shl",
    "ashr",
    "lshr",
    "ieq",
    "ine",
    "slt",
    "sle",
    "sgt",
    "sge",
    "ult",
    "ule",
    "ugt",
    "uge",
]


@pytest.mark.parametrize("fn", BINARY)
@settings(derandomize=True, deadline=None, max_examples=40)
@given(a=INT, b=INT)
def test_folding_is_what_the_machine_computes(fn: str, a: int, b: int) -> None:
    arrays = [np.array(v, np.int32) for v in (a, b)]
    is_bool = fn in BINARY[BINARY.index("ieq") :]
    with np.errstate(all="ignore"):
        want = elementwise(fn, arrays, np.dtype(np.bool_ if is_bool else np.int32))
    assert fold(fn, [a, b], 32, 1 if is_bool else 32) == int(want)


def folded(expression: str) -> int | None:
    """The constant that a scalar i32 expression of %n and constants becomes."""
    constants = "\n".join(f"%c{v} = arith.constant {v} : i32" for v in (0, 1, 2, 7))
    module = run(f"{constants}\n{expression}\n" + print_value("%r", "i32"), simplify)
    (shown,) = find(module, tile.PrintOp)
    return number(shown.args[0])


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("%r = iadd(%c7, %c2) : i32", 9),
        ("%a = imul(%n, %c0) : i32\n%r = iadd(%a, %c7) : i32", 7),
        ("%a = isub(%n, %n) : i32\n%r = isub(%a, %c1) : i32", -1),
        ("%a = sext(%c7) : i32 -> i64\n%r = trunc(%a) : i64 -> i32", 7),
        ("%a = ieq(%n, %n) : i32 -> i1\n%r = zext(%a) : i1 -> i32", 1),
        ("%a = slt(%c1, %c2) : i32 -> i1\n%r = select(%a, %c7, %c0) : i1, i32, i32 -> i32", 7),
        ("%a = srem(%n, %c1) : i32\n%r = ior(%a, %c2) : i32", 2),
    ],
)
def test_scalars_fold(expression: str, value: int) -> None:
    assert folded(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "%r = iadd(%c0, %n) : i32",
        "%r = isub(%n, %c0) : i32",
        "%r = imul(%c1, %n) : i32",
        "%r = sdiv(%n, %c1) : i32",
        "%a = iadd(%n, %c7) : i32\n%r = isub(%a, %c7) : i32",
        "%a = sext(%n) : i32 -> i64\n%r = trunc(%a) : i64 -> i32",
        "%r = smin(%n, %n) : i32",
    ],
)
def test_identities_leave_the_operand(expression: str) -> None:
    constants = "\n".join(f"%c{v} = arith.constant {v} : i32" for v in (0, 1, 7))
    module = run(f"{constants}\n{expression}\n" + print_value("%r", "i32"), simplify)
    assert names(module) == ["tile.print"]


def test_subtracting_from_a_constant_is_not_an_identity() -> None:
    module = run(
        "%c = arith.constant 0 : i32\n%r = isub(%c, %n) : i32\n" + print_value("%r", "i32"),
        simplify,
    )
    assert names(module) == ["map.isub", "tile.print"]


def test_constants_go_right_and_comparisons_turn() -> None:
    module = run(
        "%c = arith.constant 5 : i32\n%r = slt(%c, %n) : i32 -> i1\n" + print_value("%r", "i1"),
        simplify,
    )
    (op,) = find(module, tile.MapOp)
    assert op.fn.data == "sgt" and number(op.args[1]) == 5


def test_integer_operations_on_splats_become_scalar() -> None:
    module = run(
        """
        %a = "tile.splat"(%n) : (i32) -> tensor<8xi32>
        %b = "tile.splat"(%m) : (i32) -> tensor<8xi32>
        %c = iadd(%a, %b) : tensor<8xi32>
        %d = "tile.expand_dims"(%c) {axis = 1 : i32} : (tensor<8xi32>) -> tensor<8x1xi32>
        %e = "tile.broadcast"(%d) : (tensor<8x1xi32>) -> tensor<8x4xi32>
        """
        + print_value("%e", "tensor<8x4xi32>"),
        simplify,
    )
    assert names(module) == ["map.iadd", "tile.splat", "tile.print"]


def test_float_identities_are_exact_ones_only() -> None:
    body = """
    %f = "tile.load"(%x) {operandSegmentSizes = array<i32: 1, 0, 0>} : (!tile.ptr<f32>) -> f32
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    %a = fmul(%f, %one) : f32
    %b = fsub(%a, %zero) : f32
    %c = fadd(%b, %zero) : f32
    """
    module = run(body + print_value("%c", "f32"), simplify)
    assert names(module) == ["tile.load", "map.fadd", "tile.print"]  # -0 + 0 is +0


def test_equal_ops_are_one_and_see_outer_blocks() -> None:
    body = """
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %a = iadd(%n, %m) : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
      %b = iadd(%n, %m) : i32
      %c = iadd(%b, %i) : i32
      "tile.print"(%a, %c) {prefix = "", unsigned = array<i64: 0, 0>} : (i32, i32) -> ()
    }
    """
    assert names(run(body, simplify)).count("map.iadd") == 2


def test_unused_loads_go_and_effects_stay() -> None:
    body = """
    %f = "tile.load"(%x) {operandSegmentSizes = array<i32: 1, 0, 0>} : (!tile.ptr<f32>) -> f32
    %o = "tile.atomic"(%idx, %n) {kind = "iadd", operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!tile.ptr<i32>, i32) -> i32
    """
    assert names(run(body, simplify)) == ["tile.atomic"]


LOOP = """
%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%last = arith.constant {trips} : i32
%r, %dead, %same = scf.for %i = %c0 to {bound} step %c1 iter_args(%s = %n, %d = %m, %k = %m) -> (i32, i32, i32) : i32 {{
  %t = iadd(%s, %k) : i32
  %u = imul(%n, %m) : i32
  %v = iadd(%t, %u) : i32
  %e = iadd(%d, %i) : i32
  scf.yield %v, %e, %k : i32, i32, i32
}}
"""


def loop(bound: str, trips: int) -> list[str]:
    return names(run(LOOP.format(bound=bound, trips=trips) + print_value("%r", "i32"), simplify))


def test_loops_of_one_and_no_trip_are_inlined() -> None:
    assert loop("%last", 0) == ["tile.print"]
    assert loop("%last", 1) == ["map.iadd", "map.imul", "map.iadd", "tile.print"]


def test_dead_and_constant_carried_values_go_and_invariants_move_out() -> None:
    module = run(LOOP.format(bound="%m", trips=0) + print_value("%r", "i32"), simplify)
    (for_op,) = find(module, scf.ForOp)
    assert len(for_op.iter_args) == 1
    assert names(module) == [
        "map.imul",
        "scf.for",
        "map.iadd",
        "map.iadd",
        "scf.yield",
        "tile.print",
    ]


def test_ifs_on_constants_and_unused_results() -> None:
    body = """
    %t = arith.constant true
    %c = slt(%n, %m) : i32 -> i1
    %a = scf.if %t -> (i32) {
      scf.yield %n : i32
    } else {
      scf.yield %m : i32
    }
    %b, %d = scf.if %c -> (i32, i32) {
      %e = iadd(%n, %m) : i32
      %f = imul(%n, %m) : i32
      scf.yield %e, %f : i32, i32
    } else {
      scf.yield %n, %m : i32, i32
    }
    %g = iadd(%a, %b) : i32
    """
    module = run(body + print_value("%g", "i32"), simplify)
    (op,) = find(module, scf.IfOp)
    assert len(op.results) == 1
    assert "map.imul" not in names(module)


MOVING = """
%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%c4 = arith.constant 4 : i32
%z = arith.constant 0.0 : f32
scf.for %i = %c0 to {bound} step %c1 : i32 {{
  %f = "tile.load"(%x) {{operandSegmentSizes = array<i32: 1, 0, 0>}} : (!tile.ptr<f32>) -> f32
  "tile.print"(%f, %i) {{prefix = "", unsigned = array<i64: 0, 0>}} : (f32, i32) -> ()
}}
"""


def test_loads_stay_in_loops_that_print_or_may_not_run() -> None:
    for bound in ("%c4", "%n"):
        module = run(MOVING.format(bound=bound), simplify)
        (load,) = find(module, tile.LoadOp)
        assert isinstance(load.parent_op(), scf.ForOp)


CARRIED = """
%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%c4 = arith.constant 4 : i32
%z = arith.constant 0.0 : f32
%r = scf.for %i = %c0 to {bound} step %c1 iter_args(%s = %z) -> (f32) : i32 {{
  %f = "tile.load"(%x) {{operandSegmentSizes = array<i32: 1, 0, 0>}} : (!tile.ptr<f32>) -> f32
  %t = fadd(%s, %f) : f32
  {store}
  scf.yield %t : f32
}}
"""
STORE = (
    '"tile.store"(%y, %t) {operandSegmentSizes = array<i32: 1, 1, 0>} : (!tile.ptr<f32>, f32) -> ()'
)


@pytest.mark.parametrize(
    ("bound", "store", "moves"), [("%c4", "", True), ("%n", "", False), ("%c4", STORE, False)]
)
def test_loads_move_out_of_loops_that_run_and_do_not_write(
    bound: str, store: str, moves: bool
) -> None:
    module = run(CARRIED.format(bound=bound, store=store) + print_value("%r", "f32"), simplify)
    (load,) = find(module, tile.LoadOp)
    assert isinstance(load.parent_op(), scf.ForOp) != moves


def test_a_zero_accumulator_is_none() -> None:
    body = """
    %z = arith.constant 0.0 : f32
    %a = "tile.splat"(%z) : (f32) -> tensor<4x4xf32>
    %i = "tile.splat"(%x) : (!tile.ptr<f32>) -> tensor<4x4x!tile.ptr<f32>>
    %l = "tile.load"(%i) {operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x4x!tile.ptr<f32>>) -> tensor<4x4xf32>
    %d = "tile.dot"(%l, %l, %a) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    """
    (op,) = find(run(body + print_value("%d", "tensor<4x4xf32>"), simplify), tile.DotOp)
    assert op.acc is None


def test_float_constants_fold_as_the_machine_computes_them() -> None:
    body = """
    %a = arith.constant 3 : i32
    %b = sitofp(%a) : i32 -> f32
    %c = arith.constant 7.0 : f32
    %d = fdiv(%b, %c) : f32
    %e = fcvt(%d) : f32 -> f16
    """
    module = run(body + print_value("%e", "f16"), simplify)
    (shown,) = find(module, tile.PrintOp)
    assert shown.args[0].owner.value.value.data == float(np.float16(np.float32(3) / np.float32(7)))


def test_nan_is_not_folded() -> None:
    body = """
    %z = arith.constant 0.0 : f32
    %e = fdiv(%z, %z) : f32
    """
    assert names(run(body + print_value("%e", "f32"), simplify)) == ["map.fdiv", "tile.print"]
