"""The one table of number formats.

Adding a format is one row here, its rounding in `numerics/convert.py`, and its MAC rate in the target files.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Format:
    """A number format. `code` is its number in instruction encodings; `storage` the numpy dtype of an element.

    In a packed format a stored element is a byte that holds two numbers, the first one in its low half.
    """

    name: str
    code: int
    bits: int
    kind: str  # 'float', 'sint', 'uint' or 'bool'
    storage: np.dtype[np.generic]
    aliases: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of one element in SRAM and HBM."""
        return self.storage.itemsize

    @property
    def per_element(self) -> int:
        """Numbers in a stored element: 2 in packed formats, 1 in all others."""
        return 2 if self.bits == 4 else 1

    def stored(self, count: int) -> int:
        """Elements that hold `count` numbers."""
        return -(-count // self.per_element)

    @property
    def is_float(self) -> bool:
        """True for floating-point formats."""
        return self.kind == "float"

    @property
    def is_signed(self) -> bool:
        """True for formats whose values can be negative."""
        return self.kind in ("float", "sint")

    def __str__(self) -> str:
        return self.name


def _format(name: str, code: int, bits: int, kind: str, storage: object, *aliases: str) -> Format:
    return Format(name, code, bits, kind, np.dtype(storage), aliases)  # type: ignore[call-overload]


FORMATS: tuple[Format, ...] = (
    _format("int1", 0, 1, "bool", np.bool_, "i1", "u1", "bool"),
    _format("int8", 1, 8, "sint", np.int8, "i8"),
    _format("int16", 2, 16, "sint", np.int16, "i16"),
    _format("int32", 3, 32, "sint", np.int32, "i32"),
    _format("int64", 4, 64, "sint", np.int64, "i64"),
    _format("uint8", 5, 8, "uint", np.uint8, "u8"),
    _format("uint16", 6, 16, "uint", np.uint16, "u16"),
    _format("uint32", 7, 32, "uint", np.uint32, "u32"),
    _format("uint64", 8, 64, "uint", np.uint64, "u64"),
    _format("fp8e4m3", 9, 8, "float", ml_dtypes.float8_e4m3fn, "fp8e4nv", "float8e4nv", "f8e4m3"),
    _format("fp8e5m2", 10, 8, "float", ml_dtypes.float8_e5m2, "fp8e5", "float8e5", "f8e5m2"),
    _format("fp16", 11, 16, "float", np.float16, "float16", "f16"),
    _format("bf16", 12, 16, "float", ml_dtypes.bfloat16, "bfloat16"),
    _format("fp32", 13, 32, "float", np.float32, "float32", "f32"),
    _format("fp64", 14, 64, "float", np.float64, "float64", "f64"),
)

BY_NAME: dict[str, Format] = {name: fmt for fmt in FORMATS for name in (fmt.name, *fmt.aliases)}
BY_CODE: dict[int, Format] = {fmt.code: fmt for fmt in FORMATS}
BY_STORAGE: dict[np.dtype[np.generic], Format] = {fmt.storage: fmt for fmt in FORMATS}


PACKED: tuple[Format, ...] = (
    _format("int4", 32, 4, "sint", np.uint8),
    _format("uint4", 33, 4, "uint", np.uint8),
    _format("fp4e2m1", 34, 4, "float", np.uint8),
)
"""Formats of two numbers per byte, which only the tensor engine reads; elsewhere they are bytes."""

OPERANDS: dict[str, Format] = {**BY_NAME, **{fmt.name: fmt for fmt in PACKED}}
"""By name, what an operand of the tensor engine may be."""
OPERANDS_BY_CODE: dict[int, Format] = {**BY_CODE, **{fmt.code: fmt for fmt in PACKED}}


def by_name(name: str) -> Format:
    """The format called `name` (canonical name or alias). Raises KeyError for an unknown name.

    >>> by_name("f16").name, by_name("fp16").bytes
    ('fp16', 2)
    """
    return BY_NAME[name]
