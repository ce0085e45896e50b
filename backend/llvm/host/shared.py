"""All functions that units share, in one module."""

from __future__ import annotations

from ... import formats
from .. import ir
from . import copies, helpers, mma_block, reduce_rows
from .host import Host


def everything(host: Host) -> ir.Module:
    """A module of all helpers, visible to others, for a processor."""
    module, width = ir.Module(), host.vector_bytes
    for function in (
        helpers.fault(module), helpers.operand_fault(module), helpers.open_hbm(module),
        helpers.fill(module, width // 8), helpers.large(module), helpers.stream(module, width),
        helpers.ahead(module), helpers.place(module), helpers.put_back(module),
        copies.rows(module, width), *(copies.columns(module, n, width) for n in copies.WIDTHS),
        *(reduce_rows.rows(module, kind) for kind in reduce_rows.KINDS),
        mma_block.block(module, host),
        *(mma_block.packing(module, host, formats.by_name(name)) for name in mma_block.SOURCES),
    ):  # fmt: skip
        function.linkage = ""
    return module
