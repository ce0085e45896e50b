"""Locks between processes: a file that one of them holds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[bool]:
    """Hold the lock that is the file `path`; yields whether it is held, False when others held it for `seconds`.

    Raises OSError or NotImplementedError when there can be no such file, or no locks where it is.
    """
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
    file = _taken_at_once(path)
    if file is not None:
        try:
            yield True
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # a child process may have the file, too
            os.close(file)
        return
    import filelock  # waits, on every system, but takes longer for a free lock than all else of a small launch

    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=seconds)
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _taken_at_once(path: Path) -> int | None:
    """The open file of a lock that was free; None when it is not, or where this cannot be told."""
    if sys.platform == "win32":
        return None
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file
