"""Arrays of the user's as memory: numpy, torch CPU tensors, `__array_interface__` and DLPack objects.

`view_of` never copies: the result's bytes are the user's memory, so that kernels write in place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from dsalang._backend.errors import LaunchError
from dsalang._backend.formats import BY_STORAGE, FORMATS, Format, by_name

from . import dlpack
from .packing import HALVES


@dataclass(frozen=True, eq=False)
class ArrayView:
    """An array in host memory.

    Attributes:
        fmt: format of an element.
        address: byte address of element (0, 0, …).
        start, stop: the bytes that the array's shape and strides reach; equal for an empty array.
        writable: False when the owner forbids writes.
        owner: the user's object; keeps the memory alive.
    """

    fmt: Format
    address: int
    start: int
    stop: int
    writable: bool
    owner: object


@dataclass(frozen=True, eq=False)
class Extent:
    """A piece of memory that one array, or several overlapping ones, live in."""

    start: int
    stop: int
    names: tuple[str, ...]
    writable: bool
    owners: tuple[object, ...]

    def bytes(self) -> NDArray[np.uint8]:
        """The memory itself, as a flat uint8 array that is writable when the extent is."""
        for owner in self.owners:
            if getattr(owner, "on_driver", False):
                raise LaunchError(f"only its device can reach {owner!r}")
        raw = (ctypes.c_uint8 * (self.stop - self.start)).from_address(self.start)
        data: NDArray[np.uint8] = np.ndarray(len(raw), np.uint8, memoryview(raw))
        data.flags.writeable = self.writable
        return data


def is_array(value: object) -> bool:
    """True when `value` is passed by pointer (numpy arrays of rank 0 are scalars)."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    if isinstance(value, np.generic):
        return False
    kind = type(value)
    return any(
        hasattr(kind, name)
        for name in (
            "__dsa_view__",
            "__dlpack__",
            "__array_interface__",
            "__cuda_array_interface__",
            "data_ptr",
        )
    ) or hasattr(value, "__array_interface__")


def view_of(value: Any, name: str) -> ArrayView:
    """The memory of an array-like argument called `name`.

    Raises LaunchError for what is no array, is not in host memory or has elements that have no format here.
    """
    if isinstance(value, np.ndarray):
        return _numpy_view(value, name, value)
    own: Callable[[str], ArrayView] | None = getattr(value, "__dsa_view__", None)
    if own is not None:
        return own(name)
    if _is_torch(value):
        return _torch_view(value, name)
    if hasattr(value, "__cuda_array_interface__"):
        raise _not_host(name, "a CUDA device")
    if hasattr(value, "__array_interface__"):
        return _numpy_view(np.asarray(value), name, value)
    if hasattr(value, "__dlpack__"):
        return _dlpack_view(value, name)
    if hasattr(value, "data_ptr"):
        return _pointer_view(value, name)
    raise LaunchError(
        f"argument {name!r} is of type {type(value).__name__}, which is no array",
        hint="pass a numpy array, a torch CPU tensor or a DLPack object; np.asarray makes one of a list",
    )


def _is_torch(value: object) -> bool:
    # By name, so that torch is never imported for users who do not have it.
    return any(
        kind.__module__.split(".")[0] == "torch" and kind.__name__ == "Tensor"
        for kind in type(value).__mro__
    )


def _numpy_view(array: NDArray[Any], name: str, owner: object) -> ArrayView:
    if not array.dtype.isnative:
        raise LaunchError(
            f"argument {name!r} has byte order {array.dtype.byteorder!r}; arrays must be in native byte order",
            hint=f"pass {name}.astype({name}.dtype.newbyteorder('='))",
        )
    if array.dtype in HALVES:
        raise LaunchError(
            f"argument {name!r} has elements of type {array.dtype}, one per byte; kernels hold two",
            hint=f"pass dsa.pack4({name}), bytes of two numbers along its last dim, and say axis=... for another",
        )
    fmt = by_name("uint8") if array.dtype == _E8M0 else BY_STORAGE.get(array.dtype)
    if fmt is None:
        raise _no_format(name, str(array.dtype))
    return strided_view(
        fmt, array.ctypes.data, array.shape, array.strides, array.flags.writeable, owner
    )


def strided_view(
    fmt: Format,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    writable: bool,
    owner: object,
) -> ArrayView:
    """A view from an address, a shape and strides in bytes (any sign)."""
    if 0 in shape:
        return ArrayView(fmt, address, address, address, writable, owner)
    reach = [(n - 1) * stride for n, stride in zip(shape, strides)]
    start = address + sum(r for r in reach if r < 0)
    stop = address + sum(r for r in reach if r > 0) + fmt.bytes
    return ArrayView(fmt, address, start, stop, writable, owner)


_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
"""Scales of blocks: kernels hold them as bytes."""

TORCH_FORMATS = {
    "torch.bool": "int1",
    "torch.float16": "fp16",
    "torch.bfloat16": "bf16",
    "torch.float32": "fp32",
    "torch.float64": "fp64",
    "torch.float8_e4m3fn": "fp8e4m3",
    "torch.float8_e5m2": "fp8e5m2",
    "torch.float8_e8m0fnu": "uint8",
    "torch.float4_e2m1fn_x2": "uint8",
} | {f"torch.{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def _torch_view(tensor: Any, name: str) -> ArrayView:
    if tensor.device.type != "cpu":
        raise _not_host(name, f"device {tensor.device}")
    if str(tensor.layout) != "torch.strided":
        raise LaunchError(
            f"argument {name!r} is a tensor of layout {tensor.layout}; only strided tensors have addresses",
            hint=f"pass {name}.to_dense()",
        )
    if str(tensor.dtype) not in TORCH_FORMATS:
        raise _no_format(name, str(tensor.dtype))
    fmt = by_name(TORCH_FORMATS[str(tensor.dtype)])
    address, shape = tensor.data_ptr(), tuple(tensor.shape)
    strides = [s * fmt.bytes for s in tensor.stride()]
    if 0 not in shape and any(n > 1 and step == 0 for n, step in zip(shape, strides)):
        # A repeated dim hides where the elements are: kernels bring strides of their own.
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        return ArrayView(fmt, address, start, start + storage.nbytes(), True, tensor)
    return strided_view(fmt, address, shape, strides, True, tensor)


def _pointer_view(value: Any, name: str) -> ArrayView:
    """An object of a library's own with `data_ptr()` and the dtype of torch's tensors, which Triton takes as well."""
    fmt = TORCH_FORMATS.get(str(getattr(value, "dtype", "")))
    shape, stride = getattr(value, "shape", None), getattr(value, "stride", None)
    if fmt is None or shape is None or not callable(stride):
        raise LaunchError(
            f"argument {name!r} has data_ptr(), but not the dtype, shape and stride() of a torch tensor",
            hint="kernels must know how far an array reaches; pass the tensor itself",
        )
    where = getattr(value, "device", None)
    if where is not None and getattr(where, "type", "cpu") != "cpu":
        raise _not_host(name, f"device {where}")
    form = by_name(fmt)
    strides = [s * form.bytes for s in stride()]
    return strided_view(form, int(value.data_ptr()), tuple(shape), strides, True, value)


def _dlpack_view(value: Any, name: str) -> ArrayView:
    device, _ = value.__dlpack_device__()
    if int(device) not in dlpack.HOST_DEVICES:
        raise _not_host(name, f"DLPack device type {int(device)}")
    tensor = dlpack.read(value)
    if tensor.format_name not in {fmt.name for fmt in FORMATS}:
        raise _no_format(name, tensor.format_name)
    fmt = by_name(tensor.format_name)
    strides = [s * fmt.bytes for s in tensor.strides]
    # The capsule owns the memory, so it is what must stay alive.
    owner = (value, tensor.capsule)
    return strided_view(fmt, tensor.address, tensor.shape, strides, not tensor.read_only, owner)


def _not_host(name: str, where: str) -> LaunchError:
    return LaunchError(
        f"argument {name!r} is on {where}; kernels take arrays in host memory",
        hint="copy it to the CPU first, e.g. tensor.cpu()",
    )


_ADVICE = {
    "longdouble": "float64",
    "complex64": "two float32 arrays (real and imaginary parts)",
    "complex128": "two float64 arrays (real and imaginary parts)",
}


def _no_format(name: str, dtype: str) -> LaunchError:
    short = dtype.rpartition(".")[2]
    advice = _ADVICE.get(short, f"one of {', '.join(fmt.name for fmt in FORMATS)}")
    return LaunchError(
        f"argument {name!r} has elements of type {short}, which the machine does not have",
        hint=f"convert it to {advice}",
    )


def scalar_of(value: Any, name: str) -> bool | int | float:
    """The Python value of a number or a numpy scalar; LaunchError for what is neither."""
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype in (np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)) or (
            value.dtype.kind == "V" and value.dtype in BY_STORAGE
        ):
            return float(value)
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return value
    raise LaunchError(
        f"argument {name!r} has type {type(value).__name__}, which a kernel cannot take",
        hint="pass numbers, bools, arrays (numpy, torch CPU tensors, DLPack), or annotate the parameter "
        "with dsa.constexpr",
    )


def extents_of(views: Sequence[tuple[str, ArrayView]]) -> tuple[list[Extent], list[int]]:
    """Merge arrays that overlap.

    Returns the extents in order of address, and for each view the number of its group: views with
    equal numbers may share memory. Groups are numbered in order of first appearance; an empty array
    is a group of its own.
    """
    order = sorted(range(len(views)), key=lambda k: views[k][1].start)
    members: list[list[int]] = []
    stop = -1
    for k in order:
        view = views[k][1]
        if view.start == view.stop:
            continue
        if members and view.start < stop:
            members[-1].append(k)
            stop = max(stop, view.stop)
        else:
            members.append([k])
            stop = view.stop
    extents = [_extent([views[k] for k in sorted(group)]) for group in members]
    return extents, _group_numbers(len(views), members)


def _extent(views: Sequence[tuple[str, ArrayView]]) -> Extent:
    return Extent(
        min(view.start for _, view in views),
        max(view.stop for _, view in views),
        tuple(name for name, _ in views),
        any(view.writable for _, view in views),
        tuple(view.owner for _, view in views),
    )


def _group_numbers(count: int, members: Sequence[Sequence[int]]) -> list[int]:
    leader = {k: min(group) for group in members for k in group}
    firsts = sorted({leader.get(k, k) for k in range(count)})
    return [firsts.index(leader.get(k, k)) for k in range(count)]
