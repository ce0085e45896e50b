"""Walks of vector instructions: merging dims, and vectors of elements in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...formats import Format
from . import lanes
from .build import I1, I32, I64, PTR, VOID, Int, Text, Value, constant, list_constant, vector
from .unit import Unit


@dataclass(frozen=True)
class Space:
    """An iteration space: sizes, strides[operand][dim] in bytes, and which original dims each dim stands for."""

    sizes: list[Int]
    strides: list[list[Int]]
    dims: list[int]


def merge(
    unit: Unit, sizes: Sequence[Int], strides: Sequence[Sequence[Int]], fixed: Collection[int] = ()
) -> Space:
    """Drop dims of one element and merge neighbours that every operand walks as one; `fixed` dims stay."""
    space = Space([], [[] for _ in strides], [])
    for dim, size in enumerate(sizes):
        if isinstance(size, int) and size == 1 and dim not in fixed:
            continue
        steps = [s[dim] for s in strides]
        if space.dims and dim not in fixed and space.dims[-1] not in fixed:
            outer = [s[-1] for s in space.strides]
            known = all(isinstance(x, int) for x in (size, *outer, *steps))
            if known and all(o == size * s for o, s in zip(outer, steps)):
                space.sizes[-1] = unit.mul(space.sizes[-1], size)
                for row, step in zip(space.strides, steps):
                    row[-1] = step
                space.dims[-1] = dim
                continue
        space.sizes.append(size)
        space.dims.append(dim)
        for row, step in zip(space.strides, steps):
            row.append(step)
    return space


def injective(sizes: Sequence[Int], strides: Sequence[Int], width: int) -> bool:
    """Whether different points certainly are different bytes."""
    if not all(isinstance(x, int) for x in (*sizes, *strides)):
        return False
    run = width
    for stride, size in sorted((abs(t), n) for n, t in zip(sizes, strides) if n > 1):
        if stride < run:
            return False
        run = stride * (size - 1) + run
    return True


@dataclass(frozen=True)
class Elements:
    """Where the elements of one vector are: at `pointer`, `stride` bytes apart, those that `mask` has (None: all)."""

    pointer: Value
    stride: Int
    count: int
    mask: Value | None


class _FirstLane(Text):
    """The mask of just lane 0. It becomes scalar code: LLVM 22 writes too much for a masked store of a truncation."""


def load_elements(unit: Unit, fmt: Format, where: Elements) -> Value:
    """A vector of elements as register bits; lanes that are not in the mask are 0."""
    type_ = vector(lanes.storage(fmt), where.count)
    if isinstance(where.stride, int) and where.stride == fmt.bytes:
        if where.mask is None:
            value = unit.load(type_, where.pointer)
        elif isinstance(where.mask, _FirstLane):
            first = unit.load(type_.element, where.pointer)
            value = unit.b.insert_element(constant(type_, 0), first, constant(I32, 0))
        else:
            name = f"llvm.masked.load.v{where.count}i{8 * fmt.bytes}.p0"
            value = unit.call(name, type_, where.pointer, where.mask, constant(type_, 0))
    elif isinstance(where.stride, int) and where.stride == 0:
        scalar = unit.load(lanes.storage(fmt), where.pointer)
        value = unit.splat(scalar, where.count)
    else:
        name = f"llvm.masked.gather.v{where.count}i{8 * fmt.bytes}.v{where.count}p0"
        value = unit.call(name, type_, _places(unit, where), _mask(where), constant(type_, 0))
    return lanes.from_memory(unit, value, fmt)


def store_elements(unit: Unit, fmt: Format, bits: Value, where: Elements) -> None:
    """Store a vector of register bits; of elements at one place the last one stays."""
    value = lanes.to_memory(unit, bits, fmt)
    if isinstance(where.mask, _FirstLane):
        unit.store(unit.b.extract_element(value, constant(I32, 0)), where.pointer)
        return
    if isinstance(where.stride, int) and where.stride == fmt.bytes:
        if where.mask is None:
            unit.store(value, where.pointer)
        else:
            name = f"llvm.masked.store.v{where.count}i{8 * fmt.bytes}.p0"
            unit.call(name, VOID, value, where.pointer, where.mask)
    else:
        name = f"llvm.masked.scatter.v{where.count}i{8 * fmt.bytes}.v{where.count}p0"
        unit.call(name, VOID, value, _places(unit, where), _mask(where))


def _mask(where: Elements) -> Value:
    return where.mask if where.mask is not None else constant(vector(I1, where.count), 1)


def _places(unit: Unit, where: Elements) -> Value:
    b = unit.b
    base = unit.splat(b.ptrtoint(where.pointer, I64), where.count)
    if isinstance(where.stride, int):
        steps = list_constant(I64, [k * where.stride for k in range(where.count)])
    else:
        spread = unit.splat(where.stride, where.count)
        steps = b.mul(list_constant(I64, range(where.count)), spread)
    return b.inttoptr(b.add(base, steps), vector(PTR, where.count))


def mask_below(unit: Unit, count: Int, size: int) -> Value | None:
    """A mask of the first `count` of `size` lanes, None for all of them."""
    if isinstance(count, int):
        if count >= size:
            return None
        if count == 1:
            return _FirstLane(vector(I1, size), list_constant(I1, [1, *[0] * (size - 1)]).text)
        return list_constant(I1, [int(k < count) for k in range(size)])
    few = unit.b.trunc(unit.least(count, size), I32)
    return unit.b.icmp_signed("<", list_constant(I32, range(size)), unit.splat(few, size))
