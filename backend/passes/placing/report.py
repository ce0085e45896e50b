"""Device prints and assertions."""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from ...dialects import dsa, tile
from ...dialects.types import format_of, shape_of
from .emit import Placement
from .vector import all_true, contiguous, copy, in_sram


def place_print(p: Placement, op: tile.PrintOp) -> None:
    """Scalars are printed from the control core, tiles from the start of a slot."""
    unsigned = tile.ints(op.unsigned)
    args: list[SSAValue] = []
    fmts: list[str] = []
    shapes: list[tuple[int, ...]] = []
    for value, is_unsigned in zip(op.args, unsigned, strict=True):
        name = format_of(value.type).name
        wide = is_unsigned and name.startswith("int") and name != "int1"
        fmts.append("u" + name if wide else name)
        shape = shape_of(value.type)
        shapes.append(shape)
        args.append(_whole_slot(p, value) if shape else p.core(value))
    p.emit(dsa.PrintOp(op.prefix.data, args, fmts, shapes))


def _whole_slot(p: Placement, value: SSAValue) -> SSAValue:
    """A slot that begins with the tile, row-major."""
    view = contiguous(p, in_sram(p, value))
    if view.offset:
        packed = p.temporary("print", view.shape, view.fmt)
        copy(p, view, packed)
        view = packed
    return view.slot


def place_assert(p: Placement, op: tile.AssertOp) -> None:
    """A tile condition is and-ed together on the vector engine and read back."""
    if not shape_of(op.condition.type):
        condition = p.core(op.condition)
    else:
        view = all_true(p, in_sram(p, op.condition))
        condition = p.result(dsa.ReadOp(view.slot, view.offset, view.fmt.name, i1))
    p.emit(dsa.AssertOp(condition, op.message.data))
