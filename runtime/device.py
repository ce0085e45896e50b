"""Devices: the emulator of this process, or a machine behind a driver (`driver/dsa_driver.h`)."""

from __future__ import annotations

import dataclasses
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsalang._backend.errors import DeviceError, LaunchError, TargetError
from dsalang._backend.target import Target

from . import device_timeline
from .device_array import DeviceArray
from .device_streams import Clock, Executor, Stream
from .driver.binding import Driver
from .residency import Sram

scoped: ContextVar[Device | None] = ContextVar("dsalang_device", default=None)
"""The device of the innermost `with device:`."""

_outer: ContextVar[tuple[Device | None, ...]] = ContextVar("dsalang_outer_devices", default=())

_ALIGN = 4096


class Device:
    """A machine that kernels run on.

    Args:
        driver: path of a driver's library; None is the emulator in this process, whose memory is the host's.
        target: the machine that it is: a name, a file, or a Target. None asks the driver.

    Raises:
        DeviceError: the driver cannot be used.
        TargetError: the driver's target is not known here, or not the one given.

    `with device:` makes it the one that launches use whose arguments do not say otherwise.
    """

    def __init__(
        self, driver: str | Path | None = None, target: str | Path | Target | None = None
    ) -> None:
        self.driver = None if driver is None else Driver(driver)
        self._pid = os.getpid()
        if self.driver is not None:
            self._finalizer = weakref.finalize(self, _close, self.driver, self._pid)
        try:
            self._target = self._resolve(target)
        except TargetError:
            self.close()
            raise
        self.clock = Clock()
        self._numbers = itertools.count(1)
        self._buffers: dict[int, NDArray[np.uint8]] = {}
        self._reserved: dict[int, int] = {}
        self._lock = threading.Lock()
        self._sram: dict[tuple[str, str], Sram] = {}

    def __repr__(self) -> str:
        where = "the emulator" if self.driver is None else self.driver.path
        return f"<Device {where}, target {self.target.name}>"

    @property
    def target(self) -> Target:
        """The machine that it is; `edge` for an emulator that was not told."""
        return self._target or Target.by_name("edge")

    def _resolve(self, given: str | Path | Target | None) -> Target | None:
        if self.driver is None:
            return None if given is None else _target(given)
        name = self.driver.properties.target.decode("utf-8", "replace")
        digest = self.driver.properties.target_digest.decode("utf-8", "replace")
        found = _target(given or name)
        if found.digest != digest:
            raise TargetError(
                f"target {found.name} is not what the device is: {name} with digest {digest}, not "
                f"{found.digest}",
                hint="pass the target file that the device was made for: dsa.Device(path, target=...)",
            )
        return found

    @cached_property
    def executor(self) -> Executor:
        """The thread that does the work of streams."""
        return Executor()

    @property
    def lost(self) -> bool:
        """Whether the device behind the driver is gone."""
        return self.driver is not None and self.driver.lost

    def new_stream_number(self) -> int:
        """1, 2, 3, …"""
        return next(self._numbers)

    # Parts

    def part(self, cores: int) -> Target:
        """A machine of some of the cores and their share of HBM's bandwidth."""
        target = self.target
        if cores == target.cores:
            return target
        share = dataclasses.replace(
            target.hbm, bytes_per_second=target.hbm.bytes_per_second * cores // target.cores
        )
        name = f"{target.name}, {cores} of {target.cores} cores"
        return dataclasses.replace(target, name=name, cores=cores, hbm=share)

    @property
    def shared_target(self) -> Target:
        """What streams without cores of their own run on."""
        return self.part(self.target.cores - sum(self._reserved.values()))

    def reserve(self, stream: Stream, cores: int) -> Target:
        """Give cores to a stream. Raises LaunchError."""
        if self.driver is not None:
            raise LaunchError("a device behind a driver cannot be divided among streams")
        with self._lock:
            left = self.target.cores - sum(self._reserved.values()) - 1
            if not isinstance(cores, int) or not 1 <= cores <= left:
                raise LaunchError(
                    f"cores={cores!r} for {stream.name}: {self.target.name} has {self.target.cores}, and "
                    f"{left} can be reserved"
                )
            self._reserved[id(stream)] = cores
        self._forget_sram()
        weakref.finalize(stream, self._reserved.pop, id(stream), None)
        stream.start_after_shared()
        return self.part(cores)

    def release(self, stream: Stream) -> None:
        """Take a stream's cores back."""
        self._reserved.pop(id(stream), None)
        self._forget_sram()

    def sram(self, target: Target, part: str = "") -> Sram:
        """The SRAM of all shared cores, or of a stream's own ones, as `target` sees it."""
        return self._sram.setdefault((target.digest, part), Sram())

    def _forget_sram(self) -> None:
        """Cores change hands."""
        for sram in self._sram.values():
            sram.clear()

    # Memory

    def empty(self, shape: int | Sequence[int], dtype: Any = np.float32) -> DeviceArray:
        """An array whose values are whatever the memory holds."""
        return DeviceArray(self, shape, dtype)

    def to_device(self, array: Any, stream: Stream | None = None) -> DeviceArray:
        """A copy of a host array; on a stream the call returns before it is there."""
        values = np.asarray(array)
        made = DeviceArray(self, values.shape, values.dtype)
        made.copy_from(values, stream)
        return made

    def allocate(self, size: int) -> tuple[int, Callable[[], None]]:
        """Memory of `size` bytes: its address, and what gives it back."""
        if self.driver is not None:
            address = self.driver.alloc(size)
            return address, _Free(self.driver, address)
        buffer = np.empty(size + _ALIGN, np.uint8)
        address = -(-buffer.ctypes.data // _ALIGN) * _ALIGN
        self._buffers[address] = buffer
        return address, _Forget(self._buffers, address)

    def write(self, address: int, values: NDArray[Any]) -> None:
        """Copy a contiguous host array to the device."""
        if self.driver is not None:
            self.driver.copy_in(address, values.ctypes.data, values.nbytes)
        else:
            self._bytes(address, values.nbytes)[:] = values.reshape(-1).view(np.uint8)

    def read(self, address: int, values: NDArray[Any]) -> None:
        """Fill a contiguous host array from the device."""
        if self.driver is not None:
            self.driver.copy_out(values.ctypes.data, address, values.nbytes)
        else:
            values.reshape(-1).view(np.uint8)[:] = self._bytes(address, values.nbytes)

    def _bytes(self, address: int, size: int) -> NDArray[np.uint8]:
        buffer = self._buffers[address]
        start = address - buffer.ctypes.data
        return buffer[start : start + size]

    # Time

    def synchronize(self) -> None:
        """Wait until everything on all streams is done. Errors stay with their streams."""
        if "executor" in self.__dict__:
            self.executor.drain()

    def check_not_inside(self) -> None:
        """Raise DeviceError for waiting in work of the device itself, which would never end."""
        if "executor" in self.__dict__ and self.executor.inside:
            raise DeviceError("work on a stream cannot wait for the device that runs it")

    def timeline(self, path: str | Path) -> Path:
        """Write what all streams have done as a Chrome trace, when it is done."""
        self.synchronize()
        return device_timeline.write(self.clock.spans, Path(path))

    # Life

    def close(self) -> None:
        """Let go of the driver. Arrays on the device are gone with it."""
        if self.driver is not None:
            if hasattr(self, "clock"):
                self.synchronize()
            self._finalizer()

    def __enter__(self) -> Device:
        _outer.set((*_outer.get(), scoped.get()))
        scoped.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        *outer, before = _outer.get()
        scoped.set(before)
        _outer.set(tuple(outer))


class _Free:
    """Gives a driver's memory back; a finalizer, so that it holds no reference to the array."""

    def __init__(self, driver: Driver, address: int) -> None:
        self._driver, self._address = driver, address

    def __call__(self) -> None:
        if not self._driver.lost and not self._driver.closed:
            self._driver.free(self._address)


class _Forget:
    def __init__(self, buffers: dict[int, NDArray[np.uint8]], address: int) -> None:
        self._buffers, self._address = buffers, address

    def __call__(self) -> None:
        self._buffers.pop(self._address, None)


def _close(driver: Driver, pid: int) -> None:
    if os.getpid() == pid:  # a forked child must not end its parent's device
        driver.close()


def _target(given: str | Path | Target) -> Target:
    if isinstance(given, Target):
        return given
    return Target.from_file(given) if str(given).endswith(".toml") else Target.by_name(str(given))


_lock = threading.Lock()
_opened: dict[str, Device] = {}


def device_of_driver(path: str) -> Device:
    """The device of a driver's library, opened once; again when it has been lost."""
    with _lock:
        found = _opened.get(path)
        if found is None or found.lost or found._pid != os.getpid():
            found = _opened[path] = Device(path)
        return found


def device_among(owners: Sequence[object]) -> Device | None:
    """The device that arguments lie on, None when all are in host memory. Raises LaunchError for several."""
    devices = {id(o.device): o.device for o in owners if isinstance(o, DeviceArray)}
    if len(devices) > 1:
        raise LaunchError(
            f"arguments lie on several devices: {', '.join(map(str, devices.values()))}"
        )
    return next(iter(devices.values()), None)
