"""The version of the compiler as far as code depends on it: a hash of its own files."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from dsalang._runtime.installed import version_of

from .folder import open_cache

LIBRARIES = ("llvmlite", "xdsl")
"""Packages whose version changes code."""

PACKAGES = ("dsalang._jit", "dsalang._backend", "dsalang._runtime")

_SETTLED_SECONDS = 2.0
"""A file that changed no longer ago may change again without other times or another size."""


@lru_cache(maxsize=1)
def compiler_version() -> str:
    """A hash of the front end's, the compiler's, the runtime's files and of the libraries under them.

    By content, not by a version number: editing the compiler must not bring back what the old one made. What
    the contents hash to is remembered in the cache folder for the files' places, sizes and times.
    """
    folders = [str(sys.modules[package].__path__[0]) for package in PACKAGES]
    files = [file for folder in folders for file in sorted(_files(folder, ""))]
    newest = max(max(stat.st_mtime, stat.st_ctime) for _, _, stat in files)
    cache = open_cache() if time.time() - newest > _SETTLED_SECONDS else None
    if cache is None:
        return _contents(files)
    parts = [
        f"{path} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}" for path, _, stat in files
    ]
    seen = "\0".join(["compiler", _libraries(), *parts])
    return cache.note(hashlib.sha256(seen.encode()).hexdigest(), lambda: _contents(files))


File = tuple[str, str, os.stat_result]
"""Where a file is, its path in its package, and what the system says of it."""


def _files(folder: str, inside: str) -> Iterator[File]:
    # Without pathlib, whose objects take longer to make than the system calls.
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, inside + entry.name, entry.stat()
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _files(entry.path, f"{inside}{entry.name}/")


def _libraries() -> str:
    return " ".join([f"python {sys.version_info[:2]}", *map(version_of, LIBRARIES)])


def _contents(files: list[File]) -> str:
    digest = hashlib.sha256(_libraries().encode())
    for path, name, _ in files:
        digest.update(f"\0{name}\0".encode())
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()
