"""What the control core of each core does, run at compile time: the stream of instructions and flags.

Every instruction comes with what its time and its order depend on: a template whose fields are filled in
as far as compile time knows them, what it accesses, and the program of the grid it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func, scf
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import dsa
from ..dialects.dsa import SlotType
from ..dialects.locations import from_ir
from ..errors import CompileError, InternalError
from ..image.tables import Tables, issue_template
from ..isa.table import BY_NAME, Engine
from ..llvm.table_glue import Operand
from ..target import Target
from .schedule_masks import LISTS, OffsetLists
from .schedule_stream import Access, Step, constants_of, reach_of, strings_of
from .schedule_values import Function, Symbol, Unknown, Value, evaluate, function_of, width, wrap

MAX_STEPS = 500_000
"""Instructions and flags of a core that a schedule may have."""

_HINT = (
    "a static schedule needs every bound, condition, size and stride at compile time: pass it as a constant, "
    "or use schedule='dynamic'"
)
_OPEN = ("hbm", "scalar", "fill")
"""Fields that neither time nor order in SRAM depends on."""


@dataclass(eq=False)
class _Form:
    """What never changes about an issue op; `made` has its templates by the operands that are known.

    `hbm` says how it touches HBM ("r", "w", "rw"; None: not at all), at `hbm_base` of argument `hbm_arg`.
    """

    op: dsa.IssueOp
    name: str
    engine: Engine
    bound: list[tuple[str, SSAValue]]
    sram: list[tuple[SSAValue, bool, bool]]
    hbm: str | None
    hbm_base: SSAValue | None
    hbm_arg: int
    operands_before: int
    made: dict[tuple[int | None, ...], tuple[int, tuple[int, ...]]] = field(default_factory=dict)


@dataclass(eq=False)
class _Line:
    """An op made ready to run: arithmetic has a function, everything else but loops and terminators a `run`."""

    op: Operation
    operands: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    function: Function | None = None
    run: Callable[[_Run, _Line], None] | None = None
    step: Step | None = None
    form: _Form | None = None


@dataclass(eq=False)
class Trace:
    """Runs a kernel for core after core; `tables` collects the templates of all of them.

    `values` has those of integer arguments, by name; without a value an argument stays a symbol.
    """

    kernel: func.FuncOp
    target: Target
    grid: tuple[int, int, int]
    cores: int
    values: Mapping[str, int] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)

    def __post_init__(self) -> None:
        block = self.kernel.body.blocks[0]
        self.names = strings_of(self.kernel, "dsa.args")
        pointers = [fmt.startswith("*") for fmt in strings_of(self.kernel, "dsa.formats")]
        self.pointers = [number for number, is_pointer in enumerate(pointers) if is_pointer]
        self.constants = constants_of(block)
        self.ready: dict[Block, list[_Line]] = {}
        issues = (op for op in block.walk() if isinstance(op, dsa.IssueOp))
        self.has_lists = any(op.op.data in LISTS for op in issues)
        align = self.target.sram_align_bytes
        self.rings: dict[SSAValue, tuple[int, int, int, int]] = {}
        for op in block.ops:
            if isinstance(op, dsa.RingOp):
                size = op.bytes.value.data
                slots = op.slots.value.data
                self.rings[op.result] = op.address.value.data, slots, size + -size % align, size

    def core(self, number: int) -> list[Step]:
        """The stream of one core. Raises CompileError where compile time does not know what happens."""
        return _Run(self, number).steps

    def lines(self, block: Block) -> list[_Line]:
        """The ops of a block, made ready when it first runs."""
        found = self.ready.get(block)
        if found is None:
            found = self.ready[block] = [self.line(op) for op in block.ops]
        return found

    def line(self, op: Operation) -> _Line:
        """One op, made ready."""
        line = _Line(op, tuple(op.operands), tuple(op.results))
        if op.name.startswith("arith."):
            line.function = function_of(op)
        elif isinstance(op, dsa.IssueOp):
            line.form, line.run = self.form(op), _Run.issue
        elif isinstance(op, dsa.SetOp | dsa.WaitOp):
            name = "set" if isinstance(op, dsa.SetOp) else "wait"
            line.step = Step(name, Engine(op.engine.value.data), sem=op.sem.value.data)
            line.run = _Run.signal
        elif type(op) in _RUN:
            line.run = _RUN[type(op)]
        elif not isinstance(op, scf.ForOp | scf.YieldOp | func.ReturnOp | scf.ConditionOp):
            raise InternalError(f"schedule: {op.name} cannot run on the control core")
        return line

    def form(self, op: dsa.IssueOp) -> _Form:
        """An issue op, made ready."""
        row, bound = BY_NAME[op.op.data], op.bound()
        sram = []
        for name, value in bound.items():
            role = row.by_name[name.partition(".")[0]].role or ""
            if isinstance(value.type, SlotType) and role.startswith("sram"):
                how = role.partition("_")[2]
                sram.append((value, "r" in how, "w" in how))
        access = row.by_name["hbm"].role if "hbm" in row.by_name else None
        return _Form(
            op=op,
            name=row.name,
            engine=op.engine,
            bound=list(bound.items()),
            sram=sram,
            hbm=access.partition("_")[2] if access else None,
            hbm_base=bound.get("hbm"),
            hbm_arg=-1 if op.hbm_arg is None else op.hbm_arg.value.data,
            operands_before=sum(value not in self.constants for value in bound.values()),
        )


class _Run:
    """One core's run."""

    def __init__(self, trace: Trace, core: int) -> None:
        self.trace, self.number = trace, core
        self.steps: list[Step] = []
        self.values: dict[SSAValue, Value] = {}
        self.slots: dict[SSAValue, tuple[int, int]] = {}
        self.turns: dict[SSAValue, int] = {}
        self.lists = OffsetLists(trace.tables)
        self.program = -1
        block = trace.kernel.body.blocks[0]
        for argument, value in enumerate(block.args):
            known = trace.values.get(trace.names[argument])
            bits = width(value.type)
            self.values[value] = Symbol(argument, bits) if known is None else wrap(known, bits)
        self.block(block, top=True)

    # Values

    def integer(self, value: SSAValue, what: str, op: Operation) -> int:
        """A value that must be known."""
        known = self.values[value]
        if isinstance(known, int):
            return known
        raise self.unknown(known, what, op)

    def unknown(self, value: Value, what: str, op: Operation) -> CompileError:
        """The error for a value that compile time would have to know."""
        loc = from_ir(op.location)
        if isinstance(value, Symbol):
            cause = f"argument {self.trace.names[value.argument]!r}"
        elif isinstance(value, Unknown):
            cause = value.why
            if cause.startswith("argument "):
                cause = f"argument {self.trace.names[int(cause.split()[1])]!r}"
            elif value.loc is not None and value.loc != loc:
                cause += f" at line {value.loc.line}"
        else:
            cause = "it"
        return CompileError(
            f"schedule='static': {what} depends on {cause}, which is not known at compile time",
            loc,
            _HINT,
        )

    # Control flow

    def block(self, block: Block, top: bool = False) -> list[Value]:
        """Run a block; what its terminator passes on."""
        values = self.values
        for line in self.trace.lines(block):
            if line.function is not None:
                operands = [values[operand] for operand in line.operands]
                for result, value in zip(line.results, evaluate(line.op, line.function, operands)):
                    values[result] = value
            elif line.run is not None:
                line.run(self, line)
            elif isinstance(line.op, scf.ForOp):
                self.loop(line.op, grid=top)
            else:
                return [values[operand] for operand in line.operands]
        return []

    def if_(self, line: _Line) -> None:
        """One of two regions."""
        op = line.op
        assert isinstance(op, scf.IfOp)
        taken = self.integer(op.cond, "a condition", op)
        region = op.true_region if taken else op.false_region
        results = self.block(region.blocks[0]) if region.blocks else []
        self.values.update(zip(line.results, results))

    def loop(self, op: scf.ForOp, grid: bool) -> None:
        low, high, step = (
            self.integer(bound, "the bound of a loop", op) for bound in (op.lb, op.ub, op.step)
        )
        carried = [self.values[value] for value in op.iter_args]
        block = op.body.blocks[0]
        for counter in range(low, high, step):
            if grid:
                self.program = counter
            self.values.update(zip(block.args, [counter, *carried]))
            carried = self.block(block)
        self.values.update(zip(op.results, carried))

    def while_(self, line: _Line) -> None:
        """A loop with its condition in front."""
        op = line.op
        assert isinstance(op, scf.WhileOp)
        first, second = op.before_region.blocks[0], op.after_region.blocks[0]
        carried = [self.values[value] for value in op.arguments]
        while True:
            self.values.update(zip(first.args, carried))
            condition, *passed = self.block(first)
            if not isinstance(condition, int):
                raise self.unknown(condition, "the condition of a loop", op)
            self.room(op)
            if not condition:
                break
            self.values.update(zip(second.args, passed))
            carried = self.block(second)
        self.values.update(zip(op.results, passed))

    # The machine

    def signal(self, line: _Line) -> None:
        """A set or a wait."""
        assert line.step is not None
        self.add(line.step, line.op)

    def ring(self, line: _Line) -> None:
        """A ring starts with its first slot."""
        self.turns[line.results[0]] = 0

    def core_id(self, line: _Line) -> None:
        """This core's number."""
        self.values[line.results[0]] = self.number

    def num_cores(self, line: _Line) -> None:
        """How many cores run."""
        self.values[line.results[0]] = self.trace.cores

    def grid_dim(self, line: _Line) -> None:
        """A size of the grid."""
        assert isinstance(line.op, dsa.GridDimOp)
        self.values[line.results[0]] = self.trace.grid[line.op.axis.value.data]

    def read(self, line: _Line) -> None:
        """Data that the control core wants to know."""
        data = Unknown("a value that it reads back from memory", None)
        raise self.unknown(data, "what the control core does", line.op)

    def check(self, line: _Line) -> None:
        """An assertion, which is decided now."""
        op = line.op
        assert isinstance(op, dsa.AssertOp)
        if not self.integer(op.condition, "an assertion", op):
            message = f"device assertion fails: {op.message.data}"
            raise CompileError(message, from_ir(op.location))

    def print(self, line: _Line) -> None:
        """Printing takes a host that waits."""
        raise CompileError(
            "schedule='static': a kernel with a static schedule cannot print",
            from_ir(line.op.location),
            "take the print out, or use schedule='dynamic' while looking for an error",
        )

    def add(self, step: Step, op: Operation) -> None:
        self.steps.append(step)
        self.room(op)

    def room(self, op: Operation) -> None:
        """A schedule has an end."""
        if len(self.steps) > MAX_STEPS:
            raise CompileError(
                f"schedule='static': more than {MAX_STEPS} instructions on a core",
                from_ir(op.location),
                "use larger blocks, or schedule='dynamic'",
            )

    def acquire(self, line: _Line) -> None:
        """The next slot of a ring."""
        ring = line.operands[0]
        turn = self.turns[ring]
        self.turns[ring] = turn + 1
        self.place(line.results[0], ring, turn)

    def hold(self, line: _Line) -> None:
        """The slot of an earlier execution."""
        assert isinstance(line.op, dsa.HeldOp)
        acquire = line.operands[0].owner
        assert isinstance(acquire, dsa.AcquireOp)
        age = line.op.age.value.data
        self.place(line.results[0], acquire.ring, self.turns[acquire.ring] - 1 - age)

    def part(self, line: _Line) -> None:
        """Some bytes of a slot."""
        assert isinstance(line.op, dsa.PartOp)
        slot, offset = line.operands
        low = self.slots[slot][0] + self.integer(offset, "the place in a resident buffer", line.op)
        self.slots[line.results[0]] = low, low + line.op.bytes.value.data
        self.values[line.results[0]] = low

    def place(self, slot: SSAValue, ring: SSAValue, turn: int) -> None:
        """A slot is the one of a ring's `turn`-th acquire."""
        address, slots, stride, size = self.trace.rings[ring]
        low = address + turn % slots * stride
        self.slots[slot] = low, low + size
        self.values[slot] = low

    def issue(self, line: _Line) -> None:
        """An instruction with everything filled in that is known."""
        form = line.form
        assert form is not None
        values = self.values
        known = [values[value] for _, value in form.bound]
        number, offsets = self.template(form, known)
        if form.name in LISTS:
            number = self.lists.shortened(number)
        template = self.trace.tables.templates[number]
        operands: tuple[Operand, ...] = ()
        if template.open:
            by_name = {name: value for (name, _), value in zip(form.bound, known)}
            operands = tuple(
                self.operand(form.op, name, by_name[name], offset)
                for name, offset in zip(template.open, offsets, strict=True)
            )
        accesses = [Access(*self.slots[slot], reads, writes) for slot, reads, writes in form.sram]
        if form.hbm is not None:
            base = values[form.hbm_base] if form.hbm_base is not None else None
            accesses.append(self.hbm(form, template.instruction.fields, base))
        if self.trace.has_lists:
            self.lists.note(number, accesses)
        step = Step(
            op=form.name,
            engine=form.engine,
            template=number,
            operands=operands,
            operands_before=form.operands_before,
            accesses=tuple(accesses),
            program=self.program,
        )
        self.add(step, form.op)

    def template(self, form: _Form, known: Sequence[Value]) -> tuple[int, tuple[int, ...]]:
        """The template of an instruction with its known operands filled in, and offsets of the others."""
        numbers = tuple(value if isinstance(value, int) else None for value in known)
        found = form.made.get(numbers)
        if found is None:
            named = {name: number for (name, _), number in zip(form.bound, numbers)}
            template, offsets = issue_template(form.op, named, self.trace.tables)
            found = self.trace.tables.add_template(template), tuple(offsets)
            form.made[numbers] = found
        return found

    def operand(self, op: dsa.IssueOp, name: str, value: Value, offset: int) -> Operand:
        """How the control core finds an operand that is not part of the template."""
        if isinstance(value, int):
            return Operand(-1, 64, value + offset)
        if isinstance(value, Symbol) and name.partition(".")[0] in _OPEN:
            return Operand(value.argument, value.bits, value.offset + offset)
        raise self.unknown(value, f"{name.partition('.')[0]} of {op.op.data}", op)

    def hbm(
        self, form: _Form, fields: dict[str, int | tuple[int, ...]], base: Value | None
    ) -> Access:
        """What an instruction does to HBM."""
        assert form.hbm is not None
        low, high = 1, 0
        if isinstance(base, Symbol) and base.argument == form.hbm_arg and "lo" in fields:
            low, high = reach_of(fields, base.offset)
        atomic = form.name == "dma.atomic"
        return Access(low, high, "r" in form.hbm, "w" in form.hbm, form.hbm_arg, atomic)


_RUN: dict[type[Operation], Callable[[_Run, _Line], None]] = {
    scf.IfOp: _Run.if_,
    scf.WhileOp: _Run.while_,
    dsa.RingOp: _Run.ring,
    dsa.AcquireOp: _Run.acquire,
    dsa.HeldOp: _Run.hold,
    dsa.PartOp: _Run.part,
    dsa.CoreIdOp: _Run.core_id,
    dsa.NumCoresOp: _Run.num_cores,
    dsa.GridDimOp: _Run.grid_dim,
    dsa.ReadOp: _Run.read,
    dsa.AssertOp: _Run.check,
    dsa.PrintOp: _Run.print,
}
