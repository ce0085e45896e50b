"""The memories of a core as instructions see them: numpy views, handed out after every check has passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dsalang._backend.errors import DeviceError, Loc
from dsalang._backend.image.model import Image, Template
from dsalang._backend.isa.table import Engine

from ..memory import GARBAGE, Memory, Segment
from ..rings import place
from ..stats import Traffic
from . import schedule
from .races import Access, AccessLog, Box, Clocks, list_box, make_box

Array = npt.NDArray[Any]
UNSIGNED: dict[int, np.dtype[Any]] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


@dataclass
class Current:
    """The instruction that is executing, for messages and for the access logs; `at` is its scheduled start."""

    engine: Engine
    number: int
    template: int
    at: int | None = None


@dataclass
class CoreState:
    """SRAM and HBM of one core, with what the checks remember.

    Attributes:
        sram: the scratchpad, all 0xFF at the start (NaN in every float format that has one).
        initialised: 1 per byte of SRAM that has been written.
        traffic: by kernel argument, by label of the array where that is unknown.
        current: the instruction that is executing.
    """

    image: Image
    args: tuple[int, ...]
    memory: Memory
    clocks: Clocks
    check_races: bool
    check_init: bool
    sram: npt.NDArray[np.uint8] = field(init=False)
    initialised: npt.NDArray[np.uint8] = field(init=False)
    traffic: dict[str, Traffic] = field(default_factory=dict)
    current: Current = field(default_factory=lambda: Current(Engine.CORE, 0, -1))

    def __post_init__(self) -> None:
        size = self.image.sram_bytes
        self.sram = np.full(size, GARBAGE, np.uint8)
        self.initialised = np.zeros(size, np.uint8)
        atomics = any(t.instruction.op == "dma.atomic" for t in self.image.templates)
        self._sram_log = AccessLog(self.clocks, tuple(Engine), own_queue=True)
        self._hbm_log = AccessLog(self.clocks, (Engine.LD, Engine.ST), own_queue=atomics)

    # SRAM

    def sram_read(
        self, address: int, shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]
    ) -> Array:
        """A view of an SRAM tile that is about to be read; strides in bytes, 0 broadcasts."""
        box = self._sram_access(address, shape, strides, dtype.itemsize, writes=False)
        if self.check_init:
            self._require_initialised(box)
        return _view(self.sram, address, shape, strides, dtype)

    def sram_write(
        self, address: int, shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]
    ) -> Array:
        """A view of an SRAM tile that is about to be written, all of it."""
        box = self._sram_access(address, shape, strides, dtype.itemsize, writes=True)
        _bytes_of(self.initialised, box)[...] = _ones(box.elem_bytes)
        return _view(self.sram, address, shape, strides, dtype)

    def sram_list(self, address: int, count: int, dtype: np.dtype[Any]) -> Array:
        """A contiguous vector of SRAM that is about to be read."""
        return self.sram_read(address, (count,), (dtype.itemsize,), dtype)

    def _sram_access(
        self, address: int, shape: Sequence[int], strides: Sequence[int], width: int, writes: bool
    ) -> Box:
        box = make_box(address, shape, strides, width)
        if box.low < 0 or box.high > self.sram.size:
            what = "writes" if writes else "reads"
            raise self.error(
                f"{self._who()} {what} SRAM bytes [{box.low}, {box.high}), "
                f"but the kernel has [0, {self.sram.size})"
            )
        if self.check_races:
            self._race(self._sram_log, self._access(box, writes), None)
        return box

    def _require_initialised(self, box: Box) -> None:
        marks = _bytes_of(self.initialised, box)
        good = marks == _ones(box.elem_bytes)
        if good.all():
            return
        where = tuple(int(i) for i in np.argwhere(~good)[0])
        first = box.base + sum(i * s for i, s in zip(where, box.strides))
        raise self.error(
            f"{self._who()} reads uninitialised SRAM at byte {first} ({place(self.image, first)}), "
            f"element {list(where)} of its operand at byte {box.base}"
        )

    # HBM

    def hbm_box(
        self,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int],
        dtype: np.dtype[Any],
        writes: bool,
    ) -> Array:
        """A view of a box of HBM that is about to be read or written; no size may be 0."""
        box = make_box(address, shape, strides, dtype.itemsize)
        segment = self._hbm_access(box, writes, atomic=False)
        self._count(segment, int(np.prod(shape, dtype=np.int64)) * box.elem_bytes, writes)
        offset = address - segment.address
        return _view(segment.data, offset, shape, strides, dtype)

    def hbm_list(
        self,
        addresses: npt.NDArray[np.int64],
        dtype: np.dtype[Any],
        writes: bool,
        atomic: bool = False,
    ) -> tuple[Array, npt.NDArray[np.int64]]:
        """Elements of HBM at any byte addresses (there must be one): `window[positions]`.

        Entry p of the window is the element whose first byte is p bytes into the array's segment.
        """
        box = list_box(addresses, dtype.itemsize)
        segment = self._hbm_access(box, writes, atomic)
        moved = addresses.size * box.elem_bytes
        self._count(segment, moved, writes)
        if atomic:
            self._count(segment, moved, False)
        window = np.ndarray((segment.data.size - dtype.itemsize + 1,), dtype, segment.data, 0, (1,))
        return window, addresses - segment.address

    def _hbm_access(self, box: Box, writes: bool, atomic: bool) -> Segment:
        segment = self._segment(box)
        verb = "writes" if writes else "reads"
        if segment is None or box.low < segment.address or box.high > segment.end:
            raise self.error(
                f"{self._who()} {verb} {self._outside(box, segment)}",
                hint="mask the access, as in `mask=offsets < n`, or check `n` and the strides",
            )
        if writes and not segment.writable:
            raise self.error(f"{self._who()} writes to {segment.label!r}, which is read-only")
        if self.check_races:
            self._race(self._hbm_log, self._access(box, writes, atomic), segment)
        return segment

    def _segment(self, box: Box) -> Segment | None:
        template = self._template()
        if template is not None and template.hbm_arg >= 0:
            return self.memory.find(self.args[template.hbm_arg])
        return self.memory.find(box.low)

    def _outside(self, box: Box, segment: Segment | None) -> str:
        template = self._template()
        argument = template.hbm_arg if template else -1
        if segment is None:
            if argument >= 0:
                name = self.image.arguments[argument].name
                return f"outside of array {name!r}, which has no elements"
            return f"HBM bytes [{box.low:#x}, {box.high:#x}), where there is no array"
        start = segment.address
        first = box.low if box.low < start else max(segment.end, box.low)
        label, unit = segment.label, box.elem_bytes
        return (
            f"outside of array {label!r}: byte {first - start} (element {(first - start) // unit}), "
            f"the array has bytes [0, {segment.data.size}) (elements [0, {segment.data.size // unit}))"
            f"; the access covers bytes [{box.low - start}, {box.high - start})"
        )

    def _count(self, segment: Segment, moved: int, writes: bool) -> None:
        template = self._template()
        argument = template.hbm_arg if template else -1
        label = self.image.arguments[argument].name if argument >= 0 else segment.label
        traffic = self.traffic.setdefault(label, Traffic())
        if writes:
            traffic.written += moved
        else:
            traffic.read += moved

    # Races and messages

    def _access(self, box: Box, writes: bool, atomic: bool = False) -> Access:
        now = self.current
        return Access(now.engine, now.number, writes, box, now.template, atomic)

    def _race(self, log: AccessLog, access: Access, segment: Segment | None) -> None:
        """Record an access, to SRAM when `segment` is None; a race is a DeviceError."""
        old = log.add(access)
        if old is None:
            return
        low, high = max(old.box.low, access.box.low), min(old.box.high, access.box.high)
        if segment is None:
            where = f"bytes [{low}, {high}) of SRAM ({place(self.image, low)})"
            hint = "no semaphore orders the two; the program lacks a set/wait pair between them"
        else:
            start = segment.address
            where = f"bytes [{low - start}, {high - start}) of {segment.label!r} in HBM"
            hint = (
                "programs of a grid run in any order and overlap in time; each may only touch what "
                "no other one writes, but for atomics"
            )
        there = self.location(old.template)
        kind = "race"
        if self.current.at is not None:
            kind, hint = f"timing violation at cycle {self.current.at}", schedule.HINT
        raise self.error(
            f"{kind}: {self._who()} {'writes' if access.writes else 'reads'} {where} while "
            f"{self.describe(old.engine, old.template)}{f' ({there})' if there else ''} may still be "
            f"{'writing' if old.writes else 'reading'} them",
            hint,
        )

    def error(self, message: str, hint: str = "") -> DeviceError:
        """A DeviceError at the source line of the current instruction."""
        return DeviceError(message, self.location(self.current.template), hint)

    def location(self, template: int) -> Loc | None:
        """The source line of a template, None for the control core."""
        return self.image.templates[template].loc if template >= 0 else None

    def describe(self, engine: Engine, template: int) -> str:
        """An engine and its instruction, for people."""
        if template < 0:
            return "the control core"
        return f"{engine.name} {self.image.templates[template].instruction.op}"

    def _who(self) -> str:
        return self.describe(self.current.engine, self.current.template)

    def _template(self) -> Template | None:
        return self.image.templates[self.current.template] if self.current.template >= 0 else None


def _view(
    data: npt.NDArray[np.uint8],
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: np.dtype[Any],
) -> Array:
    """Elements at offset + Σ i_d · stride_d bytes of `data`; numpy checks that they are inside."""
    view: Array = np.ndarray(tuple(shape), dtype, data, offset, tuple(strides))
    return view


def _ones(width: int) -> int:
    """`width` bytes of 1."""
    return 0x0101010101010101 >> (64 - 8 * width)


def _bytes_of(marks: npt.NDArray[np.uint8], box: Box) -> Array:
    """The marks of a box's elements, one integer per element; broadcast dims shrink to one."""
    shape = tuple(1 if s == 0 else n for n, s in zip(box.shape, box.strides))
    return _view(marks, box.base, shape, box.strides, UNSIGNED[box.elem_bytes])
