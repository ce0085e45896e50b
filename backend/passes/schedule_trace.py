"""What the control core of each core does, run at compile time: the stream of instructions and flags.

Every instruction comes with what its time and its order depend on: a template whose fields are filled in
as far as compile time knows them, what it accesses, and the program of the grid it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, func, scf
from xdsl.ir import Block, Operation, SSAValue

from ..cost import array, scalar, valid_box
from ..dialects import dsa
from ..dialects.dsa import SlotType
from ..dialects.locations import from_ir
from ..dialects.tile import ints
from ..errors import CompileError, InternalError
from ..image.tables import Tables, issue_template
from ..isa.table import BY_NAME, NONE, Engine
from ..llvm.table_glue import Operand
from ..target import Target
from .schedule_values import Symbol, Unknown, Value, evaluate, width, wrap

MAX_STEPS = 500_000
"""Instructions and flags of a core that a schedule may have."""

_HINT = (
    "a static schedule needs every bound, condition, size and stride at compile time: pass it as a constant, "
    "or use schedule='dynamic'"
)
_OPEN = ("hbm", "scalar", "fill")
"""Fields that neither time nor order in SRAM depends on."""


@dataclass(frozen=True, slots=True)
class Access:
    """What an instruction does to memory: to SRAM bytes [low, high), or to HBM of `arg` when that is ≥ -1.

    Bounds of HBM are relative to the argument; low > high: anywhere.
    """

    low: int
    high: int
    reads: bool
    writes: bool
    arg: int = -2
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction (`template` of the static image), or a set or wait (`sem` ≥ 0).

    `operands_before` is the number of run-time operands that it has without a static schedule.
    """

    op: str
    engine: Engine
    template: int = -1
    operands: tuple[Operand, ...] = ()
    operands_before: int = 0
    accesses: tuple[Access, ...] = ()
    program: int = -1
    sem: int = -1


@dataclass
class Slot:
    """A slot's place in SRAM."""

    low: int
    high: int


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
        self.names = _strings(self.kernel, "dsa.args")
        pointers = [fmt.startswith("*") for fmt in _strings(self.kernel, "dsa.formats")]
        self.pointers = [number for number, is_pointer in enumerate(pointers) if is_pointer]
        self.constants = _constants(block)
        self.made: dict[tuple[object, ...], tuple[int, tuple[int, ...]]] = {}

    def core(self, number: int) -> list[Step]:
        """The stream of one core. Raises CompileError where compile time does not know what happens."""
        return _Run(self, number).steps


def _strings(kernel: func.FuncOp, name: str) -> list[str]:
    return [str(entry.data) for entry in kernel.attributes[name]]  # type: ignore[attr-defined]


def _constants(block: Block) -> set[SSAValue]:
    """Values that the glue knows when it is compiled, as `llvm/glue.py` folds them."""
    found: set[SSAValue] = set()
    for op in block.walk():
        folds = isinstance(op, arith.ConstantOp) or (
            op.name in ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast")
            and op.operands[0] in found
        )
        if isinstance(op, dsa.AcquireOp):
            ring = op.ring.owner
            folds = isinstance(ring, dsa.RingOp) and ring.slots.value.data == 1
        if folds:
            found.update(op.results)
    return found


class _Run:
    """One core's run."""

    def __init__(self, trace: Trace, core: int) -> None:
        self.trace, self.number = trace, core
        self.steps: list[Step] = []
        self.values: dict[SSAValue, Value] = {}
        self.slots: dict[SSAValue, Slot] = {}
        self.turns: dict[SSAValue, int] = {}
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
        for op in block.ops:
            if isinstance(op, scf.YieldOp | func.ReturnOp | scf.ConditionOp):
                return [values[operand] for operand in op.operands]
            if isinstance(op, scf.ForOp):
                self.loop(op, grid=top)
            elif isinstance(op, scf.IfOp):
                taken = self.integer(op.cond, "a condition", op)
                region = op.true_region if taken else op.false_region
                results = self.block(region.blocks[0]) if region.blocks else []
                values.update(zip(op.results, results))
            elif isinstance(op, scf.WhileOp):
                self.while_(op)
            elif op.name.startswith("arith."):
                operands = [values[operand] for operand in op.operands]
                values.update(zip(op.results, evaluate(op, operands, from_ir(op.location))))
            else:
                self.machine(op)
        return []

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

    def while_(self, op: scf.WhileOp) -> None:
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

    def machine(self, op: Operation) -> None:
        """An op of the dsa dialect."""
        if isinstance(op, dsa.IssueOp):
            self.add(self.issue(op), op)
        elif isinstance(op, dsa.SetOp | dsa.WaitOp):
            name = "set" if isinstance(op, dsa.SetOp) else "wait"
            self.add(Step(name, Engine(op.engine.value.data), sem=op.sem.value.data), op)
        elif isinstance(op, dsa.AcquireOp):
            self.acquire(op)
        elif isinstance(op, dsa.HeldOp):
            self.hold(op)
        elif isinstance(op, dsa.RingOp):
            self.turns[op.result] = 0
        elif isinstance(op, dsa.CoreIdOp):
            self.values[op.result] = self.number
        elif isinstance(op, dsa.NumCoresOp):
            self.values[op.result] = self.trace.cores
        elif isinstance(op, dsa.GridDimOp):
            self.values[op.result] = self.trace.grid[op.axis.value.data]
        elif isinstance(op, dsa.ReadOp):
            raise self.unknown(
                Unknown("a value that it reads back from memory", None),
                "what the control core does",
                op,
            )
        elif isinstance(op, dsa.AssertOp):
            if not self.integer(op.condition, "an assertion", op):
                message = f"device assertion fails: {op.message.data}"
                raise CompileError(message, from_ir(op.location))
        elif isinstance(op, dsa.PrintOp):
            raise CompileError(
                "schedule='static': a kernel with a static schedule cannot print",
                from_ir(op.location),
                "take the print out, or use schedule='dynamic' while looking for an error",
            )
        else:
            raise InternalError(f"schedule: {op.name} cannot run on the control core")

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

    def acquire(self, op: dsa.AcquireOp) -> None:
        """The next slot of a ring."""
        turn = self.turns[op.ring]
        self.turns[op.ring] = turn + 1
        self.place(op.result, op.ring, turn)

    def hold(self, op: dsa.HeldOp) -> None:
        """The slot of an earlier execution."""
        acquire = op.current.owner
        assert isinstance(acquire, dsa.AcquireOp)
        self.place(op.result, acquire.ring, self.turns[acquire.ring] - 1 - op.age.value.data)

    def place(self, slot: SSAValue, ring: SSAValue, turn: int) -> None:
        """A slot is the one of a ring's `turn`-th acquire."""
        op = ring.owner
        assert isinstance(op, dsa.RingOp)
        size, align = op.bytes.value.data, self.trace.target.sram_align_bytes
        low = op.address.value.data + turn % op.slots.value.data * (size + -size % align)
        self.slots[slot] = Slot(low, low + size)
        self.values[slot] = low

    def issue(self, op: dsa.IssueOp) -> Step:
        """An instruction with everything filled in that is known."""
        bound = op.bound()
        known = {name: self.values[value] for name, value in bound.items()}
        number, offsets = self.template(op, known)
        template = self.trace.tables.templates[number]
        operands = tuple(
            self.operand(op, name, known[name], offset)
            for name, offset in zip(template.open, offsets, strict=True)
        )
        before = sum(value not in self.trace.constants for value in bound.values())
        return Step(
            op=op.op.data,
            engine=op.engine,
            template=number,
            operands=operands,
            operands_before=before,
            accesses=(*self.sram(op, bound), *self.hbm(op, template.instruction.fields, known)),
            program=self.program,
        )

    def template(self, op: dsa.IssueOp, known: dict[str, Value]) -> tuple[int, tuple[int, ...]]:
        """The template of an instruction with its known operands filled in, and offsets of the others."""
        numbers = {n: value if isinstance(value, int) else None for n, value in known.items()}
        key = (id(op), *numbers.values())
        found = self.trace.made.get(key)
        if found is None:
            template, offsets = issue_template(op, numbers, self.trace.tables)
            found = self.trace.tables.add_template(template), tuple(offsets)
            self.trace.made[key] = found
        return found

    def operand(self, op: dsa.IssueOp, name: str, value: Value, offset: int) -> Operand:
        """How the control core finds an operand that is not part of the template."""
        if isinstance(value, int):
            return Operand(-1, 64, value + offset)
        if isinstance(value, Symbol) and name.partition(".")[0] in _OPEN:
            return Operand(value.argument, value.bits, value.offset + offset)
        raise self.unknown(value, f"{name.partition('.')[0]} of {op.op.data}", op)

    def sram(self, op: dsa.IssueOp, bound: dict[str, SSAValue]) -> list[Access]:
        """What an instruction does to SRAM, slots taken as a whole."""
        row = BY_NAME[op.op.data]
        found = []
        for name, value in bound.items():
            role = row.by_name[name.partition(".")[0]].role or ""
            if isinstance(value.type, SlotType) and role.startswith("sram"):
                slot, how = self.slots[value], role.partition("_")[2]
                found.append(Access(slot.low, slot.high, "r" in how, "w" in how))
        return found

    def hbm(
        self, op: dsa.IssueOp, fields: dict[str, int | tuple[int, ...]], known: dict[str, Value]
    ) -> list[Access]:
        """What an instruction does to HBM."""
        row = BY_NAME[op.op.data]
        role = row.by_name["hbm"].role if "hbm" in row.by_name else None
        if role is None:
            return []
        how = role.partition("_")[2]
        arg = -1 if op.hbm_arg is None else op.hbm_arg.value.data
        base = known.get("hbm")
        low, high = 1, 0
        if isinstance(base, Symbol) and base.argument == arg and "offset" not in row.by_name:
            low, high = _reach(fields, base.offset)
        return [Access(low, high, "r" in how, "w" in how, arg, op.op.data == "dma.atomic")]


def _reach(fields: dict[str, int | tuple[int, ...]], base: int) -> tuple[int, int]:
    """Bytes of HBM from the first to the last one of a box; (1, 0) when that is not known."""
    box = valid_box(fields)
    if any(lo == hi for lo, hi in box):
        return base, base
    if any(index != NONE for index in array(fields, "index")):
        return 1, 0
    low = high = base
    for (first, end), stride in zip(box, array(fields, "hbm_stride")):
        ends = (first * stride, (end - 1) * stride)
        low, high = low + min(ends), high + max(ends)
    return low, high + scalar(fields, "elem_bytes")


def alias_groups(kernel: func.FuncOp) -> Sequence[int]:
    """Arguments with equal numbers may overlap."""
    return ints(kernel.attributes["dsa.alias"])
