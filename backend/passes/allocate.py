"""allocate: addresses of rings."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from ..target import Target
from .sram import fit, ring_uses
from .sram_overflow import overflow_error


def allocate(module: ModuleOp, target: Target) -> None:
    """Give every ring an address within the SRAM, unless buffer's plan has one for all of them.

    Rings stay apart while the SRAM lasts; where it does not, rings whose values are not alive together share.
    Raises SramOverflowError when even that does not fit.
    """
    for kernel in module.ops:
        if not isinstance(kernel, func.FuncOp):
            continue
        uses = ring_uses(kernel)
        if all(use.ring.address.value.data >= 0 for use in uses):
            continue
        slots = [use.ring.slots.value.data for use in uses]
        addresses = fit(uses, slots, target)
        if addresses is None:
            raise overflow_error(uses, slots, target)
        for use, address in zip(uses, addresses, strict=True):
            use.ring.address = IntegerAttr(address, i64)
