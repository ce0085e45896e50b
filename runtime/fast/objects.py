"""Host objects of this process and on disk.

A file on disk starts with a digest over its key and its contents, so that one that was damaged, cut off or
put in another's place is made again and never runs.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from . import host
from .loader import Code, load

_MAGIC = b"dsahost\1"
_DIGEST, _LENGTH = 32, 8
_NOTHING: Mapping[str, int] = {}
_lock = threading.Lock()
_loaded: dict[str, Code] = {}


class ObjectCache(Protocol):
    """Where objects are kept: files by a hex key."""

    def read_object(self, key: str) -> bytes | None:
        """The file of a key, None when there is none."""

    def write_object(self, key: str, data: bytes) -> None:
        """Keep a file."""


def find(
    cache: ObjectCache | None, key: str, names: tuple[str, ...], known: Mapping[str, int] = _NOTHING
) -> Code | None:
    """The code of a key: loaded before, or from the cache. Arguments as in `load_or_make`."""
    with _lock:
        return _find(cache, _full(key), names, known)


def load_or_make(
    cache: ObjectCache | None,
    key: str,
    make_text: Callable[[], str],
    names: tuple[str, ...],
    thorough: bool = False,
    note: bytes = b"",
    known: Mapping[str, int] = _NOTHING,
) -> Code:
    """The code of a key: loaded before, from the cache, or compiled from LLVM IR text and kept.

    Args:
        key: what the text depends on; the host is added to it.
        names: the functions that are wanted.
        thorough: as in `host.compile_object`.
        note: what `Code.note` is to hold, kept beside the object.
        known: addresses of functions that the text refers to.
    """
    full = _full(key)
    with _lock:
        code = _find(cache, full, names, known)
        if code is None:
            data = host.compile_object(make_text(), thorough)
            if cache is not None:
                body = len(note).to_bytes(_LENGTH, "little") + note + data
                cache.write_object(full, _MAGIC + _digest(full, body) + body)
            code = _loaded[full] = load(data, names, note, known)
        return code


def _full(key: str) -> str:
    return hashlib.sha256(f"{key}\0{host.fingerprint()}".encode()).hexdigest()


def _find(
    cache: ObjectCache | None, full: str, names: tuple[str, ...], known: Mapping[str, int]
) -> Code | None:
    code = _loaded.get(full)
    if code is None and cache is not None:
        body = _checked(full, cache.read_object(full))
        if body is not None:
            end = _LENGTH + int.from_bytes(body[:_LENGTH], "little")
            code = _loaded[full] = load(body[end:], names, body[_LENGTH:end], known)
    return code


def _digest(key: str, body: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + body).digest()


def _checked(key: str, file: bytes | None) -> bytes | None:
    head = len(_MAGIC) + _DIGEST
    if file is None or len(file) < head + _LENGTH or file[: len(_MAGIC)] != _MAGIC:
        return None
    body = file[head:]
    return body if file[len(_MAGIC) : head] == _digest(key, body) else None
