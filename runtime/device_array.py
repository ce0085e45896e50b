"""Arrays in a device's memory."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dsalang._backend.errors import LaunchError
from dsalang._backend.formats import BY_STORAGE, Format, by_name

from .arrays import ArrayView, strided_view, view_of
from .device_streams import COPY_IN, COPY_OUT

if TYPE_CHECKING:
    from .device import Device
    from .device_streams import Pending, Stream


def format_of(dtype: Any) -> Format:
    """The format that a numpy dtype, one of the language's types or a name stands for. Raises LaunchError."""
    fmt = getattr(dtype, "format", None)
    if isinstance(fmt, Format):
        return fmt
    try:
        if isinstance(dtype, str):
            return by_name(dtype)
        return BY_STORAGE[np.dtype(dtype)]
    except (KeyError, TypeError, ValueError):
        pass
    try:
        return BY_STORAGE[np.dtype(dtype)]
    except (KeyError, TypeError):
        raise LaunchError(
            f"dtype {dtype!r} is not one of the machine's",
            hint="use a numpy dtype or a name such as 'fp16' or 'int32'",
        ) from None


class DeviceArray:
    """A row-major array in a device's memory. Kernels take it like any array, without copies.

    Attributes:
        device: where it is.
        shape, dtype: as in numpy.
        address: of its first element, as kernels see it.
        version: changes when the array may have been written.
    """

    def __init__(self, device: Device, shape: int | Sequence[int], dtype: Any) -> None:
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(not isinstance(size, (int, np.integer)) or size < 0 for size in sizes) or not sizes:
            raise LaunchError(f"shape {shape!r} is not one of whole sizes, none negative")
        self.device, self.shape, self.format = device, tuple(map(int, sizes)), format_of(dtype)
        self.dtype = self.format.storage
        self.nbytes = prod(self.shape) * self.format.bytes
        self.address, free = device.allocate(max(1, self.nbytes))
        self._finalizer = weakref.finalize(self, free)
        self.version = 0

    def __repr__(self) -> str:
        return (
            f"<DeviceArray {self.format}{list(self.shape)} at {self.address:#x} on {self.device}>"
        )

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        """How many dims it has."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def on_driver(self) -> bool:
        """Whether the memory is a driver's, which only its device can reach."""
        return self.device.driver is not None

    def __dsa_view__(self, name: str) -> ArrayView:
        self._check_alive(f"argument {name!r}")
        strides = [self.format.bytes * prod(self.shape[d + 1 :]) for d in range(len(self.shape))]
        return strided_view(self.format, self.address, self.shape, strides, True, self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a device array can only be seen from the host as a copy")
        values = self.to_host()
        return values if dtype is None else values.astype(dtype)

    def _check_alive(self, what: str) -> None:
        if not self._finalizer.alive:
            raise LaunchError(f"{what} is a device array that has been freed")

    def free(self) -> None:
        """Give the memory back now, when all work on the device is done, not when the object dies."""
        self.device.synchronize()
        self._finalizer()

    def copy_from(self, array: Any, stream: Stream | None = None) -> Pending | None:
        """Fill the array with a host array of the same shape and format.

        With a stream the copy comes after what is on it, and the call returns at once; the values are those of
        now. Without one, after everything on the device.
        """
        self._check_alive(repr(self))
        values = self._host(array)
        if stream is None:
            self.device.synchronize()
            self._write(values)
            return None
        write = partial(self._write, values.copy())
        return self._check(stream).copy(COPY_IN, self.nbytes, write, self)

    def _check(self, stream: Stream) -> Stream:
        if stream.device is not self.device:
            raise LaunchError(f"the array lies on {self.device}, {stream} is another device's")
        return stream

    def to_host(self) -> NDArray[Any]:
        """A copy in host memory, made when all work on the device is done."""
        self.device.synchronize()
        return self._read()

    def to_host_async(self, stream: Stream) -> Pending:
        """The same on a stream; `result()` of what this returns is the copy."""
        return self._check(stream).copy(COPY_OUT, self.nbytes, self._read, self)

    def _write(self, values: NDArray[Any]) -> None:
        self.version += 1
        self.device.write(self.address, values)

    def _read(self) -> NDArray[Any]:
        self._check_alive(repr(self))
        values = np.empty(self.shape, self.dtype)
        self.device.read(self.address, values)
        return values

    def _host(self, array: Any) -> NDArray[Any]:
        if not isinstance(array, np.ndarray):
            view_of(array, "array")  # says what is wrong with arrays of other kinds
            array = np.asarray(array)
        if array.shape != self.shape or array.dtype != self.dtype:
            raise LaunchError(
                f"cannot copy {array.dtype}{list(array.shape)} to {self.dtype}{list(self.shape)}",
                hint="shape and dtype must be equal",
            )
        return np.ascontiguousarray(array)
