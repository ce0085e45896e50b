"""Rules of the access pass: what becomes a box, with which dims, masks, carried scalars."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import i64

from dsalang._backend.dialects import tile
from dsalang._backend.isa.table import INVALID_OFFSET
from dsalang._backend.passes.access import access
from dsalang._backend.passes.fuse import fuse

from .evaluate import Machine
from .evaluate import run as evaluate
from .helpers import find, number, print_value, run

PTRS = "tensor<8x!tile.ptr<f32>>"
LOAD = f"""
%xs = "tile.splat"(%x) : (!tile.ptr<f32>) -> {PTRS}
%p = "tile.addptr"(%xs, %o) : ({PTRS}, tensor<8xi32>) -> {PTRS}
%v = "tile.load"(%p) {{operandSegmentSizes = array<i32: 1, 0, 0>}} : ({PTRS}) -> tensor<8xf32>
"""
MASKED = f"""
%xs = "tile.splat"(%x) : (!tile.ptr<f32>) -> {PTRS}
%p = "tile.addptr"(%xs, %i) : ({PTRS}, tensor<8xi32>) -> {PTRS}
%v = "tile.load"(%p, %k) {{operandSegmentSizes = array<i32: 1, 1, 0>}} : ({PTRS}, tensor<8xi1>) -> tensor<8xf32>
"""
IOTA = """
%i = "tile.iota"() {start = 0 : i32} : () -> tensor<8xi32>
%ns = "tile.splat"(%n) : (i32) -> tensor<8xi32>
%ms = "tile.splat"(%m) : (i32) -> tensor<8xi32>
%pid = "tile.program_id"() {axis = 0 : i32} : () -> i32
%pids = "tile.splat"(%pid) : (i32) -> tensor<8xi32>
"""
CONSTANTS = (
    "\n".join(
        f'%c{v} = arith.constant {v} : i32\n%t{v} = "tile.splat"(%c{v}) : (i32) -> tensor<8xi32>'
        for v in (0, 1, 2, 3, 4, 8)
    )
    + "\n"
)
SHOW = print_value("%v", "tensor<8xf32>")


def load_of(offsets: str) -> list[object]:
    module = run(IOTA + CONSTANTS + offsets + LOAD + SHOW, access)
    assert not find(module, tile.AddPtrOp) and not find(module, tile.LoadOp)
    return find(module, tile.LoadBoxOp) + find(module, tile.GatherOp)


def test_affine_offsets_become_base_and_strides() -> None:
    (box,) = load_of("%a = imul(%i, %t3) : tensor<8xi32>\n%o = iadd(%a, %ns) : tensor<8xi32>\n")
    assert isinstance(box, tile.LoadBoxOp)
    assert [number(s) for s in box.strides] == [12]
    assert box.arg.value.data == 0
    assert [number(box.lo[0]), number(box.hi[0])] == [0, 8]
    assert tile.ints(box.wrapped) == () == tile.ints(box.indexed)


@pytest.mark.parametrize("fn", ["srem", "urem"])
def test_remainders_of_what_cannot_be_negative_wrap(fn: str) -> None:
    body = "%b = imul(%pids, %t8) : tensor<8xi32>\n%a = iadd(%b, %i) : tensor<8xi32>\n"
    (box,) = load_of(body + f"%o = {fn}(%a, %ns) : tensor<8xi32>\n")
    assert isinstance(box, tile.LoadBoxOp)
    assert tile.ints(box.wrapped) == (0,) and len(box.wraps) == len(box.wrap_starts) == 1


def test_remainders_of_unknown_sign_are_index_vectors() -> None:
    (box,) = load_of("%a = iadd(%i, %ms) : tensor<8xi32>\n%o = srem(%a, %ns) : tensor<8xi32>\n")
    assert isinstance(box, tile.LoadBoxOp)
    assert tile.ints(box.indexed) == (0,) and tile.ints(box.wrapped) == ()


def test_what_depends_on_one_dim_is_an_index_vector() -> None:
    (box,) = load_of("%o = sdiv(%i, %t3) : tensor<8xi32>\n")
    assert isinstance(box, tile.LoadBoxOp)
    assert tile.ints(box.indexed) == (0,) and number(box.strides[0]) == 4


WIDE = """
%r = "tile.expand_dims"(%i) {axis = 1 : i32} : (tensor<8xi32>) -> tensor<8x1xi32>
%c = "tile.expand_dims"(%i) {axis = 0 : i32} : (tensor<8xi32>) -> tensor<1x8xi32>
%rb = "tile.broadcast"(%r) : (tensor<8x1xi32>) -> tensor<8x8xi32>
%cb = "tile.broadcast"(%c) : (tensor<1x8xi32>) -> tensor<8x8xi32>
%nn = "tile.splat"(%n) : (i32) -> tensor<8x8xi32>
%rn = imul(%rb, %nn) : tensor<8x8xi32>
%s = iadd(%rn, %cb) : tensor<8x8xi32>
%xs = "tile.splat"(%x) : (!tile.ptr<f32>) -> tensor<8x8x!tile.ptr<f32>>
%p = "tile.addptr"(%xs, %o) : (tensor<8x8x!tile.ptr<f32>>, tensor<8x8xi32>) -> tensor<8x8x!tile.ptr<f32>>
"""
WIDE_LOAD = """
%v = "tile.load"(%p) {operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<8x8x!tile.ptr<f32>>) -> tensor<8x8xf32>
""" + print_value("%v", "tensor<8x8xf32>")


def test_rows_and_columns_keep_their_strides() -> None:
    module = run(IOTA + WIDE.replace("%o", "%s") + WIDE_LOAD, access)
    (box,) = find(module, tile.LoadBoxOp)
    assert number(box.strides[0]) is None and number(box.strides[1]) == 4


def test_joint_dependence_is_a_gather() -> None:
    body = WIDE.replace("%p =", "%o = srem(%s, %nn) : tensor<8x8xi32>\n%p =")
    module = run(IOTA + body + WIDE_LOAD, access)
    (gather,) = find(module, tile.GatherOp)
    assert gather.offsets.type.get_shape() == (8, 8) and gather.arg.value.data == 0


MASKS = [
    ("%k = slt(%i, %ns) : tensor<8xi32> -> tensor<8xi1>", True),
    ("%k = sge(%i, %ns) : tensor<8xi32> -> tensor<8xi1>", True),
    ("%k = ieq(%i, %ns) : tensor<8xi32> -> tensor<8xi1>", True),
    ("%a = imul(%i, %t3) : tensor<8xi32>\n%k = sle(%a, %ns) : tensor<8xi32> -> tensor<8xi1>", True),
    ("%a = isub(%ns, %i) : tensor<8xi32>\n%k = sgt(%a, %t2) : tensor<8xi32> -> tensor<8xi1>", True),
    ("%k = ult(%i, %ns) : tensor<8xi32> -> tensor<8xi1>", True),
    ("%k = ine(%i, %ns) : tensor<8xi32> -> tensor<8xi1>", False),
    ("%a = srem(%i, %t3) : tensor<8xi32>\n%k = slt(%a, %ns) : tensor<8xi32> -> tensor<8xi1>", False),
    (
        "%a = slt(%i, %ns) : tensor<8xi32> -> tensor<8xi1>\n%b = sgt(%i, %ms) : tensor<8xi32> -> tensor<8xi1>\n"
        "%k = iand(%a, %b) : tensor<8xi1>",
        True,
    ),
    (
        "%a = slt(%i, %ns) : tensor<8xi32> -> tensor<8xi1>\n%b = sgt(%i, %ms) : tensor<8xi32> -> tensor<8xi1>\n"
        "%k = ior(%a, %b) : tensor<8xi1>",
        False,
    ),
    ("%a = slt(%n, %m) : i32 -> i1\n%k = \"tile.splat\"(%a) : (i1) -> tensor<8xi1>", True),
]  # fmt: skip


@pytest.mark.parametrize(("mask", "interval"), MASKS)
def test_masks_are_intervals_or_invalid_offsets(mask: str, interval: bool) -> None:
    body = IOTA + CONSTANTS + mask + "\n" + MASKED + SHOW
    module = run(body, access)
    assert bool(find(module, tile.LoadBoxOp)) == interval
    if not interval:
        (gather,) = find(module, tile.GatherOp)
        assert number(gather.offsets.owner.args[2].owner.value) == INVALID_OFFSET
    original = run(body)
    for n, m in [(-9, 3), (0, 0), (1, -2), (5, 2), (8, 8), (2**31 - 1, -(2**31)), (13, 6)]:
        logs = []
        for version in (original, module):
            machine = Machine(256)
            machine.memory[:32] = np.arange(1, 9, dtype=np.float32).view(np.uint8)
            evaluate(version, [0, 0, 0, n, m], machine)
            logs.append(machine.log)
        assert logs[0] == logs[1], (n, m)


def test_a_true_mask_is_dropped_and_splat_other_is_the_fill() -> None:
    body = """
    %t = arith.constant true
    %f = arith.constant 2.0 : f32
    %k = "tile.splat"(%t) : (i1) -> tensor<8xi1>
    %keep = slt(%i, %ns) : tensor<8xi32> -> tensor<8xi1>
    %o = "tile.splat"(%f) : (f32) -> tensor<8xf32>
    """
    load = MASKED.replace("1, 1, 0>", "1, 1, 1>").replace("%k)", "%k, %o)").replace("tensor<8xi1>)", "tensor<8xi1>, tensor<8xf32>)")  # fmt: skip
    (box,) = find(run(IOTA + body + "\n" + load + SHOW, access), tile.LoadBoxOp)
    assert number(box.hi[0]) == 8 and box.fill is None
    (box,) = find(
        run(IOTA + body + "\n" + load.replace("%k", "%keep") + SHOW, access), tile.LoadBoxOp
    )
    assert number(box.hi[0]) is None and box.fill is not None


def test_other_as_a_tile_is_selected_afterwards() -> None:
    body = "%o = sitofp(%i) : tensor<8xi32> -> tensor<8xf32>\n%k = slt(%i, %ns) : tensor<8xi32> -> tensor<8xi1>"
    load = MASKED.replace("1, 1, 0>", "1, 1, 1>").replace("%k)", "%k, %o)").replace("tensor<8xi1>)", "tensor<8xi1>, tensor<8xf32>)")  # fmt: skip
    module = run(IOTA + body + "\n" + load + SHOW, access)
    (box,) = find(module, tile.LoadBoxOp)
    assert box.fill is None
    assert [op.fn.data for op in find(module, tile.MapOp)].count("select") == 1


CARRIED = f"""
%xs = "tile.splat"(%x) : (!tile.ptr<f32>) -> {PTRS}
%p = "tile.addptr"(%xs, %i) : ({PTRS}, tensor<8xi32>) -> {PTRS}
%r, %q = scf.for %j = %c0 to %n step %c1 iter_args(%ptr = %p, %off = %i) -> ({PTRS}, tensor<8xi32>) : i32 {{{{
  %k = slt(%off, %ms) : tensor<8xi32> -> tensor<8xi1>
  %v = "tile.load"(%ptr, %k) {{{{operandSegmentSizes = array<i32: 1, 1, 0>}}}} : ({PTRS}, tensor<8xi1>) -> tensor<8xf32>
  "tile.print"(%v) {{{{prefix = "", unsigned = array<i64: 0>}}}} : (tensor<8xf32>) -> ()
  %next = "tile.addptr"(%ptr, {{step}}) : ({PTRS}, tensor<8xi32>) -> {PTRS}
  %more = iadd(%off, %t8) : tensor<8xi32>
  scf.yield %next, %more : {PTRS}, tensor<8xi32>
}}}}
"""


def test_carried_pointers_become_carried_scalars() -> None:
    module = run(IOTA + CONSTANTS + CARRIED.format(step="%ns"), access)
    (loop,) = find(module, scf.ForOp)
    assert [v.type for v in loop.iter_args] == [i64, i64]
    (box,) = find(module, tile.LoadBoxOp)
    assert box.arg.value.data == 0 and number(box.strides[0]) == 4


def test_carried_strides_become_scalars_too() -> None:
    module = run(IOTA + CONSTANTS + CARRIED.format(step="%i"), access)
    (loop,) = find(module, scf.ForOp)
    assert [v.type for v in loop.iter_args] == [i64, i64]  # the stride and the mask's offset
    (box,) = find(module, tile.LoadBoxOp)
    assert number(box.strides[0]) is None


def test_carried_pointers_of_changing_structure_stay_tiles_of_addresses() -> None:
    step = "%odd = srem(%off, %t3) : tensor<8xi32>\n%next ="
    module = run(IOTA + CONSTANTS + CARRIED.format(step="%odd").replace("%next =", step), access)
    (loop,) = find(module, scf.ForOp)
    assert "tensor<8xi64>" in [str(v.type) for v in loop.iter_args]
    assert not find(module, tile.AddPtrOp)


def test_scalar_accesses_are_boxes_of_one_element() -> None:
    body = """
    %c = slt(%n, %m) : i32 -> i1
    %p = "tile.addptr"(%x, %n) : (!tile.ptr<f32>, i32) -> !tile.ptr<f32>
    %v = "tile.load"(%p, %c) {operandSegmentSizes = array<i32: 1, 1, 0>} : (!tile.ptr<f32>, i1) -> f32
    "tile.store"(%y, %v) {operandSegmentSizes = array<i32: 1, 1, 0>} : (!tile.ptr<f32>, f32) -> ()
    """
    module = run(body, access)
    (load,), (store,) = find(module, tile.LoadBoxOp), find(module, tile.StoreBoxOp)
    assert load.result.type.get_shape() == (1,) == store.value.type.get_shape()
    assert load.hi[0].owner.fn.data == "select"
    assert (load.arg.value.data, store.arg.value.data) == (0, 1)


def test_atomics_take_offsets_with_masked_ones_invalid() -> None:
    body = """
    %is = "tile.splat"(%idx) : (!tile.ptr<i32>) -> tensor<8x!tile.ptr<i32>>
    %p = "tile.addptr"(%is, %i) : (tensor<8x!tile.ptr<i32>>, tensor<8xi32>) -> tensor<8x!tile.ptr<i32>>
    %k = slt(%i, %ns) : tensor<8xi32> -> tensor<8xi1>
    %o = "tile.atomic"(%p, %ns, %k) {kind = "iadd", operandSegmentSizes = array<i32: 1, 1, 0, 1>} : (tensor<8x!tile.ptr<i32>>, tensor<8xi32>, tensor<8xi1>) -> tensor<8xi32>
    """
    (op,) = find(run(IOTA + body, access), tile.AtomicListOp)
    assert op.arg.value.data == 2 and op.offsets.owner.fn.data == "select"


@pytest.mark.parametrize(("left", "right", "arg"), [("%x", "%x", 0), ("%x", "%y", -1)])
def test_pointers_out_of_conditionals(left: str, right: str, arg: int) -> None:
    body = f"""
    %c = slt(%n, %m) : i32 -> i1
    %q = scf.if %c -> ({PTRS}) {{
      %a = "tile.splat"({left}) : (!tile.ptr<f32>) -> {PTRS}
      %b = "tile.addptr"(%a, %i) : ({PTRS}, tensor<8xi32>) -> {PTRS}
      scf.yield %b : {PTRS}
    }} else {{
      %a = "tile.splat"({right}) : (!tile.ptr<f32>) -> {PTRS}
      %d = iadd(%i, %ns) : tensor<8xi32>
      %b = "tile.addptr"(%a, %d) : ({PTRS}, tensor<8xi32>) -> {PTRS}
      scf.yield %b : {PTRS}
    }}
    %v = "tile.load"(%q) {{operandSegmentSizes = array<i32: 1, 0, 0>}} : ({PTRS}) -> tensor<8xf32>
    """
    module = run(IOTA + body + SHOW, access)
    (box,) = find(module, tile.LoadBoxOp)
    assert box.arg.value.data == arg and number(box.strides[0]) == 4
    (if_op,) = find(module, scf.IfOp)
    assert [r.type for r in if_op.results] == [i64]


def test_narrow_index_arithmetic_wraps_around() -> None:
    body = """
    %b = trunc(%i) : tensor<8xi32> -> tensor<8xi8>
    %c125 = arith.constant 125 : i8
    %d = "tile.splat"(%c125) : (i8) -> tensor<8xi8>
    %e = iadd(%b, %d) : tensor<8xi8>
    %o = zext(%e) : tensor<8xi8> -> tensor<8xi32>
    """
    (box,) = load_of(body)
    assert isinstance(box, tile.LoadBoxOp) and tile.ints(box.indexed) == (0,)


def test_tiles_of_one_element_need_no_memory_for_their_index() -> None:
    one = "tensor<1x!tile.ptr<f32>>"
    body = f"""
    %o = "tile.iota"() {{start = 3 : i32}} : () -> tensor<1xi32>
    %l = "tile.splat"(%n) : (i32) -> tensor<1xi32>
    %k = slt(%o, %l) : tensor<1xi32> -> tensor<1xi1>
    %s = "tile.splat"(%x) : (!tile.ptr<f32>) -> {one}
    %p = "tile.addptr"(%s, %o) : ({one}, tensor<1xi32>) -> {one}
    %v = "tile.load"(%p, %k) {{operandSegmentSizes = array<i32: 1, 1, 0>}} : ({one}, tensor<1xi1>) -> tensor<1xf32>
    """
    module = run(body + print_value("%v", "tensor<1xf32>"), access)
    (box,) = find(module, tile.LoadBoxOp)
    assert not find(module, tile.ReshapeOp) and not find(module, tile.IotaOp)
    assert number(box.lo[0]) == 0 and number(box.hi[0]) is None


def test_long_computations_behind_a_mask() -> None:
    chain = "%f0 = sitofp(%i) : tensor<8xi32> -> tensor<8xf32>\n"
    chain += "".join(f"%f{k} = fexp(%f{k - 1}) : tensor<8xf32>\n" for k in range(1, 1500))
    mask = "%k = flt(%f1499, %f0) : tensor<8xf32> -> tensor<8xi1>\n"
    module = run(IOTA + chain + mask + MASKED + SHOW, access, fuse)
    assert len(find(module, tile.GatherOp)) == 1
