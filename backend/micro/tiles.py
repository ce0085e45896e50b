"""Tiles as microkernels see them: walks of SRAM that can be cut, transposed and broadcast."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from .. import formats
from ..errors import MicrokernelError
from ..passes.placing.emit import View
from ..passes.placing.walks import regroup, row_major


@dataclass(frozen=True, eq=False)
class Tile:
    """A tile in SRAM: `shape`, `strides` in bytes, `fmt` the name of its number format.

    `t[2:8]`, `t[:, 3]` and `t[:, None]` cut it and add dims, `t.T` swaps the last two, `t.reshape(...)` and
    `t.view(fmt)` give the same bytes another form. All of them are new walks; nothing is copied.
    """

    _view: View = field(repr=False)
    fmt: str
    label: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per dim."""
        return self._view.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes between neighbours per dim."""
        return self._view.strides

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self._view.shape)

    @property
    def elem_bytes(self) -> int:
        """Bytes of one element."""
        return self._view.fmt.bytes

    def __str__(self) -> str:
        return f"{self.label} ({self.fmt}[{', '.join(map(str, self.shape))}])"

    def __repr__(self) -> str:
        return f"<tile {self}>"

    def __getitem__(self, key: Any) -> Tile:
        entries = list(key) if isinstance(key, tuple) else [key]
        if sum(entry is not None for entry in entries) > self.ndim:
            raise MicrokernelError(f"{self} has no {len(entries)} dims")
        offset, dims = self._view.offset, list(zip(self.shape, self.strides))
        shape: list[int] = []
        strides: list[int] = []
        for entry in entries:
            if entry is None:
                shape.append(1)
                strides.append(0)
                continue
            size, stride = dims.pop(0)
            if isinstance(entry, slice):
                start, stop, step = self._bounds(entry, size)
                offset += start * stride
                shape.append(-(-(stop - start) // step))
                strides.append(stride * step)
            else:
                offset += self._position(entry, size) * stride
        for size, stride in dims:
            shape.append(size)
            strides.append(stride)
        view = replace(self._view, offset=offset, shape=tuple(shape), strides=tuple(strides))
        return replace(self, _view=view)

    def _bounds(self, cut: slice, size: int) -> tuple[int, int, int]:
        step = 1 if cut.step is None else cut.step
        start = 0 if cut.start is None else cut.start
        stop = size if cut.stop is None else cut.stop
        if not all(isinstance(n, int) for n in (start, stop, step)):
            raise MicrokernelError(f"{self} is cut by integers, not {cut}")
        start, stop = (n + size if n < 0 else n for n in (start, stop))
        if not 0 <= start < stop <= size or step < 1:
            raise MicrokernelError(
                f"[{cut.start}:{cut.stop}:{cut.step}] leaves a dim of size {size} of {self}"
            )
        return start, stop, step

    def _position(self, entry: Any, size: int) -> int:
        if isinstance(entry, bool) or not isinstance(entry, int):
            raise MicrokernelError(f"{self} is indexed by integers, slices and None, not {entry!r}")
        position = entry + size if entry < 0 else entry
        if not 0 <= position < size:
            raise MicrokernelError(f"index {entry} leaves a dim of size {size} of {self}")
        return position

    @property
    def T(self) -> Tile:  # noqa: N802 (its name in numpy)
        """The last two dims swapped."""
        if self.ndim < 2:
            raise MicrokernelError(f"{self} has less than two dims to swap")
        order = [*range(self.ndim - 2), self.ndim - 1, self.ndim - 2]
        return self.permute(*order)

    def permute(self, *order: int) -> Tile:
        """The dims in another order."""
        if sorted(order) != list(range(self.ndim)):
            raise MicrokernelError(f"{order} is not an order of the dims of {self}")
        view = replace(
            self._view,
            shape=tuple(self.shape[d] for d in order),
            strides=tuple(self.strides[d] for d in order),
        )
        return replace(self, _view=view)

    def reshape(self, *shape: int) -> Tile:
        """The same elements in row-major order under another shape; refused where no strides walk that."""
        count, wanted = 1, 1
        for size in self.shape:
            count *= size
        for size in shape:
            wanted *= size
        if count != wanted:
            raise MicrokernelError(f"{self} has {count} elements, shape {list(shape)} {wanted}")
        strides = regroup(self.shape, self.strides, shape, self.elem_bytes)
        if strides is None:
            raise MicrokernelError(f"no strides walk {self} as {list(shape)}: copy it first")
        return replace(self, _view=replace(self._view, shape=shape, strides=strides))

    def view(self, fmt: str) -> Tile:
        """The same bytes as elements of another format; of another width only where elements are packed."""
        if fmt not in formats.BY_NAME:
            raise MicrokernelError(f"there is no format {fmt!r}")
        new, old = formats.by_name(fmt), self.elem_bytes
        if new.bytes == old:
            return replace(self, _view=replace(self._view, fmt=new), fmt=new.name)
        bytes_ = self.shape[-1] * old if self.shape else 0
        if not self._view.is_contiguous or not bytes_ or bytes_ % new.bytes:
            raise MicrokernelError(f"{self} cannot be read as {fmt}: its rows are not packed")
        shape = (*self.shape[:-1], bytes_ // new.bytes)
        view = replace(self._view, shape=shape, strides=row_major(shape, new.bytes), fmt=new)
        return replace(self, _view=view, fmt=new.name)

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The strides that walk this tile over `shape`, as numpy broadcasts."""
        lead = len(shape) - self.ndim
        fits = lead >= 0 and all(a in (1, b) for a, b in zip(self.shape, shape[max(lead, 0) :]))
        if not fits:
            raise MicrokernelError(f"{self} does not broadcast to {list(shape)}")
        own = (0 if a != b else s for a, b, s in zip(self.shape, shape[lead:], self.strides))
        return (*(0,) * lead, *own)


def view_of(tile: Tile) -> View:
    """The walk behind a tile."""
    return tile._view
