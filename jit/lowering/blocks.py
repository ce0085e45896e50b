"""Block pointers and tensor descriptors: a window of a strided array, as a record of scalars.

They are only a way of writing: loads and stores become tiles of pointers with a mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..composite import Composite
from ..dtypes import ElementType, pointer_type
from ..parse.emit import Emitter
from ..semantics import numeric
from ..semantics_operators import binary
from ..values import (
    NONE,
    Operand,
    Record,
    Static,
    Value,
    describe,
    fail,
    is_named_tuple,
    items_of,
    static,
    static_ints,
    static_shape,
)
from . import shape as shapes
from .creation import arange

BLOCK, DESCRIPTOR = "block pointer", "tensor descriptor"


def _scalars(operand: Operand, count: int, what: str) -> tuple[Operand, ...]:
    items = items_of(operand)
    if items is None or len(items) != count:
        fail(f"{what} must be {count} integers, one per dim, not {describe(operand)}")
    for item in items:
        value = numeric(item, what)
        if isinstance(value, Value) and value.shape:
            fail(f"{what} must be scalars, not {describe(item)}")
    return items


def _record(
    kind: str, base: Operand, shape: Operand, strides: Operand, offsets: Operand, block: Operand
) -> Record:
    if not isinstance(base, Value) or not base.is_pointer or base.shape:
        fail(f"the base of a {kind} must be a pointer, not {describe(base)}")
    sizes = static_shape(block, f"the block_shape of a {kind}")
    rank = len(sizes)
    fields: dict[str, Operand] = {
        "base": base,
        "shape": _scalars(shape, rank, f"the shape of a {kind}"),
        "strides": _scalars(strides, rank, f"the strides of a {kind}"),
        "offsets": _scalars(offsets, rank, f"the offsets of a {kind}"),
    }
    return Record(kind, fields, sizes)


def make_block_ptr(
    em: Emitter,
    base: Operand,
    shape: Operand,
    strides: Operand,
    offsets: Operand,
    block_shape: Operand,
    order: Operand,
) -> Operand:
    """A window at `offsets` of an array at `base`; `order` is a hint."""
    static_ints(order, "the order of a block pointer")
    return _record(BLOCK, base, shape, strides, offsets, block_shape)


def make_tensor_descriptor(
    em: Emitter,
    base: Operand,
    shape: Operand,
    strides: Operand,
    block_shape: Operand,
    padding_option: Operand,
) -> Operand:
    """An array of which blocks are loaded and stored at offsets given then."""
    offsets = tuple(Static(0) for _ in static_ints(block_shape, "the block_shape"))
    made = _record(DESCRIPTOR, base, shape, strides, offsets, block_shape)
    return _padded(made, padding_option)


def _padded(block: Record, option: Operand) -> Record:
    padding(option, block)  # refuses what it cannot be
    return Record(block.kind, {**block.fields, "padding": option}, block.meta)


def put_together(composite: Composite, parts: list[Operand]) -> Operand:
    """An argument that was passed in parts."""
    if composite.kind != DESCRIPTOR:
        make = composite.made_as
        return make._make(parts) if is_named_tuple(make) else tuple(parts)  # type: ignore[attr-defined]
    rank = len(composite.block_shape)
    shape, strides = tuple(parts[1 : rank + 1]), tuple(parts[rank + 1 :])
    offsets = tuple(Static(0) for _ in shape)
    block = Static(composite.block_shape)
    made = _record(DESCRIPTOR, parts[0], shape, strides, offsets, block)
    return _padded(made, Static(composite.padding))


def advance(em: Emitter, base: Operand, offsets: Operand) -> Operand:
    """The block pointer moved by `offsets`."""
    block = _block(base, BLOCK, "advance")
    old = items_of(block.fields["offsets"]) or ()
    steps = _scalars(offsets, len(old), "the offsets of advance")
    moved = tuple(a if _is_zero(b) else binary(em, "+", a, b) for a, b in zip(old, steps))
    return Record(block.kind, {**block.fields, "offsets": moved}, block.meta)


def _is_zero(step: Operand) -> bool:
    return isinstance(step, Static) and step.value == 0


def _block(operand: Operand, kind: str, name: str) -> Record:
    if not isinstance(operand, Record) or operand.kind != kind:
        fail(f"{name} takes a {kind}, not {describe(operand)}")
    return operand


def element_type(block: Record) -> ElementType:
    """The dtype as in Triton: a block pointer's is the pointer's, a descriptor's that of an element."""
    base = block.fields["base"]
    assert isinstance(base, Value) and isinstance(base.dtype, pointer_type)
    return base.dtype if block.kind == BLOCK else base.dtype.element_ty


def elements(em: Emitter, block: Record, checked: tuple[int, ...]) -> tuple[Operand, Operand]:
    """The pointers of a block, and the mask of what lies inside the array in the `checked` dims."""
    pointer: Operand = block.fields["base"]
    mask: Operand = NONE
    rank = len(block.meta)
    shape, strides, offsets = (
        items_of(block.fields[name]) or () for name in ("shape", "strides", "offsets")
    )
    for dim, size in enumerate(block.meta):
        steps = arange(em, Static(0), Static(size))
        index = binary(em, "+", offsets[dim], steps)
        assert isinstance(index, Value)
        for place in range(rank):
            if place != dim:
                index = shapes.inserted(em, index, place)
        pointer = binary(em, "+", pointer, binary(em, "*", index, strides[dim]))
        if dim in checked:
            low = binary(em, ">=", index, Static(0))
            inside = binary(em, "&", low, binary(em, "<", index, shape[dim]))
            mask = inside if mask is NONE else binary(em, "&", mask, inside)
    return pointer, mask


def checked_dims(block: Record, boundary_check: Operand) -> tuple[int, ...]:
    """The dims that boundary_check names."""
    if isinstance(boundary_check, Static) and boundary_check.value is None:
        return ()
    dims = static_ints(boundary_check, "boundary_check")
    rank = len(block.meta)
    for dim in dims:
        if not -rank <= dim < rank:
            fail(f"boundary_check names dim {dim} of a block of rank {rank}")
    return tuple(dim % rank for dim in dims)


def padding(option: Operand, block: Record) -> Operand:
    """What a load puts where the array ends."""
    value = static(option, "padding_option")
    base = block.fields["base"]
    assert isinstance(base, Value) and isinstance(base.dtype, pointer_type)
    if value in ("", None, "zero"):
        return NONE
    if value != "nan" or base.dtype.element_ty.kind != "float":
        fail(f"padding_option is 'zero', or 'nan' for floats, not {value!r}")
    return Static(math.nan)


def positioned(operand: Operand, offsets: Operand, name: str) -> Record:
    """A descriptor as a block at `offsets`."""
    block = _block(operand, DESCRIPTOR, name)
    places = _scalars(offsets, len(block.meta), f"the offsets of {name}")
    return Record(BLOCK, {**block.fields, "offsets": places}, block.meta)


TABLE: dict[str, Callable[..., Operand]] = {
    "make_block_ptr": make_block_ptr,
    "make_tensor_descriptor": make_tensor_descriptor,
    "advance": advance,
}
