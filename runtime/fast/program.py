"""The LLVM IR of an image for this host: its instructions, what issuing one does, and the glue."""

from __future__ import annotations

from collections.abc import Sequence

from dsalang._backend import formats
from dsalang._backend.image.model import Image
from dsalang._backend.target import Target

from . import timing
from .common import declarations, end, load, service, store
from .context import RUN, Entry, Service, Status
from .glue import Glue, rewrite
from .plan import Row


def build(image: Image, target: Target, rows: Sequence[Row], functional: bool = True) -> str:
    """The module: `i64 dsa.run(ptr context, ptr args, i64 core, i64 cores)` runs a core and gives its Status."""
    from dsalang._backend.llvm.host import helpers
    from dsalang._backend.llvm.host.emit import emit_unit

    from . import timing_only

    glue: Glue = rewrite(image.glue, len(rows))
    module = helpers.Linked("dsa")
    text = [declarations(), _own()]
    for number, row in enumerate(rows):
        if row.kind in (timing.SET, timing.TAKE):
            text.append(_semaphore(number))
            continue
        name = f"unit.{number}"
        if functional:
            unit = emit_unit(module, row.prepared.template, image, target, name)
        else:
            unit = timing_only.emit(module, row, target, name)
        unit.linkage = "internal"
        text.append(_issue(number, row, len(image.arguments)))
    units = "\n".join(
        line for line in str(module).splitlines() if not line.startswith(("target ", "source_"))
    )
    text.append(glue.text)
    if '@"dsa.read"' in glue.text:
        text.append(_read(image, functional))
    return units + "\n" + "\n".join(text)


def _semaphore(number: int) -> str:
    return (
        f'define internal i64 @"issue.{number}"(ptr %c, i64 %values) alwaysinline nounwind {{\n'
        f"  %r = call i64 @dsa.append(ptr %c, i64 {number}, i64 -1, i64 0, i64 -1)\n  ret i64 %r\n}}\n"
    )


_MOVES = {
    "dma.load": (1, 0),
    "dma.gather": (1, 0),
    "dma.store": (0, 1),
    "dma.scatter": (0, 1),
    "dma.atomic": (1, 1),
}
"""Whether an instruction reads from HBM and whether it writes there."""


def _issue(number: int, row: Row, arguments: int) -> str:
    """Issue of a template that touches data: execute, then append to the trace."""
    unit, count = f'ptr @"unit.{number}"', len(row.prepared.open)
    executed = f"ptr %c, {unit}, i64 {number}, i64 %values, i64 {count}"
    at = f"i64 {row.address_operand}"
    if row.open_cost:
        return _issue_of_open_cost(number, row, executed)
    if row.kind == timing.DMA:
        reads, writes = _MOVES[row.name]
        argument = row.prepared.template.hbm_arg
        rest = f"i64 {argument}, i64 {reads}, i64 {writes}, i64 {arguments}"
        call = f"@dsa.transfer({executed}, {at}, {rest})"
    else:
        call = f"@dsa.compute({executed}, {at}, i64 {max(1, row.work)})"
    return (
        f'define internal i64 @"issue.{number}"(ptr %c, i64 %values) alwaysinline nounwind {{\n'
        f"  %r = call i64 {call}\n  ret i64 %r\n}}\n"
    )


def _issue_of_open_cost(number: int, row: Row, executed: str) -> str:
    """Issue of a template whose cost Python has to find."""
    out = f'define internal i64 @"issue.{number}"(ptr %c, i64 %values) nounwind {{\n'
    out += f"  %st = call i64 @dsa.execute({executed})\n"
    out += "  %bad = icmp ne i64 %st, 0\n  br i1 %bad, label %stop, label %ask\nstop:\n  ret i64 %st\nask:\n"
    out += service(Service.COST, str(number), "%values", "co")
    out += "  %cbad = icmp ne i64 %co, 0\n  br i1 %cbad, label %cstop, label %go\n"
    out += "cstop:\n  ret i64 %co\ngo:\n" + load("%c1", Entry.FIRST) + load("%c2", Entry.SECOND)
    out += f"  %ad = call i64 @dsa.address(i64 %values, i64 {row.address_operand})\n"
    return out + (
        f"  %r = call i64 @dsa.done(ptr %c, i64 {number}, i64 %c1, i64 %c2, i64 %ad, "
        f"i64 {max(1, row.work)})\n  ret i64 %r\n}}\n"
    )


def _read(image: Image, functional: bool) -> str:
    """`dsa.read`: a scalar of SRAM, sign-extended; a bad address or format ends the run."""
    head = 'define internal i64 @"dsa.read"(ptr %c, i64 %a, i64 %format) nounwind {\n'
    if not functional:
        return head + store(str(int(Status.NO_DATA)), Entry.STATUS, "s") + "  ret i64 0\n}\n"
    cases, blocks = "", ""
    for code, fmt in sorted(formats.BY_CODE.items()):
        cases += f" i64 {code}, label %f{code}"
        blocks += f"f{code}:\n  %l{code} = sub i64 {image.sram_bytes}, {fmt.bytes}\n"
        blocks += (
            f"  %o{code} = icmp ule i64 %a, %l{code}\n"
            if image.sram_bytes >= fmt.bytes
            else (f"  %o{code} = icmp ult i64 %a, 0\n")
        )
        blocks += f"  br i1 %o{code}, label %g{code}, label %bad\ng{code}:\n"
        blocks += f"  %v{code} = load i{8 * fmt.bytes}, ptr %p, align 1\n"
        if fmt.bits == 1:
            blocks += f"  %b{code} = and i8 %v{code}, 1\n  %x{code} = zext i8 %b{code} to i64\n"
        elif fmt.bytes < 8:
            blocks += f"  %x{code} = sext i{8 * fmt.bytes} %v{code} to i64\n"
        else:
            blocks += f"  %x{code} = add i64 %v{code}, 0\n"
        blocks += f"  %t{code} = call i64 @dsa.trace_read(ptr %c)\n  ret i64 %x{code}\n"
    body = load("%sram", Entry.SRAM) + "  %sp = inttoptr i64 %sram to ptr\n"
    body += "  %p = getelementptr i8, ptr %sp, i64 %a\n"
    body += f"  switch i64 %format, label %bad [{cases} ]\n{blocks}bad:\n"
    body += store("%a", Entry.DETAIL, "de") + store("%format", Entry.FORMAT, "fo")
    return head + body + store(str(int(Status.READ)), Entry.STATUS, "s") + "  ret i64 0\n}\n"


def _own() -> str:
    """What every image has for itself: short functions that are put into their callers, and the entry."""
    wait = 'define internal i64 @"dsa.wait"(ptr %c, i64 %sem, i64 %x) alwaysinline nounwind {\n'
    wait += f"  %r = call i64 @dsa.append(ptr %c, i64 {timing.WAIT}, i64 %sem, i64 0, i64 -1)\n"
    wait += "  ret i64 %r\n}\n"
    status = 'define internal i64 @"dsa.status"(ptr %c) alwaysinline nounwind {\n'
    status += load("%s", Entry.STATUS) + "  ret i64 %s\n}\n"
    run = f'define i64 @"{RUN}"(ptr %c, ptr %args, i64 %core, i64 %cores) nounwind {{\n'
    run += '  call void @"dsa_kernel"(ptr %args, i64 %core, i64 %cores, ptr %c)\n'
    # what went past the caches is there for all before anybody hears of the end
    run += "  fence seq_cst\n" + load("%s", Entry.STATUS) + "  %bad = icmp ne i64 %s, 0\n"
    run += "  br i1 %bad, label %out, label %last\nout:\n  ret i64 %s\nlast:\n"
    run += "  %r = call i64 @dsa.simulate(ptr %c, i64 1)\n  %stuck = icmp ne i64 %r, 0\n"
    run += "  br i1 %stuck, label %over, label %good\nover:\n" + end(Status.STUCK, "sk")
    run += "good:\n" + load("%s2", Entry.STATUS) + "  ret i64 %s2\n}\n"
    return wait + status + run
