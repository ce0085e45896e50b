"""What placing makes of a kernel: rings, copies, reads, fields."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from dsalang._backend.dialects import dsa, parse_ir, print_ir, tile
from dsalang._backend.dialects.locations import from_ir
from dsalang._backend.passes.place import place
from dsalang._backend.passes.placing import liveness
from dsalang._backend.passes.placing.homes import control_core_scalars
from dsalang._backend.target import Target

from . import kernels
from .build import Kernel

EDGE = Target.by_name("edge")


def kernel() -> Kernel:
    return Kernel(x="*fp32", y="*fp32", n="i32", a="fp32")


def placed(k: Kernel | ModuleOp) -> list[dsa.IssueOp]:
    module = k if isinstance(k, ModuleOp) else k.module()
    place(module, EDGE)
    module.verify()
    return [op for op in module.walk() if isinstance(op, dsa.IssueOp)]


def of(issues: list[dsa.IssueOp], op: str) -> list[dsa.IssueOp]:
    return [issue for issue in issues if issue.op.data == op]


def rings(issues: list[dsa.IssueOp]) -> list[dsa.RingOp]:
    parent = issues[0].parent_op()
    while not isinstance(parent, func.FuncOp):
        assert parent is not None
        parent = parent.parent_op()
    return [op for op in parent.walk() if isinstance(op, dsa.RingOp)]


def load(k: Kernel, element: int = 0) -> SSAValue:
    return k.load("x", [8], k.address("x", k.const(element), 4), [4])


def store(k: Kernel, value: SSAValue) -> None:
    k.store("y", value, k.address("y"), [4])


def test_matmul_accumulates_in_one_ring_without_a_vector_instruction() -> None:
    issues = placed(kernels.matmul().module())
    assert not of(issues, "vexec")
    assert len(rings(issues)) == 3
    (clear, mma) = of(issues, "mma")
    assert clear.static("k") == 0 and isinstance(clear.parent_op(), scf.IfOp)
    assert "accumulate" in mma.bound()


def test_a_loop_that_surely_runs_needs_no_clearing() -> None:
    issues = placed(kernels.matmul(static=True).module())
    assert len(of(issues, "mma")) == 1


def test_a_permute_that_feeds_a_dot_is_a_flag() -> None:
    issues = placed(kernels.matmul(static=True, transposed_b=True).module())
    (mma,) = of(issues, "mma")
    assert mma.static("trans_b") == 1 and mma.static("trans_a") == 0
    assert not of(issues, "vexec")


def test_a_carried_tile_is_updated_in_place() -> None:
    k = kernel()
    (x,) = k.loop(k.const(0), k.const(4), [load(k)], lambda k, i, x: [k.same("fneg", x)])
    store(k, x)
    issues = placed(k)
    assert len(rings(issues)) == 1
    (negate,) = of(issues, "vexec")
    assert negate.bound()["in.0"] is negate.bound()["out.0"]


def test_swapped_tiles_need_one_tile_aside() -> None:
    k = kernel()
    pair = k.loop(k.const(0), k.const(3), [load(k), load(k, 8)], lambda k, i, a, b: [b, a])
    store(k, k.same("fsub", *pair))
    issues = placed(k)
    assert len(of(issues, "vexec")) == 3 + 1
    assert len(rings(issues)) == 3 + 1


def test_a_value_that_lives_on_is_not_overwritten() -> None:
    k = kernel()
    x = load(k)
    (y,) = k.loop(k.const(0), k.const(4), [x], lambda k, i, y: [k.same("fneg", y)])
    store(k, k.same("fadd", x, y))
    issues = placed(k)
    assert len(of(issues, "vexec")) == 3  # the copy, the negation, the sum


def test_branches_write_the_result() -> None:
    k = kernel()
    x = load(k)
    positive = k.map("sgt", k.args["n"], k.const(0))
    (y,) = k.branch(positive, lambda k: [k.same("fneg", x)], lambda k: [x])
    store(k, y)
    issues = placed(k)
    assert len(of(issues, "vexec")) == 1
    assert len(rings(issues)) == 1


def test_constants_are_made_again_instead_of_copied() -> None:
    k = kernel()
    zeros = k.full([8], 0, "fp32")

    def outer(k: Kernel, i: SSAValue) -> list[SSAValue]:
        def inner(k: Kernel, j: SSAValue, s: SSAValue) -> list[SSAValue]:
            return [k.same("fadd", s, load(k))]

        (total,) = k.loop(k.const(0), k.const(4), [zeros], inner)
        store(k, total)
        return []

    k.loop(k.const(0), k.const(2), [], outer)
    issues = placed(k)
    assert len(rings(issues)) == 2  # x and the sum
    assert len(of(issues, "vexec")) == 2


def test_scalars_stay_in_sram_until_the_control_core_needs_them() -> None:
    def make(needed: bool) -> list[dsa.ReadOp]:
        k = Kernel(x="*i32", y="*i32")
        n = k.load("x", [], k.address("x"), [])
        more = k.map("iadd", n, k.const(1))
        k.store("y", more, k.address("y", more if needed else None, 4), [])
        module = k.module()
        place(module, EDGE)
        return [op for op in module.walk() if isinstance(op, dsa.ReadOp)]

    assert len(make(False)) == 0
    assert len(make(True)) == 1


def test_float_argument_is_a_run_time_scalar_and_constants_are_static() -> None:
    k = kernel()
    x = k.load("x", [8], k.address("x"), [4], hi=[5], fill=k.const(-np.inf, "fp32"))
    store(k, k.same("fmul", x, k.args["a"]))
    issues = placed(k)
    (box,) = of(issues, "dma.load")
    assert box.static("fill") == 0xFF80_0000 and "fill" not in box.bound()
    (product,) = of(issues, "vexec")
    assert str(product.bound()["scalar.0"].type) == "i32"


def test_every_instruction_and_ring_has_its_source_line() -> None:
    issues = placed(kernels.softmax().module())
    lines = [from_ir(op.location).line for op in issues]
    assert lines == sorted(lines) and len(set(lines)) == len(lines)
    assert all(from_ir(ring.location) is not None for ring in rings(issues))


def test_no_argument_is_unknown_and_arguments_reach_the_dma() -> None:
    issues = placed(kernels.vector_add().module())
    assert [op.hbm_arg.value.data for op in of(issues, "dma.load")] == [0, 1]
    assert [op.hbm_arg.value.data for op in of(issues, "dma.store")] == [2]


TEXT = """
func.func @negate(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {"dsa.args" = ["x", "y"]} {
  %one = arith.constant 4 : i64
  %zero = arith.constant 0 : i32
  %size = arith.constant 16 : i32
  %from = "tile.ptr_cast"(%x) : (!tile.ptr<f32>) -> i64
  %to = "tile.ptr_cast"(%y) : (!tile.ptr<f32>) -> i64
  %in = "tile.load_box"(%from, %one, %zero, %size) <{wrapped = array<i64>, indexed = array<i64>, arg = 0 : i32,
    operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>}> : (i64, i64, i32, i32) -> tensor<16xf32>
  %out = "tile.fused"(%in) <{sizes = array<i64: 16>, dims = [array<i64: 0>]}> ({
  ^bb0(%e: f32):
    %n = "tile.map"(%e) <{fn = "fneg"}> : (f32) -> f32
    "tile.yield"(%n) : (f32) -> ()
  }) : (tensor<16xf32>) -> tensor<16xf32>
  "tile.store_box"(%to, %one, %zero, %size, %out) <{wrapped = array<i64>, indexed = array<i64>, arg = 1 : i32,
    operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 1>}> : (i64, i64, i32, i32, tensor<16xf32>) -> ()
  func.return
}
"""

CHECKS = """
// CHECK: func.func @negate(%[[X:.*]]: i64, %[[Y:.*]]: i64)
// CHECK-NEXT: %[[RX:.*]] = "dsa.ring"() <{label = "x", bytes = 64 : i64, slots = 0 : i64, address = -1 : i64
// CHECK-NEXT: %[[RY:.*]] = "dsa.ring"()
// CHECK: %[[CORE:.*]] = "dsa.core_id"
// CHECK-NEXT: %[[CORES:.*]] = "dsa.num_cores"
// CHECK-NEXT: scf.for %{{.*}} = %[[CORE]] to %{{.*}} step %[[CORES]] : i32 {
// CHECK-NEXT: %[[SX:.*]] = "dsa.acquire"(%[[RX]])
// CHECK-NEXT: "dsa.issue"(%[[X]], %[[SX]]) <{op = "dma.load", bind = ["hbm", "sram"]
// CHECK: %[[SY:.*]] = "dsa.acquire"(%[[RY]])
// CHECK-NEXT: "dsa.issue"(%[[SX]], %[[SY]]) <{op = "vexec", bind = ["in.0", "out.0"]
// CHECK: "dsa.issue"(%[[Y]], %[[SY]]) <{op = "dma.store", bind = ["hbm", "sram"]
// CHECK: func.return
"""


def test_text_in_text_out(tmp_path: Path) -> None:
    module = parse_ir(TEXT)
    place(module, EDGE)
    checks, output = tmp_path / "checks", tmp_path / "output"
    checks.write_text(CHECKS)
    output.write_text(print_ir(module))
    matcher = Matcher.from_opts(parse_argv_options(["", str(checks), "--input-file", str(output)]))
    assert matcher.run() == 0


@pytest.mark.parametrize(("turned", "same"), [(False, True), (True, False)])
def test_only_a_row_major_walk_may_be_overwritten(turned: bool, same: bool) -> None:
    k = Kernel(x="*fp32")
    x = k.load("x", [4, 4], k.address("x"), [16, 4])
    walk = [1, 0] if turned else [0, 1]
    k.fused([4, 4], [x], [walk], lambda k, e: [k.map("fneg", e)])
    (op,) = (op for op in k.block.ops if isinstance(op, tile.FusedOp))
    assert liveness.is_pointwise(op, 0) is same


def test_carried_integers_follow_their_use() -> None:
    """A sum of loaded integers stays in SRAM; used as an address it moves to the control core."""
    for needed in (False, True):
        k = Kernel(x="*i32", y="*i32")

        def body(k: Kernel, i: SSAValue, s: SSAValue) -> list[SSAValue]:
            return [k.map("iadd", s, k.load("x", [], k.address("x", i, 4), []))]

        (total,) = k.loop(k.const(0), k.const(4), [k.const(0)], body)
        k.store("y", total, k.address("y", total if needed else None, 4), [])
        k.module()
        assert (total in control_core_scalars(k.block, tile.operations(k.block))) is needed
