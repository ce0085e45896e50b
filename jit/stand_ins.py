"""Objects that stand for arrays: an array read as another type, and a type without an array."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dsalang._backend.errors import LaunchError
from dsalang._runtime.arrays import ArrayView, view_of

from .dtypes import dtype, from_name


class Reinterpreted:
    """An array whose bytes are passed to kernels as elements of another type of the same size.

    Attributes other than `dtype` are those of the array, which is `base`.
    """

    def __init__(self, base: Any, kind: dtype) -> None:
        self.base, self.dtype = base, kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def __repr__(self) -> str:
        return f"Reinterpreted({self.base!r} as {self.dtype})"

    def __dsa_view__(self, name: str) -> ArrayView:
        view = view_of(self.base, name)
        fmt = self.dtype.format
        if fmt.bytes != view.fmt.bytes:
            raise LaunchError(
                f"argument {name!r} has elements of {view.fmt.bytes} bytes, which cannot be read as {fmt.name}"
            )
        return replace(view, fmt=fmt)


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """An array, the memory of which kernels see as elements of `dtype`; nothing is copied."""
    kind: Any = from_name(dtype) if isinstance(dtype, str) else dtype
    base = tensor.base if isinstance(tensor, Reinterpreted) else tensor
    return Reinterpreted(base, kind)


class MockTensor:
    """A type in place of an array, for `kernel.warmup`: it is an aligned array without elements."""

    def __init__(self, dtype: Any, shape: Any = None) -> None:
        self.dtype, self.shape = dtype, [1] if shape is None else list(shape)

    @staticmethod
    def wrap_dtype(value: Any) -> Any:
        """A type of dsalang's, numpy's or torch's as the array it stands for; anything else as it is."""
        if isinstance(value, dtype):
            return MockTensor(value)
        kind = _torch_type(value)
        return value if kind is None else MockTensor(kind)

    def stride(self) -> list[int]:
        """Strides in elements, row-major."""
        steps = [1]
        for size in self.shape[:0:-1]:
            steps.insert(0, steps[0] * size)
        return steps

    @staticmethod
    def data_ptr() -> int:
        """An address that every alignment divides."""
        return 0

    def __dsa_view__(self, name: str) -> ArrayView:
        return ArrayView(self.dtype.format, 0, 0, 0, True, self)


def _torch_type(value: object) -> dtype | None:
    if type(value).__module__ != "torch" or type(value).__name__ != "dtype":
        return None
    from dsalang._runtime.arrays import TORCH_FORMATS

    found = TORCH_FORMATS.get(str(value))
    if found is None:
        raise LaunchError(f"the machine has no type for {value}")
    kind = from_name(found)
    assert isinstance(kind, dtype)
    return kind
