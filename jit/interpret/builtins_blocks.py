"""Interpreted block pointers and tensor descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from .. import library_descriptors
from ..composite import DESCRIPTOR, Composite
from ..dtypes import pointer_type
from . import builtins_memory
from .builtins_memory import arange, static_int, static_shape
from .errors import fail
from .registry import implements
from .tile import InterpTile, unwrap


@dataclass(frozen=True)
class InterpBlock:
    """A window of a strided array. `descriptor` blocks get their offsets at each load and store."""

    base: InterpTile
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offsets: tuple[Any, ...]
    block_shape: tuple[int, ...]
    descriptor: bool = False
    padding: Any = ""

    @property
    def dtype(self) -> Any:
        """A block pointer's is the pointer's, a descriptor's that of an element."""
        kind = self.base.dtype
        return kind.element_ty if self.descriptor and isinstance(kind, pointer_type) else kind

    @property
    def type(self) -> Any:
        """The same as `dtype`."""
        return self.dtype

    def load(self, *args: Any, **kwargs: Any) -> InterpTile:
        """As `load`; a descriptor takes offsets."""
        if self.descriptor:
            return load_tensor_descriptor(self, *args, **kwargs)
        return load(self, *args, **kwargs)

    def store(self, *args: Any, **kwargs: Any) -> None:
        """As `store`; a descriptor takes offsets and a value."""
        if self.descriptor:
            store_tensor_descriptor(self, *args, **kwargs)
        else:
            store(self, *args, **kwargs)

    def advance(self, offsets: Any) -> InterpBlock:
        """As `advance`."""
        return advance(self, offsets)

    def gather(self, x_offsets: Any, y_offset: Any) -> Any:
        """Rows of a matrix."""
        return library_descriptors.gather_tensor_descriptor(self, x_offsets, y_offset)

    def scatter(self, value: Any, x_offsets: Any, y_offset: Any) -> None:
        """Store rows of a matrix."""
        library_descriptors.scatter_tensor_descriptor(self, value, x_offsets, y_offset)

    def __getattr__(self, name: str) -> Any:
        """`atomic_add` and the like of a descriptor."""
        function = getattr(library_descriptors, f"{name}_tensor_descriptor", None)
        if function is None or not self.descriptor or not name.startswith("atomic_"):
            raise AttributeError(name)
        return partial(function, self)

    def elements(self, checked: Sequence[int]) -> tuple[Any, Any]:
        """The pointers of the window, and what of it lies inside the array in the dims `checked`."""
        pointer: Any = self.base
        mask: Any = None
        rank = len(self.block_shape)
        for dim, size in enumerate(self.block_shape):
            place = tuple(slice(None) if d == dim else None for d in range(rank))
            index = (arange(0, size) + self.offsets[dim])[place]
            pointer = pointer + index * self.strides[dim]
            if dim in checked:
                inside = (index >= 0) & (index < self.shape[dim])
                mask = inside if mask is None else mask & inside
        return pointer, mask


def put_together(composite: Composite, parts: list[Any]) -> Any:
    """An argument that was passed in parts."""
    if composite.kind != DESCRIPTOR:
        made = composite.made_as
        return made._make(parts) if hasattr(made, "_make") else tuple(parts)
    rank = len(composite.block_shape)
    base, shape, strides = parts[0], tuple(parts[1 : rank + 1]), tuple(parts[rank + 1 :])
    block = composite.block_shape
    return InterpBlock(base, shape, strides, (0,) * rank, block, True, composite.padding)


def _per_dim(values: Any, rank: int, what: str) -> tuple[Any, ...]:
    values = unwrap(values)
    if not isinstance(values, tuple | list) or len(values) != rank:
        raise fail(f"{what} must be {rank} integers, one per dim")
    return tuple(unwrap(value) for value in values)


def _block(value: Any, what: str, descriptor: bool) -> InterpBlock:
    if not isinstance(value, InterpBlock) or value.descriptor != descriptor:
        raise fail(f"{what} takes a {'tensor descriptor' if descriptor else 'block pointer'}")
    return value


def _checked(block: InterpBlock, boundary_check: Any) -> tuple[int, ...]:
    dims = unwrap(boundary_check)
    if dims is None:
        return ()
    if isinstance(dims, int):
        dims = (dims,)
    rank = len(block.block_shape)
    numbers = [static_int(d, "boundary_check") for d in dims]
    if any(not -rank <= d < rank for d in numbers):
        raise fail(f"boundary_check names a dim that a block of rank {rank} does not have")
    return tuple(d % rank for d in numbers)


@implements("make_block_ptr")
def make_block_ptr(
    base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> InterpBlock:
    """See the language."""
    sizes = static_shape(block_shape, "make_block_ptr")
    rank = len(sizes)
    return InterpBlock(
        base,
        _per_dim(shape, rank, "shape"),
        _per_dim(strides, rank, "strides"),
        _per_dim(offsets, rank, "offsets"),
        sizes,
    )


@implements("make_tensor_descriptor")
def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> InterpBlock:
    """See the language."""
    sizes = static_shape(block_shape, "make_tensor_descriptor")
    rank = len(sizes)
    outer, steps = _per_dim(shape, rank, "shape"), _per_dim(strides, rank, "strides")
    return InterpBlock(base, outer, steps, (0,) * rank, sizes, True, unwrap(padding_option))


@implements("advance", method=True)
def advance(base: Any, offsets: Any) -> InterpBlock:
    """See the language."""
    block = _block(base, "advance", False)
    steps = _per_dim(offsets, len(block.block_shape), "offsets")
    return replace(block, offsets=tuple(a + b for a, b in zip(block.offsets, steps)))


@implements("load", method=True)
def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> InterpTile:
    """See the language."""
    if not isinstance(pointer, InterpBlock):
        return builtins_memory.load(pointer, mask, other, boundary_check, padding_option)
    block = _block(pointer, "load", False)
    where, inside = block.elements(_checked(block, boundary_check))
    fill = float("nan") if unwrap(padding_option) == "nan" and inside is not None else None
    return builtins_memory.load(where, inside, fill)


@implements("store", method=True)
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """See the language."""
    if not isinstance(pointer, InterpBlock):
        builtins_memory.store(pointer, value, mask, boundary_check)
        return
    block = _block(pointer, "store", False)
    where, inside = block.elements(_checked(block, boundary_check))
    builtins_memory.store(where, value, inside)


def _placed(desc: Any, offsets: Any, what: str) -> tuple[InterpBlock, tuple[int, ...]]:
    block = _block(desc, what, True)
    rank = len(block.block_shape)
    places = _per_dim(offsets, rank, "offsets")
    return replace(block, offsets=places, descriptor=False), tuple(range(rank))


@implements("load_tensor_descriptor")
def load_tensor_descriptor(desc: Any, offsets: Any) -> InterpTile:
    """See the language."""
    block, dims = _placed(desc, offsets, "load")
    return load(block, boundary_check=dims, padding_option=block.padding)


@implements("store_tensor_descriptor")
def store_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """See the language."""
    block, dims = _placed(desc, offsets, "store")
    store(block, value, None, dims)
