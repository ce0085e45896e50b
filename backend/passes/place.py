"""place: tile IR becomes dsa IR; tiles become rings, operations become instructions, the grid becomes a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr, i32
from xdsl.ir import Block, Operation

from ..dialects import arithmetic, dsa, tile
from ..target import Target
from .placing import control, micro, report, tensor, transfer, vector
from .placing.emit import Placement, core_type
from .placing.glue import core_map
from .placing.homes import control_core_scalars
from .placing.joins import find_joins
from .placing.prepare import remake_constants
from .placing.rings import assign_rings
from .placing.walks import is_view


def place(module: ModuleOp, target: Target) -> None:
    """Replace the tile kernel of `module` by the dsa kernel that computes the same.

    The grid becomes the outermost loop, every tile a ring, every operation instructions of an engine;
    integer scalars move to the control core. Rings have neither slots nor addresses yet.
    """
    for op in list(module.ops):
        if isinstance(op, func.FuncOp):
            _place_kernel(op, target)


def _place_kernel(kernel: func.FuncOp, target: Target) -> None:
    old = kernel.body.block
    remake_constants(tile.operations(old))
    ops = tile.operations(old)
    in_core = control_core_scalars(old, ops)
    joins = find_joins(ops)
    rings = assign_rings(old, ops, in_core, joins)
    accumulators = tensor.find_accumulators(ops, rings)
    types = [core_type(arg.type) for arg in old.args]
    top, body = Block(arg_types=types), Block(arg_types=[i32])
    p = Placement(
        target=target,
        argument_names=_strings(kernel.attributes.get("dsa.args")),
        in_core=in_core,
        rings=rings,
        top=top,
        at=top,
        joins=joins,
        location=kernel.location,
    )
    for argument, new in zip(old.args, top.args, strict=True):
        new.name_hint = argument.name_hint
        p.define(argument, new)
    _grid_loop(p, body, kernel, accumulators)
    if p.own_credits:
        kernel.attributes[dsa.OWN_CREDITS] = tile.i64_array(p.own_credits)
    kernel.body.detach_block(old)
    kernel.body.add_block(top)
    kernel.function_type = FunctionType.from_lists(types, [])


def _strings(attribute: Any) -> tuple[str, ...]:
    if not isinstance(attribute, ArrayAttr):
        return ()
    return tuple(entry.data for entry in attribute if isinstance(entry, StringAttr))


def _grid_loop(
    p: Placement, body: Block, kernel: func.FuncOp, accumulators: tensor.Accumulators
) -> None:
    """The loop over this core's program numbers around the kernel, then the return."""
    sizes = [p.result(dsa.GridDimOp(axis)) for axis in range(3)]
    for axis, size in enumerate(sizes):
        p.define(("grid", axis), size)
    plane = p.result(arithmetic.binary(arith.MuliOp, sizes[0], sizes[1]))
    total = p.result(arithmetic.binary(arith.MuliOp, plane, sizes[2]))
    first, step = p.result(dsa.CoreIdOp()), p.result(dsa.NumCoresOp())
    with p.block(body):
        p.define("program", body.args[0])
        p.define("plane", plane)
        _place_block(p, kernel.body.block, accumulators)
        p.location = kernel.location
        p.emit(scf.YieldOp())
    p.emit(scf.ForOp(first, total, step, [], body))
    p.emit(func.ReturnOp())


def _place_block(p: Placement, block: Block, accumulators: tensor.Accumulators) -> None:
    """Place every operation of a block but its terminator."""

    def nested(inner: Block) -> None:
        _place_block(p, inner, accumulators)

    for op in list(block.ops):
        p.location = op.location
        for ring in p.rings.acquired_before.get(op, ()):
            p.acquire(ring)
        if op is block.last_op or op in accumulators.skipped or op in p.joins:
            continue
        if op in accumulators.cleared:
            tensor.clear(p, accumulators.cleared[op], p.view(op.results[0]))
        elif isinstance(op, tile.DotOp):
            tensor.place_dot(p, op, accumulators)
        elif isinstance(op, scf.ForOp):
            for dot, loop in accumulators.first.items():
                if loop is op:
                    tensor.clear_before_loop(p, dot, op)
            control.place_for(p, op, nested)
        elif isinstance(op, scf.IfOp):
            control.place_if(p, op, nested)
        elif isinstance(op, scf.WhileOp):
            control.place_while(p, op, nested)
        else:
            _PLACE[type(op)](p, op)


def _program_id(p: Placement, op: tile.ProgramIdOp) -> None:
    axis = op.axis.value.data
    number, plane = p.known("program"), p.known("plane")
    x, y = p.known(("grid", 0)), p.known(("grid", 1))
    assert number is not None and plane is not None and x is not None and y is not None
    if axis == 2:
        p.define(op.result, p.result(arithmetic.binary(arith.DivUIOp, number, plane)))
        return
    rest = number if axis == 0 else p.result(arithmetic.binary(arith.DivUIOp, number, x))
    p.define(op.result, p.result(arithmetic.binary(arith.RemUIOp, rest, x if axis == 0 else y)))


def _num_programs(p: Placement, op: tile.NumProgramsOp) -> None:
    size = p.known(("grid", op.axis.value.data))
    assert size is not None
    p.define(op.result, size)


def _ptr_cast(p: Placement, op: tile.PtrCastOp) -> None:
    p.define(op.result, p.core(op.value))


def _map(p: Placement, op: tile.MapOp) -> None:
    if op.result in p.in_core:
        p.define(op.result, core_map(p, op))
    else:
        vector.place_scalar_map(p, op)


def _view(p: Placement, op: Operation) -> None:
    if not is_view(op.results[0]):
        assert isinstance(op, tile.ReshapeOp)
        vector.place_reshape(p, op)


def _constant(p: Placement, op: arith.ConstantOp) -> None:
    """Constants are made where they are used."""


_PLACE: dict[type[Operation], Callable[[Placement, Any], None]] = {
    arith.ConstantOp: _constant,
    tile.ProgramIdOp: _program_id,
    tile.NumProgramsOp: _num_programs,
    tile.PtrCastOp: _ptr_cast,
    tile.MapOp: _map,
    tile.FusedOp: vector.place_fused,
    tile.ReduceOp: vector.place_reduce,
    tile.ArgReduceOp: vector.place_arg_reduce,
    tile.ScanOp: vector.place_scan,
    tile.ConcatOp: vector.place_concat,
    tile.TakeOp: vector.place_take,
    tile.LoadBoxOp: transfer.place_load_box,
    tile.StoreBoxOp: transfer.place_store_box,
    tile.GatherOp: transfer.place_gather,
    tile.ScatterOp: transfer.place_scatter,
    tile.AtomicListOp: transfer.place_atomic,
    **dict.fromkeys(tile.MICROKERNELS, micro.place_micro),
    tile.PrintOp: report.place_print,
    tile.AssertOp: report.place_assert,
    **dict.fromkeys(tile.VIEWS, _view),
}
