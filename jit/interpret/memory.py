"""Memory of the interpreter: the argument arrays, every access checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import stopped

Array = NDArray[Any]
Addresses = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Piece(NamedTuple):
    """A stretch of memory: its first address, its bytes, the arguments in it."""

    start: int
    data: NDArray[np.uint8]
    names: tuple[str, ...]
    writable: bool


class InterpMemory:
    """The pieces of memory that a kernel may touch, at their real addresses.

    `beyond` gives all of them with those that only pointers in memory lead to; it is asked where an access is outside.
    """

    def __init__(
        self, pieces: Sequence[Piece], beyond: Callable[[], Sequence[Piece]] | None = None
    ) -> None:
        self._beyond = beyond
        self._set(pieces)

    def _set(self, pieces: Sequence[Piece]) -> None:
        self._pieces = sorted(pieces, key=lambda p: p.start)
        self._starts = np.array([p.start for p in self._pieces], np.int64)

    def _more(self) -> bool:
        """Take in what pointers in memory point to, once; False when that has been done."""
        beyond, self._beyond = self._beyond, None
        if beyond is not None:
            self._set(beyond())
        return beyond is not None

    def load(self, addresses: Addresses, mask: Mask, storage: np.dtype[Any]) -> Array:
        """Elements at the addresses; zeros where the mask is false."""
        result = np.zeros(addresses.size * storage.itemsize, np.uint8).view(storage)
        flat, keep = addresses.reshape(-1), mask.reshape(-1)
        for piece, where, offsets in self._split(flat, keep, storage.itemsize, "load"):
            result[where] = _elements(piece.data, offsets, storage)
        return result.reshape(addresses.shape)

    def store(self, addresses: Addresses, mask: Mask, values: Array) -> None:
        """Write elements where the mask is true, later ones over earlier ones."""
        size = values.dtype.itemsize
        flat, keep = addresses.reshape(-1), mask.reshape(-1)
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(-1, size)
        for piece, where, offsets in self._split(flat, keep, size, "store"):
            if not piece.writable:
                raise stopped(f"store to argument {_names(piece)}, which is read-only")
            piece.data[offsets[:, None] + np.arange(size)] = raw[where]

    def _split(
        self, flat: Addresses, keep: Mask, size: int, action: str
    ) -> list[tuple[Piece, NDArray[np.intp], NDArray[np.int64]]]:
        """The accesses by piece: (piece, positions of its accesses, byte offsets in it)."""
        active = np.flatnonzero(keep)
        if not active.size:
            return []
        targets = flat[active]
        if not self._pieces:
            if self._more():
                return self._split(flat, keep, size, action)
            raise self._outside(int(targets[0]), size, action)
        number = np.searchsorted(self._starts, targets, side="right") - 1
        found = []
        for k in np.unique(number):
            chosen = number == k
            piece = self._pieces[max(int(k), 0)]
            offsets = targets[chosen] - piece.start
            bad = (offsets < 0) | (offsets + size > piece.data.size)
            if bad.any():
                if self._more():
                    return self._split(flat, keep, size, action)
                raise self._outside(int(targets[chosen][bad][0]), size, action)
            found.append((piece, active[chosen], offsets))
        return found

    def _outside(self, address: int, size: int, action: str) -> Exception:
        from . import session  # which holds the memory

        def distance(piece: Piece) -> int:
            return max(piece.start - address, address - (piece.start + piece.data.size) + 1, 0)

        who = (
            f"in program {session.current().program}" if session.active() else "outside of a kernel"
        )
        if not self._pieces:
            return stopped(f"{action} out of bounds {who}: the kernel has no arrays with elements")
        near = min(self._pieces, key=distance)
        at, count = address - near.start, near.data.size // size
        return stopped(
            f"{action} out of bounds {who}: byte {at} (element {at // size}) of argument {_names(near)}, "
            f"which has {near.data.size} bytes (elements [0, {count}))",
            "check the offsets, or add a mask",
        )


def _elements(data: NDArray[np.uint8], offsets: NDArray[np.int64], storage: np.dtype[Any]) -> Array:
    rows = data[offsets[:, None] + np.arange(storage.itemsize)]
    return np.ascontiguousarray(rows).reshape(-1).view(storage)


def _names(piece: Piece) -> str:
    return " / ".join(repr(name) for name in piece.names)
