"""The cache of device images and of the host code made from them: files named by the hash of everything they depend on.

Safe with many processes at once and with a process killed at any point: an entry is a whole ELF file that
appears by a rename, its own digest is checked when it is read, and what does not check is made again. A lock
only keeps two processes from compiling the same kernel; nobody waits for it for ever. A folder that cannot
be used costs a warning, not the launch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dsalang._backend.errors import ImageError
from dsalang._backend.image.elf import load, save
from dsalang._backend.image.model import Image

from .files import write_atomically

LOCK_SECONDS = 30.0
"""How long a process waits for another one that compiles the same kernel before it compiles too."""

_SUFFIX, _OBJECT = ".elf", ".o"


class CacheWarning(RuntimeWarning):
    """The cache folder cannot be used; kernels compile in every process."""


@dataclass(frozen=True)
class CacheInfo:
    """What a cache folder holds."""

    folder: Path
    entries: int
    bytes: int


def default_folder() -> Path:
    """The cache folder of the user, by the conventions of the operating system."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("dsalang", appauthor=False)) / "images"


class Cache:
    """Images in a folder. `warn` says whether an unusable folder is worth a warning (once per object)."""

    def __init__(self, folder: Path, warn: bool = True, lock_seconds: float = LOCK_SECONDS) -> None:
        self.folder = folder
        self.lock_seconds = lock_seconds
        self._warn = warn

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

    def path(self, key: str) -> Path:
        """The file of a key."""
        return self.folder / key[:2] / f"{key}{_SUFFIX}"

    def read(self, key: str, fits: Callable[[Image], bool] = lambda image: True) -> Image | None:
        """The image of a key; None when there is none, or one that is damaged or does not fit."""
        try:
            data = self.path(key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._unusable(error)
            return None
        try:
            image = load(data)
        except ImageError:
            return None
        return image if fits(image) else None

    def write(self, key: str, image: Image) -> None:
        """Keep an image. A folder that cannot be written is not an error."""
        self._write(self.path(key), save(image))

    def read_object(self, key: str) -> bytes | None:
        """The file of host code of a key, unchecked; None when there is none."""
        try:
            return self.path(key).with_suffix(_OBJECT).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._unusable(error)
            return None

    def write_object(self, key: str, data: bytes) -> None:
        """Keep a file of host code; it has its own digest inside."""
        self._write(self.path(key).with_suffix(_OBJECT), data)

    def _write(self, path: Path, data: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, data)
        except OSError as error:
            self._unusable(error)

    def info(self) -> CacheInfo:
        """Number of the images; their size with that of the host code beside them."""
        sizes = [_size(path) for path in self._files(_SUFFIX)]
        host = sum(_size(path) for path in self._files(_OBJECT))
        return CacheInfo(self.folder, len(sizes), sum(sizes) + host)

    def clear(self) -> int:
        """Delete all entries, and what killed processes have left. Returns the number of entries."""
        count = 0
        for suffix in (_SUFFIX, _OBJECT, ".tmp"):
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
        import filelock  # a process that finds everything in the cache needs no locks

        lock = None
        try:
            folder = self.folder / "locks"
            folder.mkdir(parents=True, exist_ok=True)
            # One file per key would pile up; two keys that share one only wait for each other.
            candidate = filelock.FileLock(folder / f"{key[:2]}.lock")
            candidate.acquire(timeout=self.lock_seconds)
            lock = candidate
        except filelock.Timeout:
            pass
        except (OSError, NotImplementedError) as error:
            self._unusable(error)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()

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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
