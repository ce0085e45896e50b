"""Arrays that kernels reach by addresses found in memory: tables of pointers, as grouped products pass them.

Only the integers of the arguments say which arrays those are. An array counts when it is alive, on the host, and one of
the integers is an address in it; everything else stays out of bounds.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsalang._backend.errors import LaunchError

from .arrays import ArrayView, view_of

Named = tuple[str, ArrayView]
_LOWEST = 1 << 16
"""No array stands below; smaller integers are not looked up."""


def pointed_to(arguments: Sequence[Named], numbers: Iterable[tuple[str, int]] = ()) -> list[Named]:
    """The arrays that 64-bit integers among the arguments point into, those that these point to, and so on.

    Args:
        arguments: the arrays of a launch; what they reach themselves is not looked for.
        numbers: integer arguments.

    Returns:
        Each with the name of the argument that points to it, and a star.
    """
    tables = [(name, _integers(view)) for name, view in arguments]
    tables += [(name, np.array([value & (1 << 64) - 1], np.uint64)) for name, value in numbers]
    known = [view for _, view in arguments]
    found: list[Named] = []
    alive: _Alive | None = None
    while tables:
        name, values = tables.pop(0)
        for address in np.unique(values[values >= _LOWEST]).tolist():
            if any(view.start <= address < view.stop for view in known):
                continue
            alive = alive or _Alive()
            for view in alive.at(address):
                known.append(view)
                found.append((f"*{name}", view))
                tables.append((f"*{name}", _integers(view)))
    return found


def _integers(view: ArrayView) -> NDArray[np.uint64]:
    """The elements of a table of 64-bit integers; none of any other array."""
    size = view.stop - view.start
    if view.fmt.name not in ("int64", "uint64") or not size:
        return np.empty(0, np.uint64)
    raw = (ctypes.c_uint8 * size).from_address(view.start)
    found: NDArray[np.uint64] = np.ctypeslib.as_array(raw).view(np.uint64).copy()
    return found


class _Alive:
    """All arrays of this process, by address: torch's first, which are quick to find, all others when need be."""

    def __init__(self) -> None:
        self._search = iter((_tracked, _referred))
        self._set([])

    def _set(self, views: list[ArrayView]) -> None:
        self._views = sorted(views, key=lambda view: (view.start, view.stop))
        self._starts = [view.start for view in self._views]
        self._reach = max((view.stop - view.start for view in self._views), default=0)

    def at(self, address: int) -> list[ArrayView]:
        """The arrays that hold the byte at an address."""
        while True:
            first = bisect_right(self._starts, address - self._reach)
            last = bisect_right(self._starts, address)
            found = [view for view in self._views[first:last] if address < view.stop]
            more = None if found else next(self._search, None)
            if more is None:
                return found
            self._set([view for view in map(_view, more()) if view is not None])


def _view(array: Any) -> ArrayView | None:
    try:
        view = view_of(array, "")
    except (LaunchError, RuntimeError, ReferenceError):
        return None  # not on the host, or of a type that the machine lacks
    return view if view.start < view.stop else None


def _tracked() -> list[Any]:
    """Torch's tensors."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor is None:
        return []
    return [one for one in gc.get_objects() if issubclass(type(one), tensor)]


def _referred() -> list[Any]:
    """Arrays that anything refers to; numpy's are not tracked themselves, frames that run neither."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    kinds = (np.ndarray,) if tensor is None else (np.ndarray, tensor)
    tracked = gc.get_objects()
    frames: list[Any] = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        frames.extend(frame.f_locals.values())
        frame = frame.f_back
    groups = (tracked, gc.get_referents(*tracked), frames, gc.get_referents(*frames))
    found = {id(one): one for group in groups for one in group if issubclass(type(one), kinds)}
    return list(found.values())
