"""Keeps a cache folder within its limit: what was not used for longest goes.

Safe beside readers, writers and others that do the same: a file is deleted whole, whoever has it open reads it to
its end, and whoever misses it makes it again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_KEPT = 0.9
"""How full a folder is after a clearance, so that not every write needs one."""
_STALE_SECONDS = 3600.0
"""Age of temporary files that nobody writes any more."""


class _File(NamedTuple):
    used: float
    path: str
    bytes: int


def trim(folder: Path, max_bytes: int) -> int:
    """Delete files that were not used for longest if there are more bytes than allowed, and what killed processes left.

    Returns the number of bytes that are left.
    """
    files = list(_files(folder))
    stale = time.time() - _STALE_SECONDS
    for file in files:
        if file.path.endswith(".tmp") and file.used < stale:
            _delete(file)
    files = sorted(file for file in files if not file.path.endswith(".tmp"))
    total = sum(file.bytes for file in files)
    if total <= max_bytes:
        return total
    for file in files:
        if total <= max_bytes * _KEPT:
            break
        _delete(file)
        total -= file.bytes
    return total


def _files(folder: Path) -> Iterator[_File]:
    for name in _names(str(folder)):
        # Only what the cache has written: a user may point DSA_CACHE_DIR at a folder with other files.
        if len(os.path.basename(name)) != 2:
            continue
        for path in _names(name):
            if not path.endswith((".elf", ".o", ".note", ".tmp")):
                continue
            try:
                stat = os.stat(path)
            except OSError:  # another process was faster
                continue
            yield _File(stat.st_mtime, path, stat.st_size)


def _names(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:
        return []


def _delete(file: _File) -> None:
    with suppress(OSError):  # gone, or in use on a system that minds
        os.unlink(file.path)
