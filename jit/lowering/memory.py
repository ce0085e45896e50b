"""Loads, stores and atomics."""

from __future__ import annotations

import math
from collections.abc import Callable

from dsalang._backend.dialects import tile

from .. import dtypes
from ..dtypes import ElementType, dtype, pointer_type
from ..parse.emit import Emitter
from ..semantics import (
    broadcast,
    cast,
    common_shape,
    converted_to,
    numeric,
    shape_of_operand,
)
from ..values import (
    NONE,
    Operand,
    Record,
    Static,
    Value,
    describe,
    fail,
    items_of,
    shape_text,
    static,
)
from . import blocks


def _pointer(operand: Operand, name: str) -> tuple[Value, ElementType]:
    """A pointer operand and the type that it points to."""
    if not isinstance(operand, Value) or not isinstance(operand.dtype, pointer_type):
        fail(
            f"{name} takes a pointer or a tile of pointers, not {describe(operand)}",
            "pass an array to the kernel and add offsets to its parameter",
        )
    return operand, operand.dtype.element_ty


def _is_none(operand: Operand) -> bool:
    return isinstance(operand, Static) and operand.value is None


def _mask(em: Emitter, mask: Operand, pointer: Value, name: str) -> Value | None:
    """The mask in the shape of the pointers; None when every element is wanted."""
    if _is_none(mask):
        return None
    given = numeric(mask, f"the mask of {name}")
    if isinstance(given, Static):
        if given.value:
            return None
        return em.constant(0, dtypes.int1, pointer.shape)
    if given.dtype.is_ptr():
        fail(f"the mask of {name} must be numbers, not pointers", "compare, for example offs < n")
    _check_shape(given, pointer, f"the mask of {name}")
    return broadcast(em, cast(em, given, dtypes.int1), pointer.shape)


def _check_shape(operand: Value | Static, pointer: Value, what: str) -> None:
    shape = shape_of_operand(operand)
    if common_shape(shape, pointer.shape) != pointer.shape:
        fail(
            f"{what} has shape {shape_text(shape)}, the pointer is {shape_text(pointer.shape)}",
            "broadcast the pointer to the larger shape",
        )


def _widen(em: Emitter, pointer: Value, mask: Operand) -> Value:
    """Tiles of pointers broadcast to the shape of the mask; a scalar pointer stays scalar."""
    if not pointer.shape or not isinstance(mask, Value):
        return pointer
    return broadcast(em, pointer, common_shape(pointer.shape, mask.shape))


def _no_block_options(boundary_check: Operand, name: str) -> None:
    if items_of(boundary_check) not in ((), None):
        fail(
            f"boundary_check of {name} applies to block pointers only",
            "use mask= with a tile of pointers",
        )


def _block(pointer: Record, mask: Operand, name: str) -> Record:
    if not _is_none(mask):
        fail(f"{name} through a {pointer.kind} takes no mask", "use boundary_check=")
    if pointer.kind != blocks.BLOCK:
        fail(f"{name} does not take a {pointer.kind}", f"use desc.{name}(offsets, ...)")
    return pointer


def load_tensor_descriptor(em: Emitter, desc: Operand, offsets: Operand) -> Operand:
    """The block at `offsets`; outside the array what the descriptor is padded with."""
    block = blocks.positioned(desc, offsets, "load")
    dims = Static(tuple(range(len(block.meta))))
    return load(em, block, NONE, NONE, boundary_check=dims, padding_option=block.fields["padding"])


def store_tensor_descriptor(
    em: Emitter, desc: Operand, offsets: Operand, value: Operand
) -> Operand:
    """Store a block at `offsets`, what lies inside the array."""
    block = blocks.positioned(desc, offsets, "store")
    dims = Static(tuple(range(len(block.meta))))
    return store(em, block, value, NONE, boundary_check=dims)


def load(
    em: Emitter,
    pointer: Operand,
    mask: Operand,
    other: Operand,
    boundary_check: Operand,
    padding_option: Operand,
    **hints: Operand,
) -> Operand:
    """Load; `other` fills what the mask leaves out."""
    if isinstance(pointer, Record):
        block = _block(pointer, mask, "load")
        pointer, mask = blocks.elements(em, block, blocks.checked_dims(block, boundary_check))
        other = NONE if _is_none(mask) else blocks.padding(padding_option, block)
        boundary_check = NONE
    ptr, element = _pointer(pointer, "load")
    _no_block_options(boundary_check, "load")
    if _is_none(mask) and not _is_none(other):
        fail("other needs a mask", "pass mask=, or leave other out")
    ptr = _widen(em, ptr, mask)
    wanted = _mask(em, mask, ptr, "load")
    fill: Value | None = None
    if wanted is not None and not _is_none(other):
        given = numeric(other, "other of load")
        _check_shape(given, ptr, "other of load")
        if not (isinstance(given, Static) and _is_plain_zero(given.value)):
            fill = converted_to(em, given, element, ptr.shape)
    op = em.add(tile.LoadOp(ptr.ssa, wanted.ssa if wanted else None, fill.ssa if fill else None))
    return Value(op.result, element, ptr.shape)


def _is_plain_zero(number: bool | int | float) -> bool:
    return number == 0 and math.copysign(1.0, number) > 0


def store(
    em: Emitter,
    pointer: Operand,
    value: Operand,
    mask: Operand,
    boundary_check: Operand,
    **hints: Operand,
) -> Operand:
    """Store where the mask is true."""
    if isinstance(pointer, Record):
        block = _block(pointer, mask, "store")
        pointer, mask = blocks.elements(em, block, blocks.checked_dims(block, boundary_check))
        boundary_check = NONE
    ptr, element = _pointer(pointer, "store")
    _no_block_options(boundary_check, "store")
    given = numeric(value, "the value of store")
    if ptr.shape:
        shape = common_shape(ptr.shape, shape_of_operand(given))
        ptr = _widen(em, broadcast(em, ptr, shape), mask)
    _check_shape(given, ptr, "the value of store")
    wanted = _mask(em, mask, ptr, "store")
    data = converted_to(em, given, element, ptr.shape)
    em.add(tile.StoreOp(ptr.ssa, data.ssa, wanted.ssa if wanted else None))
    return Static(None)


def _atomic(kind: str) -> Callable[..., Operand]:
    """The lowering of an atomic; `kind` without the prefix that the element type adds."""
    name = f"atomic_{kind}"

    def lower(
        em: Emitter, pointer: Operand, val: Operand, mask: Operand, sem: Operand, scope: Operand
    ) -> Operand:
        ptr, element = _pointer(pointer, name)
        full_kind = _atomic_kind(kind, element)
        given = numeric(val, f"the value of {name}")
        if ptr.shape:
            shape = common_shape(ptr.shape, shape_of_operand(given))
            ptr = _widen(em, broadcast(em, ptr, shape), mask)
        _check_shape(given, ptr, f"the value of {name}")
        _check_hints(name, sem, scope)
        wanted = _mask(em, mask, ptr, name)
        data = converted_to(em, given, element, ptr.shape)
        op = em.add(
            tile.AtomicOp(full_kind, ptr.ssa, data.ssa, None, wanted.ssa if wanted else None)
        )
        return Value(op.result, element, ptr.shape)

    return lower


def _check_hints(name: str, sem: Operand, scope: Operand) -> None:
    if static(sem, f"sem of {name}") not in (None, "relaxed", "acquire", "release", "acq_rel"):
        fail(f"sem of {name} is relaxed, acquire, release or acq_rel, not {describe(sem)}")
    static(scope, f"scope of {name}")


def _atomic_kind(kind: str, element: ElementType) -> str:
    if element == dtypes.int1:
        fail(f"atomic_{kind} does not apply to int1", "use a pointer to int8 or wider integers")
    if not isinstance(element, dtype):
        if kind in ("xchg", "cas"):
            return kind
        fail(f"atomic_{kind} does not apply to pointers")
    if kind in ("xchg", "cas"):
        return kind
    if kind in ("and", "or", "xor"):
        if not element.is_int():
            fail(f"atomic_{kind} takes integers, not {element}")
        return kind
    if element.is_floating():
        return f"f{kind}"
    return "iadd" if kind == "add" else ("s" if element.signed else "u") + kind


def atomic_cas(
    em: Emitter, pointer: Operand, cmp: Operand, val: Operand, sem: Operand, scope: Operand
) -> Operand:
    """Compare and swap."""
    ptr, element = _pointer(pointer, "atomic_cas")
    _atomic_kind("cas", element)
    _check_hints("atomic_cas", sem, scope)
    compare = numeric(cmp, "cmp of atomic_cas")
    data = numeric(val, "the value of atomic_cas")
    for given, what in ((compare, "cmp of atomic_cas"), (data, "the value of atomic_cas")):
        _check_shape(given, ptr, what)
    old = converted_to(em, compare, element, ptr.shape)
    new = converted_to(em, data, element, ptr.shape)
    op = em.add(tile.AtomicOp("cas", ptr.ssa, new.ssa, old.ssa, None))
    return Value(op.result, element, ptr.shape)


TABLE: dict[str, Callable[..., Operand]] = {
    "load": load,
    "store": store,
    "load_tensor_descriptor": load_tensor_descriptor,
    "store_tensor_descriptor": store_tensor_descriptor,
    "atomic_cas": atomic_cas,
    **{f"atomic_{k}": _atomic(k) for k in ("add", "max", "min", "and", "or", "xor", "xchg")},
}
