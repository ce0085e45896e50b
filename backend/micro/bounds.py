"""Holds the instructions of a microkernel to the tiles that it was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from .. import cost
from ..dialects import dsa
from ..errors import MicrokernelError
from ..isa.extents import EXTENTS, Extent
from ..isa.table import BY_NAME, NONE
from ..isa.text import parse_program
from ..passes.placing.emit import View

_EXACT = 1 << 26
"""Tiles with gaps and accesses of up to so many bytes are compared byte by byte."""


@dataclass
class _Ground:
    """What a microkernel may touch in one slot."""

    label: str
    views: list[View] = field(default_factory=list)
    writable: bool = False
    written: bool = False


class Bounds:
    """The tiles of one call, by slot."""

    def __init__(self) -> None:
        self._grounds: dict[SSAValue, _Ground] = {}

    def allow(self, view: View, label: str, writable: bool) -> None:
        """Let instructions read a tile, and write it if `writable`."""
        ground = self._grounds.setdefault(view.slot, _Ground(label))
        ground.views.append(view)
        ground.writable |= writable

    def require_written(self, view: View) -> None:
        """Raise MicrokernelError when no instruction has written a result."""
        ground = self._grounds[view.slot]
        if not ground.written:
            raise MicrokernelError(
                f"{ground.label} is never written", hint="fill k.result, or each of k.results"
            )

    def check(self, op: dsa.IssueOp) -> None:
        """Raise MicrokernelError when an instruction is malformed or leaves its tiles."""
        name, row = op.op.data, BY_NAME[op.op.data]
        if name not in EXTENTS:
            raise MicrokernelError(f"nothing says which bytes {name} touches")
        fields = cost.complete(name, {f: op.static(f) for f in op.fields.data})
        program = parse_program(op.program.data) if op.program is not None else None
        bound = op.bound()
        for entry in row.fields:
            if entry.role is not None and entry.role.startswith("sram_"):
                _require_tiles(name, entry.name, fields[entry.name], entry.optional, bound)
        # Absent operands are NONE in `fields`, bound ones the offset in their slot.
        for extent in EXTENTS[name](fields, program):
            key = (
                extent.field
                if row.by_name[extent.field].count == 1
                else f"{extent.field}.{extent.entry}"
            )
            if key not in bound:
                raise MicrokernelError(f"{name}: operand {key} is missing", hint="pass a tile")
            writes = "w" in (row.by_name[extent.field].role or "")
            address = fields[extent.field]
            offset = address if isinstance(address, int) else address[extent.entry]
            self._inside(name, key, bound[key], offset, extent, writes)

    def _inside(
        self, name: str, key: str, slot: SSAValue, offset: int, extent: Extent, writes: bool
    ) -> None:
        ground = self._grounds.get(slot)
        if ground is None:
            raise MicrokernelError(f"{name}: {key} is no tile of this call")
        if writes and not ground.writable:
            raise MicrokernelError(
                f"{name} writes {ground.label}, an operand",
                hint="write results and scratch tiles; to update an operand declare it with in_place=",
            )
        ground.written |= writes
        if prod(extent.shape) == 0:
            return
        low, high = _span(offset, extent.shape, extent.strides, extent.elem_bytes)
        for view in ground.views:
            first, last = _span(view.offset, view.shape, view.strides, view.fmt.bytes)
            if first <= low and high <= last:
                dense = view.is_contiguous or last - first > _EXACT
                if dense or _covers(view, offset, extent, first, last):
                    return
        first = min(_span(v.offset, v.shape, v.strides, v.fmt.bytes)[0] for v in ground.views)
        last = max(_span(v.offset, v.shape, v.strides, v.fmt.bytes)[1] for v in ground.views)
        raise MicrokernelError(
            f"{name}: {key} touches bytes {low - first} to {high - 1 - first} of {ground.label}, which has "
            f"{last - first}",
            hint="the sizes or strides of the instruction do not fit the tile",
        )


def _require_tiles(
    name: str,
    field_name: str,
    value: int | tuple[int, ...],
    optional: bool,
    bound: dict[str, SSAValue],
) -> None:
    entries = (
        {field_name: value}
        if isinstance(value, int)
        else {f"{field_name}.{k}": v for k, v in enumerate(value)}
    )
    for key, address in entries.items():
        if key not in bound and address not in ((NONE,) if optional else (0,)):
            raise MicrokernelError(f"{name}: {key} is a tile, not the address {address}")


def _span(
    offset: int, shape: Sequence[int], strides: Sequence[int], elem_bytes: int
) -> tuple[int, int]:
    """The first byte of a walk and one past its last one."""
    low = high = offset
    for size, stride in zip(shape, strides, strict=True):
        reach = (size - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + elem_bytes


def _covers(view: View, offset: int, extent: Extent, first: int, last: int) -> bool:
    """Whether every byte of an access is one of a tile with gaps."""
    mine = _mask(view.offset, view.shape, view.strides, view.fmt.bytes, first, last)
    theirs = _mask(offset, extent.shape, extent.strides, extent.elem_bytes, first, last)
    return not bool((theirs & ~mine).any())


def _mask(
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
    elem_bytes: int,
    first: int,
    last: int,
) -> npt.NDArray[np.bool_]:
    mask = np.zeros(last - first, np.bool_)
    walk = (*shape, elem_bytes), (*strides, 1)
    np.ndarray(walk[0], np.bool_, mask.data, offset - first, walk[1])[...] = True
    return mask
