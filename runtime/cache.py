"""The cache of device images and of the host code made from them: files named by the hash of everything they depend on.

Safe with many processes at once and with a process killed at any point: an entry is a whole ELF file that
appears by a rename, its own digest is checked when it is read, and what does not check is made again. A lock
only keeps two processes from compiling the same kernel; nobody waits for it for ever. A folder that cannot
be used costs a warning, not the launch.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dsalang._backend.errors import ImageError

from .files import write_atomically
from .locks import locked

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image

LOCK_SECONDS = 30.0
"""How long a process waits for another one that compiles the same kernel before it compiles too."""

MAX_BYTES = 1 << 30
"""How large a folder may become."""

_SUFFIX, _OBJECT, _NOTE, _TEMPORARY = ".elf", ".o", ".note", ".tmp"
_TOUCH_SECONDS = 60.0
"""How exactly the time of the last use is known."""


class CacheWarning(RuntimeWarning):
    """The cache folder cannot be used; kernels compile in every process."""


class CacheInfo(NamedTuple):
    """What a cache folder holds."""

    folder: Path
    entries: int
    bytes: int


def default_folder() -> Path:
    """The cache folder of the user, by the conventions of the operating system."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("dsalang", appauthor=False)) / "images"


class Cache:
    """Images in a folder, and what goes with them.

    Args:
        warn: whether an unusable folder is worth a warning (once per object).
        max_bytes: how large the folder may become; what was not used for longest goes first.
    """

    def __init__(
        self,
        folder: Path,
        warn: bool = True,
        lock_seconds: float = LOCK_SECONDS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.folder = folder
        self.lock_seconds = lock_seconds
        self.max_bytes = max_bytes
        self._warn = warn
        self._unseen = max_bytes  # bytes written since the folder was last looked through

    def image(self, key: str, fits: Callable[[Image], bool], make: Callable[[], Image]) -> Image:
        """The image for a key (a hex digest): from the folder, or made and kept there.

        Args:
            key: the hash of everything that the image depends on.
            fits: a last look at what was found; False has it made again.
            make: compiles.
        """
        found = self.read(key, fits)
        if found is not None:
            return found
        with self._locked(key) as waited:
            found = self.read(key, fits) if waited else None
            if found is not None:
                return found
            image = make()
            self.write(key, image)
            return image

    def path(self, key: str, suffix: str = _SUFFIX) -> Path:
        """The file of a key."""
        return self.folder / key[:2] / f"{key}{suffix}"

    def has(self, key: str) -> bool:
        """Whether there is a file of this key, read or not."""
        return self.path(key).exists()

    def read(self, key: str, fits: Callable[[Image], bool] = lambda image: True) -> Image | None:
        """The image of a key; None when there is none, or one that is damaged or does not fit."""
        from dsalang._backend.image.elf import load  # host code that is found needs no image

        data = self._read(key, _SUFFIX)
        if data is None:
            return None
        try:
            image = load(data)
        except ImageError:
            return None
        return image if fits(image) else None

    def write(self, key: str, image: Image) -> None:
        """Keep an image. A folder that cannot be written is not an error."""
        from dsalang._backend.image.elf import save

        self._write(key, _SUFFIX, save(image))

    def read_object(self, key: str) -> bytes | None:
        """The file of host code of a key, unchecked; None when there is none."""
        return self._read(key, _OBJECT)

    def write_object(self, key: str, data: bytes) -> None:
        """Keep a file of host code; it has its own digest inside."""
        self._write(key, _OBJECT, data)

    def note(self, key: str, make: Callable[[], str]) -> str:
        """A short text that takes longer to make than to read: from the folder, or made and kept there."""
        data = self._read(key, _NOTE)
        if data is not None:
            digest, _, text = data.partition(b"\n")
            if digest == _digest(key, text):
                return text.decode()
        made = make()
        text = made.encode()
        self._write(key, _NOTE, _digest(key, text) + b"\n" + text)
        return made

    def _read(self, key: str, suffix: str) -> bytes | None:
        path = os.path.join(self.folder, key[:2], f"{key}{suffix}")
        try:
            with open(path, "rb") as file:
                data = file.read()
                used = os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        except OSError as error:
            self._unusable(error)
            return None
        if abs(time.time() - used) > _TOUCH_SECONDS:
            with suppress(OSError):  # gone meanwhile, or a folder to read from only
                os.utime(path)
        return data

    def _write(self, key: str, suffix: str, data: bytes) -> None:
        try:
            self._put(os.path.join(self.folder, key[:2]), f"{key}{suffix}", data)
        except OSError as error:
            self._unusable(error)
            return
        self._unseen += len(data)
        # Looked through at a process's first write, then after each 64th part of the limit.
        if self._unseen >= self.max_bytes // 64:
            self._unseen = 0
            from .cache_limit import trim

            trim(self.folder, self.max_bytes)

    @staticmethod
    def _put(folder: str, name: str, data: bytes) -> None:
        path = os.path.join(folder, name)
        try:
            write_atomically(path, data)
        except FileNotFoundError:  # the first of its folder
            os.makedirs(folder, exist_ok=True)
            write_atomically(path, data)

    def info(self) -> CacheInfo:
        """Number of the images; their size with that of what goes with them."""
        sizes = [_size(path) for path in self._files(_SUFFIX)]
        others = sum(_size(path) for suffix in (_OBJECT, _NOTE) for path in self._files(suffix))
        return CacheInfo(self.folder, len(sizes), sum(sizes) + others)

    def clear(self) -> int:
        """Delete all entries, and what killed processes have left. Returns the number of entries."""
        count = 0
        for suffix in (_SUFFIX, _OBJECT, _NOTE, _TEMPORARY):
            for path in self._files(suffix):
                try:
                    path.unlink()
                except OSError:
                    continue
                count += suffix == _SUFFIX
        return count

    def _files(self, suffix: str) -> Iterator[Path]:
        # Only what this class has written: a user may point DSA_CACHE_DIR at a folder with other files.
        for folder in sorted(self.folder.glob("[0-9a-f][0-9a-f]")):
            yield from sorted(p for p in folder.iterdir() if p.name.endswith(suffix))

    @contextmanager
    def _locked(self, key: str) -> Iterator[bool]:
        """Hold the lock of a key; yields whether another process may have made the image meanwhile."""
        path = self.folder / "locks" / f"{key[:2]}.lock"
        # One file per key would pile up; two keys that share one only wait for each other.
        with ExitStack() as stack:
            held = False
            try:
                held = stack.enter_context(locked(path, self.lock_seconds))
            except (OSError, NotImplementedError) as error:
                self._unusable(error)
            yield held

    def _unusable(self, error: Exception) -> None:
        if not self._warn:
            return
        self._warn = False
        warnings.warn(
            f"the kernel cache in {self.folder} cannot be used ({error}); kernels compile in every process. "
            "Set DSA_CACHE_DIR to a folder that can be written, or DSA_CACHE=0.",
            CacheWarning,
            stacklevel=2,
        )


def _digest(key: str, text: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + text).hexdigest().encode()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
