"""The LLVM IR of an image for this host: its instructions, what issuing one does, and the glue."""

from __future__ import annotations

from collections.abc import Sequence

from dsalang._backend import formats
from dsalang._backend.image.model import Image
from dsalang._backend.llvm.host.abi import Slot
from dsalang._backend.target import Target

from . import timing
from .context import BATCH, RUN, Entry, Service, Status
from .glue import Glue, rewrite
from .plan import Row
from .simulator import SLOT

_ROW = 8 * timing.RECORD


def build(image: Image, target: Target, rows: Sequence[Row], functional: bool = True) -> str:
    """The module: `i64 dsa.run(ptr context, ptr args, i64 core, i64 cores)` runs a core and gives its Status."""
    import llvmlite.ir as ir

    from dsalang._backend.llvm.host.emit import emit_unit

    from . import timing_only

    glue: Glue = rewrite(image.glue, len(rows))
    module = ir.Module("dsa")
    text = [_COMMON, _moved(len(image.arguments))]
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
        text.append(_issue(number, row))
    units = "\n".join(
        line for line in str(module).splitlines() if not line.startswith(("target ", "source_"))
    )
    text += [_print(), _assert(), glue.text]
    if '@"dsa.read"' in glue.text:
        text.append(_read(image, functional))
    return units + "\n" + "\n".join(text)


def _entry(name: str, entry: int, context: str = "%c") -> str:
    return f"  {name} = getelementptr i64, ptr {context}, i64 {int(entry)}\n"


def _load(name: str, entry: int) -> str:
    return _entry(f"{name}.p", entry) + f"  {name} = load i64, ptr {name}.p, align 8\n"


def _store(value: str, entry: int, tag: str) -> str:
    return _entry(f"%{tag}.p", entry) + f"  store i64 {value}, ptr %{tag}.p, align 8\n"


def _end(status: int, tag: str) -> str:
    return _store(str(int(status)), Entry.STATUS, tag) + f"  ret i64 {int(status)}\n"


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


def _issue(number: int, row: Row) -> str:
    """Issue of a template that touches data: execute, then append to the trace."""
    count = len(row.prepared.open)
    out = f'define internal i64 @"issue.{number}"(ptr %c, i64 %values) nounwind {{\n'
    out += _entry("%stop.p", Entry.STOP) + "  %stop = load volatile i64, ptr %stop.p, align 8\n"
    out += "  %asked = icmp ne i64 %stop, 0\n  br i1 %asked, label %stopped, label %execute\n"
    out += "stopped:\n" + _end(Status.STOPPED, "st") + "execute:\n"
    out += _load("%sram", Entry.SRAM) + "  %sp = inttoptr i64 %sram to ptr\n"
    out += "  %vp = inttoptr i64 %values to ptr\n"
    out += f'  %fault = call i64 @"unit.{number}"(ptr %sp, ptr %vp, ptr %c)\n'
    out += "  %bad = icmp ne i64 %fault, 0\n  br i1 %bad, label %broken, label %done\nbroken:\n"
    out += f"  %b = call i64 @dsa.broken(ptr %c, i64 %fault, i64 {number}, ptr %vp, i64 {count})\n"
    out += "  ret i64 %b\ndone:\n"
    address = "-1"
    if row.address_operand >= 0:
        out += f"  %ad.p = getelementptr i64, ptr %vp, i64 {row.address_operand}\n"
        out += "  %ad = load i64, ptr %ad.p, align 8\n"
        address = "%ad"
    if row.kind == timing.DMA:
        reads, writes = _MOVES[row.name]
        argument = row.prepared.template.hbm_arg
        out += (
            f"  %r = call i64 @dsa.moved(ptr %c, i64 {number}, i64 {argument}, i64 {reads}, "
            f"i64 {writes}, i64 {address})\n"
        )
        return out + "  ret i64 %r\n}\n"
    first, second = "-1", "0"
    if row.open_cost:
        out += _service(Service.COST, str(number), "%values", "co")
        out += "  %cbad = icmp ne i64 %co, 0\n  br i1 %cbad, label %cstop, label %cgo\n"
        out += "cstop:\n  ret i64 %co\ncgo:\n"
        out += _load("%c1", Entry.FIRST) + _load("%c2", Entry.SECOND)
        first, second = "%c1", "%c2"
    out += (
        f"  %r = call i64 @dsa.done(ptr %c, i64 {number}, i64 {first}, i64 {second}, i64 {address}, "
        f"i64 {max(1, row.work)})\n"
    )
    return out + "  ret i64 %r\n}\n"


def _service(service: Service, first: str, second: str, tag: str) -> str:
    return (
        f"  %{tag} = call i64 @dsa.service(ptr %c, i64 {int(service)}, i64 {first}, i64 {second})\n"
    )


def _append() -> str:
    """`dsa.append`: a record at the end of the trace."""
    out = (
        "define internal i64 @dsa.append(ptr %c, i64 %code, i64 %first, i64 %second, i64 %address) "
        "noinline nounwind {\n"
    )
    out += _load("%at", Entry.TRACE_AT) + "  %row = inttoptr i64 %at to ptr\n"
    for word, value in enumerate(("%code", "%first", "%second", "%address")):
        out += f"  %w{word} = getelementptr i64, ptr %row, i64 {word}\n"
        out += f"  store i64 {value}, ptr %w{word}, align 8\n"
    out += f"  %next = add i64 %at, {_ROW}\n" + _store("%next", Entry.TRACE_AT, "ta")
    out += _load("%end", Entry.TRACE_END) + "  %full = icmp eq i64 %next, %end\n"
    return out + (
        "  br i1 %full, label %flush, label %go\n"
        "flush:\n  %f = call i64 @dsa.flush(ptr %c)\n  ret i64 %f\n"
        "go:\n  ret i64 0\n}\n"
    )


def _done() -> str:
    """`dsa.done`: an instruction has been executed; Python is asked now and then whether to go on."""
    out = (
        "define internal i64 @dsa.done(ptr %c, i64 %code, i64 %first, i64 %second, i64 %address, "
        "i64 %effort) noinline nounwind {\n"
    )
    out += _load("%bu", Entry.BUDGET) + "  %bl = sub i64 %bu, %effort\n"
    out += _store("%bl", Entry.BUDGET, "bs") + "  %spent = icmp slt i64 %bl, 0\n"
    out += "  br i1 %spent, label %ask, label %append\nask:\n"
    out += _service(Service.POLL, "0", "0", "po") + "  %bad = icmp ne i64 %po, 0\n"
    out += "  br i1 %bad, label %stop, label %append\nstop:\n  ret i64 %po\nappend:\n"
    out += "  %r = call i64 @dsa.append(ptr %c, i64 %code, i64 %first, i64 %second, i64 %address)\n"
    return out + "  ret i64 %r\n}\n"


def _moved(arguments: int) -> str:
    """`dsa.moved`: a transfer; its bytes count for its kernel argument, or its segment where that is unknown."""
    out = (
        "define internal i64 @dsa.moved(ptr %c, i64 %code, i64 %argument, i64 %reads, i64 %writes, "
        "i64 %address) noinline nounwind {\n"
    )
    out += _load("%burst", Slot.BURST_BYTES) + _load("%tr", Entry.TRAFFIC)
    out += "  %tp = inttoptr i64 %tr to ptr\n" + _load("%sg", Slot.SEGMENT)
    # no segment: nothing was touched, and some entry gains nothing
    out += "  %none = icmp slt i64 %sg, 0\n  %s1 = select i1 %none, i64 0, i64 %sg\n"
    out += f"  %s2 = add i64 %s1, {arguments}\n  %known = icmp sge i64 %argument, 0\n"
    out += "  %label = select i1 %known, i64 %argument, i64 %s2\n  %ti = shl i64 %label, 1\n"
    for k, (slot, moves) in enumerate(
        ((Slot.READ_BYTES, "%reads"), (Slot.WRITTEN_BYTES, "%writes"))
    ):
        out += _load(f"%m{k}", slot) + f"  %g{k} = mul i64 %m{k}, {moves}\n"
        out += f"  %tk{k} = add i64 %ti, {k}\n  %tq{k} = getelementptr i64, ptr %tp, i64 %tk{k}\n"
        out += f"  %to{k} = load i64, ptr %tq{k}, align 8\n  %tn{k} = add i64 %to{k}, %g{k}\n"
        out += f"  store i64 %tn{k}, ptr %tq{k}, align 8\n"
    out += "  %r = call i64 @dsa.done(ptr %c, i64 %code, i64 %burst, i64 0, i64 %address, i64 %burst)\n"
    return out + "  ret i64 %r\n}\n"


def _broken() -> str:
    """`dsa.broken`: a unit has reported a fault; keeps what the message needs."""
    out = (
        "define internal i64 @dsa.broken(ptr %c, i64 %fault, i64 %code, ptr %values, i64 %count) "
        "noinline cold nounwind {\n"
    )
    out += _store("%fault", Entry.DETAIL, "de") + _store("%code", Entry.TEMPLATE, "te")
    out += _store(str(int(Status.FAULT)), Entry.STATUS, "st") + _entry("%to", Entry.SIZE)
    out += "  br label %head\nhead:\n  %i = phi i64 [0, %0], [%j, %body]\n"
    out += "  %more = icmp slt i64 %i, %count\n  br i1 %more, label %body, label %out\nbody:\n"
    out += "  %from = getelementptr i64, ptr %values, i64 %i\n  %v = load i64, ptr %from, align 8\n"
    out += "  %at = getelementptr i64, ptr %to, i64 %i\n  store i64 %v, ptr %at, align 8\n"
    out += f"  %j = add i64 %i, 1\n  br label %head\nout:\n  ret i64 {int(Status.FAULT)}\n}}\n"
    return out


def _print() -> str:
    out = 'define internal i64 @"dsa.print"(ptr %c, i64 %n, i64 %values) nounwind {\n'
    return out + _service(Service.PRINT, "%n", "%values", "r") + "  ret i64 %r\n}\n"


def _assert() -> str:
    out = 'define internal i64 @"dsa.assert"(ptr %c, i64 %n, i64 %holds) nounwind {\n'
    out += "  %bad = icmp eq i64 %holds, 0\n  br i1 %bad, label %fail, label %go\nfail:\n"
    out += _store("%n", Entry.DETAIL, "de") + _end(Status.ASSERT, "as")
    return out + "go:\n  ret i64 0\n}\n"


def _read(image: Image, functional: bool) -> str:
    """`dsa.read`: a scalar of SRAM, sign-extended; a bad address or format ends the run."""
    head = 'define internal i64 @"dsa.read"(ptr %c, i64 %a, i64 %format) nounwind {\n'
    if not functional:
        return head + _store(str(int(Status.NO_DATA)), Entry.STATUS, "s") + "  ret i64 0\n}\n"
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
    body = _load("%sram", Entry.SRAM) + "  %sp = inttoptr i64 %sram to ptr\n"
    body += "  %p = getelementptr i8, ptr %sp, i64 %a\n"
    body += f"  switch i64 %format, label %bad [{cases} ]\n{blocks}bad:\n"
    body += _store("%a", Entry.DETAIL, "de") + _store("%format", Entry.FORMAT, "fo")
    return head + body + _store(str(int(Status.READ)), Entry.STATUS, "s") + "  ret i64 0\n}\n"


def _common() -> str:
    """What every image needs: flush, services, waits, the entry."""
    flush = "define internal i64 @dsa.flush(ptr %c) noinline nounwind {\n"
    flush += "  %r = call i64 @dsa.simulate(ptr %c, i64 0)\n"
    flush += "  %bad = icmp ne i64 %r, 0\n  br i1 %bad, label %stuck, label %fine\nstuck:\n"
    flush += _end(Status.STUCK, "sk") + "fine:\n" + _load("%bu", Entry.BUDGET)
    flush += f"  %bl = sub i64 %bu, {64 * BATCH}\n" + _store("%bl", Entry.BUDGET, "bs")
    flush += "  ret i64 0\n}\n"
    simulate = "define internal i64 @dsa.simulate(ptr %c, i64 %final) nounwind {\n"
    simulate += _load("%at", Entry.TRACE_AT) + _load("%base", Entry.TRACE)
    simulate += _load("%st", Entry.STATE) + _load("%sim", Entry.SIMULATE)
    simulate += f"  %d = sub i64 %at, %base\n  %n = sdiv exact i64 %d, {_ROW}\n"
    simulate += "  %stp = inttoptr i64 %st to ptr\n  %fn = inttoptr i64 %sim to ptr\n"
    simulate += f"  %tf = getelementptr i64, ptr %stp, i64 {SLOT['trace']}\n"
    simulate += "  store i64 %base, ptr %tf, align 8\n"
    simulate += "  %r = call i64 %fn(ptr %stp, i64 %n, i64 %final)\n"
    # The next batch goes behind this one while the log has room, so that a timeline can be made later.
    # Then one stays where it is, in the host's cache.
    simulate += _load("%le", Entry.LOG_END)
    simulate += f"  %ne = add i64 %at, {_ROW * BATCH}\n  %over = icmp ugt i64 %ne, %le\n"
    simulate += "  %nb = select i1 %over, i64 %base, i64 %at\n"
    simulate += f"  %nend = add i64 %nb, {_ROW * BATCH}\n"
    simulate += _load("%ld", Entry.LOGGED) + "  %lnew = add i64 %ld, %n\n"
    for name, entry, tag in (
        ("%nb", Entry.TRACE, "tb"),
        ("%nb", Entry.TRACE_AT, "ta"),
        ("%nend", Entry.TRACE_END, "te"),
        ("%lnew", Entry.LOGGED, "tl"),
    ):
        simulate += _store(name, entry, tag)
    simulate += _load("%watch", Entry.WATCHED)
    simulate += "  %w = icmp ne i64 %watch, 0\n  br i1 %w, label %tell, label %out\ntell:\n"
    simulate += (
        _service(Service.TIMELINE, "0", "0", "ti") + "  br label %out\nout:\n  ret i64 %r\n}\n"
    )
    service = (
        "define internal i64 @dsa.service(ptr %c, i64 %what, i64 %a, i64 %b) noinline nounwind {\n"
    )
    service += _store("%a", Entry.FIRST, "fi") + _store("%b", Entry.SECOND, "se")
    service += _load("%fn", Entry.SERVICE) + "  %fp = inttoptr i64 %fn to ptr\n"
    service += "  %r = call i64 %fp(i64 %what)\n"
    service += "  %bad = icmp ne i64 %r, 0\n  br i1 %bad, label %over, label %go\nover:\n"
    service += _store("%r", Entry.STATUS, "st") + "  ret i64 %r\ngo:\n  ret i64 0\n}\n"
    wait = 'define internal i64 @"dsa.wait"(ptr %c, i64 %sem, i64 %x) alwaysinline nounwind {\n'
    wait += f"  %r = call i64 @dsa.append(ptr %c, i64 {timing.WAIT}, i64 %sem, i64 0, i64 -1)\n"
    wait += "  ret i64 %r\n}\n"
    read = "define internal i64 @dsa.trace_read(ptr %c) nounwind {\n"
    read += f"  %r = call i64 @dsa.append(ptr %c, i64 {timing.READ}, i64 0, i64 0, i64 -1)\n"
    read += "  ret i64 %r\n}\n"
    status = 'define internal i64 @"dsa.status"(ptr %c) alwaysinline nounwind {\n'
    status += _load("%s", Entry.STATUS) + "  ret i64 %s\n}\n"
    run = f'define i64 @"{RUN}"(ptr %c, ptr %args, i64 %core, i64 %cores) nounwind {{\n'
    run += '  call void @"dsa_kernel"(ptr %args, i64 %core, i64 %cores, ptr %c)\n'
    # what went past the caches is there for all before anybody hears of the end
    run += "  fence seq_cst\n" + _load("%s", Entry.STATUS) + "  %bad = icmp ne i64 %s, 0\n"
    run += "  br i1 %bad, label %out, label %last\nout:\n  ret i64 %s\nlast:\n"
    run += "  %r = call i64 @dsa.simulate(ptr %c, i64 1)\n  %stuck = icmp ne i64 %r, 0\n"
    run += "  br i1 %stuck, label %over, label %good\nover:\n" + _end(Status.STUCK, "sk")
    run += "good:\n" + _load("%s2", Entry.STATUS) + "  ret i64 %s2\n}\n"
    return "".join(
        (flush, simulate, service, wait, read, status, run, _append(), _done(), _broken())
    )


_COMMON = _common()
