"""The element types that kernels name: `float32`, `int8`, `pointer_type(float16)`, …

Plain Python objects over the format table; nothing here needs the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from dsalang._backend import formats
from dsalang._backend.formats import Format

KINDS = ("bool", "int", "float")
"""Kinds in the order in which they win a promotion."""


@dataclass(frozen=True, repr=False)
class dtype:  # noqa: N801 (the name users of Triton type)
    """A scalar type. `name` is Triton's (`fp16`, `int32`, …), `format` the row of the format table.

    >>> float16.primitive_bitwidth, int8.is_int_signed(), float32.is_floating()
    (16, True, True)
    """

    SINT_TYPES: ClassVar[tuple[str, ...]]
    UINT_TYPES: ClassVar[tuple[str, ...]]
    FP_TYPES: ClassVar[tuple[str, ...]]
    STANDARD_FP_TYPES: ClassVar[tuple[str, ...]]
    OTHER_TYPES: ClassVar[tuple[str, ...]]

    name: str
    kind: str = field(default="", compare=False)
    primitive_bitwidth: int = field(default=0, compare=False)
    signed: bool = field(default=True, compare=False)
    mantissa_bits: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        if not self.kind:  # dtype("fp16"): find the row
            known = _BY_NAME.get(self.name)
            if known is None:
                raise ValueError(f"unknown dtype {self.name!r}; known: {', '.join(_BY_NAME)}")
            for attribute in ("name", "kind", "primitive_bitwidth", "signed", "mantissa_bits"):
                object.__setattr__(self, attribute, getattr(known, attribute))

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    def __call__(self, value: object) -> Any:
        """Inside a kernel, `tl.float32(x)` converts x."""
        from .builtins import cast  # builtins are declared with dtypes

        return cast(value, self)

    @property
    def format(self) -> Format:
        """The number format of the machine. Raises KeyError when the machine has none (float8e4b15)."""
        return formats.by_name(self.name)

    @property
    def scalar(self) -> dtype:
        """The type itself, as for tiles the type of an element."""
        return self

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        return max(1, self.primitive_bitwidth // 8)

    @property
    def int_bitwidth(self) -> int:
        """Width of an integer type in bits."""
        return self.primitive_bitwidth

    @property
    def fp_mantissa_width(self) -> int:
        """Explicit mantissa bits of a float type."""
        return self.mantissa_bits

    @property
    def exponent_bias(self) -> int:
        """What is added to the exponent of a float type in its bits."""
        return _BIASES[self.name]

    def is_floating(self) -> bool:
        """True for floating-point types."""
        return self.kind == "float"

    def is_int(self) -> bool:
        """True for integers, int1 included."""
        return self.kind in ("int", "bool")

    def is_bool(self) -> bool:
        """True for int1."""
        return self.kind == "bool"

    is_int1 = is_bool

    def is_int_signed(self) -> bool:
        """True for signed integers."""
        return self.kind == "int" and self.signed

    def is_int_unsigned(self) -> bool:
        """True for unsigned integers and int1."""
        return self.is_int() and not self.signed

    def is_ptr(self) -> bool:
        """True for pointers."""
        return False

    def is_block(self) -> bool:
        """True for types of tiles."""
        return False

    def is_fp8(self) -> bool:
        """True for 8-bit floats."""
        return self.is_floating() and self.primitive_bitwidth == 8

    def is_standard_floating(self) -> bool:
        """True for fp16, bf16, fp32, fp64."""
        return self.is_floating() and self.primitive_bitwidth > 8

    def get_int_min_value(self) -> int:
        """Smallest value of an integer type."""
        return -(1 << (self.primitive_bitwidth - 1)) if self.is_int_signed() else 0

    def get_int_max_value(self) -> int:
        """Largest value of an integer type."""
        return (1 << (self.primitive_bitwidth - self.is_int_signed())) - 1


def _is_named(name: str) -> object:
    def test(self: dtype) -> bool:
        return self.name == name

    test.__doc__ = f"True for {name}."
    return test


@dataclass(frozen=True, repr=False)
class pointer_type:  # noqa: N801
    """The type of a pointer to elements of `element_ty`.

    >>> str(pointer_type(float16))
    '*fp16'
    """

    element_ty: dtype | pointer_type
    address_space: int = field(default=1, compare=False)
    kind: str = field(default="pointer", init=False, compare=False)
    primitive_bitwidth: int = field(default=64, init=False, compare=False)
    signed: bool = field(default=False, init=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.element_ty, dtype | pointer_type):
            raise TypeError(f"a pointer_type is made from a dtype, not {self.element_ty!r}")

    def __str__(self) -> str:
        return f"*{self.element_ty}"

    __repr__ = __str__

    @property
    def name(self) -> str:
        """The type as it stands in a signature."""
        return str(self)

    @property
    def scalar(self) -> pointer_type:
        """The type itself, as for tiles the type of an element."""
        return self

    def is_ptr(self) -> bool:
        """True for pointers."""
        return True

    def __getattr__(self, name: str) -> object:
        if name.startswith("is_") and hasattr(dtype, name):
            return lambda: False
        raise AttributeError(name)


@dataclass(frozen=True, repr=False)
class block_type:  # noqa: N801
    """The type of a tile: element type and shape (`x.type` in a kernel)."""

    element_ty: dtype | pointer_type
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.element_ty, dtype | pointer_type):
            raise TypeError(f"a block_type is made from a dtype, not {self.element_ty!r}")

    def __str__(self) -> str:
        return f"{self.element_ty}[{', '.join(map(str, self.shape))}]"

    __repr__ = __str__

    @property
    def scalar(self) -> dtype | pointer_type:
        """The element type."""
        return self.element_ty

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def is_block(self) -> bool:
        """True for types of tiles."""
        return True

    def __getattr__(self, name: str) -> object:
        if name.startswith("is_") and hasattr(dtype, name):
            return lambda: False
        raise AttributeError(name)


class tensor:  # noqa: N801
    """A run-time value of a kernel, for annotations and `isinstance` inside kernels."""


class const:  # noqa: N801
    """An annotation of pointers that a kernel only reads; it changes nothing."""


class tensor_descriptor:  # noqa: N801
    """An annotation of tensor descriptors; it changes nothing."""


@dataclass(frozen=True)
class constexpr_type:  # noqa: N801
    """The type of a compile-time value: each value has its own."""

    value: Any


@dataclass(frozen=True)
class tuple_type:  # noqa: N801
    """The type of a tuple: those of its items; `fields` are the names of a named tuple."""

    types: tuple[Any, ...]
    fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(self.types))


@dataclass(frozen=True)
class tensor_descriptor_type:  # noqa: N801
    """The type of a tensor descriptor: that of its blocks, and those of its sizes and strides."""

    block_type: block_type
    shape_type: tuple_type
    strides_type: tuple_type


ElementType = dtype | pointer_type

void = dtype("void", "void", 0)
int1 = dtype("int1", "bool", 1, signed=False)
int8, int16, int32, int64 = (dtype(f"int{bits}", "int", bits) for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (
    dtype(f"uint{bits}", "int", bits, signed=False) for bits in (8, 16, 32, 64)
)
float8e4nv = dtype("fp8e4nv", "float", 8, mantissa_bits=3)
float8e5 = dtype("fp8e5", "float", 8, mantissa_bits=2)
float16 = dtype("fp16", "float", 16, mantissa_bits=10)
bfloat16 = dtype("bf16", "float", 16, mantissa_bits=7)
float32 = dtype("fp32", "float", 32, mantissa_bits=23)
float64 = dtype("fp64", "float", 64, mantissa_bits=52)

float8e4b15, float8e4b8, float8e5b16 = (
    dtype(f"fp8{kind}", "float", 8, mantissa_bits=mantissa)
    for kind, mantissa in (("e4b15", 3), ("e4b8", 3), ("e5b16", 2))
)
"""Eight-bit floats of some GPUs. They exist so that kernels that mention them parse; the machine has none."""

ALL: tuple[dtype, ...] = (
    int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float8e4nv, float8e5, float16, bfloat16, float32, float64,
)  # fmt: skip
_BY_NAME: dict[str, dtype] = {t.name: t for t in ALL} | {"void": void}
dtype.SINT_TYPES = tuple(t.name for t in ALL if t.is_int_signed())
dtype.UINT_TYPES = ("int1", *(t.name for t in ALL if t.is_int_unsigned() and not t.is_bool()))
dtype.FP_TYPES = tuple(t.name for t in ALL if t.is_floating())
dtype.STANDARD_FP_TYPES = tuple(t.name for t in ALL if t.is_standard_floating())
dtype.OTHER_TYPES = ("void",)
for _type in (*ALL, float8e4b15, float8e4b8, float8e5b16):
    if not hasattr(dtype, f"is_{_type.name}"):
        setattr(dtype, f"is_{_type.name}", _is_named(_type.name))

_ALIASES: dict[str, dtype] = {}
for _type in ALL:
    for _alias in (_type.name, _type.format.name, *_type.format.aliases):
        _ALIASES[_alias] = _type
_ALIASES |= {t.name: t for t in (float8e4b15, float8e4b8, float8e5b16)}
_BIASES = {
    "fp8e4nv": 7, "fp8e4b8": 8, "fp8e4b15": 15, "fp8e5": 15, "fp8e5b16": 16,
    "fp16": 15, "bf16": 127, "fp32": 127, "fp64": 1023,
}  # fmt: skip


def from_name(name: str) -> ElementType:
    """The type that a signature string names: `fp16`, `i32`, `*bf16`. Raises KeyError when there is none.

    >>> from_name("*u8")
    *uint8
    """
    return pointer_type(from_name(name[1:])) if name.startswith("*") else _ALIASES[name]


def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer type of a width.

    >>> get_int_dtype(32, False)
    uint32
    """
    return int1 if bitwidth == 1 else dtype(f"{'' if signed else 'u'}int{bitwidth}")


def of_format(fmt: Format) -> dtype:
    """The dtype of a machine format.

    >>> of_format(formats.by_name("fp8e4m3"))
    fp8e4nv
    """
    return _ALIASES[fmt.name]
