"""DMA: boxes, element lists and atomics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Block, SSAValue

from ... import formats
from ...dialects import arithmetic, tile
from ...dialects.attributes import i64_attribute
from ...isa.table import INVALID_OFFSET, MAX_DMA_DIMS, NONE, AtomicKind
from ...isa.vprog import IN, OUT, MicroOp, VectorProgram
from . import glue
from .emit import Fields, Operand, Placement, View, pad
from .vector import contiguous, in_sram, vexec
from .walks import row_major

_INT64 = formats.by_name("int64")

ESTIMATED_TRIPS = "dsa.estimated_trips"
"""Attribute of a loop whose bounds come at run time: how many iterations a cost model should assume."""


@dataclass(frozen=True)
class Box:
    """A box DMA before it is cut into instructions. `wraps` has (start, modulus) by wrapped dim.

    `keep` is whether the surroundings of the valid box keep their bytes; None for stores.
    """

    view: View
    base: Operand
    strides: tuple[Operand, ...]
    lo: tuple[Operand, ...]
    hi: tuple[Operand, ...]
    arg: int
    wraps: dict[int, tuple[Operand, Operand]] = field(default_factory=dict)
    indices: dict[int, View] = field(default_factory=dict)
    fill: Operand = 0
    keep: Operand | None = None


def place_load_box(p: Placement, op: tile.LoadBoxOp) -> None:
    """A box load; wrapped dims become loops of windows."""
    fill = p.operand(op.fill) if op.fill is not None else 0
    box = replace(_box(p, op, p.view(op.result)), keep=0, fill=fill)
    _windows(p, box, tuple(box.wraps), None)


def place_store_box(p: Placement, op: tile.StoreBoxOp) -> None:
    """A box store; wrapped dims become loops of windows."""
    box = _box(p, op, in_sram(p, op.value))
    _windows(p, box, tuple(box.wraps), None)


def _box(p: Placement, op: tile.LoadBoxOp | tile.StoreBoxOp, view: View) -> Box:
    starts = [p.operand(v) for v in op.wrap_starts]
    moduli = [p.operand(v) for v in op.wraps]
    return Box(
        view=view,
        base=p.operand(op.base),
        strides=tuple(p.operand(v) for v in op.strides),
        lo=tuple(p.operand(v) for v in op.lo),
        hi=tuple(p.operand(v) for v in op.hi),
        arg=op.arg.value.data,
        wraps=dict(zip(tile.ints(op.wrapped), zip(starts, moduli))),
        indices=_index_views(p, tile.ints(op.indexed), op.indices),
    )


def _index_views(p: Placement, dims: Sequence[int], tiles: Sequence[SSAValue]) -> dict[int, View]:
    """Contiguous index vectors of one format."""
    views = [contiguous(p, in_sram(p, v)) for v in tiles]
    if len({view.fmt for view in views}) > 1:
        views = [_as_int64(p, view) for view in views]
    return dict(zip(dims, views, strict=True))


def _as_int64(p: Placement, view: View) -> View:
    if view.fmt is _INT64:
        return view
    name, wide = view.fmt.name, _INT64.name
    ops = (
        MicroOp(IN, name, name),
        MicroOp("sext", wide, name, 0, (0,)),
        MicroOp(OUT, wide, wide, srcs=(0,)),
    )
    target = p.temporary("index", view.shape, _INT64)
    program = VectorProgram((name,), (), (wide,), ops)
    vexec(p, program, view.shape, [(view, view.strides)], [], [(target, target.strides)])
    return target


def _windows(p: Placement, box: Box, wrapped: tuple[int, ...], first: SSAValue | None) -> None:
    """One DMA per window of every wrapped dim; `first` is true in the first window of the dims done so far."""
    if not wrapped:
        keep = box.keep
        if keep is not None and first is not None:
            keep = glue.compare(p, "eq", first, 0)
        _sections(p, replace(box, keep=keep))
        return
    dim, size = wrapped[0], box.view.shape[wrapped[0]]
    start, modulus = (p.as_value(v) for v in box.wraps[dim])
    first_window = p.result(arithmetic.binary(arith.DivUIOp, start, modulus))
    last = glue.add(p, start, size - 1)
    end = glue.add(p, p.result(arithmetic.binary(arith.DivUIOp, p.as_value(last), modulus)), 1)
    one = p.constant(1, i64)
    body = Block(arg_types=[i64])
    loop = scf.ForOp(first_window, p.as_value(end), one, [], body)
    loop.attributes[ESTIMATED_TRIPS] = i64_attribute(1)
    with p.block(body):
        window = body.args[0]
        begin = glue.subtract(
            p, glue.multiply(p, window, modulus), start
        )  # in coordinates of the tile
        lo = glue.maximum(p, glue.widen(p, box.lo[dim]), begin)
        hi = glue.minimum(p, glue.widen(p, box.hi[dim]), glue.add(p, begin, modulus))
        base = glue.subtract(p, box.base, glue.multiply(p, begin, box.strides[dim]))
        is_first = glue.compare(p, "eq", window, first_window)
        if first is not None:
            is_first = p.result(arithmetic.binary(arith.AndIOp, first, is_first))
        cut = replace(
            box,
            base=base,
            lo=_with(box.lo, dim, _narrow(p, lo)),
            hi=_with(box.hi, dim, _narrow(p, hi)),
        )
        _windows(p, cut, wrapped[1:], is_first)
        p.emit(scf.YieldOp())
    p.emit(loop)


def _with(values: tuple[Operand, ...], dim: int, value: Operand) -> tuple[Operand, ...]:
    return (*values[:dim], value, *values[dim + 1 :])


def _narrow(p: Placement, value: Operand) -> Operand:
    """An i64 that lies within or around a tile as an i32; far-away bounds are cut to the i32 range."""
    value = glue.minimum(p, glue.maximum(p, value, -(1 << 31)), (1 << 31) - 1)
    return (
        value
        if isinstance(value, int)
        else p.result(arithmetic.convert(arith.TruncIOp, value, i32))
    )


def _sections(p: Placement, box: Box) -> None:
    """Split a box of more dims than an instruction has; usually there is one section."""
    outer = max(0, len(box.view.shape) - MAX_DMA_DIMS)
    for point in product(*(range(size) for size in box.view.shape[:outer])):
        view, base = box.view, box.base
        hi = list(box.hi[outer:])
        for d, i in enumerate(point):
            view = view.shifted(i * view.strides[d])
            base = glue.add(p, base, glue.multiply(p, i, box.strides[d]))
            inside = _inside(p, i, box.lo[d], box.hi[d])
            if inside is False:
                hi[0] = box.lo[outer]
            elif isinstance(inside, SSAValue):
                bounds = p.as_value(hi[0], i32), p.as_value(box.lo[outer], i32)
                hi[0] = p.result(arithmetic.select(inside, *bounds))
        part = View(view.slot, view.offset, view.shape[outer:], view.strides[outer:], view.fmt)
        indices = {d - outer: v for d, v in box.indices.items()}
        _issue_box(
            p,
            replace(
                box,
                view=part,
                base=base,
                strides=box.strides[outer:],
                lo=box.lo[outer:],
                hi=tuple(hi),
                indices=indices,
            ),
        )


def _inside(p: Placement, i: int, lo: Operand, hi: Operand) -> bool | SSAValue:
    if isinstance(lo, int) and isinstance(hi, int):
        return lo <= i < hi
    at = p.constant(i, i32)
    above = glue.compare(p, "sge", at, lo)
    return p.result(arithmetic.binary(arith.AndIOp, above, glue.compare(p, "slt", at, hi)))


def _issue_box(p: Placement, box: Box) -> None:
    n = len(box.view.shape)
    fields = Fields(
        elem_bytes=box.view.fmt.bytes,
        ndim=n,
        size=pad(box.view.shape, MAX_DMA_DIMS),
        hbm_stride=pad([], MAX_DMA_DIMS),
        sram_stride=pad(box.view.strides, MAX_DMA_DIMS),
        lo=pad([], MAX_DMA_DIMS),
        hi=pad([], MAX_DMA_DIMS),
        index=pad([], MAX_DMA_DIMS, NONE),
        index_fmt=next(iter(box.indices.values())).fmt.code if box.indices else 0,
    )
    fields.put("hbm", box.base)
    fields.put_view("sram", box.view)
    for d in range(n):
        fields.put("hbm_stride", box.strides[d], d)
        fields.put("lo", box.lo[d], d)
        fields.put("hi", box.hi[d], d)
        if d in box.indices:
            fields.put_view("index", box.indices[d], d)
    if box.keep is None:
        fields.issue(p, "dma.store", hbm_arg=box.arg)
        return
    fields.put("keep", box.keep)
    fields.put("fill", box.fill)
    fields.issue(p, "dma.load", hbm_arg=box.arg)


# Lists of elements


def place_gather(p: Placement, op: tile.GatherOp) -> None:
    """Element by element loads; one element at a known offset is a box."""
    fill = p.operand(op.fill) if op.fill is not None else 0
    target = p.view(op.result)
    if not p.is_in_sram(op.offsets):
        _issue_box(p, replace(_single(p, op.base, op.offsets, target, op.arg), keep=0, fill=fill))
        return
    base = p.operand(op.base)

    def issue(fields: Fields, offset: int) -> None:
        fields.put("hbm", base)
        fields.put("fill", fill)
        fields.issue(p, "dma.gather", hbm_arg=op.arg.value.data)

    _element_lists(p, in_sram(p, op.offsets), target, issue)


def place_scatter(p: Placement, op: tile.ScatterOp) -> None:
    """Element by element stores; one element at a known offset is a box."""
    source = in_sram(p, op.value)
    if not p.is_in_sram(op.offsets):
        _issue_box(p, _single(p, op.base, op.offsets, source, op.arg))
        return
    base = p.operand(op.base)

    def issue(fields: Fields, offset: int) -> None:
        fields.put("hbm", base)
        fields.issue(p, "dma.scatter", hbm_arg=op.arg.value.data)

    _element_lists(p, in_sram(p, op.offsets), source, issue)


def place_atomic(p: Placement, op: tile.AtomicListOp) -> None:
    """Read-modify-write of a list of elements; old values that nobody uses are not written."""
    source = contiguous(p, in_sram(p, op.value))
    compare = contiguous(p, in_sram(p, op.compare)) if op.compare is not None else None
    old = p.view(op.result) if op.result.uses else None
    base = p.operand(op.base)

    def issue(fields: Fields, offset: int) -> None:
        fields.put("kind", AtomicKind[op.kind.data.upper()])
        fields.put("fmt", source.fmt.code)
        fields.put("hbm", base)
        for name, view in (("compare", compare), ("old", old)):
            if view is None:
                fields.put(name, NONE)
            else:
                fields.put_view(name, view.shifted(offset))
        fields.issue(p, "dma.atomic", hbm_arg=op.arg.value.data)

    _element_lists(p, in_sram(p, op.offsets), source, issue)


def _single(p: Placement, base: SSAValue, offset: SSAValue, view: View, arg: IntegerAttr) -> Box:
    """One element at a byte offset of the control core, which may be INVALID_OFFSET."""
    at = glue.widen(p, p.operand(offset))
    hi: Operand
    if isinstance(at, int):
        hi = int(at != INVALID_OFFSET)
    else:
        valid = glue.compare(p, "ne", at, INVALID_OFFSET)
        hi = p.result(arithmetic.convert(arith.ExtUIOp, valid, i32))
    place = View(view.slot, view.offset, (1,), (view.fmt.bytes,), view.fmt)
    address = glue.add(p, p.operand(base), at)
    return Box(place, address, (0,), (0,), (hi,), arg.value.data)


def _element_lists(
    p: Placement, offsets: View, view: View, issue: Callable[[Fields, int], None]
) -> None:
    """Issue lists of at most MAX_DMA_DIMS dims; `issue` adds what is special, given the list's byte offset."""
    offsets = contiguous(p, _as_int64(p, offsets))
    outer = max(0, len(view.shape) - MAX_DMA_DIMS)
    steps = row_major(view.shape, 1)
    for point in product(*(range(size) for size in view.shape[:outer])):
        first = sum(i * s for i, s in zip(point, steps))
        shift = sum(i * s for i, s in zip(point, view.strides))
        fields = Fields(
            elem_bytes=view.fmt.bytes,
            ndim=len(view.shape) - outer,
            size=pad(view.shape[outer:], MAX_DMA_DIMS),
            sram_stride=pad(view.strides[outer:], MAX_DMA_DIMS),
        )
        fields.put_view("offset", offsets.shifted(first * _INT64.bytes))
        fields.put_view("sram", view.shifted(shift))
        issue(fields, shift)
