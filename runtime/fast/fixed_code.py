"""The LLVM IR of an image with a static schedule: its instructions, and tables of what each core starts in which order.

Nothing is recorded, because times are known (`fixed.py`); `dsa.scheduled` of `common.py` goes through a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dsalang._backend.cost import dma_bytes
from dsalang._backend.image.model import Image
from dsalang._backend.llvm.table_glue import Operand, TimedIssue
from dsalang._backend.target import Target

from . import timing
from .common import declarations, load
from .context import RUN, Entry
from .fixed import by_start, issues_of
from .plan import Row
from .program import MOVES


def build(image: Image, target: Target, rows: Sequence[Row], functional: bool) -> str:
    """The module, with the interface of `program.build`. Without data there is nothing to do."""
    if not functional:
        return f'define i64 @"{RUN}"(ptr %c, ptr %args, i64 %core, i64 %cores) nounwind {{\n  ret i64 0\n}}\n'
    from dsalang._backend.llvm.host import helpers
    from dsalang._backend.llvm.host.emit import emit_unit

    module = helpers.Linked()
    units = sorted({row.unit for row in rows})
    for number in units:
        template = rows[number].prepared.template
        emit_unit(module, template, image, target, f"unit.{number}").linkage = "internal"
    place = {unit: at for at, unit in enumerate(units)}
    costs = [_effort(row, target) for row in rows]
    words: list[int] = []
    begins = [0]
    for issues in issues_of(image):
        for issue in by_start(issues, rows):
            row = rows[issue.template]
            words += (place[row.unit], issue.template, costs[issue.template])
            words += _row(row, issue)
        begins.append(len(words))
    functions = ", ".join(f"ptr @unit.{number}" for number in units) or "ptr null"
    widest = max((len(row.prepared.open) for row in rows), default=0)
    return (
        f"{module}{declarations()}"
        f"@units = internal constant [{max(1, len(units))} x ptr] [{functions}]\n"
        f"{_table('rows', words or [0])}{_table('begins', begins)}"
        f"{_run(len(image.arguments), max(1, widest))}"
    )


def _effort(row: Row, target: Target) -> int:
    """Work until Python is asked whether to go on."""
    if row.kind == timing.DMA:
        return dma_bytes(row.name, row.prepared.fields, target)
    return max(1, row.work)


def _row(row: Row, issue: TimedIssue) -> Iterator[int]:
    """The rest of an entry: whose traffic it is, whether it reads and writes, operands."""
    reads, writes = MOVES.get(row.name, (0, 0))
    yield from (row.prepared.template.hbm_arg, reads, writes)
    operands = [*issue.operands, *(Operand(-1, 64, value) for value in row.fixed)]
    yield len(operands)
    for operand in operands:
        known = operand.argument < 0
        yield from (max(0, operand.argument), 64 - operand.bits, 0 if known else -1, operand.offset)


def _table(name: str, words: Sequence[int]) -> str:
    body = ", ".join(f"i64 {word}" for word in words)
    return f"@{name} = internal constant [{len(words)} x i64] [{body}]\n"


def _run(arguments: int, widest: int) -> str:
    out = f'define i64 @"{RUN}"(ptr %c, ptr %args, i64 %core, i64 %cores) nounwind {{\n'
    out += f"  %values = alloca [{widest} x i64]\n"
    out += "  %b.p = getelementptr i64, ptr @begins, i64 %core\n  %b = load i64, ptr %b.p\n"
    out += "  %e.p = getelementptr i64, ptr %b.p, i64 1\n  %e = load i64, ptr %e.p\n"
    out += "  %first = getelementptr i64, ptr @rows, i64 %b\n"
    out += "  %last = getelementptr i64, ptr @rows, i64 %e\n"
    out += "  %r = call i64 @dsa.scheduled(ptr %c, ptr %args, ptr @units, ptr %first, ptr %last, "
    out += f"i64 {arguments}, ptr %values)\n"
    # what went past the caches is there for all before anybody hears of the end
    return out + "  fence seq_cst\n" + load("%s", Entry.STATUS) + "  ret i64 %s\n}\n"
