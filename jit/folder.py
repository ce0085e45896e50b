"""The cache folder that the knobs name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from dsalang._runtime.cache import Cache, default_folder

from . import knobs


def open_cache() -> Cache | None:
    """The cache that the knobs name; None when it is switched off."""
    if not knobs.CACHE.get():
        return None
    return _cache(cache_folder(), knobs.WARN.get() is not False, knobs.CACHE_MAX_BYTES.get())


def cache_folder() -> Path:
    """Where images are kept."""
    folder = knobs.CACHE_DIR.get()
    return Path(folder).expanduser() if folder else default_folder()


@cache
def _cache(folder: Path, warn: bool, max_bytes: int) -> Cache:
    return Cache(folder, warn, max_bytes=max_bytes)
