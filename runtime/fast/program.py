"""The LLVM IR of an image for this host: its instructions, what issuing one does, and the glue."""

from __future__ import annotations

from collections.abc import Sequence

from dsalang._backend.image.model import Image
from dsalang._backend.target import Target

from . import timing
from .common import declarations, load, service
from .context import Entry, Service
from .glue import Glue
from .plan import Row


def build(
    image: Image, target: Target, rows: Sequence[Row], glue: Glue, functional: bool = True
) -> str:
    """The module: `i64 dsa.run(ptr context, ptr args, i64 core, i64 cores)` runs a core and gives its Status."""
    from dsalang._backend.llvm.host import helpers
    from dsalang._backend.llvm.host.emit import emit_unit
    from dsalang._backend.llvm.host.sharing import shared_slots

    from . import timing_only

    module, shared = helpers.Linked(), bool(shared_slots(image))
    text = [declarations()]
    for number, row in enumerate(rows):
        if row.kind in (timing.SET, timing.TAKE):
            continue
        name = f"unit.{number}"
        if functional:
            unit = emit_unit(module, row.prepared.template, image, target, name, shared=shared)
        else:
            unit = timing_only.emit(module, row, target, name)
        unit.linkage = "internal"
        if row.open_cost:
            text.append(_issue_of_open_cost(number, row))
    read = "dsa.read" if functional else "dsa.no_read"
    text.append(
        glue.issued(
            lambda number, values: _issue(number, rows[number], values, len(image.arguments))
        ).replace("@dsa.read(", f"@{read}(")
    )
    return str(module) + "\n".join(text)


MOVES = {
    "dma.load": (1, 0),
    "dma.gather": (1, 0),
    "dma.store": (0, 1),
    "dma.scatter": (0, 1),
    "dma.atomic": (1, 1),
}
"""Whether an instruction reads from HBM and whether it writes there."""


def _issue(number: int, row: Row, values: str, arguments: int) -> str:
    """The call that issues a template: execute if it touches data, then append to the trace."""
    if row.kind in (timing.SET, timing.TAKE):
        return f"@dsa.append(ptr %c, i64 {number}, i64 -1, i64 0, i64 -1)"
    if row.open_cost:
        return f"@issue.{number}(ptr %c, i64 {values})"
    executed = _executed(number, row, values)
    at = f"i64 {row.address_operand}"
    if row.kind != timing.DMA:
        return f"@dsa.compute({executed}, {at}, i64 {max(1, row.work)})"
    reads, writes = MOVES[row.name]
    argument = row.prepared.template.hbm_arg
    rest = f"i64 {argument}, i64 {reads}, i64 {writes}, i64 {arguments}"
    return f"@dsa.transfer({executed}, {at}, {rest})"


def _executed(number: int, row: Row, values: str) -> str:
    """Arguments of `dsa.execute`."""
    count = len(row.prepared.open)
    return f"ptr %c, ptr @unit.{number}, i64 {number}, i64 {values}, i64 {count}"


def _issue_of_open_cost(number: int, row: Row) -> str:
    """A function that issues a template whose cost Python has to find."""
    out = f"define internal i64 @issue.{number}(ptr %c, i64 %values) nounwind {{\n"
    out += f"  %st = call i64 @dsa.execute({_executed(number, row, '%values')})\n"
    out += "  %bad = icmp ne i64 %st, 0\n  br i1 %bad, label %stop, label %ask\nstop:\n  ret i64 %st\nask:\n"
    out += service(Service.COST, str(number), "%values", "co")
    out += "  %cbad = icmp ne i64 %co, 0\n  br i1 %cbad, label %cstop, label %go\n"
    out += "cstop:\n  ret i64 %co\ngo:\n" + load("%c1", Entry.FIRST) + load("%c2", Entry.SECOND)
    out += f"  %ad = call i64 @dsa.address(i64 %values, i64 {row.address_operand})\n"
    return out + (
        f"  %r = call i64 @dsa.done(ptr %c, i64 {number}, i64 %c1, i64 %c2, i64 %ad, "
        f"i64 {max(1, row.work)})\n  ret i64 %r\n}}\n"
    )
