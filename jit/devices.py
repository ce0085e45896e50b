"""Launches on devices and streams: where a launch goes, and how it gets there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dsalang._backend.errors import LaunchError
from dsalang._backend.target import Target
from dsalang._runtime import device as runtime_device
from dsalang._runtime import device_streams
from dsalang._runtime.device import device_among, device_of_driver, scoped
from dsalang._runtime.device_array import DeviceArray
from dsalang._runtime.device_streams import Pending
from dsalang._runtime.residency import Kept, Sram

from . import knobs
from .arguments import Arguments
from .launch import Grid, bits_of, kept_by
from .machine import resolve

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image


class Device(runtime_device.Device):
    """A machine that kernels run on.

    Args:
        driver: path of a driver's library; None is the emulator in this process, whose memory is the host's.
        target: the machine that it is: a name, a file, or a Target. None asks the driver; the emulator is then
            what launches are compiled for.

    Raises:
        DeviceError: the driver cannot be used.
        TargetError: the driver's target is not known here, or not the one given.

    `with device:` makes it the one that launches use whose arguments do not say otherwise.
    """

    @property
    def target(self) -> Target:
        """The machine that it is now."""
        return self._target or resolve(None)


def _chosen() -> runtime_device.Device | None:
    path = knobs.DRIVER.get()
    return scoped.get() or (device_of_driver(path) if path else None)


_emulators: dict[int, Device] = {}


def emulator() -> Device:
    """The emulator of this process as a device, always the same one."""
    found = _emulators.get(os.getpid())
    # setdefault is atomic; a forked child has no thread of its parent's device
    return found or _emulators.setdefault(os.getpid(), Device())


class Stream(device_streams.Stream):
    """Work in order on a device, beside other streams.

    Args:
        device: None is that of `with device:`, else DSA_DRIVER's, else this process's emulator.
        name, cores, realtime: see `dsalang._runtime.device_streams.Stream`.
    """

    def __init__(
        self,
        device: runtime_device.Device | None = None,
        name: str = "",
        cores: int | None = None,
        realtime: bool = False,
    ) -> None:
        super().__init__(device or _chosen() or emulator(), name, cores, realtime)


def empty(shape: int | Sequence[int], dtype: Any) -> DeviceArray:
    """An array on the current device; its values are whatever the memory holds."""
    return (_chosen() or emulator()).empty(shape, dtype)


def to_device(array: Any, stream: device_streams.Stream | None = None) -> DeviceArray:
    """A copy of a host array on a stream's device, or the current one."""
    device = stream.device if stream is not None else _chosen() or emulator()
    return device.to_device(array, stream)


def device_of(arguments: Arguments, options: Mapping[str, Any]) -> runtime_device.Device | None:
    """Where a launch goes: to its stream, to where its arrays lie, to the current device, to DSA_DRIVER's.

    None is the emulator of this process, with host arrays only. Raises LaunchError when these disagree.
    """
    stream = options.get("stream")
    if stream is not None and not isinstance(stream, device_streams.Stream):
        raise LaunchError(f"stream={stream!r} is not a stream", hint="make one: dsa.Stream()")
    holder = device_among([view.owner for view in arguments.pointers.values()])
    if stream is not None and holder is not None and stream.device is not holder:
        raise LaunchError(f"arguments lie on {holder}, {stream} is another device's")
    if stream is not None:
        return stream.device
    return holder or _chosen()


def launcher(
    device: runtime_device.Device,
    find_image: Callable[[], Image],
    target: Target,
    key: str,
    arguments: Arguments,
    grid: Grid,
    options: Mapping[str, Any],
) -> Callable[[], Any]:
    """A launch on a device, ready to be made; with a stream it returns a Pending."""
    stream = options.get("stream")
    image = find_image()
    if stream is not None:
        _check_stream(stream, image, target)
    sram = sram_of(device, options, target)
    if device.driver is None:
        from .engines import launcher as emulated

        timeline = bool(options.get("timeline", False))
        keeps = image.residency is not None
        run = emulated(find_image, target, key, arguments, grid, timeline, sram, keeps)
    else:
        run = _driven(device, image, arguments, grid, sram)
    return submitted(device, run, options, image.name, arguments)


def sram_of(
    device: runtime_device.Device | None, options: Mapping[str, Any], target: Target
) -> Sram:
    """The SRAM of the cores that a launch goes to; no device is the emulator of this process."""
    stream = options.get("stream")
    return (device or emulator()).sram(target, "" if stream is None else stream.part)


def _driven(
    device: runtime_device.Device,
    image: Image,
    arguments: Arguments,
    grid: Grid,
    sram: Sram,
) -> Callable[[], Any]:
    """A launch through a driver."""
    from dsalang._runtime.driver.launch import launcher as driven

    names = [argument.name for argument in image.arguments]

    def prepared(flag: int = 1) -> Callable[[], Any]:
        bits = dict(zip(names, bits_of(arguments, names, flag)))
        return driven(device, image, bits, arguments.pointers, grid)

    if image.residency is not None:
        sources, identity = kept_by(image, arguments)

        def run(flag: int, _: Kept) -> Any:
            return prepared(flag)()

        return partial(sram.launch, image, identity, sources, run)
    plain = prepared()

    def evict_and_run() -> Any:
        sram.evict(0, image.sram_bytes)
        return plain()

    return evict_and_run


def target_of(device: runtime_device.Device, options: Mapping[str, Any]) -> Target:
    """What a launch that names no target is compiled for: the device, or the stream's part of it."""
    stream = options.get("stream")
    return device.target if stream is None else stream.target


def _check_stream(stream: device_streams.Stream, image: Image, target: Target) -> None:
    if stream.part and target.digest != stream.target.digest:
        raise LaunchError(
            f"kernel {image.name!r} is compiled for {target.name}, {stream.name} is {stream.target.name}",
            hint="leave target= out",
        )
    if stream.realtime and image.timing is None:
        raise LaunchError(
            f"kernel {image.name!r} has no static schedule, {stream.name} is a real-time stream",
            hint='compile it with @dsa.jit(schedule="static"), or launch it with schedule="static"',
        )


def submitted(
    device: runtime_device.Device | None,
    run: Callable[[], Any],
    options: Mapping[str, Any],
    name: str,
    arguments: Arguments,
) -> Callable[[], Any]:
    """A launch as its stream makes it; without one it waits for all that the device's streams have."""
    stream: device_streams.Stream | None = options.get("stream")
    owners = [view.owner for view in arguments.pointers.values()]
    if stream is not None:

        def submit() -> Pending:
            return stream.launch(run, name, owners)

        return submit

    def wait_and_run() -> Any:
        if device is not None:
            device.synchronize()
        return run()

    return wait_and_run
