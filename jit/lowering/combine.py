"""Reductions and scans with a function of the kernel's: trees of elementwise operations on halves.

The order is part of the language: neighbours are combined in pairs, the left one first, and the pairs
again, until one is left; an element without a neighbour is combined in the end. So the function has to be
associative but need not be commutative, and float results do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable

from ..parse.emit import Emitter
from ..semantics import broadcast, common_shape, materialise
from ..values import (
    Operand,
    Value,
    describe,
    fail,
    items_of,
    shape_text,
    static_axis,
    static_bool,
    to_python,
)
from ..values import tile as need_tile
from . import shape as shapes
from .indexing import backwards, concatenated, element, interleaved, part

Group = tuple[Value, ...]
Step = Callable[[Group, Group], Group]


def _group(operand: Operand, name: str) -> tuple[Group, bool]:
    """The tiles of an argument, and whether it is a tuple."""
    items = items_of(operand)
    values = tuple(need_tile(item, f"an argument of {name}") for item in items or (operand,))
    for value in values[1:]:
        if value.shape != values[0].shape:
            fail(
                f"{name} takes tiles of one shape, not {shape_text(values[0].shape)} and "
                f"{shape_text(value.shape)}"
            )
    return values, items is not None


def _step(em: Emitter, combine: Operand, name: str) -> Step:
    """The function as an operation on groups of tiles."""

    def run(left: Group, right: Group) -> Group:
        result = em.call(combine, (*left, *right))
        items = items_of(result)
        found = items if items is not None and len(items) == len(left) else (result,)
        if len(found) != len(left):
            fail(f"the function of {name} returns {describe(result)} for {len(left)} values")
        values = []
        for old, new in zip(left, found):
            value = materialise(em, new, f"what the function of {name} returns")
            if value.dtype != old.dtype:
                fail(
                    f"the function of {name} gives {value.dtype} for {old.dtype}",
                    "convert the input before, or the result in the function, with .to(...)",
                )
            values.append(broadcast(em, value, old.shape))
        return tuple(values)

    return run


def _parts(em: Emitter, group: Group, axis: int, first: int, step: int, count: int) -> Group:
    return tuple(part(em, v, axis, (first, step, count)) for v in group)


def _folded(em: Emitter, group: Group, axis: int, step: Step) -> Group:
    """All elements along an axis combined in pairs; the axis stays with size 1."""
    tail: Group | None = None
    while (size := group[0].shape[axis]) > 1:
        if size % 2:
            last = _parts(em, group, axis, size - 1, 1, 1)
            tail = last if tail is None else step(last, tail)
        half = size // 2
        even, odd = (_parts(em, group, axis, k, 2 if half > 1 else 1, half) for k in (0, 1))
        group = step(even, odd)
    return group if tail is None else step(group, tail)


def reduce(
    em: Emitter, input: Operand, axis: Operand, combine_fn: Operand, keep_dims: Operand
) -> Operand:
    """Combine all elements along an axis (of all when None)."""
    group, many = _group(input, "reduce")
    rank = len(group[0].shape)
    keep = static_bool(keep_dims, "keep_dims of reduce")
    if to_python(axis) == (True, None):
        count = 1
        for size in group[0].shape:
            count *= size
        group = tuple(shapes.reshaped(em, v, (count,)) for v in group)
        along, kept = 0, (1,) * rank
    else:
        along = static_axis(axis, rank, "the axis of reduce")
        kept = (*group[0].shape[:along], 1, *group[0].shape[along + 1 :])
    folded = _folded(em, group, along, _step(em, combine_fn, "reduce"))
    if keep:
        result = tuple(shapes.reshaped(em, v, kept) for v in folded)
    else:
        result = tuple(element(em, v, along, 0) for v in folded)
    return result if many else result[0]


def _scanned(em: Emitter, group: Group, axis: int, step: Step) -> Group:
    """Running combinations along an axis: those of pairs first, then what stands between them."""
    size = group[0].shape[axis]
    if size == 1:
        return group
    half = size // 2
    even, odd = (_parts(em, group, axis, k, 2 if half > 1 else 1, half) for k in (0, 1))
    pairs = _scanned(em, step(even, odd), axis, step)
    first = _parts(em, group, axis, 0, 1, 1)
    count = (size + 1) // 2 - 1
    if not count:
        return tuple(concatenated(em, [a, b], axis) for a, b in zip(first, pairs))
    before = _parts(em, pairs, axis, 0, 1, count)
    between = step(before, _parts(em, group, axis, 2, 2 if count > 1 else 1, count))
    starts = [concatenated(em, [a, b], axis) for a, b in zip(first, between)]
    return tuple(interleaved(em, a, b, axis) for a, b in zip(starts, pairs))


def associative_scan(
    em: Emitter, input: Operand, axis: Operand, combine_fn: Operand, reverse: Operand
) -> Operand:
    """Running combinations along an axis, from the end if reverse."""
    group, many = _group(input, "associative_scan")
    along = static_axis(axis, len(group[0].shape), "the axis of associative_scan")
    turned = static_bool(reverse, "reverse of associative_scan")
    if turned:
        group = tuple(backwards(em, v, along) for v in group)
    result = _scanned(em, group, along, _step(em, combine_fn, "associative_scan"))
    if turned:
        result = tuple(backwards(em, v, along) for v in result)
    return result if many else result[0]


def map_elementwise(
    em: Emitter, scalar_fn: Operand, args: tuple[Operand, ...], pack: Operand
) -> Operand:
    """A function of the elements of tiles."""
    if to_python(pack) != (True, 1):
        fail("map_elementwise takes pack=1", "tiles are not packed on this machine")
    values = [materialise(em, arg, "an argument of map_elementwise") for arg in args]
    shape: tuple[int, ...] = ()
    for value in values:
        shape = common_shape(shape, value.shape)
    return em.call(scalar_fn, tuple(broadcast(em, v, shape) for v in values))


TABLE: dict[str, Callable[..., Operand]] = {
    "reduce": reduce, "associative_scan": associative_scan, "map_elementwise": map_elementwise,
}  # fmt: skip
