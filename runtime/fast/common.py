"""Functions that all images share: what happens once per instruction, and what units call; compiled once per host.

They stand in one object with the timing code (`simulator.py`); objects of images refer to them by name.
"""

from __future__ import annotations

import re

from dsalang._backend import formats
from dsalang._backend.llvm.host.abi import Slot

from . import timing
from .context import BATCH, Entry, Service, Status
from .simulator import SLOT

ROW = 8 * timing.RECORD
"""Bytes of a record of the trace."""


def text() -> str:
    """LLVM IR of all shared functions, visible to others."""
    from dsalang._backend.llvm.host import shared
    from dsalang._backend.llvm.host.host import this_host

    units = str(shared.everything(this_host()))
    # metadata has numbers, and the text it is put behind has its own
    units = re.sub(r"!(\d+)", lambda match: f"!{int(match[1]) + 1_000_000}", units)
    return units + RUNTIME


def declarations() -> str:
    """What an image's module says of the functions that are not units' helpers."""
    heads = re.findall(r"^define ((?!internal).*?\)) [^\n]*\{$", RUNTIME, re.MULTILINE)
    return "".join(f"declare {re.sub(r' %[a-z]+', '', head)} nounwind\n" for head in heads)


def place(name: str, entry: int, context: str = "%c") -> str:
    """The address of an entry of the context."""
    return f"  {name} = getelementptr i64, ptr {context}, i64 {int(entry)}\n"


def load(name: str, entry: int) -> str:
    """An entry of the context."""
    return place(f"{name}.p", entry) + f"  {name} = load i64, ptr {name}.p, align 8\n"


def store(value: str, entry: int, tag: str) -> str:
    """Set an entry of the context; `tag` makes names of values."""
    return place(f"%{tag}.p", entry) + f"  store i64 {value}, ptr %{tag}.p, align 8\n"


def end(status: int, tag: str) -> str:
    """Return with a Status."""
    return store(str(int(status)), Entry.STATUS, tag) + f"  ret i64 {int(status)}\n"


def service(service: Service, first: str, second: str, tag: str) -> str:
    """Ask Python for a Service; the value `tag` is not 0 when the run is to end."""
    return (
        f"  %{tag} = call i64 @dsa.service(ptr %c, i64 {int(service)}, i64 {first}, i64 {second})\n"
    )


def _machine() -> str:
    """The end of a batch of records, and calls into Python."""
    flush = "define i64 @dsa.flush(ptr %c) noinline nounwind {\n"
    flush += "  %r = call i64 @dsa.simulate(ptr %c, i64 0)\n"
    flush += "  %bad = icmp ne i64 %r, 0\n  br i1 %bad, label %stuck, label %fine\nstuck:\n"
    flush += end(Status.STUCK, "sk") + "fine:\n" + load("%bu", Entry.BUDGET)
    flush += f"  %bl = sub i64 %bu, {64 * BATCH}\n" + store("%bl", Entry.BUDGET, "bs")
    flush += "  ret i64 0\n}\n"
    simulate = "define i64 @dsa.simulate(ptr %c, i64 %final) nounwind {\n"
    simulate += load("%at", Entry.TRACE_AT) + load("%base", Entry.TRACE)
    simulate += load("%st", Entry.STATE) + load("%sim", Entry.SIMULATE)
    simulate += f"  %d = sub i64 %at, %base\n  %n = sdiv exact i64 %d, {ROW}\n"
    simulate += "  %stp = inttoptr i64 %st to ptr\n  %fn = inttoptr i64 %sim to ptr\n"
    simulate += f"  %tf = getelementptr i64, ptr %stp, i64 {SLOT['trace']}\n"
    simulate += "  store i64 %base, ptr %tf, align 8\n"
    simulate += "  %r = call i64 %fn(ptr %stp, i64 %n, i64 %final)\n"
    # The next batch goes behind this one while the log has room, so that a timeline can be made later.
    # Then one stays where it is, in the host's cache.
    simulate += load("%le", Entry.LOG_END)
    simulate += f"  %ne = add i64 %at, {ROW * BATCH}\n  %over = icmp ugt i64 %ne, %le\n"
    simulate += "  %nb = select i1 %over, i64 %base, i64 %at\n"
    simulate += f"  %nend = add i64 %nb, {ROW * BATCH}\n"
    simulate += load("%ld", Entry.LOGGED) + "  %lnew = add i64 %ld, %n\n"
    for name, entry, tag in (
        ("%nb", Entry.TRACE, "tb"),
        ("%nb", Entry.TRACE_AT, "ta"),
        ("%nend", Entry.TRACE_END, "te"),
        ("%lnew", Entry.LOGGED, "tl"),
    ):
        simulate += store(name, entry, tag)
    simulate += load("%watch", Entry.WATCHED)
    simulate += "  %w = icmp ne i64 %watch, 0\n  br i1 %w, label %tell, label %out\ntell:\n"
    simulate += (
        service(Service.TIMELINE, "0", "0", "ti") + "  br label %out\nout:\n  ret i64 %r\n}\n"
    )
    service_ = "define i64 @dsa.service(ptr %c, i64 %what, i64 %a, i64 %b) noinline nounwind {\n"
    service_ += store("%a", Entry.FIRST, "fi") + store("%b", Entry.SECOND, "se")
    service_ += load("%fn", Entry.SERVICE) + "  %fp = inttoptr i64 %fn to ptr\n"
    service_ += "  %r = call i64 %fp(i64 %what)\n"
    service_ += "  %bad = icmp ne i64 %r, 0\n  br i1 %bad, label %over, label %go\nover:\n"
    service_ += store("%r", Entry.STATUS, "st") + "  ret i64 %r\ngo:\n  ret i64 0\n}\n"
    read = "define i64 @dsa.trace_read(ptr %c) nounwind {\n"
    read += f"  %r = call i64 @dsa.append(ptr %c, i64 {timing.READ}, i64 0, i64 0, i64 -1)\n"
    read += "  ret i64 %r\n}\n"
    return "".join((flush, simulate, service_, read))


def _execute() -> str:
    """`dsa.execute`: a unit does its work, unless the run is to stop; not 0 ends the run."""
    out = "define i64 @dsa.execute(ptr %c, ptr %unit, i64 %code, i64 %values, i64 %count) nounwind {\n"
    out += place("%stop.p", Entry.STOP) + "  %stop = load volatile i64, ptr %stop.p, align 8\n"
    out += "  %asked = icmp ne i64 %stop, 0\n  br i1 %asked, label %stopped, label %work\n"
    out += "stopped:\n" + end(Status.STOPPED, "st") + "work:\n"
    out += load("%sram", Entry.SRAM) + "  %sp = inttoptr i64 %sram to ptr\n"
    out += "  %vp = inttoptr i64 %values to ptr\n"
    out += "  %fault = call i64 %unit(ptr %sp, ptr %vp, ptr %c)\n"
    out += "  %bad = icmp ne i64 %fault, 0\n  br i1 %bad, label %broken, label %done\nbroken:\n"
    out += "  %b = call i64 @dsa.broken(ptr %c, i64 %fault, i64 %code, ptr %vp, i64 %count)\n"
    return out + "  ret i64 %b\ndone:\n  ret i64 0\n}\n"


def _address() -> str:
    """`dsa.address`: the operand `at`, the SRAM address of an instruction in reports; -1 when it is static."""
    out = "define i64 @dsa.address(i64 %values, i64 %at) nounwind {\n"
    out += "  %static = icmp slt i64 %at, 0\n  br i1 %static, label %none, label %some\n"
    out += "none:\n  ret i64 -1\nsome:\n  %vp = inttoptr i64 %values to ptr\n"
    out += "  %p = getelementptr i64, ptr %vp, i64 %at\n  %a = load i64, ptr %p, align 8\n"
    return out + "  ret i64 %a\n}\n"


def _issues() -> str:
    """`dsa.transfer` and `dsa.compute`: an instruction of DMA, and another one, is executed and recorded."""
    head = "ptr %c, ptr %unit, i64 %code, i64 %values, i64 %count, i64 %at"
    work = (
        "  %st = call i64 @dsa.execute(ptr %c, ptr %unit, i64 %code, i64 %values, i64 %count)\n"
        "  %bad = icmp ne i64 %st, 0\n  br i1 %bad, label %stop, label %go\nstop:\n  ret i64 %st\ngo:\n"
        "  %ad = call i64 @dsa.address(i64 %values, i64 %at)\n"
    )
    return (
        f"define i64 @dsa.transfer({head}, i64 %argument, i64 %reads, i64 %writes, i64 %arguments) "
        f"nounwind {{\n{work}"
        "  %r = call i64 @dsa.moved(ptr %c, i64 %code, i64 %argument, i64 %reads, i64 %writes, i64 %ad, "
        "i64 %arguments)\n  ret i64 %r\n}\n"
        f"define i64 @dsa.compute({head}, i64 %effort) nounwind {{\n{work}"
        "  %r = call i64 @dsa.done(ptr %c, i64 %code, i64 -1, i64 0, i64 %ad, i64 %effort)\n"
        "  ret i64 %r\n}\n"
    )


def _append() -> str:
    """`dsa.append`: a record at the end of the trace."""
    out = (
        "define i64 @dsa.append(ptr %c, i64 %code, i64 %first, i64 %second, i64 %address) "
        "noinline nounwind {\n"
    )
    out += load("%at", Entry.TRACE_AT) + "  %row = inttoptr i64 %at to ptr\n"
    for word, value in enumerate(("%code", "%first", "%second", "%address")):
        out += f"  %w{word} = getelementptr i64, ptr %row, i64 {word}\n"
        out += f"  store i64 {value}, ptr %w{word}, align 8\n"
    out += f"  %next = add i64 %at, {ROW}\n" + store("%next", Entry.TRACE_AT, "ta")
    out += load("%end", Entry.TRACE_END) + "  %full = icmp eq i64 %next, %end\n"
    return out + (
        "  br i1 %full, label %flush, label %go\n"
        "flush:\n  %f = call i64 @dsa.flush(ptr %c)\n  ret i64 %f\n"
        "go:\n  ret i64 0\n}\n"
    )


def _done() -> str:
    """`dsa.done`: an instruction has been executed."""
    out = (
        "define i64 @dsa.done(ptr %c, i64 %code, i64 %first, i64 %second, i64 %address, "
        "i64 %effort) noinline nounwind {\n"
    )
    out += "  %po = call i64 @dsa.spend(ptr %c, i64 %effort)\n  %bad = icmp ne i64 %po, 0\n"
    out += "  br i1 %bad, label %stop, label %append\nstop:\n  ret i64 %po\nappend:\n"
    out += "  %r = call i64 @dsa.append(ptr %c, i64 %code, i64 %first, i64 %second, i64 %address)\n"
    return out + "  ret i64 %r\n}\n"


def _spend() -> str:
    """`dsa.spend`: work has been done; Python is asked now and then whether to go on."""
    out = "define internal i64 @dsa.spend(ptr %c, i64 %effort) alwaysinline nounwind {\n"
    out += load("%bu", Entry.BUDGET) + "  %bl = sub i64 %bu, %effort\n"
    out += store("%bl", Entry.BUDGET, "bs") + "  %spent = icmp slt i64 %bl, 0\n"
    out += "  br i1 %spent, label %ask, label %go\nask:\n"
    out += service(Service.POLL, "0", "0", "po")
    return out + "  ret i64 %po\ngo:\n  ret i64 0\n}\n"


def _moved() -> str:
    """`dsa.moved`: a transfer."""
    out = (
        "define i64 @dsa.moved(ptr %c, i64 %code, i64 %argument, i64 %reads, i64 %writes, "
        "i64 %address, i64 %arguments) noinline nounwind {\n"
    )
    out += (
        "  call void @dsa.count(ptr %c, i64 %argument, i64 %reads, i64 %writes, i64 %arguments)\n"
    )
    out += load("%burst", Slot.BURST_BYTES)
    out += "  %r = call i64 @dsa.done(ptr %c, i64 %code, i64 %burst, i64 0, i64 %address, i64 %burst)\n"
    return out + "  ret i64 %r\n}\n"


def _count() -> str:
    """`dsa.count`: a transfer's bytes count for its kernel argument, or its segment where that is unknown."""
    out = (
        "define internal void @dsa.count(ptr %c, i64 %argument, i64 %reads, i64 %writes, i64 %arguments) "
        "alwaysinline nounwind {\n"
    )
    out += load("%tr", Entry.TRAFFIC)
    out += "  %tp = inttoptr i64 %tr to ptr\n" + load("%sg", Slot.SEGMENT)
    # no segment: nothing was touched, and some entry gains nothing
    out += "  %none = icmp slt i64 %sg, 0\n  %s1 = select i1 %none, i64 0, i64 %sg\n"
    out += "  %s2 = add i64 %s1, %arguments\n  %known = icmp sge i64 %argument, 0\n"
    out += "  %label = select i1 %known, i64 %argument, i64 %s2\n  %ti = shl i64 %label, 1\n"
    for k, (slot, moves) in enumerate(
        ((Slot.READ_BYTES, "%reads"), (Slot.WRITTEN_BYTES, "%writes"))
    ):
        out += load(f"%m{k}", slot) + f"  %g{k} = mul i64 %m{k}, {moves}\n"
        out += f"  %tk{k} = add i64 %ti, {k}\n  %tq{k} = getelementptr i64, ptr %tp, i64 %tk{k}\n"
        out += f"  %to{k} = load i64, ptr %tq{k}, align 8\n  %tn{k} = add i64 %to{k}, %g{k}\n"
        out += f"  store i64 %tn{k}, ptr %tq{k}, align 8\n"
    return out + "  ret void\n}\n"


def _words(base: str, *names: str) -> str:
    """Words from an address on, each with a name."""
    return "".join(
        f"  %{name}.p = getelementptr i64, ptr {base}, i64 {k}\n"
        f"  %{name} = load i64, ptr %{name}.p, align 8\n"
        for k, name in enumerate(names)
    )


def _scheduled() -> str:
    """`dsa.scheduled`: executes what a table of `fixed_code.py` says."""
    row = _words("%at", "number", "template", "effort", "argument", "reads", "writes", "count")
    operand = _words("%where", "from", "shift", "mask", "offset")
    return f"""\
define i64 @dsa.scheduled(ptr %c, ptr %args, ptr %units, ptr %first, ptr %last, i64 %arguments, ptr %values) \
noinline nounwind {{
  %operands = ptrtoint ptr %values to i64
  %empty = icmp eq ptr %first, %last
  br i1 %empty, label %done, label %row
row:
  %at = phi ptr [ %first, %0 ], [ %next, %onward ]
{row}  %body = getelementptr i64, ptr %at, i64 7
  br label %operand
operand:
  %k = phi i64 [ 0, %row ], [ %following, %fill ]
  %where = phi ptr [ %body, %row ], [ %after, %fill ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %fill, label %work
fill:
{operand}  %raw.p = getelementptr i64, ptr %args, i64 %from
  %raw = load i64, ptr %raw.p, align 8
  %up = shl i64 %raw, %shift
  %down = ashr i64 %up, %shift
  %kept = and i64 %down, %mask
  %value = add i64 %kept, %offset
  %value.p = getelementptr i64, ptr %values, i64 %k
  store i64 %value, ptr %value.p, align 8
  %following = add i64 %k, 1
  %after = getelementptr i64, ptr %where, i64 4
  br label %operand
work:
  %next = phi ptr [ %where, %operand ]
  %unit.p = getelementptr ptr, ptr %units, i64 %number
  %unit = load ptr, ptr %unit.p, align 8
  %st = call i64 @dsa.execute(ptr %c, ptr %unit, i64 %template, i64 %operands, i64 %count)
  %bad = icmp ne i64 %st, 0
  br i1 %bad, label %stop, label %moved
stop:
  ret i64 %st
moved:
  %moves = or i64 %reads, %writes
  %dma = icmp ne i64 %moves, 0
  br i1 %dma, label %tally, label %spend
tally:
  call void @dsa.count(ptr %c, i64 %argument, i64 %reads, i64 %writes, i64 %arguments)
  br label %spend
spend:
  %po = call i64 @dsa.spend(ptr %c, i64 %effort)
  %over = icmp ne i64 %po, 0
  br i1 %over, label %asked, label %onward
asked:
  ret i64 %po
onward:
  %end = icmp eq ptr %next, %last
  br i1 %end, label %done, label %row
done:
  ret i64 0
}}
"""


def _broken() -> str:
    """`dsa.broken`: a unit has reported a fault; keeps what the message needs."""
    out = (
        "define i64 @dsa.broken(ptr %c, i64 %fault, i64 %code, ptr %values, i64 %count) "
        "noinline cold nounwind {\n"
    )
    out += store("%fault", Entry.DETAIL, "de") + store("%code", Entry.TEMPLATE, "te")
    out += store(str(int(Status.FAULT)), Entry.STATUS, "st") + place("%to", Entry.SIZE)
    out += "  br label %head\nhead:\n  %i = phi i64 [0, %0], [%j, %body]\n"
    out += "  %more = icmp slt i64 %i, %count\n  br i1 %more, label %body, label %out\nbody:\n"
    out += "  %from = getelementptr i64, ptr %values, i64 %i\n  %v = load i64, ptr %from, align 8\n"
    out += "  %at = getelementptr i64, ptr %to, i64 %i\n  store i64 %v, ptr %at, align 8\n"
    out += f"  %j = add i64 %i, 1\n  br label %head\nout:\n  ret i64 {int(Status.FAULT)}\n}}\n"
    return out


def _read() -> str:
    """`dsa.read`: a scalar of SRAM, sign-extended; a bad address or format ends the run. `dsa.no_read`: always."""
    cases, blocks = "", ""
    for code, fmt in sorted(formats.BY_CODE.items()):
        cases += f" i64 {code}, label %f{code}"
        blocks += f"f{code}:\n  %e{code} = add i64 %a, {fmt.bytes}\n"
        blocks += f"  %o{code} = icmp ule i64 %e{code}, %size\n"
        blocks += f"  %i{code} = and i1 %o{code}, %low\n"
        blocks += f"  br i1 %i{code}, label %g{code}, label %bad\ng{code}:\n"
        blocks += f"  %v{code} = load i{8 * fmt.bytes}, ptr %p, align 1\n"
        if fmt.bits == 1:
            blocks += f"  %b{code} = and i8 %v{code}, 1\n  %x{code} = zext i8 %b{code} to i64\n"
        elif fmt.bytes < 8:
            blocks += f"  %x{code} = sext i{8 * fmt.bytes} %v{code} to i64\n"
        else:
            blocks += f"  %x{code} = add i64 %v{code}, 0\n"
        blocks += f"  %t{code} = call i64 @dsa.trace_read(ptr %c)\n  ret i64 %x{code}\n"
    body = load("%sram", Entry.SRAM) + "  %sp = inttoptr i64 %sram to ptr\n"
    body += load("%size", Slot.SRAM_BYTES) + "  %pa = call i64 @dsa.place(ptr %c, i64 %a)\n"
    body += "  %p = getelementptr i8, ptr %sp, i64 %pa\n"
    body += "  %low = icmp ule i64 %a, %size\n"
    body += f"  switch i64 %format, label %bad [{cases} ]\n{blocks}bad:\n"
    body += store("%a", Entry.DETAIL, "de") + store("%format", Entry.FORMAT, "fo")
    body += store(str(int(Status.READ)), Entry.STATUS, "s") + "  ret i64 0\n}\n"
    none = store(str(int(Status.NO_DATA)), Entry.STATUS, "s") + "  ret i64 0\n}\n"
    head = "(ptr %c, i64 %a, i64 %format) noinline nounwind {\n"
    return f"define i64 @dsa.read{head}{body}define i64 @dsa.no_read{head}{none}"


def _finish() -> str:
    """`dsa.finish`: the control core is through; gives the run's Status, and `dsa.status` that of now."""
    status = "define i64 @dsa.status(ptr %c) nounwind {\n"
    status += load("%s", Entry.STATUS) + "  ret i64 %s\n}\n"
    # what went past the caches is there for all before anybody hears of the end
    finish = "define i64 @dsa.finish(ptr %c) nounwind {\n  fence seq_cst\n"
    finish += "  %r = call i64 @dsa.simulate(ptr %c, i64 1)\n  %stuck = icmp ne i64 %r, 0\n"
    finish += "  br i1 %stuck, label %over, label %good\nover:\n" + end(Status.STUCK, "sk")
    return status + finish + "good:\n" + load("%s", Entry.STATUS) + "  ret i64 %s\n}\n"


def _print() -> str:
    out = 'define i64 @"dsa.print"(ptr %c, i64 %n, i64 %values) nounwind {\n'
    return out + service(Service.PRINT, "%n", "%values", "r") + "  ret i64 %r\n}\n"


def _assert() -> str:
    out = 'define i64 @"dsa.assert"(ptr %c, i64 %n, i64 %holds) nounwind {\n'
    out += "  %bad = icmp eq i64 %holds, 0\n  br i1 %bad, label %fail, label %go\nfail:\n"
    out += store("%n", Entry.DETAIL, "de") + end(Status.ASSERT, "as")
    return out + "go:\n  ret i64 0\n}\n"


RUNTIME = "".join(
    (
        _machine(),
        _execute(),
        _address(),
        _issues(),
        _append(),
        _spend(),
        _done(),
        _count(),
        _moved(),
        _scheduled(),
        _broken(),
        _read(),
        _finish(),
        _print(),
        _assert(),
    )
)
"""What happens once per instruction."""
