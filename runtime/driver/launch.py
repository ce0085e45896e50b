"""A launch through a driver: host arrays go to the device and come back, device arrays stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dsalang._backend.errors import DsaError
from dsalang._backend.image.model import Image
from dsalang._backend.isa.table import Engine

from ..arrays import ArrayView, Extent, extents_of
from ..report import Run
from ..stats import CoreStats
from .binding import Driver

if TYPE_CHECKING:
    from ..device import Device

_KEEP = 64
"""Addresses on the device equal those on the host modulo this, so that what an image takes for granted holds."""


def launcher(
    device: Device,
    image: Image,
    bits: Mapping[str, int],
    pointers: Mapping[str, ArrayView],
    grid: tuple[int, int, int],
) -> Callable[[], Run]:
    """A launch made ready.

    Args:
        bits: every argument as the i64 that the glue gets; that of a host array is replaced.
        pointers: the arrays among them.

    The report has the time between two events around the kernel, and nothing else.
    """
    from ..device_array import DeviceArray

    host = [item for item in pointers.items() if not isinstance(item[1].owner, DeviceArray)]
    extents, _ = extents_of(host)

    def run() -> Run:
        driver = device.driver
        assert driver is not None
        placed: list[tuple[Extent, int, int]] = []
        try:
            for extent in extents:
                buffer = driver.alloc(extent.stop - extent.start + _KEEP)
                placed.append((extent, buffer, buffer + extent.start % _KEEP))
                driver.copy_in(placed[-1][2], extent.start, extent.stop - extent.start)
            values = [
                _moved(bits[a.name], pointers[a.name], placed)
                if a.name in dict(host)
                else bits[a.name]
                for a in image.arguments
            ]
            microseconds = _timed(driver, image, values, grid)
            _count_writes(image, pointers)
            for extent, _, at in placed:
                if extent.writable:
                    driver.copy_out(extent.start, at, extent.stop - extent.start)
        except DsaError:
            raise
        except BaseException:
            # Interrupted: the kernel may still run, and nothing says when its memory is free again.
            driver.abandon()
            raise
        finally:
            _free(driver, [buffer for _, buffer, _ in placed])
        cycles = round(microseconds * device.target.clock_mhz)
        return Run(image, device.target, (CoreStats(0, cycles=cycles),))

    return run


def _count_writes(image: Image, pointers: Mapping[str, ArrayView]) -> None:
    """Device arrays that the kernel may have written are no longer what they were."""
    from ..device_array import DeviceArray

    stores = {
        template.hbm_arg
        for template in image.templates
        if template.instruction.engine is Engine.ST and "hbm" in template.instruction.fields
    }
    for number, argument in enumerate(image.arguments):
        view = pointers.get(argument.name)
        written = number in stores or -1 in stores
        if view is not None and written and isinstance(view.owner, DeviceArray):
            view.owner.version += 1


def _moved(address: int, view: ArrayView, placed: list[tuple[Extent, int, int]]) -> int:
    for extent, _, at in placed:
        if extent.start <= view.start < extent.stop:
            return address - extent.start + at
    return address  # an empty array, which nothing reaches


def _timed(driver: Driver, image: Image, values: list[int], grid: tuple[int, int, int]) -> float:
    number = driver.load(image.file)
    with driver.timing:
        before = driver.record()
        driver.launch(number, values, grid)
        after = driver.record()
        driver.wait(after)
        return driver.elapsed(before, after)


def _free(driver: Driver, buffers: list[int]) -> None:
    for buffer in buffers:
        if driver.lost:
            return
        try:
            driver.free(buffer)
        except DsaError:  # the launch's own error says more
            return
