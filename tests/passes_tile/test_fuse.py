"""Rules of the fuse pass, and the vector programs made of its ops."""

from __future__ import annotations

import pytest

from dsalang._backend.dialects import tile
from dsalang._backend.errors import InternalError
from dsalang._backend.isa.text import print_program
from dsalang._backend.passes.access import access
from dsalang._backend.passes.fuse import fuse
from dsalang._backend.passes.simplify import simplify
from dsalang._backend.passes.vprogram import build_program

from .helpers import find, names, print_value, run

PTRS = "tensor<8x!tile.ptr<f32>>"
START = '%i = "tile.iota"() {start = 0 : i32} : () -> tensor<8xi32>\n'


def load(name: str, base: str = "%x") -> str:
    return f"""
    {name}s = "tile.splat"({base}) : (!tile.ptr<f32>) -> {PTRS}
    {name}p = "tile.addptr"({name}s, %i) : ({PTRS}, tensor<8xi32>) -> {PTRS}
    {name} = "tile.load"({name}p) {{operandSegmentSizes = array<i32: 1, 0, 0>}} : ({PTRS}) -> tensor<8xf32>
    """


def store(value: str, base: str = "%y") -> str:
    name = value + "t"
    return f"""
    {name}s = "tile.splat"({base}) : (!tile.ptr<f32>) -> {PTRS}
    {name}p = "tile.addptr"({name}s, %i) : ({PTRS}, tensor<8xi32>) -> {PTRS}
    "tile.store"({name}p, {value}) {{operandSegmentSizes = array<i32: 1, 1, 0>}} : ({PTRS}, tensor<8xf32>) -> ()
    """


def fused(body: str) -> list[tile.FusedOp]:
    module = run(START + body, simplify, access, fuse)
    outside = [
        op for op in find(module, tile.MapOp) if not isinstance(op.parent_op(), tile.FusedOp)
    ]
    assert all(not str(op.result.type).startswith("tensor") for op in outside)
    assert not find(module, tile.IotaOp) and not find(module, tile.SplatOp)
    return find(module, tile.FusedOp)


def body_of(op: tile.FusedOp) -> list[str]:
    return [o.fn.data if isinstance(o, tile.MapOp) else o.name for o in op.body.block.ops]


def test_a_chain_is_one_op_with_scalars_constants_and_coordinates_inside() -> None:
    body = """
    %c = arith.constant 0.5 : f32
    %h = "tile.splat"(%c) : (f32) -> tensor<8xf32>
    %ns = "tile.splat"(%n) : (i32) -> tensor<8xi32>
    %nf = sitofp(%ns) : tensor<8xi32> -> tensor<8xf32>
    %if = sitofp(%i) : tensor<8xi32> -> tensor<8xf32>
    %d = fmul(%a, %h) : tensor<8xf32>
    %e = fadd(%d, %nf) : tensor<8xf32>
    %f = fmax(%e, %if) : tensor<8xf32>
    """
    (op,) = fused(load("%a") + body + store("%f"))
    assert len(op.args) == 2 and [tile.ints(d) for d in op.dims] == [(0,), ()]
    assert "fadd" in body_of(op) and "tile.index" in body_of(op) and "ffma" not in body_of(op)


def test_a_path_through_another_op_keeps_clusters_apart() -> None:
    body = """
    %b = fexp(%a) : tensor<8xf32>
    %s = "tile.scan"(%b) {kind = "fsum", axis = 0 : i32, reverse = false} : (tensor<8xf32>) -> tensor<8xf32>
    %c = fmul(%b, %s) : tensor<8xf32>
    """
    ops = fused(load("%a") + body + store("%c"))
    assert [body_of(op)[0] for op in ops] == ["fexp", "fmul"]


@pytest.mark.parametrize(("base", "count"), [("%y", 1), ("%x", 2)])
def test_clusters_do_not_carry_loads_over_stores_that_may_alias(base: str, count: int) -> None:
    """The second load reads what the first store writes only if both go through x."""
    second = load("%d") + "%e = fadd(%b, %d) : tensor<8xf32>\n"
    body = load("%a") + "%b = fneg(%a) : tensor<8xf32>\n" + store("%b", base) + second
    assert len(fused(body + store("%e"))) == count


def test_dims_of_size_one_do_not_separate() -> None:
    body = """
    %b = fneg(%a) : tensor<8xf32>
    %c = "tile.expand_dims"(%b) {axis = 1 : i32} : (tensor<8xf32>) -> tensor<8x1xf32>
    %d = fexp(%c) : tensor<8x1xf32>
    """
    (op,) = fused(load("%a") + body + print_value("%d", "tensor<8x1xf32>"))
    assert body_of(op) == ["fneg", "fexp", "tile.yield"]


def test_views_are_walks_of_operands() -> None:
    body = """
    %r = "tile.expand_dims"(%a) {axis = 1 : i32} : (tensor<8xf32>) -> tensor<8x1xf32>
    %c = "tile.expand_dims"(%b) {axis = 0 : i32} : (tensor<8xf32>) -> tensor<1x8xf32>
    %rb = "tile.broadcast"(%r) : (tensor<8x1xf32>) -> tensor<8x8xf32>
    %cb = "tile.broadcast"(%c) : (tensor<1x8xf32>) -> tensor<8x8xf32>
    %s = fadd(%rb, %cb) : tensor<8x8xf32>
    """
    (op,) = fused(load("%a") + load("%b", "%y") + body + print_value("%s", "tensor<8x8xf32>"))
    assert [tile.ints(d) for d in op.dims] == [(0,), (1,)]
    assert tile.ints(op.sizes) == (8, 8)


def test_a_broadcast_that_something_else_uses_is_made() -> None:
    body = """
    %r = "tile.expand_dims"(%a) {axis = 1 : i32} : (tensor<8xf32>) -> tensor<8x1xf32>
    %rb = "tile.broadcast"(%r) : (tensor<8x1xf32>) -> tensor<8x4xf32>
    """
    (op,) = fused(load("%a") + body + print_value("%rb", "tensor<8x4xf32>"))
    assert body_of(op) == ["tile.yield"] and tile.ints(op.sizes) == (8, 4)


def test_small_rows_of_statistics_stay_on_their_own() -> None:
    body = """
    %r = "tile.expand_dims"(%a) {axis = 1 : i32} : (tensor<8xf32>) -> tensor<8x1xf32>
    %w = "tile.broadcast"(%r) : (tensor<8x1xf32>) -> tensor<8x4xf32>
    %e = fexp(%w) : tensor<8x4xf32>
    %mx = "tile.reduce"(%e) {kind = "fmax", axis = 1 : i32} : (tensor<8x4xf32>) -> tensor<8xf32>
    %n2 = fneg(%mx) : tensor<8xf32>
    %n3 = "tile.expand_dims"(%n2) {axis = 1 : i32} : (tensor<8xf32>) -> tensor<8x1xf32>
    %n4 = "tile.broadcast"(%n3) : (tensor<8x1xf32>) -> tensor<8x4xf32>
    %d = fsub(%e, %n4) : tensor<8x4xf32>
    """
    ops = fused(load("%a") + body + print_value("%d", "tensor<8x4xf32>"))
    assert [tile.ints(op.sizes) for op in ops] == [(8, 4), (8,), (8, 4)]


def test_float_scalars_are_programs_of_rank_0_and_integers_stay() -> None:
    body = """
    %s = "tile.reduce"(%a) {kind = "fsum", axis = 0 : i32} : (tensor<8xf32>) -> f32
    %k = iadd(%n, %m) : i32
    %f = sitofp(%k) : i32 -> f32
    %q = fdiv(%s, %f) : f32
    """
    module = run(START + load("%a") + body + print_value("%q", "f32"), simplify, access, fuse)
    (op,) = find(module, tile.FusedOp)
    assert tile.ints(op.sizes) == () and body_of(op) == ["sitofp", "fdiv", "tile.yield"]
    assert "map.iadd" in names(module)


def sum_of(count: int) -> str:
    loads = "".join(load(f"%a{k}").replace("%i)", f"%o{k})") for k in range(count))
    offsets = "".join(
        f'%c{k} = arith.constant {k} : i32\n%cs{k} = "tile.splat"(%c{k}) : (i32) -> tensor<8xi32>\n'
        f"%o{k} = iadd(%i, %cs{k}) : tensor<8xi32>\n"
        for k in range(count)
    )
    sums = "".join(
        f"%s{k} = fadd(%{f's{k - 1}' if k > 1 else 'a0'}, %a{k}) : tensor<8xf32>\n"
        for k in range(1, count)
    )
    return offsets + loads + sums


def test_clusters_are_cut_at_eight_inputs() -> None:
    ops = fused(sum_of(18) + store("%s17"))
    assert [len(op.args) for op in ops] == [8, 8, 4]


def test_clusters_are_cut_at_four_outputs() -> None:
    body = "".join(f"%b{k} = {fn}(%a) : tensor<8xf32>\n" + store(f"%b{k}") for k, fn in enumerate(
        ["fexp", "fneg", "fabs", "fsqrt", "ftanh", "ffloor"]
    ))  # fmt: skip
    first = "%a = fexp(%z) : tensor<8xf32>\n"
    ops = fused(load("%z") + first + body)
    assert max(len(op.results) for op in ops) <= 4
    assert sum(len(op.results) for op in ops) >= 6


def test_clusters_keep_within_the_registers() -> None:
    values = "".join(f"%b{k} = fexp(%b{k - 1}) : tensor<8xf32>\n" for k in range(1, 50))
    total = "%s49 = fneg(%b49) : tensor<8xf32>\n" + "".join(
        f"%s{k} = fadd(%s{k + 1}, %b{k}) : tensor<8xf32>\n" for k in range(48, 0, -1)
    )
    ops = fused(load("%b0") + values + total + store("%s1"))
    assert len(ops) > 1
    for op in ops:
        build_program(op, [True] * len(op.args))


def test_many_dims_fold_into_one() -> None:
    shape = "tensor<2x2x2x2x2x2xf32>"
    body = f"""
    %c = "tile.reshape"(%b) : (tensor<8xf32>) -> tensor<2x2x2xf32>
    %r = "tile.reshape"(%b) : (tensor<8xf32>) -> tensor<2x1x2x1x2x1xf32>
    %w = "tile.broadcast"(%r) : (tensor<2x1x2x1x2x1xf32>) -> {shape}
    %e = fexp(%w) : {shape}
    %f = fadd(%e, %w) : {shape}
    """
    ops = fused(load("%b") + body + print_value("%f", shape))
    assert all(len(tile.ints(op.sizes)) <= 4 for op in ops)
    assert tile.ints(ops[-1].sizes) == (64,)


def test_the_program_of_a_chain() -> None:
    body = """
    %c = arith.constant 0.5 : f32
    %h = "tile.splat"(%c) : (f32) -> tensor<8xf32>
    %g = fcvt(%a) : tensor<8xf32> -> tensor<8xf16>
    %j = fcvt(%g) : tensor<8xf16> -> tensor<8xf32>
    %d = fmul(%j, %h) : tensor<8xf32>
    """
    (op,) = fused(load("%a") + body + store("%d"))
    program, inputs, scalars = build_program(op, [True])
    assert (inputs, scalars) == ([0], [])
    assert print_program(program).splitlines() == [
        "program inputs(fp32) scalars() outputs(fp32)",
        "r0 = in.fp32 0",
        "r0 = fcvt.fp16<fp32> r0",
        "r0 = fcvt.fp32<fp16> r0",
        "r1 = const.fp32 0x3f000000",
        "r1 = fmul.fp32 r0, r1",
        "out.fp32 r1, 0",
    ]


def test_scalars_go_where_place_says() -> None:
    body = """
    %ns = "tile.splat"(%n) : (i32) -> tensor<8xi32>
    %nf = sitofp(%ns) : tensor<8xi32> -> tensor<8xf32>
    %d = fmul(%a, %nf) : tensor<8xf32>
    """
    (op,) = fused(load("%a") + body + store("%d"))
    program, inputs, scalars = build_program(op, [True, False])
    assert (inputs, scalars) == ([0], [1]) and program.scalars == ("int32",)
    program, inputs, scalars = build_program(op, [True, True])
    assert (inputs, scalars) == ([0, 1], []) and program.inputs == ("fp32", "int32")


def test_too_many_registers_is_a_bug_not_a_wrong_program() -> None:
    from xdsl.dialects.builtin import f32
    from xdsl.ir import Block

    block = Block(arg_types=[f32])
    values = [block.args[0]]
    for _ in range(40):
        op = tile.MapOp("fexp", [values[-1]])
        block.add_op(op)
        values.append(op.result)
    total = values[0]
    for value in values[1:]:
        op = tile.MapOp("fadd", [total, value])
        block.add_op(op)
        total = op.result
    block.add_op(tile.YieldOp([total]))
    fused_op = tile.FusedOp([Block(arg_types=[f32]).args[0]], (), [()], block)
    with pytest.raises(InternalError, match="registers"):
        build_program(fused_op, [True])
