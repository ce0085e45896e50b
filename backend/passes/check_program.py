"""The form of a kernel that `check` interprets: structured steps, and sets of instruction instances as bits.

A vector is a Python int, a set of things that may still be going on:

- For each ring with S slots and n instructions that touch it, S planes of n bits: bit q of plane a means
  that an instance of instruction q from a rotation whose age is a modulo S may be incomplete. Rotating the
  ring moves every plane on by one; plane 0 is the slot that is current now.
- For each instruction that touches HBM one bit: an instance of this program may be incomplete.
- For each wait of an engine a count in unary: the low u bits of its field are set when up to u of its latest
  instances may be incomplete. A full field means that there is no bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import dsa
from ..dialects.tile import ints
from ..errors import InternalError
from ..isa.table import BY_NAME, Engine
from ..target import Target


@dataclass(eq=False)
class Issue:
    """An instruction (or, on CORE, a read): `born` are its instances, `foes` what must be complete."""

    op: Operation
    engine: Engine
    born: int = 0
    foes: int = 0


@dataclass
class Rotate:
    """A ring moves on: planes of `width` bits, the last one at `top`, within `mask`."""

    width: int
    mask: int
    top: int
    wrap: int


@dataclass(eq=False)
class Signal:
    """A set or a wait."""

    op: Operation
    engine: Engine
    sem: int
    is_set: bool
    number: int


@dataclass
class Loop:
    """An scf.for, or with `before` an scf.while; a new iteration of the grid loop is a new program.

    `runs`: the body is executed at least once, as in loops that microkernels write.
    """

    body: list[Step]
    before: list[Step]
    grid: bool
    op: Operation
    runs: bool = False


@dataclass
class Branch:
    """An scf.if."""

    arms: tuple[list[Step], list[Step]]
    op: Operation


Step: TypeAlias = "Issue | Rotate | Signal | Loop | Branch"


@dataclass
class Touch:
    """An instruction touches a ring (its slot) or, with ring None, HBM through argument `arg`."""

    issue: Issue
    ring: dsa.RingOp | None
    arg: int
    reads: bool
    writes: bool
    age: int = 0
    """How many rotations ago its slot was the current one."""
    bits: list[int] = field(default_factory=list)
    """Its bit per age of the rotation (one for HBM); none on CORE."""


@dataclass
class Program:
    """A kernel to interpret."""

    steps: list[Step]
    credits: list[int]
    signals: list[Signal]
    own: dict[Engine, int]
    hbm: int
    first_count: int
    """The first bit that is free for the counts of waits."""
    names: dict[int, Touch]
    """What a bit stands for."""


class Builder:
    """Walks a kernel once; `program` puts the parts together."""

    def __init__(self, module: ModuleOp, target: Target) -> None:
        self.target = target
        self.touches: list[Touch] = []
        self.signals: list[Signal] = []
        self.rotations: dict[dsa.RingOp, Rotate] = {}
        functions = [op for op in module.ops if isinstance(op, func.FuncOp)]
        if len(functions) != 1:
            raise InternalError(f"check expects one kernel, the module has {len(functions)}")
        self.function = functions[0]

    def program(self) -> Program:
        """The program of the module's kernel."""
        top = self.function.body.block
        steps = self.steps(top)
        loops = [step for step in steps if isinstance(step, (Loop, Branch))]
        if len(loops) > 1:
            loops = [step for step in loops if starts_at_core(step.op)]
        if len(loops) == 1 and isinstance(loops[0], Loop) and not loops[0].before:
            loops[0].grid = True
        free = self.lay_out_rings()
        hbm = 0
        own: dict[Engine, int] = defaultdict(int)
        for touch in self.touches:
            if touch.ring is None:
                touch.bits = [free]
                hbm |= 1 << free
                free += 1
            for bit in touch.bits:
                own[touch.issue.engine] |= 1 << bit
            if touch.bits:
                touch.issue.born |= 1 << touch.bits[touch.age]
        self.find_foes()
        credits = self.function.attributes.get("dsa.credits")
        return Program(
            steps,
            list(ints(credits)) if credits is not None else [],
            self.signals,
            own,
            hbm,
            free,
            {bit: touch for touch in self.touches for bit in touch.bits},
        )

    def steps(self, block: Block) -> list[Step]:
        """The steps of a block."""
        found: list[Step] = []
        for op in block.ops:
            if isinstance(op, dsa.IssueOp):
                issue = Issue(op, op.engine)
                self.touch_fields(issue, op)
                found.append(issue)
            elif isinstance(op, (dsa.ReadOp, dsa.PrintOp)):
                issue = Issue(op, Engine.CORE)
                for value in op.operands:
                    if isinstance(value.type, dsa.SlotType):
                        ring, age = slot_of(value)
                        self.touches.append(Touch(issue, ring, -1, True, False, age))
                found.append(issue)
            elif isinstance(op, dsa.AcquireOp):
                rotate = Rotate(0, 0, 0, 0)
                self.rotations[ring_of(op)] = rotate
                found.append(rotate)
            elif isinstance(op, (dsa.SetOp, dsa.WaitOp)):
                engine = Engine(op.engine.value.data)
                is_set = isinstance(op, dsa.SetOp)
                if is_set and engine is Engine.CORE:
                    raise InternalError("the control core has no set instruction")
                signal = Signal(op, engine, op.sem.value.data, is_set, len(self.signals))
                self.signals.append(signal)
                found.append(signal)
            elif isinstance(op, scf.ForOp):
                runs = dsa.own_call(op) is not None
                found.append(Loop(self.steps(op.body.block), [], False, op, runs))
            elif isinstance(op, scf.WhileOp):
                before = self.steps(op.before_region.block)
                found.append(Loop(self.steps(op.after_region.block), before, False, op))
            elif isinstance(op, scf.IfOp):
                arms = [self.steps(r.block) if r.blocks else [] for r in op.regions]
                found.append(Branch((arms[0], arms[1] if len(arms) > 1 else []), op))
            elif op.regions:
                raise InternalError(f"check does not know the control flow of {op.name}")
        return found

    def touch_fields(self, issue: Issue, op: dsa.IssueOp) -> None:
        """Note the rings and the HBM that an instruction touches, by the roles of its fields."""
        row = BY_NAME[op.op.data]
        slots: dict[tuple[dsa.RingOp, int], set[str]] = defaultdict(set)
        for name, value in op.bound().items():
            role = row.by_name[name.split(".")[0]].role
            if isinstance(value.type, dsa.SlotType) and role is not None:
                slots[slot_of(value)].update(role.removeprefix("sram_"))
        for (ring, age), kinds in slots.items():
            self.touches.append(Touch(issue, ring, -1, "r" in kinds, "w" in kinds, age))
        for role in (f.role for f in row.fields if f.role in ("hbm_r", "hbm_w", "hbm_rw")):
            arg = -1 if op.hbm_arg is None else op.hbm_arg.value.data
            kinds = set(str(role).removeprefix("hbm_"))
            self.touches.append(Touch(issue, None, arg, "r" in kinds, "w" in kinds))

    def lay_out_rings(self) -> int:
        """Give every touch of a ring its bits and every rotation its masks; returns the next free bit."""
        free = 0
        by_ring: dict[dsa.RingOp, list[Touch]] = defaultdict(list)
        for touch in self.touches:
            if touch.ring is not None:
                by_ring[touch.ring].append(touch)
        for ring, rotate in self.rotations.items():
            slots = ring.slots.value.data
            if slots < 1 or ring.address.value.data < 0:
                raise InternalError(f"ring {ring.label.data} is not allocated")
            movers = [t for t in by_ring[ring] if t.issue.engine is not Engine.CORE]
            width = len(movers)
            for q, touch in enumerate(movers):
                touch.bits = [free + age * width + q for age in range(slots)]
            rotate.width = width
            rotate.mask = ((1 << width * slots) - 1) << free
            rotate.wrap = width * (slots - 1)
            rotate.top = ((1 << width) - 1) << (free + rotate.wrap)
            free += width * slots
        return free

    def find_foes(self) -> None:
        """Which instances must be complete before each instruction starts.

        Touches that clash with the same ones are taken together, so that long kernels do not cost their square.
        """
        by_ring: dict[dsa.RingOp | None, list[Touch]] = defaultdict(list)
        for touch in self.touches:
            by_ring[touch.ring].append(touch)
        for ring in self.rotations:
            own = [masks_by_kind(by_ring[ring], age) for age in range(ring.slots.value.data)]
            for later in by_ring[ring]:
                later.issue.foes |= clashing(own[later.age], later)
        self.oppose_sharers(by_ring)
        self.oppose_hbm(by_ring[None])

    def oppose_sharers(self, by_ring: Mapping[dsa.RingOp | None, list[Touch]]) -> None:
        """Make all instances of other rings that share memory with a ring foes of the ring's instructions."""
        ranges = {ring: self.range_of(ring) for ring in self.rotations}
        places = sorted({place for both in ranges.values() for place in both})
        number = {place: n for n, place in enumerate(places)}
        pieces: list[dict[Kind, int]] = [defaultdict(int) for _ in places]
        for ring, (start, end) in ranges.items():
            masks = masks_by_kind(by_ring[ring])
            for piece in pieces[number[start] : number[end]]:
                for kind, mask in masks.items():
                    piece[kind] |= mask
        for ring, (start, end) in ranges.items():
            there: dict[Kind, int] = defaultdict(int)
            for piece in pieces[number[start] : number[end]]:
                for kind, mask in piece.items():
                    there[kind] |= mask & ~self.rotations[ring].mask
            for later in by_ring[ring]:
                later.issue.foes |= clashing(there, later)

    def oppose_hbm(self, touches: list[Touch]) -> None:
        """Make touches of HBM foes of those that may reach the same bytes."""
        attribute = self.function.attributes.get("dsa.alias")
        alias = None if attribute is None else ints(attribute)
        by_arg: dict[int, list[Touch]] = defaultdict(list)
        for touch in touches:
            by_arg[touch.arg].append(touch)
        masks = {arg: masks_by_kind(group) for arg, group in by_arg.items()}
        for arg, laters in by_arg.items():
            for other, there in masks.items():
                if may_alias(alias, other, arg):
                    for later in laters:
                        later.issue.foes |= clashing(there, later)

    def range_of(self, ring: dsa.RingOp) -> tuple[int, int]:
        """The bytes that a ring occupies, [start, end)."""
        align = self.target.sram_align_bytes
        stride = (ring.bytes.value.data + align - 1) // align * align
        start = ring.address.value.data
        return start, start + stride * ring.slots.value.data


def starts_at_core(op: Operation) -> bool:
    """Whether a loop counts from the core's number, as the one over programs does."""
    return isinstance(op, scf.ForOp) and isinstance(op.lb.owner, dsa.CoreIdOp)


def ring_of(owner: Operation | Block) -> dsa.RingOp:
    """The ring behind a slot."""
    if isinstance(owner, dsa.AcquireOp) and isinstance(owner.ring.owner, dsa.RingOp):
        return owner.ring.owner
    raise InternalError("a slot does not come from an acquire of a ring")


def slot_of(value: SSAValue) -> tuple[dsa.RingOp, int]:
    """The ring behind a slot or a part of it, and how many rotations ago the slot was the current one."""
    age = 0
    if isinstance(value.owner, dsa.PartOp):
        value = value.owner.whole
    if isinstance(value.owner, dsa.HeldOp):
        age, value = value.owner.age.value.data, value.owner.current
    ring = ring_of(value.owner)
    if not 0 <= age < ring.slots.value.data:
        raise InternalError(f"ring {ring.label.data} has too few slots to hold one for {age} turns")
    return ring, age


class Kind(NamedTuple):
    """What decides whether two touches of the same bytes clash."""

    engine: Engine
    hbm: bool
    reads: bool
    writes: bool


def kind_of(touch: Touch) -> Kind:
    """The kind of a touch."""
    return Kind(touch.issue.engine, touch.ring is None, touch.reads, touch.writes)


def masks_by_kind(touches: list[Touch], age: int | None = None) -> dict[Kind, int]:
    """The bits of touches by their kind: those of an age, or all."""
    masks: dict[Kind, int] = defaultdict(int)
    for touch in touches:
        if touch.bits:
            bits = touch.bits if age is None else [touch.bits[age]]
            masks[kind_of(touch)] |= sum(1 << bit for bit in bits)
    return masks


def clashing(masks: Mapping[Kind, int], later: Touch) -> int:
    """The bits of the kinds that clash with a later touch."""
    kind, found = kind_of(later), 0
    for first, mask in masks.items():
        if clash(first, kind):
            found |= mask
    return found


def clash(first: Kind, later: Kind) -> bool:
    """Whether two touches of the same bytes need an order that the queues alone do not give."""
    if first.engine is later.engine:
        # DMA queues overlap latency, so a transfer can read what an earlier one is still to write; but
        # the read-modify-writes of atomics on HBM land in order.
        if first.hbm and later.hbm and first.reads and later.writes:
            return False
        return first.engine in (Engine.LD, Engine.ST) and first.writes and later.reads
    return first.writes or later.writes


def may_alias(alias: tuple[int, ...] | None, a: int, b: int) -> bool:
    """Whether two kernel arguments may point to the same bytes (negative: unknown argument)."""
    if alias is None or min(a, b) < 0 or a == b:
        return True
    return not (a < len(alias) and b < len(alias)) or alias[a] == alias[b]


def build(module: ModuleOp, target: Target) -> Program:
    """The program to interpret for a module with one kernel."""
    return Builder(module, target).program()
