"""Host objects of this process and on disk.

A file on disk starts with a digest over its key and its contents, so that one that was damaged, cut off or
put in another's place is made again and never runs.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Protocol

from . import host
from .loader import Code, load

_MAGIC = b"dsahost\0"
_lock = threading.Lock()
_loaded: dict[str, Code] = {}


class ObjectCache(Protocol):
    """Where objects are kept: files by a hex key."""

    def read_object(self, key: str) -> bytes | None:
        """The file of a key, None when there is none."""

    def write_object(self, key: str, data: bytes) -> None:
        """Keep a file."""


def load_or_make(
    cache: ObjectCache | None,
    key: str,
    make_text: Callable[[], str],
    names: tuple[str, ...],
    thorough: bool = False,
) -> Code:
    """The code of a key: loaded before, from the cache, or compiled from LLVM IR text and kept.

    Args:
        key: what the text depends on; the host is added to it.
        names: the functions that are wanted.
        thorough: as in `host.compile_object`.
    """
    full = hashlib.sha256(f"{key}\0{host.fingerprint()}".encode()).hexdigest()
    with _lock:
        code = _loaded.get(full)
        if code is not None:
            return code
        data = None if cache is None else _checked(full, cache.read_object(full))
        if data is None:
            data = host.compile_object(make_text(), thorough)
            if cache is not None:
                cache.write_object(full, _MAGIC + _digest(full, data) + data)
        code = _loaded[full] = load(data, names)
        return code


def _digest(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + data).digest()


def _checked(key: str, file: bytes | None) -> bytes | None:
    head = len(_MAGIC) + 32
    if file is None or len(file) < head or file[: len(_MAGIC)] != _MAGIC:
        return None
    data = file[head:]
    return data if file[len(_MAGIC) : head] == _digest(key, data) else None
