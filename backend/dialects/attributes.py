"""Attributes that IR is full of, each made once.

Attributes cannot change, and kernels have few different ones, but xdsl checks each one it makes (10 µs for an integer).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, StringAttr, i32, i64
from xdsl.ir import Attribute


def i64_array(values: Sequence[int]) -> DenseArrayBase:
    """An `array<i64: …>` attribute."""
    return _array(tuple(values))


def ints(attribute: Attribute) -> tuple[int, ...]:
    """The values of an `array<i64: …>` attribute."""
    assert isinstance(attribute, DenseArrayBase)
    return _unpacked(attribute.data.data)


def i64_attribute(value: int) -> IntegerAttr:
    """An i64 attribute."""
    return _integer(value, 64)


def i32_attribute(value: int) -> IntegerAttr:
    """An i32 attribute."""
    return _integer(value, 32)


def integer(value: int, type_: Attribute) -> IntegerAttr:
    """An attribute of a signless integer type that holds the value."""
    assert isinstance(type_, IntegerType)
    return _integer(value, type_.width.data)


def wrapped_integer(value: int, type_: Attribute) -> IntegerAttr:
    """An attribute of a signless integer type with the low bits of a value."""
    assert isinstance(type_, IntegerType)
    bits = type_.width.data
    return _integer(value % (1 << bits), bits)


@lru_cache(maxsize=4096)
def text(value: str) -> StringAttr:
    """A string attribute."""
    return StringAttr(value)


@lru_cache(maxsize=4096)
def segments(sizes: tuple[int, ...]) -> DenseArrayBase:
    """How many operands each name of an operation has: its property `operandSegmentSizes`."""
    return DenseArrayBase.from_list(i32, sizes)


@lru_cache(maxsize=4096)
def segment_starts(sizes: bytes) -> tuple[int, ...]:
    """Where the operands of each name begin, and where the last ones end, by the data of `segments`."""
    starts = [0]
    for (size,) in struct.iter_unpack("<i", sizes):
        starts.append(starts[-1] + size)
    return tuple(starts)


@lru_cache(maxsize=4096)
def _integer(value: int, bits: int) -> IntegerAttr:
    return IntegerAttr(value, IntegerType(bits))


@lru_cache(maxsize=4096)
def _array(values: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, values)


@lru_cache(maxsize=4096)
def _unpacked(data: bytes) -> tuple[int, ...]:
    return tuple(value for (value,) in struct.iter_unpack("<q", data))
