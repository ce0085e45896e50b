"""IR types shared by the dialects, and their mapping to number formats.

Scalars are builtin types (signless integers, floats), tiles are builtin `tensor<…>` of scalars or of
`!tile.ptr<T>`. Signedness lives in operation names, as in LLVM and MLIR.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition

from .. import formats
from ..formats import Format


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """An HBM address of elements of a scalar type: `!tile.ptr<f16>`."""

    name = "tile.ptr"
    pointee: Attribute


_FLOATS: dict[str, Attribute] = {
    "fp8e4m3": Float8E4M3FNType(),
    "fp8e5m2": Float8E5M2Type(),
    "fp16": Float16Type(),
    "bf16": BFloat16Type(),
    "fp32": Float32Type(),
    "fp64": Float64Type(),
}
_FLOAT_FORMATS = {type_: formats.by_name(name) for name, type_ in _FLOATS.items()}
_INTS = {bits: IntegerType(bits) for bits in (1, 8, 16, 32, 64)}
_INT_FORMATS = {bits: formats.by_name(f"int{bits}") for bits in _INTS}


def scalar_type(fmt: Format) -> Attribute:
    """The IR type of a scalar of format `fmt` (signless for integers)."""
    return _FLOATS[fmt.name] if fmt.is_float else _INTS[fmt.bits]


def int_type(bits: int) -> IntegerType:
    """The type of signless integers of some bits."""
    return _INTS[bits]


def format_of(type_: Attribute) -> Format:
    """The number format that stores a scalar or a tile's element; signless integers read as signed.

    Pointers are stored as int64.
    """
    element = element_type(type_)
    if isinstance(element, IntegerType):
        return _INT_FORMATS[element.width.data]
    if isinstance(element, PtrType):
        return _INT_FORMATS[64]
    return _FLOAT_FORMATS[element]


def element_type(type_: Attribute) -> Attribute:
    """The element type of a tile, or the type itself for a scalar."""
    return type_.element_type if type(type_) is TensorType else type_


def shape_of(type_: Attribute) -> tuple[int, ...]:
    """The static shape of a tile; () for a scalar."""
    return tuple([n.data for n in type_.shape.data]) if type(type_) is TensorType else ()


@lru_cache(maxsize=4096)
def with_shape(element: Attribute, shape: tuple[int, ...]) -> Attribute:
    """A tile of `shape`, or the scalar itself for ()."""
    tile: TensorType[Any] | None = TensorType(element, list(shape)) if shape else None
    return element if tile is None else tile
