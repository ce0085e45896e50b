"""`dsa_driver.h` in Python: a driver's library loaded with ctypes, its errors as exceptions."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from dsalang._backend.errors import DeviceError, ImageError, LaunchError, UserError

from .mailbox import Status

ABI = 1
_WAIT_MS = 50
"""How long a wait holds on to the thread; between waits Python sees signals."""

_CLOSE_SECONDS = 5.0


class Properties(ctypes.Structure):
    """`dsa_properties`."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("cores", ctypes.c_uint32),
        ("clock_mhz", ctypes.c_uint32),
        ("align_bytes", ctypes.c_uint32),
        ("memory_bytes", ctypes.c_uint64),
        ("target", ctypes.c_char * 64),
        ("target_digest", ctypes.c_char * 32),
    )


_U32, _U64, _POINTER, _INT = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int
_PROTOTYPES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "dsa_abi": (_U32, ()),
    "dsa_open": (_INT, (_U32, _U32, _POINTER)),
    "dsa_get_properties": (_INT, (_POINTER, _POINTER)),
    "dsa_alloc": (_INT, (_POINTER, _U64, _POINTER)),
    "dsa_free": (_INT, (_POINTER, _U64)),
    "dsa_copy_in": (_INT, (_POINTER, _U32, _U64, _POINTER, _U64)),
    "dsa_copy_out": (_INT, (_POINTER, _U32, _POINTER, _U64, _U64)),
    "dsa_load_image": (_INT, (_POINTER, _POINTER, _U64, _POINTER)),
    "dsa_launch": (_INT, (_POINTER, _U32, _U32, _POINTER, _U32, _POINTER)),
    "dsa_event_record": (_INT, (_POINTER, _U32, _POINTER)),
    "dsa_event_wait": (_INT, (_POINTER, _U64, _U32)),
    "dsa_event_elapsed": (_INT, (_POINTER, _U64, _U64, _POINTER)),
    "dsa_last_error": (ctypes.c_char_p, ()),
    "dsa_close": (None, (_POINTER,)),
}


def load_library(path: str | Path) -> ctypes.CDLL:
    """A driver's library with all functions declared. Raises DeviceError when it is none, or of another ABI."""
    try:
        library = ctypes.CDLL(os.fspath(path))
    except OSError as error:
        raise DeviceError(
            f"cannot load driver {path}: {error}",
            hint="a driver is the path of a shared library; the emulator needs none: dsa.Device(target=...)",
        ) from None
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name, None)
        if function is None:
            raise DeviceError(f"driver {path} is no dsalang driver: it has no {name}")
        function.restype, function.argtypes = result, arguments
        if name == "dsa_abi" and (found := function()) != ABI:
            raise DeviceError(
                f"driver {path} has ABI version {found}, this dsalang needs version {ABI}",
                hint="build the driver with the dsa_driver.h of this dsalang",
            )
    return library


class Driver:
    """An open device of a driver.

    Every method raises a UserError with the driver's sentence: ImageError for an image that the device refuses,
    LaunchError for memory that does not suffice and arguments that make no sense, DeviceError for the rest.

    Attributes:
        lost: the device is gone; every further call fails.
        closed: `close` has been called.
        timing: to be held by whoever measures the time of a launch, so that no other comes between.
    """

    def __init__(self, path: str | Path, index: int = 0) -> None:
        self.path, self.lost = str(path), False
        self._library = load_library(path)
        self._handle = ctypes.c_void_p()
        self.closed = False
        self._calls, self._idle = 0, threading.Condition()
        self._images: dict[bytes, int] = {}
        self._lock = threading.Lock()
        self.timing = threading.Lock()
        self._call("dsa_open", ABI, index, ctypes.byref(self._handle))
        self.properties = Properties(size=ctypes.sizeof(Properties))
        self._call("dsa_get_properties", self._handle, ctypes.byref(self.properties))

    def _call(self, name: str, *arguments: object) -> None:
        with self._idle:
            if self.closed:
                raise DeviceError(f"the device of driver {self.path} is closed")
            self._calls += 1
        try:
            status = getattr(self._library, name)(*arguments)
            if status != Status.OK:
                raise self._error(name, status)
        finally:
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()

    def _error(self, name: str, status: int) -> UserError:
        text = (self._library.dsa_last_error() or b"").decode("utf-8", "replace")
        message = f"{text or f'{name} returned {status}'} (driver {self.path})"
        if status in (Status.LOST, Status.CORRUPT):
            self.lost = True
            return DeviceError(message, hint="open the device again")
        if status == Status.BAD_IMAGE:
            return ImageError(message)
        if status in (Status.NO_MEMORY, Status.BAD_ARGUMENT):
            return LaunchError(message)
        return TimedOutError(message) if status == Status.TIMEOUT else DeviceError(message)

    def alloc(self, size: int) -> int:
        """Device memory of `size` bytes; its address."""
        address = ctypes.c_uint64()
        self._call("dsa_alloc", self._handle, size, ctypes.byref(address))
        return address.value

    def free(self, address: int) -> None:
        """Give memory back."""
        self._call("dsa_free", self._handle, address)

    def copy_in(self, to: int, source: int, size: int, stream: int = 0) -> None:
        """Copy `size` bytes from host address `source` to device address `to`."""
        self._call("dsa_copy_in", self._handle, stream, to, source, size)

    def copy_out(self, to: int, source: int, size: int, stream: int = 0) -> None:
        """Copy `size` bytes from device address `source` to host address `to`."""
        self._call("dsa_copy_out", self._handle, stream, to, source, size)

    def load(self, file: bytes) -> int:
        """The number of a loaded image. A file that has been loaded before is not loaded again."""
        with self._lock:
            number = self._images.get(file)
            if number is None:
                found = ctypes.c_uint32()
                self._call("dsa_load_image", self._handle, file, len(file), ctypes.byref(found))
                number = self._images[file] = found.value
            return number

    def launch(
        self, image: int, arguments: Sequence[int], grid: tuple[int, int, int], stream: int = 0
    ) -> None:
        """Start a kernel."""
        values = (ctypes.c_int64 * len(arguments))(*arguments)
        sizes = (ctypes.c_uint32 * 3)(*grid)
        self._call("dsa_launch", self._handle, stream, image, values, len(arguments), sizes)

    def record(self, stream: int = 0) -> int:
        """An event on a stream."""
        event = ctypes.c_uint64()
        self._call("dsa_event_record", self._handle, stream, ctypes.byref(event))
        return event.value

    def wait(self, event: int) -> None:
        """Wait until an event is reached; raises the error of a launch before it."""
        while True:
            try:
                return self._call("dsa_event_wait", self._handle, event, _WAIT_MS)
            except TimedOutError:
                continue

    def elapsed(self, start: int, end: int) -> float:
        """Microseconds of device time between two events that have been reached."""
        microseconds = ctypes.c_double()
        self._call("dsa_event_elapsed", self._handle, start, end, ctypes.byref(microseconds))
        return microseconds.value

    def abandon(self) -> None:
        """Give the device up with whatever runs on it."""
        self.lost = True
        self.close()

    def close(self) -> None:
        """Let go of the device; it can be called again and again. A call that never ends keeps it open."""
        with self._idle:
            if self.closed:
                return
            self.closed = True
            left = not self._idle.wait_for(lambda: self._calls == 0, _CLOSE_SECONDS)
        if self._handle and not left:
            self._library.dsa_close(self._handle)


class TimedOutError(DeviceError):
    """A wait that ended before what it waited for."""
