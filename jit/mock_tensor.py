"""Types in place of arrays, where a kernel is compiled before there are any."""

from __future__ import annotations

from typing import Any

from dsalang._backend.errors import LaunchError
from dsalang._runtime.arrays import TORCH_FORMATS, ArrayView

from .dtypes import dtype, from_name


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
    found = TORCH_FORMATS.get(str(value))
    if found is None:
        raise LaunchError(f"the machine has no type for {value}")
    kind = from_name(found)
    assert isinstance(kind, dtype)
    return kind
