"""Work without garbage collection in between.

A compilation makes some ten thousand objects that all live until its end. The collector would look at them again and
again, find nothing, and take them for long-lived: looking through everything that a process has is what follows.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_depth = 0
_was_enabled = False


@contextmanager
def paused() -> Iterator[None]:
    """Keep Python's collector from running within the block, in all threads; for work that is over soon."""
    global _depth, _was_enabled
    with _lock:
        if not _depth:
            _was_enabled = gc.isenabled()
            gc.disable()
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth = max(0, _depth - 1)  # a fork within the block has begun anew
            if not _depth and _was_enabled:
                gc.enable()


def _after_fork() -> None:
    """A child process has none of the threads that were in a block."""
    global _lock, _depth
    if _depth and _was_enabled:
        gc.enable()
    _lock, _depth = Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
