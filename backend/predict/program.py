"""The final dsa IR of a kernel as a tree of steps over numbered values, for walking it without a machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import arith, func, scf
from xdsl.ir import Block, Operation, SSAValue

from .. import cost
from ..dialects import dsa
from ..image.model import Template
from ..image.tables import Tables, issue_template, semaphore_template
from ..isa.table import BY_NAME, Engine
from ..isa.vprog import VectorProgram
from ..passes.schedule_values import Function, function_of, wrap
from ..target import Target
from .machine import Entry, Kind

Values = list[int]

_COSTLY = ("size", "batch", "m", "n", "k", "hbm_stride", "lo", "hi")
"""Fields that the cost of an instruction depends on; the others are addresses, formats and flags."""


@dataclass(frozen=True)
class Calc:
    """A computation of the control core."""

    function: Function
    args: tuple[int, ...]
    results: tuple[int, ...]

    def run(self, values: Values) -> None:
        """Compute the results from the arguments."""
        found = self.function(*[values[number] for number in self.args])
        for number, value in zip(self.results, found):
            values[number] = value


@dataclass
class Issue:
    """An instruction whose cost depends on run-time values `args`, remembered by them."""

    make: Callable[[tuple[int, ...]], Entry]
    args: tuple[int, ...]
    made: dict[tuple[int, ...], Entry] = field(default_factory=dict)
    constant: bool = False  # a set or wait

    def entry(self, values: Values) -> Entry:
        """The instruction with its run-time values."""
        key = tuple([values[number] for number in self.args])
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = self.make(key)
        return found


@dataclass(frozen=True)
class CoreWait:
    """The control core waits for a semaphore."""

    sem: int


@dataclass(frozen=True)
class Read:
    """The control core reads a scalar, which nobody knows before the kernel runs; `matters` when costs depend on it."""

    result: int
    op: Operation
    matters: bool = True


@dataclass(frozen=True)
class Body:
    """A block: its steps, and which values its terminator passes on. `costly` are the steps that costs depend on."""

    steps: tuple[Any, ...]
    passed: tuple[int, ...]
    costly: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Loop:
    """An `scf.for`: the block's arguments are the counter and the carried values."""

    low: int
    high: int
    step: int
    initial: tuple[int, ...]
    counter: int
    carried: tuple[int, ...]
    results: tuple[int, ...]
    body: Body


@dataclass(frozen=True)
class While:
    """An `scf.while`: the first passed value of `before` is the condition."""

    initial: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    results: tuple[int, ...]
    before: Body
    after: Body


@dataclass(frozen=True)
class If:
    """An `scf.if`; a missing arm is None."""

    condition: int
    then: Body
    other: Body | None
    results: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """A kernel. `arguments`, `core`, `cores` and `grid` are the numbers of values to fill in; `initial` has the rest.

    `taker` maps semaphores to the engine that waits for them.
    """

    body: Body
    initial: Values
    arguments: tuple[int, ...]
    core: int
    cores: int
    grid: tuple[int, int, int]
    credits: tuple[int, ...]
    taker: dict[int, int]


def program_of(kernel: func.FuncOp, target: Target, credits: Sequence[int]) -> Program:
    """The steps of a kernel after all passes."""
    builder = _Builder(target)
    arguments = tuple(builder.number(value) for value in kernel.body.block.args)
    specials = [builder.fresh() for _ in range(5)]
    builder.specials = specials
    body = builder.body(kernel.body.block)
    values = [0] * builder.count
    for number, value in builder.known.items():
        values[number] = value
    most = max([len(credits) - 1, *builder.taker], default=-1)
    return Program(
        body, values, arguments, specials[0], specials[1],
        (specials[2], specials[3], specials[4]),
        tuple(credits[n] if n < len(credits) else 0 for n in range(most + 1)), builder.taker,
    )  # fmt: skip


class _Builder:
    """Numbers values and turns operations into steps."""

    def __init__(self, target: Target) -> None:
        self.target, self.tables = target, Tables()
        self.numbers: dict[SSAValue, int] = {}
        self.known: dict[int, int] = {}
        self.taker: dict[int, int] = {}
        self.specials: list[int] = []
        self.count = 0

    def fresh(self) -> int:
        """The number of a new value."""
        self.count += 1
        return self.count - 1

    def number(self, value: SSAValue) -> int:
        """The number of a value."""
        if value not in self.numbers:
            self.numbers[value] = self.fresh()
        return self.numbers[value]

    def numbered(self, values: Sequence[SSAValue]) -> tuple[int, ...]:
        """The numbers of values."""
        return tuple(self.number(value) for value in values)

    def body(self, block: Block) -> Body:
        """The steps of a block."""
        steps: list[Any] = []
        for op in block.ops:
            if isinstance(op, scf.YieldOp | func.ReturnOp | scf.ConditionOp):
                return Body(tuple(steps), self.numbered(op.operands))
            step = self.step(op)
            if step is not None:
                steps.append(step)
        return Body(tuple(steps), ())

    def step(self, op: Operation) -> Any:
        """The step of an operation, None when it takes no time and computes nothing."""
        make = _STEPS.get(type(op))
        if make is not None:
            return make(self, op)
        return Calc(function_of(op), self.numbered(op.operands), self.numbered(op.results))

    def constant(self, op: arith.ConstantOp) -> None:
        (self.known[self.number(op.result)],) = function_of(op)()

    def acquire(self, op: dsa.AcquireOp) -> None:
        """Addresses cost nothing; whether one is known in advance decides what an issue costs."""
        ring = op.ring.owner
        assert isinstance(ring, dsa.RingOp)
        number = self.number(op.result)
        if ring.slots.value.data == 1:
            self.known[number] = ring.address.value.data

    def core_id(self, op: Operation) -> None:
        self.numbers[op.results[0]] = self.specials[0]

    def num_cores(self, op: Operation) -> None:
        self.numbers[op.results[0]] = self.specials[1]

    def grid_dim(self, op: dsa.GridDimOp) -> None:
        self.numbers[op.result] = self.specials[2 + op.axis.value.data]

    def nothing(self, op: Operation) -> None:
        return None

    def read(self, op: dsa.ReadOp) -> Read:
        return Read(self.number(op.result), op)

    def set(self, op: dsa.SetOp) -> Issue:
        template = semaphore_template(op)
        return self.fixed(Kind.SET, template)

    def wait(self, op: dsa.WaitOp) -> Issue | CoreWait:
        sem = op.sem.value.data
        self.taker[sem] = op.engine.value.data
        if op.engine.value.data == Engine.CORE:
            return CoreWait(sem)
        return self.fixed(Kind.WAIT, semaphore_template(op))

    def fixed(self, kind: Kind, template: Template) -> Issue:
        """A set or wait."""
        instruction = template.instruction
        sem = instruction.fields["sem"]
        assert isinstance(sem, int)
        if kind is Kind.SET:
            self.taker.setdefault(sem, int(Engine.CORE))
        issue = cost.issue_cycles(0, self.target)
        entry = Entry(kind, int(instruction.engine), issue, sem=sem)
        return Issue(lambda key: entry, (), constant=True)

    def issue(self, op: dsa.IssueOp) -> Issue:
        """An instruction: which run-time values its cost depends on, and how."""
        bound = op.bound()
        constants = {name: self.constant_of(value) for name, value in bound.items()}
        template, _ = issue_template(op, constants, self.tables)
        wanted = [n for n in template.open if n.partition(".")[0] in _COSTLY]
        program = None
        if op.program is not None:
            program = self.tables.programs[cost.scalar(template.instruction.fields, "program")]
        return Issue(
            lambda key: _entry(template, dict(zip(wanted, key, strict=True)), program, self.target),
            self.numbered([bound[name] for name in wanted]),
        )

    def constant_of(self, value: SSAValue) -> int | None:
        """The value when it is known in advance, as the glue knows it."""
        owner = value.owner
        if isinstance(owner, Operation) and owner.name in _CASTS:
            inner = self.constant_of(owner.operands[0])
            return None if inner is None else function_of(owner)(inner)[0]
        return self.known.get(self.number(value))

    def for_(self, op: scf.ForOp) -> Loop:
        low, high, step = self.numbered((op.lb, op.ub, op.step))
        counter, *carried = self.numbered(op.body.block.args)
        return Loop(
            low, high, step, self.numbered(op.iter_args), counter, tuple(carried),
            self.numbered(op.results), self.body(op.body.block),
        )  # fmt: skip

    def while_(self, op: scf.WhileOp) -> While:
        first, second = op.before_region.blocks[0], op.after_region.blocks[0]
        return While(
            self.numbered(op.arguments), self.numbered(first.args), self.numbered(second.args),
            self.numbered(op.results), self.body(first), self.body(second),
        )  # fmt: skip

    def if_(self, op: scf.IfOp) -> If:
        other = self.body(op.false_region.blocks[0]) if op.false_region.blocks else None
        condition = self.number(op.cond)
        return If(condition, self.body(op.true_region.blocks[0]), other, self.numbered(op.results))


def _entry(
    template: Template, run_time: dict[str, int], program: VectorProgram | None, target: Target
) -> Entry:
    instruction = template.instruction
    fields = dict(instruction.fields)
    row = BY_NAME[instruction.op]
    for name, value in run_time.items():
        field_name, _, entry = name.partition(".")
        fitted = wrap(value, 64)
        if entry:
            entries = cost.array(fields, field_name)
            fields[field_name] = (*entries[: int(entry)], fitted, *entries[int(entry) + 1 :])
        else:
            fields[field_name] = fitted
    for name in template.open:  # an index vector that is there, wherever it is
        if name.partition(".")[0] == "index":
            entries, dim = cost.array(fields, "index"), int(name.partition(".")[2])
            fields["index"] = (*entries[:dim], 0, *entries[dim + 1 :])
    moves = "hbm" in row.by_name
    return Entry(
        Kind.DMA if moves else Kind.COMPUTE,
        int(instruction.engine),
        cost.issue_cycles(len(template.open), target),
        cost.compute_cycles(instruction.op, fields, program, target),
        cost.dma_bytes(instruction.op, fields, target) if moves else 0,
    )


_CASTS = ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast")
_STEPS: dict[type[Operation], Any] = {
    arith.ConstantOp: _Builder.constant,
    dsa.RingOp: _Builder.nothing,
    dsa.AcquireOp: _Builder.acquire,
    dsa.HeldOp: _Builder.nothing,  # an address that is not known in advance
    dsa.PartOp: _Builder.nothing,
    dsa.IssueOp: _Builder.issue,
    dsa.SetOp: _Builder.set,
    dsa.WaitOp: _Builder.wait,
    dsa.ReadOp: _Builder.read,
    dsa.PrintOp: _Builder.nothing,
    dsa.AssertOp: _Builder.nothing,
    dsa.CoreIdOp: _Builder.core_id,
    dsa.NumCoresOp: _Builder.num_cores,
    dsa.GridDimOp: _Builder.grid_dim,
    scf.ForOp: _Builder.for_,
    scf.WhileOp: _Builder.while_,
    scf.IfOp: _Builder.if_,
}
