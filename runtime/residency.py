"""What stays in the SRAM of a device's cores from one launch to the next, and whether it is still right.

An image with a `Residency` loads tiles of some arrays into a region at the end of the SRAM, or finds them there: its
flag says which. They are there when the same image ran with the same values of everything that the tiles depend on, no
other launch has used the region since, and the arrays hold the bytes that they held then.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from .arrays import ArrayView, extents_of

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image

Result = TypeVar("Result")
Bytes = NDArray[np.uint8]


@dataclass(eq=False)
class Kept:
    """Bytes [start, stop) of the SRAM of cores, by core; of none before something has run."""

    start: int
    stop: int
    cores: dict[int, Bytes] = field(default_factory=dict)

    def restore(self, core: int, sram: Bytes) -> bool:
        """Put the bytes of a core back; False when there are none."""
        found = self.cores.get(core)
        if found is None:
            return False
        sram[self.start : self.stop] = found
        return True

    def save(self, core: int, sram: Bytes) -> None:
        """Remember the bytes of a core."""
        found = self.cores.get(core)
        if found is None:
            self.cores[core] = sram[self.start : self.stop].copy()
        else:
            found[:] = sram[self.start : self.stop]


class Sources:
    """The arrays that a launch keeps tiles of, at one time.

    Host memory is compared byte by byte: nothing else sees every write of every library. Memory that only a driver
    reaches changes by way of device arrays, which count that.
    """

    def __init__(self, pointers: dict[str, ArrayView], names: Sequence[str]) -> None:
        reachable = [
            item for item in pointers.items() if not getattr(item[1].owner, "on_driver", False)
        ]
        found = [e for e in extents_of(reachable)[0] if not set(names).isdisjoint(e.names)]
        found.sort(key=lambda extent: extent.names)  # wherever they lie
        # Not the extents: a launch that is remembered must not keep arrays alive.
        self._ranges = [(extent.start, extent.stop) for extent in found]
        self._owners = [
            view.owner
            for name, view in pointers.items()
            if name in names and getattr(view.owner, "on_driver", False)
        ]
        self.geometry: Hashable = tuple(
            (name, view.address - view.start, view.stop - view.start)
            for name, view in sorted(pointers.items())
            if name in names
        )

    def state(self) -> State:
        """The arrays as they are now."""
        versions = [(owner, getattr(owner, "version", 0)) for owner in self._owners]
        return State([_bytes(*ends).copy() for ends in self._ranges], versions)

    def equals(self, state: State) -> bool:
        """Whether the arrays are as they were."""
        if len(self._ranges) != len(state.contents) or len(self._owners) != len(state.versions):
            return False
        return all(
            owner is before and getattr(owner, "version", 0) == version
            for owner, (before, version) in zip(self._owners, state.versions)
        ) and all(
            np.array_equal(_bytes(*ends), content)
            for ends, content in zip(self._ranges, state.contents)
        )


def _bytes(start: int, stop: int) -> Bytes:
    """Memory of the host, whose owner is alive."""
    raw = (ctypes.c_uint8 * (stop - start)).from_address(start)
    return np.ctypeslib.as_array(raw)


@dataclass(frozen=True)
class State:
    """Bytes of host arrays, and device arrays with their versions."""

    contents: list[Bytes]
    versions: list[tuple[object, int]]


@dataclass(eq=False)
class Held:
    """What a launch has left, and what it was made of."""

    key: Hashable
    kept: Kept
    state: State | None


class Sram:
    """The SRAM of some cores between launches. Threads may share it; launches that leave something take turns."""

    def __init__(self) -> None:
        self.held: list[Held] = []
        self.lock = threading.RLock()

    def clear(self) -> None:
        """Nothing of what is there counts from now on."""
        self.evict(0, 1 << 62)

    def evict(self, start: int, stop: int) -> None:
        """Bytes [start, stop) are used for something else."""
        if self.held and start < stop:
            with self.lock:
                self.held = [h for h in self.held if stop <= h.kept.start or h.kept.stop <= start]

    def find(self, key: Hashable) -> Held | None:
        """What a launch of this key has left, if nothing has used its region since."""
        return next((held for held in self.held if held.key == key), None)

    def launch(
        self, image: Image, key: Hashable, sources: Sources, run: Callable[[int, Kept], Result]
    ) -> Result:
        """Run an image that keeps something; `run` gets the flag, 1 to load, and the bytes that are there."""
        region = image.residency
        assert region is not None
        with self.lock:
            self.evict(0, image.working_bytes)
            found = self.find(key)
            if found is None or found.state is None or not sources.equals(found.state):
                self.evict(region.start, region.stop)
                kept = Kept(region.start, region.stop)
                state = sources.state()
                result = run(1, kept)
                self.held.append(Held(key, kept, state))
                return result
            try:
                return run(0, found.kept)
            except BaseException:
                self.evict(region.start, region.stop)
                raise

    def obey(
        self, image: Image, key: Hashable, load: bool, run: Callable[[Kept], Result]
    ) -> Result:
        """Run an image that was told whether to load, as a device does. Raises KeyError for what is not there."""
        region = image.residency
        assert region is not None
        with self.lock:
            self.evict(0, image.working_bytes)
            found = self.find(key)
            if not load and found is None:
                raise KeyError(key)
            self.evict(region.start, region.stop)
            kept = Kept(region.start, region.stop) if found is None or load else found.kept
            result = run(kept)
            self.held.append(Held(key, kept, None))
            return result
