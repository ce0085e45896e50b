"""Vector engine: fused operations, copies, scalar arithmetic on SRAM values, reductions and scans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from xdsl.ir import SSAValue

from ...dialects import tile
from ...dialects.types import format_of, shape_of
from ...formats import Format
from ...isa.table import (
    MAX_VECTOR_DIMS,
    MAX_VECTOR_INPUTS,
    MAX_VECTOR_OUTPUTS,
    MAX_VECTOR_SCALARS,
    NONE,
    ReduceKind,
)
from ...isa.text import print_program
from ...isa.vector_ops import BY_NAME as VECTOR_OPS
from ...isa.vprog import CONST, IN, INDEX, OUT, SCALAR, MicroOp, VectorProgram
from ..vprogram import build_program
from .emit import Fields, Operand, Placement, View, pad
from .joins import part_of
from .walks import regroup, resolve

# Iteration spaces


@dataclass(frozen=True)
class Space:
    """An iteration space and how each operand walks it (strides per dim).

    `origin[d]` is the dim of the space before dims were merged that dim d stands for, if it is kept.
    """

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    origin: tuple[int, ...]


def merge_dims(space: Space, kept: set[int], limit: int) -> Space:
    """Merge neighbouring dims that every operand walks as one, until at most `limit` are left if possible.

    Dims whose origin is in `kept` stay as they are.

    >>> merge_dims(Space((2, 3, 4), ((48, 16, 4), (12, 4, 0)), (0, 1, 2)), set(), 2)
    Space(sizes=(6, 4), strides=((16, 4), (4, 0)), origin=(1, 2))
    """
    d = 0
    while len(space.sizes) > limit and d < len(space.sizes):
        size = space.sizes[d]
        if space.origin[d] in kept:
            d += 1
        elif size == 1:
            space = _without(space, d)
        elif (
            d + 1 < len(space.sizes)
            and space.origin[d + 1] not in kept
            and all(s[d] == s[d + 1] * space.sizes[d + 1] for s in space.strides)
        ):
            sizes = list(space.sizes)
            sizes[d + 1] *= size
            space = _without(replace(space, sizes=tuple(sizes)), d)
        else:
            d += 1
    return space


def _without(space: Space, dim: int) -> Space:
    def cut(values: tuple[int, ...]) -> tuple[int, ...]:
        return (*values[:dim], *values[dim + 1 :])

    return Space(cut(space.sizes), tuple(cut(s) for s in space.strides), cut(space.origin))


def slices(
    space: Space, kept: set[int], limit: int
) -> Iterator[tuple[Space, list[int], dict[int, int]]]:
    """Split a space of too many dims into spaces of `limit` dims.

    Gives each with the byte offset per operand and the fixed coordinate by origin.
    """
    space = merge_dims(space, kept, limit)
    outer = len(space.sizes) - limit
    if outer <= 0:
        yield space, [0] * len(space.strides), {}
        return
    free = [d for d in range(len(space.sizes)) if space.origin[d] not in kept]
    fixed = (free + [d for d in range(len(space.sizes)) if d not in free])[:outer]
    inner = space
    for d in sorted(fixed, reverse=True):
        inner = _without(inner, d)
    for point in product(*(range(space.sizes[d]) for d in fixed)):
        offsets = [sum(i * s[d] for i, d in zip(point, fixed)) for s in space.strides]
        yield inner, offsets, {space.origin[d]: i for i, d in zip(point, fixed)}


# vexec


def vexec(
    p: Placement,
    program: VectorProgram,
    sizes: Sequence[int],
    inputs: Sequence[tuple[View, Sequence[int]]],
    scalars: Sequence[Operand],
    outputs: Sequence[tuple[View, Sequence[int]]],
) -> None:
    """Run a vector program over `sizes`; each operand is a view with its strides per dim of the space."""
    walks = tuple(tuple(strides) for _, strides in (*inputs, *outputs))
    space = Space(tuple(sizes), walks, tuple(range(len(sizes))))
    indexed = {op.imm for op in program.ops if op.op == INDEX}
    for part, offsets, fixed in slices(space, indexed, MAX_VECTOR_DIMS):
        views = [view.shifted(o) for (view, _), o in zip((*inputs, *outputs), offsets)]
        text = print_program(_reindexed(program, part.origin, fixed))
        n = len(inputs)
        _vexec(p, text, part, views[:n], scalars, views[n:])


def _reindexed(
    program: VectorProgram, origin: tuple[int, ...], fixed: dict[int, int]
) -> VectorProgram:
    """The program for a space whose dim d was dim origin[d]; fixed coordinates become constants."""

    if all(op.op != INDEX for op in program.ops):
        return program

    def change(op: MicroOp) -> MicroOp:
        if op.op != INDEX:
            return op
        if op.imm in fixed:
            return replace(op, op=CONST, imm=fixed[op.imm])
        return replace(op, imm=origin.index(op.imm))

    return replace(program, ops=tuple(change(op) for op in program.ops))


def _vexec(
    p: Placement,
    text: str,
    space: Space,
    inputs: Sequence[View],
    scalars: Sequence[Operand],
    outputs: Sequence[View],
) -> None:
    n = len(inputs)
    fields = Fields(
        ndim=len(space.sizes),
        size=pad(space.sizes, MAX_VECTOR_DIMS),
        inputs=n,
        scalars=len(scalars),
        outputs=len(outputs),
        out=pad([], MAX_VECTOR_OUTPUTS, NONE),
        out_stride=_flat(space.strides[n:], MAX_VECTOR_OUTPUTS),
    )
    fields.static["in"] = pad([], MAX_VECTOR_INPUTS, NONE)
    fields.static["in_stride"] = _flat(space.strides[:n], MAX_VECTOR_INPUTS)
    fields.static["scalar"] = pad([], MAX_VECTOR_SCALARS)
    for k, view in enumerate(inputs):
        fields.put_view("in", view, k)
    for k, value in enumerate(scalars):
        fields.put("scalar", value, k)
    for k, view in enumerate(outputs):
        fields.put_view("out", view, k)
    fields.issue(p, "vexec", text)


def _flat(strides: Sequence[Sequence[int]], count: int) -> list[int]:
    flat = [entry for walk in strides for entry in pad(walk, MAX_VECTOR_DIMS)]
    return pad(flat, count * MAX_VECTOR_DIMS)


def place_fused(p: Placement, op: tile.FusedOp, target: View | None = None) -> None:
    """A fused operation becomes a vexec on the views of its operands; `target` is where its one result goes."""
    sizes = tile.ints(op.sizes)
    program, inputs, scalars = build_program(op, [p.is_in_sram(v) for v in op.args])
    walked: list[tuple[View, Sequence[int]]] = []
    for j in inputs:
        view = p.view(op.args[j])
        strides = [0] * len(sizes)
        for stride, dim in zip(view.strides, tile.ints(op.dims.data[j])):
            if dim >= 0:
                strides[dim] = stride
        walked.append((view, strides))
    views = [p.view(r) for r in op.results] if target is None else [target]
    outputs = [(view, view.strides) for view in views]
    vexec(p, program, sizes, walked, [p.operand(op.args[j]) for j in scalars], outputs)


# Copies and scalars


def copy(p: Placement, source: View, target: View) -> None:
    """Copy a tile between two walks of one shape."""
    name = source.fmt.name
    ops = (MicroOp(IN, name, name), MicroOp(OUT, name, name, srcs=(0,)))
    program = VectorProgram((name,), (), (name,), ops)
    vexec(p, program, source.shape, [(source, source.strides)], [], [(target, target.strides)])


def fill(p: Placement, value: Operand, target: View) -> None:
    """Write a scalar (its bits) everywhere in a tile."""
    name = target.fmt.name
    ops = (MicroOp(SCALAR, name, name), MicroOp(OUT, name, name, srcs=(0,)))
    program = VectorProgram((), (name,), (name,), ops)
    vexec(p, program, target.shape, [], [value], [(target, target.strides)])


def in_sram(p: Placement, value: SSAValue) -> View:
    """The view of a value; a scalar of the control core, or a view of one, is written to SRAM here."""
    if p.is_in_sram(value):
        return p.view(value)
    view = p.temporary("scalar", shape_of(value.type), format_of(value.type))
    fill(p, p.operand(value), view)
    return view


def contiguous(p: Placement, view: View) -> View:
    """The same tile laid out row-major: itself, or a copy."""
    if view.is_contiguous:
        return view
    packed = p.temporary("copy", view.shape, view.fmt)
    copy(p, view, packed)
    return packed


def place_reshape(p: Placement, op: tile.ReshapeOp) -> None:
    """A reshape that no strides express: a row-major copy under the operand's shape."""
    source, target = in_sram(p, op.value), p.view(op.result)
    strides = regroup(target.shape, target.strides, source.shape, target.fmt.bytes)
    assert strides is not None
    copy(p, source, View(target.slot, target.offset, source.shape, strides, target.fmt))


def place_concat(p: Placement, op: tile.ConcatOp) -> None:
    """Tiles one after the other: each is made in its part of the result, or copied there."""
    target, axis, at = p.view(op.result), op.axis.value.data, 0
    for number, arg in enumerate(op.args):
        maker = resolve(arg).root.owner
        if isinstance(maker, tile.FusedOp) and p.joins.get(maker) is op:
            part = part_of(op, number, maker)
            assert part is not None
            view = View(
                target.slot, target.offset + part.offset, part.shape, part.strides, target.fmt
            )
            place_fused(p, maker, view)
            at += shape_of(arg.type)[axis]
            continue
        source = in_sram(p, arg)
        start = target.offset + at * target.strides[axis]
        copy(p, source, View(target.slot, start, source.shape, target.strides, target.fmt))
        at += source.shape[axis]


def place_take(p: Placement, op: tile.TakeOp) -> None:
    """Elements picked along one axis."""
    source, index, target = in_sram(p, op.value), in_sram(p, op.index), p.view(op.result)
    axis, length = op.axis.value.data, source.shape[op.axis.value.data]
    walks = (source.strides, index.strides, target.strides)
    space = Space(target.shape, walks, tuple(range(len(target.shape))))
    for part, offsets, _ in slices(space, {axis}, MAX_VECTOR_DIMS):
        fields = Fields(
            fmt=source.fmt.code,
            picks_fmt=index.fmt.code,
            ndim=len(part.sizes),
            size=pad(part.sizes, MAX_VECTOR_DIMS),
            axis=part.origin.index(axis),
            length=length,
        )
        views = {"in": source, "picks": index, "out": target}
        for (name, view), strides, offset in zip(views.items(), part.strides, offsets):
            fields.static[f"{name}_stride"] = pad(strides, MAX_VECTOR_DIMS)
            fields.put_view(name, view.shifted(offset))
        fields.issue(p, "take")


def place_scalar_map(p: Placement, op: tile.MapOp) -> None:
    """Arithmetic on scalars that live in SRAM: a vexec of rank 0."""
    inputs = [v for v in op.args if p.is_in_sram(v)]
    scalars = [v for v in op.args if not p.is_in_sram(v)]
    ops: list[MicroOp] = []
    for j, value in enumerate(op.args):
        name = format_of(value.type).name
        kind, number = (
            (IN, inputs.index(value)) if value in inputs else (SCALAR, scalars.index(value))
        )
        ops.append(MicroOp(kind, name, name, j, (), number))
    row, result = VECTOR_OPS[op.fn.data], format_of(op.result.type).name
    source = format_of(op.args[-1].type).name
    same = source == result or row.result == "same"
    n = len(op.args)
    ops.append(MicroOp(row.name, result, result if same else source, n, tuple(range(n))))
    ops.append(MicroOp(OUT, result, result, srcs=(n,)))
    names = [[format_of(v.type).name for v in values] for values in (inputs, scalars)]
    program = VectorProgram(tuple(names[0]), tuple(names[1]), (result,), tuple(ops))
    walked = [(p.view(v), ()) for v in inputs]
    vexec(p, program, (), walked, [p.operand(v) for v in scalars], [(p.view(op.result), ())])


# Reductions and scans


def reduce(
    p: Placement, kind: str, fmt: Format, source: View, axis: int, outs: dict[str, View]
) -> None:
    """Reduce a dim of a tile; `outs` has the targets of the fields `out` and `arg`."""
    walks = [source.strides]
    walks += [(*view.strides[:axis], 0, *view.strides[axis:]) for view in outs.values()]
    space = Space(source.shape, tuple(walks), tuple(range(len(source.shape))))
    for part, offsets, _ in slices(space, {axis}, MAX_VECTOR_DIMS):
        fields = Fields(
            kind=ReduceKind[kind.upper()],
            fmt=fmt.code,
            ndim=len(part.sizes),
            size=pad(part.sizes, MAX_VECTOR_DIMS),
            axis=part.origin.index(axis),
        )
        for name, view, strides, offset in zip(
            ("in", *outs), (source, *outs.values()), part.strides, offsets, strict=True
        ):
            fields.static[f"{name}_stride"] = pad(strides, MAX_VECTOR_DIMS)
            fields.put_view(name, view.shifted(offset))
        for name in {"out", "arg"} - set(outs):
            fields.put(name, NONE)
        fields.issue(p, "reduce")


def place_reduce(p: Placement, op: tile.ReduceOp) -> None:
    """A reduction along one axis."""
    source = in_sram(p, op.value)
    outs = {"out": p.view(op.result)}
    reduce(p, op.kind.data, source.fmt, source, op.axis.value.data, outs)


def place_arg_reduce(p: Placement, op: tile.ArgReduceOp) -> None:
    """An extreme value and its position; a result without uses is not written."""
    source = in_sram(p, op.value)
    outs = {"out": p.view(op.result)} if op.result.uses else {}
    outs["arg"] = p.view(op.position)
    reduce(p, op.kind.data, source.fmt, source, op.axis.value.data, outs)


def place_scan(p: Placement, op: tile.ScanOp) -> None:
    """An inclusive scan along one axis."""
    source, target, axis = in_sram(p, op.value), p.view(op.result), op.axis.value.data
    space = Space(source.shape, (source.strides, target.strides), tuple(range(len(source.shape))))
    for part, offsets, _ in slices(space, {axis}, MAX_VECTOR_DIMS):
        fields = Fields(
            kind=ReduceKind[op.kind.data.upper()],
            fmt=source.fmt.code,
            reverse=int(op.reverse.value.data != 0),
            ndim=len(part.sizes),
            size=pad(part.sizes, MAX_VECTOR_DIMS),
            axis=part.origin.index(axis),
            out_stride=pad(part.strides[1], MAX_VECTOR_DIMS),
            in_stride=pad(part.strides[0], MAX_VECTOR_DIMS),
        )
        fields.put_view("in", source.shifted(offsets[0]))
        fields.put_view("out", target.shifted(offsets[1]))
        fields.issue(p, "scan")


def all_true(p: Placement, view: View) -> View:
    """A bool tile and-ed together into one element."""
    view = contiguous(p, view)
    count = 1
    for size in view.shape:
        count *= size
    flat = View(view.slot, view.offset, (count,), (view.fmt.bytes,), view.fmt)
    result = p.temporary("all", (), view.fmt)
    reduce(p, "and", view.fmt, flat, 0, {"out": result})
    return result
