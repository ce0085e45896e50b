"""Reads DLPack capsules: numpy's own reader knows neither bf16 nor fp8, and makes old capsules read-only."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

HOST_DEVICES = (1, 3)
"""kDLCPU and kDLCUDAHost (pinned host memory)."""

_READ_ONLY = 1
_KINDS = {0: "int", 1: "uint", 2: "fp", 4: "bf", 5: "complex", 6: "bool"}
_NAMED = {10: "fp8e4m3", 12: "fp8e5m2"}
_NAMES = {"bool8": "int1"}


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


@dataclass(frozen=True)
class DlTensor:
    """A tensor in a capsule. `strides` count elements; `format_name` may name a format we do not have."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    format_name: str
    read_only: bool
    capsule: object


def read(value: Any) -> DlTensor:
    """The tensor behind an object's `__dlpack__`. Its memory lives as long as the result's capsule."""
    try:
        capsule = value.__dlpack__(max_version=(1, 1))
    except TypeError:  # an exporter from before DLPack 1.0
        capsule = value.__dlpack__()
    versioned = _pointer(capsule, b"dltensor_versioned")
    if versioned:
        managed = _Versioned.from_address(versioned)
        return _tensor(managed.tensor, bool(managed.flags & _READ_ONLY), capsule)
    legacy = _pointer(capsule, b"dltensor")
    if not legacy:
        raise TypeError("__dlpack__ did not return a DLPack capsule")
    return _tensor(_Tensor.from_address(legacy), False, capsule)


def _pointer(capsule: object, name: bytes) -> int:
    api = ctypes.pythonapi
    valid = api.PyCapsule_IsValid
    valid.argtypes, valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
    if not valid(capsule, name):
        return 0
    get = api.PyCapsule_GetPointer
    get.argtypes, get.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    return int(get(capsule, name) or 0)


def _tensor(tensor: _Tensor, read_only: bool, capsule: object) -> DlTensor:
    shape = tuple(tensor.shape[d] for d in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[d] for d in range(tensor.ndim))
    else:
        strides = _contiguous(shape)
    address = int(tensor.data or 0) + int(tensor.byte_offset)
    return DlTensor(address, shape, strides, _format_name(tensor.dtype), read_only, capsule)


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    return tuple(strides)


def _format_name(dtype: _DataType) -> str:
    if dtype.lanes != 1:
        return f"vector of {dtype.lanes}"
    if dtype.code in _NAMED:
        return _NAMED[dtype.code]
    name = f"{_KINDS.get(dtype.code, f'DLPack type {dtype.code}x')}{dtype.bits}"
    return _NAMES.get(name, name)
