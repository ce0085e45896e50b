"""What the DMA instructions do.

HBM addresses are 64-bit and wrap, so they are handled as signed numbers: a tile whose first elements are
masked off may well start below its array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dsalang._backend import formats
from dsalang._backend.cost import Fields, array, scalar, valid_box
from dsalang._backend.isa.table import ATOMIC_OPS, INVALID_OFFSET, NONE, AtomicKind
from dsalang._backend.isa.vprog import VectorProgram
from dsalang._backend.numerics import elementwise

from .state import UNSIGNED, Array, CoreState

_INT64 = np.dtype(np.int64)


def _signed(address: int) -> int:
    return address - (1 << 64) if address >> 63 else address


def _bits(pattern: int, dtype: np.dtype[Any]) -> Array:
    """The low bits of a pattern as one element."""
    return np.frombuffer(pattern.to_bytes(8, "little"), dtype, 1)[0]  # type: ignore[no-any-return]


class _BoxDma:
    """The operands of a dma.load or dma.store, cut to the valid box."""

    def __init__(self, state: CoreState, fields: Fields) -> None:
        ndim = scalar(fields, "ndim")
        self.state, self.fields = state, fields
        self.dtype = UNSIGNED[scalar(fields, "elem_bytes")]
        self.size = array(fields, "size")[:ndim]
        self.box = valid_box(fields)
        self.shape = tuple(hi - lo for lo, hi in self.box)
        self.hbm_stride = array(fields, "hbm_stride")[:ndim]
        self.sram_stride = array(fields, "sram_stride")[:ndim]
        self.sram = scalar(fields, "sram")
        self.index = array(fields, "index")[:ndim]

    @property
    def empty(self) -> bool:
        return 0 in self.shape

    @property
    def full(self) -> bool:
        return self.shape == self.size

    @property
    def sram_start(self) -> int:
        """SRAM address of the box's first element."""
        return self.sram + sum(lo * s for (lo, _), s in zip(self.box, self.sram_stride))

    @property
    def affine(self) -> bool:
        return all(address == NONE for address in self.index)

    @property
    def hbm_start(self) -> int:
        """HBM address of the box's first element when the walk is affine."""
        base = _signed(scalar(self.fields, "hbm"))
        return base + sum(lo * s for (lo, _), s in zip(self.box, self.hbm_stride))

    def addresses(self) -> npt.NDArray[np.int64]:
        """HBM byte address of each element of the box; reads the index vectors."""
        fmt = formats.BY_CODE[scalar(self.fields, "index_fmt")].storage
        where = np.full((1,) * len(self.shape), _signed(scalar(self.fields, "hbm")), np.int64)
        for dim, (lo, hi) in enumerate(self.box):
            steps: Array = np.arange(lo, hi, dtype=np.int64)
            if self.index[dim] != NONE:
                start = self.index[dim] + lo * fmt.itemsize
                steps = self.state.sram_list(start, hi - lo, fmt).astype(np.int64)
            along = [1] * len(self.shape)
            along[dim] = hi - lo
            where = where + (steps * self.hbm_stride[dim]).reshape(along)
        return where


def load(state: CoreState, fields: Fields, program: VectorProgram | None) -> None:
    """dma.load: a box of HBM into SRAM, `fill` (or what was there) outside the valid box."""
    dma = _BoxDma(state, fields)
    keep = scalar(fields, "keep")
    values: Array | None = None
    if not dma.empty:
        if dma.affine:
            values = state.hbm_box(dma.hbm_start, dma.shape, dma.hbm_stride, dma.dtype, False)
        else:
            window, positions = state.hbm_list(dma.addresses(), dma.dtype, writes=False)
            values = window[positions]
    if not keep and not dma.full:
        tile = state.sram_write(dma.sram, dma.size, dma.sram_stride, dma.dtype)
        tile[...] = _bits(scalar(fields, "fill"), dma.dtype)
        if values is not None:
            tile[tuple(slice(lo, hi) for lo, hi in dma.box)] = values
    elif values is not None:
        part = state.sram_write(dma.sram_start, dma.shape, dma.sram_stride, dma.dtype)
        part[...] = values


def store(state: CoreState, fields: Fields, program: VectorProgram | None) -> None:
    """dma.store: the valid box of an SRAM tile to HBM; of elements at one address the last one stays."""
    dma = _BoxDma(state, fields)
    if dma.empty:
        return
    values = state.sram_read(dma.sram_start, dma.shape, dma.sram_stride, dma.dtype)
    if dma.affine:
        view = state.hbm_box(dma.hbm_start, dma.shape, dma.hbm_stride, dma.dtype, True)
        view[...] = values
    else:
        window, positions = state.hbm_list(dma.addresses(), dma.dtype, writes=True)
        window[positions.reshape(-1)] = values.reshape(-1)


class _ElementList:
    """The operands of a gather, scatter or atomic. Flat arrays are in row-major order."""

    def __init__(self, state: CoreState, fields: Fields) -> None:
        ndim = scalar(fields, "ndim")
        self.state = state
        self.shape = array(fields, "size")[:ndim]
        self.strides = array(fields, "sram_stride")[:ndim]
        count = int(np.prod(self.shape, dtype=np.int64))
        offsets = state.sram_list(scalar(fields, "offset"), count, _INT64)
        self.valid = offsets != INVALID_OFFSET
        self.addresses = _signed(scalar(fields, "hbm")) + offsets[self.valid]

    @property
    def count(self) -> int:
        """Elements that are not masked off."""
        return int(self.addresses.size)

    def read(self, address: int, dtype: np.dtype[Any]) -> Array:
        """The valid elements of a tile in SRAM, flat."""
        tile = self.state.sram_read(address, self.shape, self.strides, dtype)
        values: Array = tile.reshape(-1)[self.valid]
        return values

    def write(self, address: int, values: Array) -> None:
        """Write a flat array of all elements to a tile in SRAM."""
        tile = self.state.sram_write(address, self.shape, self.strides, values.dtype)
        tile[...] = values.reshape(self.shape)


def gather(state: CoreState, fields: Fields, program: VectorProgram | None) -> int:
    """dma.gather: elements at any address; `fill` where masked off. Returns how many were not."""
    elements = _ElementList(state, fields)
    dtype = UNSIGNED[scalar(fields, "elem_bytes")]
    values = np.full(elements.valid.size, _bits(scalar(fields, "fill"), dtype), dtype)
    if elements.count:
        window, positions = state.hbm_list(elements.addresses, dtype, writes=False)
        values[elements.valid] = window[positions]
    elements.write(scalar(fields, "sram"), values)
    return elements.count


def scatter(state: CoreState, fields: Fields, program: VectorProgram | None) -> int:
    """dma.scatter: elements to any address, the last one stays. Returns how many were not masked off."""
    elements = _ElementList(state, fields)
    if elements.count:
        dtype = UNSIGNED[scalar(fields, "elem_bytes")]
        values = elements.read(scalar(fields, "sram"), dtype)
        window, positions = state.hbm_list(elements.addresses, dtype, writes=True)
        window[positions] = values
    return elements.count


def atomic(state: CoreState, fields: Fields, program: VectorProgram | None) -> int:
    """dma.atomic: read-modify-write one element after the other. Returns how many were not masked off."""
    elements = _ElementList(state, fields)
    fmt = formats.BY_CODE[scalar(fields, "fmt")]
    before = np.zeros(elements.valid.size, fmt.storage)
    if elements.count:
        operand = elements.read(scalar(fields, "sram"), fmt.storage)
        compare = scalar(fields, "compare")
        expected = elements.read(compare, fmt.storage) if compare != NONE else operand
        kind = AtomicKind(scalar(fields, "kind"))
        window, at = state.hbm_list(elements.addresses, fmt.storage, writes=True, atomic=True)
        found = np.empty(elements.count, fmt.storage)
        for turn in _turns(at):
            found[turn] = window[at[turn]]
            new = _combine(kind, fmt, found[turn], operand[turn], expected[turn])
            window[at[turn]] = new
        before[elements.valid] = found
    if scalar(fields, "old") != NONE:
        elements.write(scalar(fields, "old"), before)
    return elements.count


def _turns(positions: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Split a list of elements into turns without repeated addresses, keeping the order at each address."""
    order = np.argsort(positions, kind="stable")
    ordered = positions[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    starts = np.flatnonzero(first)
    turn = np.arange(ordered.size) - starts[np.cumsum(first) - 1]
    by_turn = np.argsort(turn, kind="stable")
    bounds = np.flatnonzero(np.diff(turn[by_turn])) + 1
    return np.split(order[by_turn], bounds)


def _combine(
    kind: AtomicKind, fmt: formats.Format, found: Array, operand: Array, expected: Array
) -> Array:
    if kind is AtomicKind.XCHG:
        return operand
    if kind is AtomicKind.CAS:
        bits = UNSIGNED[fmt.bytes]
        return np.where(found.view(bits) == expected.view(bits), operand, found)
    return elementwise.apply(ATOMIC_OPS[kind], fmt, fmt, found, operand)
