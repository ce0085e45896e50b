"""`reinterpret(array, dtype)`: an array as an argument of another element type of the same size."""

from __future__ import annotations

import dataclasses
from typing import Any

from dsalang._backend.errors import LaunchError
from dsalang._runtime.arrays import ArrayView, view_of

from .dtypes import dtype


class TensorWrapper:
    """An array whose bytes a kernel sees as elements of `dtype`: `uint32` in an int32 tensor, fp8 in an int8 one."""

    def __init__(self, base: Any, dtype: dtype) -> None:
        self.base, self.dtype = base, dtype
        self.shape, self.device = base.shape, getattr(base, "device", None)
        self.data = getattr(base, "data", None)

    def __dsa_view__(self, name: str) -> ArrayView:
        view = view_of(self.base, name)
        if view.fmt.bytes != self.dtype.itemsize:
            raise LaunchError(
                f"argument {name!r} has elements of {view.fmt.bytes} bytes, {self.dtype} has {self.dtype.itemsize}"
            )
        try:
            return dataclasses.replace(view, fmt=self.dtype.format)
        except KeyError:
            raise LaunchError(
                f"argument {name!r} has elements of type {self.dtype}, which the machine does not have"
            ) from None

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self.base.data_ptr())

    def stride(self, *args: Any) -> Any:
        """Strides in elements, as torch gives them."""
        return self.base.stride(*args)

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def numel(self) -> int:
        """Number of elements."""
        return int(self.base.numel())

    def cpu(self) -> TensorWrapper:
        """The same in host memory."""
        return TensorWrapper(self.base.cpu(), self.dtype)

    def new_empty(self, size: Any) -> TensorWrapper:
        """Another array of the same type, whose contents do not matter."""
        return TensorWrapper(self.base.new_empty(size), self.dtype)

    def clone(self) -> TensorWrapper:
        """A copy."""
        return TensorWrapper(self.base.clone(), self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        """Take over the elements of another one."""
        self.base.copy_(other.base)

    def to(self, device: Any) -> TensorWrapper:
        """The same on another device."""
        return TensorWrapper(self.base.to(device), self.dtype)


def reinterpret(tensor: Any, dtype: dtype) -> Any:
    """`tensor` as an argument whose elements are of `dtype`, which has as many bytes as its own.

    Raises LaunchError (at the launch) for types of another size.
    """
    if isinstance(tensor, TensorWrapper):
        return tensor.base if dtype == tensor.base.dtype else TensorWrapper(tensor.base, dtype)
    if not hasattr(tensor, "shape"):
        raise LaunchError(f"only arrays can be reinterpreted, not {type(tensor).__name__}")
    return TensorWrapper(tensor, dtype)
