"""Tensor descriptors: rows and atomics of blocks. Written in the language; the compiler and the interpreter run it."""

from __future__ import annotations

from typing import Any

from . import builtins as tl
from . import dtypes
from .builtin import defined
from .constexpr import constexpr_function


@defined()
def _rows(desc: Any, x_offsets: Any, y_offset: Any) -> Any:
    """Pointers to rows of a matrix from a column on, and which of them lie inside."""
    rows = x_offsets[:, None]
    columns = (y_offset + tl.arange(0, desc.block_shape[1]))[None, :]
    inside = (rows >= 0) & (rows < desc.shape[0]) & (columns >= 0) & (columns < desc.shape[1])
    return desc.base + rows * desc.strides[0] + columns * desc.strides[1], inside


@defined()
def gather_tensor_descriptor(desc: Any, x_offsets: Any, y_offset: Any) -> Any:
    """The rows x_offsets of a matrix, from column y_offset on; `desc.gather(x_offsets, y_offset)`. Outside it is 0."""
    pointers, inside = _rows(desc, x_offsets, y_offset)
    return tl.load(pointers, mask=inside, other=0)


@defined()
def scatter_tensor_descriptor(desc: Any, value: Any, x_offsets: Any, y_offset: Any) -> Any:
    """Store the rows of a tile as rows x_offsets of a matrix; `desc.scatter(value, x_offsets, y_offset)`."""
    pointers, inside = _rows(desc, x_offsets, y_offset)
    tl.store(pointers, value.to(desc.dtype), mask=inside)


@constexpr_function
def _along(dim: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a tile of rank 1 that lies along a dim."""
    return tuple(size if d == dim else 1 for d, size in enumerate(shape))


@defined()
def _elements(desc: Any, offsets: Any) -> Any:
    """Pointers to a block at offsets, and which of them lie inside the array."""
    pointers = desc.base + tl.zeros(desc.block_shape, dtypes.int32)
    inside = tl.full(desc.block_shape, 1, dtypes.int1)
    for dim in tl.static_range(len(desc.block_shape)):
        index = offsets[dim] + tl.arange(0, desc.block_shape[dim])
        index = index.reshape(_along(dim, desc.block_shape))
        pointers = pointers + index * desc.strides[dim]
        inside = inside & (index >= 0) & (index < desc.shape[dim])
    return pointers, inside


@defined()
def atomic_add_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Add of a block with what is in memory; `desc.atomic_add(offsets, value)`."""
    pointers, inside = _elements(desc, offsets)
    tl.atomic_add(pointers, value.to(desc.dtype), mask=inside)


@defined()
def atomic_min_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Minimum of a block with what is in memory; `desc.atomic_min(offsets, value)`."""
    pointers, inside = _elements(desc, offsets)
    tl.atomic_min(pointers, value.to(desc.dtype), mask=inside)


@defined()
def atomic_max_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Maximum of a block with what is in memory; `desc.atomic_max(offsets, value)`."""
    pointers, inside = _elements(desc, offsets)
    tl.atomic_max(pointers, value.to(desc.dtype), mask=inside)


@defined()
def atomic_and_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Bitwise and of a block with what is in memory; `desc.atomic_and(offsets, value)`."""
    pointers, inside = _elements(desc, offsets)
    tl.atomic_and(pointers, value.to(desc.dtype), mask=inside)


@defined()
def atomic_or_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Bitwise or of a block with what is in memory; `desc.atomic_or(offsets, value)`."""
    pointers, inside = _elements(desc, offsets)
    tl.atomic_or(pointers, value.to(desc.dtype), mask=inside)


@defined()
def atomic_xor_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Bitwise exclusive or of a block with what is in memory; `desc.atomic_xor(offsets, value)`."""
    pointers, inside = _elements(desc, offsets)
    tl.atomic_xor(pointers, value.to(desc.dtype), mask=inside)
