"""An independent proof of a static schedule: the machine can keep it, and every instruction finds its data.

It shares only the machine's cost functions with the scheduler. It looks at the emitted instructions, at the
bytes they touch and at the order of the program they come from: whatever an instruction depends on there
must be over when it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .. import cost
from ..errors import InternalError
from ..formats import BY_CODE, OPERANDS_BY_CODE, by_name
from ..image.model import Template
from ..isa.table import BY_NAME, NONE, QUEUED, SCALE_BLOCK, Engine
from ..isa.vprog import VectorProgram
from ..llvm.table_glue import TimedIssue
from ..target import Target

Span = tuple[int, int]
Fields = cost.Fields


@dataclass(frozen=True)
class Scheduled:
    """An instruction of a schedule: its place in the program, the program of the grid it belongs to."""

    issue: TimedIssue
    position: int
    program: int


@dataclass(frozen=True)
class _Instruction:
    """What a template says, worked out once."""

    engine: Engine
    cycles: int
    transfer: int
    latency: int
    issue: int
    reads: tuple[Span, ...]
    writes: tuple[Span, ...]
    hbm: str
    box: Span | None

    @property
    def over(self) -> int:
        """Cycles from the start until what depends on it may start: in one cycle starts go before transfers."""
        begins = self.cycles if self.transfer >= 0 else 0
        return max(begins + 1, self.end + self.latency)

    @property
    def end(self) -> int:
        """Cycles from the start to the engine being free."""
        return self.cycles + max(self.transfer, 0)


def check_schedule(
    cores: Sequence[Sequence[Scheduled]],
    templates: Sequence[Template],
    programs: Sequence[VectorProgram],
    alias: Sequence[int],
    target: Target,
) -> tuple[int, ...]:
    """The cycles of each core. Raises InternalError when a schedule cannot be kept or gives wrong data.

    Args:
        cores: instructions of each core in the order of issue.
        alias: kernel arguments with equal numbers may overlap.
    """
    known = [_instruction(template, programs, target, len(cores)) for template in templates]
    cycles = []
    for number, core in enumerate(cores):
        work = [known[entry.issue.template] for entry in core]
        control = _issue(core, work, target)
        _port(core, work)
        by_program = sorted(range(len(core)), key=lambda n: core[n].position)
        _sram([(core[n].issue, work[n]) for n in by_program])
        _hbm([(core[n], work[n], templates[core[n].issue.template]) for n in by_program], alias)
        ends = (e.issue.start + w.end + w.latency for e, w in zip(core, work))
        cycles.append(max(control, *ends, 0))
        if any(entry.issue.start < 0 for entry in core):
            raise InternalError(f"schedule: core {number} starts before cycle 0")
    return tuple(cycles)


def _instruction(
    template: Template, programs: Sequence[VectorProgram], target: Target, cores: int
) -> _Instruction:
    op = template.instruction.op
    fields = cost.complete(op, template.instruction.fields)
    program = programs[cost.scalar(fields, "program")] if op == "vexec" else None
    engine = template.instruction.engine
    transfer, latency = -1, 0
    if engine in (Engine.LD, Engine.ST):
        transfer = cost.transfer_cycles(cost.dma_bytes(op, fields, target), target, cores)
        latency = target.hbm.latency_cycles
    role = BY_NAME[op].by_name["hbm"].role if "hbm" in fields else None
    reads, writes = _spans(op, fields, program)
    return _Instruction(
        engine=engine,
        cycles=cost.compute_cycles(op, fields, program, target),
        transfer=transfer,
        latency=latency,
        issue=cost.issue_cycles(len(template.open), target),
        reads=tuple(reads),
        writes=tuple(writes),
        hbm=(role or "").partition("_")[2],
        box=_hbm_span(fields) if "lo" in fields else None,
    )


# Time


def _issue(core: Sequence[Scheduled], work: Sequence[_Instruction], target: Target) -> int:
    """Every instruction is in its queue, and its engine free, when it is to start. When the last is issued."""
    control = 0
    starts: dict[Engine, list[int]] = {engine: [] for engine in QUEUED}
    free = dict.fromkeys(QUEUED, 0)
    for entry, what in zip(core, work, strict=True):
        queue, start = starts[what.engine], entry.issue.start
        control += what.issue
        if len(queue) >= target.queue_depth:
            control = max(control, queue[len(queue) - target.queue_depth])
        if start < control:
            raise _wrong(entry, f"cannot be issued before cycle {control}")
        if start < free[what.engine]:
            raise _wrong(entry, f"finds {what.engine.name} busy until cycle {free[what.engine]}")
        free[what.engine] = start + what.end
        queue.append(start)
    return control


def _port(core: Sequence[Scheduled], work: Sequence[_Instruction]) -> None:
    """Transfers do not meet at the HBM port."""
    moves = sorted(
        (entry.issue.start + what.cycles, what.transfer, number)
        for number, (entry, what) in enumerate(zip(core, work))
        if what.transfer >= 0
    )
    until = 0
    for begin, cycles, number in moves:
        if begin < until:
            raise _wrong(core[number], f"finds the HBM port busy until cycle {until}")
        until = begin + cycles


def _wrong(entry: Scheduled, what: str) -> InternalError:
    return InternalError(
        f"schedule: instruction {entry.position} (template {entry.issue.template}) starts at cycle "
        f"{entry.issue.start} and {what}"
    )


# Data


def _walk(base: int, sizes: Sequence[int], strides: Sequence[int], width: int) -> Span:
    """First and last byte of a strided walk, the end exclusive."""
    low = high = base
    for size, stride in zip(sizes, strides):
        reach = (size - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + width


def _present(address: int) -> bool:
    return address != NONE


def _hbm_span(fields: Fields) -> Span:
    """First and last byte of the valid part of a box in HBM, relative to its `hbm` address."""
    box = cost.valid_box(fields)
    if any(lo == hi for lo, hi in box):
        return 0, 0
    strides = cost.array(fields, "hbm_stride")
    base = sum(lo * stride for (lo, _), stride in zip(box, strides))
    sizes = [hi - lo for lo, hi in box]
    return _walk(base, sizes, strides, cost.scalar(fields, "elem_bytes"))


def _spans(op: str, fields: Fields, program: VectorProgram | None) -> tuple[list[Span], list[Span]]:
    """Byte ranges of SRAM that an instruction reads and writes."""

    def width(name: str) -> int:
        return BY_CODE[cost.scalar(fields, name)].bytes

    if op == "mma":
        return _mma_spans(fields)
    ndim = cost.scalar(fields, "ndim")
    sizes = cost.array(fields, "size")[:ndim]
    if op == "vexec":
        assert program is not None

        def operand(name: str, number: int, fmt: str) -> Span:
            strides = cost.array(fields, f"{name}_stride")[4 * number : 4 * number + ndim]
            return _walk(cost.array(fields, name)[number], sizes, strides, by_name(fmt).bytes)

        reads = [operand("in", n, fmt) for n, fmt in enumerate(program.inputs)]
        writes = [operand("out", n, fmt) for n, fmt in enumerate(program.outputs)]
        return reads, writes
    if op in ("reduce", "scan"):
        strides = cost.array(fields, "in_stride")
        reads = [_walk(cost.scalar(fields, "in"), sizes, strides, width("fmt"))]
        writes = []
        for name, bytes_ in (("out", width("fmt")), ("arg", 4)):
            if name in fields and _present(cost.scalar(fields, name)):
                strides = cost.array(fields, f"{name}_stride")
                writes.append(_walk(cost.scalar(fields, name), sizes, strides, bytes_))
        return reads, writes
    if op == "take":
        length, axis = cost.scalar(fields, "length"), cost.scalar(fields, "axis")
        shapes = {"in": (*sizes[:axis], length, *sizes[axis + 1 :]), "picks": sizes, "out": sizes}
        spans = {
            name: _walk(
                cost.scalar(fields, name),
                shape,
                cost.array(fields, f"{name}_stride"),
                width("picks_fmt" if name == "picks" else "fmt"),
            )
            for name, shape in shapes.items()
        }
        return [spans["in"], spans["picks"]], [spans["out"]]
    return _dma_spans(op, fields, sizes)


def _mma_spans(fields: Fields) -> tuple[list[Span], list[Span]]:
    batch, m, n, k = (cost.scalar(fields, name) for name in ("batch", "m", "n", "k"))

    def span(name: str, lead: str, rows: int, row_bytes: int) -> Span:
        strides = [cost.scalar(fields, f"batch_{name}"), cost.scalar(fields, lead)]
        return _walk(cost.scalar(fields, name), (batch, rows), strides, row_bytes)

    result = span("d", "ldd", m, n * BY_CODE[cost.scalar(fields, "fmt_d")].bytes)
    reads = []
    for name, along in (("a", m), ("b", n)) if k else ():
        fmt = OPERANDS_BY_CODE[cost.scalar(fields, f"fmt_{name}")]
        rows, columns = along, fmt.stored(k)
        if bool(cost.scalar(fields, f"trans_{name}")) != (name == "b"):
            rows, columns = columns, rows
        reads.append(span(name, f"ld{name}", rows, columns * fmt.bytes))
        if _present(cost.scalar(fields, f"scale_{name}")):
            scales = f"ld_scale_{name}"
            reads.append(span(f"scale_{name}", scales, along, -(-k // SCALE_BLOCK)))
    return [*reads, result], [result]


def _dma_spans(op: str, fields: Fields, sizes: Sequence[int]) -> tuple[list[Span], list[Span]]:
    width = cost.scalar(fields, "elem_bytes")
    strides = cost.array(fields, "sram_stride")
    tile = _walk(cost.scalar(fields, "sram"), sizes, strides, width)
    count = 1
    for size in sizes:
        count *= size
    lists = []
    if "offset" in fields:
        offset = cost.scalar(fields, "offset")
        lists.append((offset, offset + 8 * count))
    if "index" in fields:
        entry = BY_CODE[fmt].bytes if (fmt := cost.scalar(fields, "index_fmt")) else 8
        lists += [
            (a, a + entry * size)
            for a, size in zip(cost.array(fields, "index"), sizes)
            if a != NONE
        ]
    if op in ("dma.load", "dma.gather"):
        return lists, [tile]
    reads = [tile, *lists]
    writes: list[Span] = []
    for name, group in (("compare", reads), ("old", writes)):
        if name in fields and cost.scalar(fields, name) != NONE:
            group.append(_walk(cost.scalar(fields, name), sizes, strides, width))
    return reads, writes


@dataclass
class _Past:
    """The latest start and completion of accesses, by engine: what comes later in the program has to wait."""

    start: dict[Engine, int] = field(default_factory=dict)
    done: dict[Engine, int] = field(default_factory=dict)

    def add(self, engine: Engine, start: int, done: int) -> None:
        """One more access."""
        self.start[engine] = max(self.start.get(engine, -1), start)
        self.done[engine] = max(self.done.get(engine, -1), done)

    def free(self, engine: Engine, needs_result: bool) -> int:
        """The earliest start of an access of `engine` that conflicts with these."""
        earliest = 0
        for other, done in self.done.items():
            in_order = other == engine and not (needs_result and engine in (Engine.LD, Engine.ST))
            earliest = max(earliest, self.start[other] if in_order else done)
        return earliest


def _sram(instructions: Sequence[tuple[TimedIssue, _Instruction]]) -> None:
    """Instructions in program order find SRAM as the program means it."""
    spans = {span for _, work in instructions for span in (*work.reads, *work.writes)}
    near = _overlaps(spans)
    written = {span: _Past() for span in spans}
    read = {span: _Past() for span in spans}
    for issue, work in instructions:
        earliest = 0
        for span in work.reads:
            earliest = max(earliest, *(written[s].free(work.engine, True) for s in near[span]))
        for span in work.writes:
            for other in near[span]:
                earliest = max(
                    earliest,
                    written[other].free(work.engine, False),
                    read[other].free(work.engine, False),
                )
        if issue.start < earliest:
            raise InternalError(
                f"schedule: template {issue.template} starts at cycle {issue.start}, what it needs in SRAM "
                f"is over at cycle {earliest}"
            )
        done = issue.start + work.over
        for group, mine in ((written, work.writes), (read, work.reads)):
            for span in mine:
                group[span].add(work.engine, issue.start, done)


def _overlaps(spans: Iterable[Span]) -> dict[Span, list[Span]]:
    """For each span those that share a byte with it."""
    near: dict[Span, list[Span]] = {}
    open_: list[Span] = []
    for span in sorted(spans):
        open_ = [other for other in open_ if other[1] > span[0]]
        near[span] = [span, *open_]
        for other in open_:
            near[other].append(span)
        open_.append(span)
    return near


_OnHbm = tuple[Scheduled, _Instruction, Template]


def _hbm(instructions: Sequence[_OnHbm], alias: Sequence[int]) -> None:
    """Within a program of the grid, accesses to HBM that may meet keep the program's order."""
    program = -1
    loads: list[_OnHbm] = []
    stores: list[_OnHbm] = []
    for now in instructions:
        entry, work, _ = now
        if not work.hbm:
            continue
        if entry.program != program:
            program, loads, stores = entry.program, [], []
        for old in (*stores, *loads) if "w" in work.hbm else stores:
            done = _over(old, now)
            if entry.issue.start < done and _may_meet(old, now, alias):
                raise _wrong(entry, f"what it needs in HBM is over at cycle {done}")
        (stores if "w" in work.hbm else loads).append(now)


def _over(old: _OnHbm, now: _OnHbm) -> int:
    """When an access that would conflict with `old` may start."""
    entry, before, template = old
    atomics = template.instruction.op == now[2].instruction.op == "dma.atomic"
    needs_result = "w" in before.hbm and "r" in now[1].hbm and not atomics
    if before.engine == now[1].engine and not needs_result:
        return entry.issue.start
    return entry.issue.start + before.over


def _may_meet(a: _OnHbm, b: _OnHbm, alias: Sequence[int]) -> bool:
    """True unless two accesses to HBM are known to be apart."""
    first, second = a[2].hbm_arg, b[2].hbm_arg
    if first < 0 or second < 0:
        return True
    if first != second:
        return alias[first] == alias[second]
    here, there = _place(*a), _place(*b)
    if here is None or there is None:
        return True
    return here[0] < there[1] and there[0] < here[1]


def _place(entry: Scheduled, work: _Instruction, template: Template) -> Span | None:
    """Bytes of a box relative to its argument; None when the address is no argument plus a number."""
    if work.box is None or template.open != ("hbm",):
        return None
    if any(index != NONE for index in cost.array(template.instruction.fields, "index")):
        return None
    operand = entry.issue.operands[0]
    if operand.argument != template.hbm_arg:
        return None
    return work.box[0] + operand.offset, work.box[1] + operand.offset
