"""Which scalars live in the control core; every other scalar lives in SRAM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, SSAValue

from ...dialects import tile
from ...dialects.types import PtrType, shape_of

Group = tuple[tuple[SSAValue, ...], tuple[SSAValue, ...]]
"""Values that must share a home (carried values, results), and the values that flow into them."""


def control_core_scalars(entry: Block, ops: Sequence[Operation]) -> set[SSAValue]:
    """Scalars that the control core computes: from arguments, program ids and counters, or because it needs them.

    `ops` are all operations of the kernel, whose body `entry` is.

    A scalar that is not in the set lives in SRAM; the control core reads it where it needs it.
    """
    groups = {value: group for group in _groups(ops) for value in group[0]}
    core = _natural(entry, ops, groups)
    work = [v for op in ops for v in _needed(op)]
    while work:
        value = work.pop()
        if value in core or not is_integer_scalar(value):
            continue
        if value in groups:
            core.update(groups[value][0])
            work.extend(groups[value][1])
        elif isinstance(value.owner, tile.MapOp) and _all_integers(value.owner):
            core.add(value)
            work.extend(value.owner.args)
    return core


def is_integer_scalar(value: SSAValue) -> bool:
    """True for scalars that a register of the control core can hold as numbers."""
    return shape_of(value.type) == () and isinstance(value.type, IntegerType | PtrType)


def _all_integers(op: tile.MapOp) -> bool:
    return all(is_integer_scalar(v) for v in (*op.args, op.result))


def _natural(
    entry: Block, ops: Sequence[Operation], groups: dict[SSAValue, Group]
) -> set[SSAValue]:
    """Scalars that need nothing from SRAM; carried values are assumed so until a pass finds otherwise."""
    core = {v for v in groups if is_integer_scalar(v)}
    while True:
        found = {v for v in groups if v in core}
        found.update(entry.args)
        for op in ops:
            if isinstance(op, arith.ConstantOp | tile.ProgramIdOp | tile.NumProgramsOp):
                found.update(op.results)
            elif isinstance(op, tile.PtrCastOp) or (
                isinstance(op, tile.MapOp) and _all_integers(op)
            ):
                if all(v in found for v in op.operands):
                    found.update(op.results)
            elif isinstance(op, scf.ForOp):
                found.add(op.body.block.args[0])
        broken = {v for v in groups if v in found and any(s not in found for s in groups[v][1])}
        if not broken:
            return found
        core -= broken


def _groups(ops: Sequence[Operation]) -> Iterator[Group]:
    for op in ops:
        if isinstance(op, scf.ForOp):
            yields = _terminator(op.body.block).operands
            for k, init in enumerate(op.iter_args):
                yield (op.body.block.args[k + 1], op.results[k]), (init, yields[k])
        elif isinstance(op, scf.IfOp):
            for k, result in enumerate(op.results):
                yield (
                    (result,),
                    tuple(_terminator(r.block).operands[k] for r in op.regions),
                )
        elif isinstance(op, scf.WhileOp):
            before, after = op.before_region.block, op.after_region.block
            back = _terminator(after).operands
            for k, init in enumerate(op.arguments):
                yield (before.args[k],), (init, back[k])
            passed = _terminator(before).operands[1:]
            for k, value in enumerate(passed):
                yield (after.args[k], op.results[k]), (value,)


def _terminator(block: Block) -> Operation:
    last = block.last_op
    assert last is not None
    return last


def _needed(op: Operation) -> tuple[SSAValue, ...]:
    """The operands that the control core itself needs."""
    rule = _NEEDED.get(type(op))
    return rule(op) if rule else ()


def _box_operands(op: Operation) -> tuple[SSAValue, ...]:
    assert isinstance(op, tile.LoadBoxOp | tile.StoreBoxOp)
    return (op.base, *op.strides, *op.lo, *op.hi, *op.wrap_starts, *op.wraps)


_NEEDED: dict[type[Operation], Callable[[Operation], tuple[SSAValue, ...]]] = {
    tile.LoadBoxOp: _box_operands,
    tile.StoreBoxOp: _box_operands,
    tile.GatherOp: lambda op: (op.operands[0],),
    tile.ScatterOp: lambda op: (op.operands[0],),
    tile.AtomicListOp: lambda op: (op.operands[0],),
    # Integer scalars among them are addresses.
    tile.MicrokernelHbmOp: lambda op: tuple(op.operands),
    tile.PrintOp: lambda op: tuple(op.operands),
    tile.AssertOp: lambda op: tuple(op.operands),
    scf.ForOp: lambda op: tuple(op.operands[:3]),
    scf.IfOp: lambda op: tuple(op.operands[:1]),
    scf.ConditionOp: lambda op: tuple(op.operands[:1]),
}
