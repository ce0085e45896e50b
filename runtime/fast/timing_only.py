"""Units that move no data: for DMA they find the bytes of bursts, as `cost.dma_bytes` does, and nothing else.

Every element of a gather, scatter or atomic counts, as in the reference engine without data.
"""

from __future__ import annotations

from typing import Any

from dsalang._backend.cost import array, round_up, scalar
from dsalang._backend.isa.table import NONE
from dsalang._backend.llvm import ir
from dsalang._backend.llvm.host.abi import Slot
from dsalang._backend.target import Target

from . import timing
from .plan import Row

_I64 = ir.I64


def emit(module: ir.Module, row: Row, target: Target, name: str) -> ir.Function:
    """Add the function `name`, with the interface of `backend/llvm/host/abi.py`."""
    function = ir.Function(module, _I64, [ir.PTR, ir.PTR, ir.PTR], name)
    b: Any = ir.IRBuilder(function, function.append_basic_block("entry"))
    if row.kind == timing.DMA:
        burst = _Dma(b, row, function.args[1]).bytes(target)
        b.store(burst, b.gep(function.args[2], [_I64(Slot.BURST_BYTES)], _I64))
        for slot in (Slot.READ_BYTES, Slot.WRITTEN_BYTES):
            b.store(_I64(0), b.gep(function.args[2], [_I64(slot)], _I64))
    b.ret(_I64(0))
    return function


class _Dma:
    """The bytes of a DMA instruction while their computation is emitted."""

    def __init__(self, b: Any, row: Row, values: Any) -> None:
        self.b, self.fields = b, row.prepared.fields
        self.open = {
            (slot.name, slot.entry): b.load(b.gep(values, [_I64(number)], _I64), _I64)
            for number, slot in enumerate(row.prepared.open)
        }

    def entry(self, name: str, dim: int) -> Any:
        """An entry of an array field."""
        return self.open.get((name, dim)) or _I64(array(self.fields, name)[dim])

    def least(self, a: Any, b: Any) -> Any:
        return self.b.select(self.b.icmp_signed("<", a, b), a, b)

    def most(self, a: Any, b: Any) -> Any:
        return self.b.select(self.b.icmp_signed(">", a, b), a, b)

    def bytes(self, target: Target) -> Any:
        """As `cost.dma_bytes`."""
        b, ndim = self.b, scalar(self.fields, "ndim")
        width, burst = scalar(self.fields, "elem_bytes"), target.hbm.burst_bytes
        if "offset" in self.fields:
            count = _I64(round_up(width, burst))
            for dim in range(ndim):
                count = b.mul(count, self.entry("size", dim))
            return count
        total, lengths = _I64(1), []
        for dim in range(ndim):
            size = self.entry("size", dim)
            low = self.least(self.most(self.entry("lo", dim), _I64(0)), size)
            high = self.most(low, self.least(self.entry("hi", dim), size))
            lengths.append(b.sub(high, low))
            total = b.mul(total, lengths[-1])
        run = self.run(lengths, width)
        runs = b.sdiv(total, self.most(run, _I64(1)))  # no run of no elements: a box of none
        whole = b.mul(b.sdiv(b.add(b.mul(run, _I64(width)), _I64(burst - 1)), _I64(burst)), runs)
        return b.mul(whole, _I64(burst))

    def run(self, lengths: list[Any], width: int) -> Any:
        """Elements per contiguous run, as `cost.contiguous_run`: dims join in whatever order they fit."""
        b, run = self.b, _I64(1)
        left = {
            dim: b.icmp_signed(">", length, _I64(1))
            for dim, length in enumerate(lengths)
            if ("index", dim) not in self.open and array(self.fields, "index")[dim] == NONE
        }
        for _ in range(len(left)):
            step = b.mul(run, _I64(width))
            found: Any = ir.I1(0)
            for dim in left:
                fits = b.icmp_signed("==", self.entry("hbm_stride", dim), step)
                joins = b.and_(b.and_(left[dim], fits), b.not_(found))
                run = b.select(joins, b.mul(run, lengths[dim]), run)
                left[dim] = b.and_(left[dim], b.not_(joins))
                found = b.or_(found, joins)
        return run
