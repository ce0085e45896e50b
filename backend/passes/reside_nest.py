"""A load in its loops: in which of them its box repeats, and the loops that load all its boxes once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from ..dialects import dsa
from ..dialects.tile import i64_array, ints
from ..errors import InternalError
from ..target import Target
from .effects import constant_of, copied, effects_of, is_arithmetic, terminator
from .sram import slot_stride


class UnfitError(Exception):
    """Why a load cannot fill a resident buffer, in words for the user."""


@dataclass(eq=False)
class Nest:
    """A load that alone fills its ring, in its loops (the outermost first).

    Attributes:
        needed: the arithmetic in the loops that its operands come from.
        carried: per loop the numbers of the carried values among that.
        depends: the loops whose iterations give other boxes.
        trips: iterations where they are known; of the grid loop the most on a core.
    """

    load: dsa.IssueOp
    acquire: dsa.AcquireOp
    loops: list[scf.ForOp]
    grid: scf.ForOp
    needed: set[Operation] = field(default_factory=set)
    carried: dict[scf.ForOp, set[int]] = field(default_factory=dict)
    depends: set[scf.ForOp] = field(default_factory=set)
    trips: dict[scf.ForOp, int] = field(default_factory=dict)

    @property
    def ring(self) -> dsa.RingOp:
        """The ring that the load fills."""
        ring = self.acquire.ring.owner
        assert isinstance(ring, dsa.RingOp)
        return ring

    def tiles(self, level: int) -> int:
        """How many different boxes there are inside the loops from `level` on."""
        return prod(self.trips[loop] for loop in self.loops[level:] if loop in self.depends)

    def repeats_in(self, level: int) -> bool:
        """Whether all iterations of a loop load the same boxes in the same order, at least as far as they go."""
        loop = self.loops[level]
        return loop not in self.depends and not self.obstacle(level)

    def obstacle(self, level: int) -> str:
        """What forbids to load everything before the loop at `level`; empty when nothing does."""
        if self.unknown(level):
            return "how often a loop around it runs is not known at compile time"
        known = [self.trips[loop] for loop in self.loops[level:] if loop in self.trips]
        return "a loop around it does not run" if min(known, default=1) < 1 else ""

    def unknown(self, level: int) -> list[scf.ForOp]:
        """The loops from `level` on whose number of iterations would have to be known."""
        inside: set[Operation] = set(self.loops[level:])
        return [
            loop
            for loop in self.loops[level:]
            if loop not in self.trips
            and (
                loop in self.depends
                or (loop is not self.grid and any(_inside(v, inside) for v in (loop.lb, loop.ub)))
            )
        ]


def _inside(value: SSAValue, loops: set[Operation]) -> bool:
    """Whether a value is defined in one of some loops."""
    op = value.owner.parent_op()
    while op is not None and op not in loops:
        op = op.parent_op()
    return op is not None


def nest_of(
    load: dsa.IssueOp, grid: scf.ForOp, sizes: tuple[int, ...] | None, target: Target
) -> Nest:
    """A load with what its box depends on. Raises UnfitError for loads that cannot be done beforehand.

    Args:
        grid: the grid loop.
        sizes: the grid, where the kernel is compiled for one.
    """
    acquire = _own_ring(load)
    loops: list[scf.ForOp] = []
    parent = load.parent_op()
    while isinstance(parent, scf.ForOp):
        loops.insert(0, parent)
        parent = parent.parent_op()
    nest = Nest(load, acquire, loops, grid)
    _follow(nest)
    for loop in loops:
        count = _grid_trips(sizes, target) if loop is grid else _trips(loop)
        if count is not None:
            nest.trips[loop] = count
    return nest


def _own_ring(load: dsa.IssueOp) -> dsa.AcquireOp:
    """The acquire of the ring that a load fills alone, as a whole, in its home block."""
    slots = [v for v in load.args if isinstance(v.type, dsa.SlotType)]
    if dsa.own_call(load) is not None:
        raise UnfitError("a microkernel loads it, by flags of its own")
    if load.op.data != "dma.load" or len(slots) != 1:
        raise UnfitError("its elements are picked by an index")
    acquire = slots[0].owner
    if not isinstance(acquire, dsa.AcquireOp) or acquire.parent is not load.parent:
        raise UnfitError(
            "it loads a box in several pieces (an offset modulo a size), or under an if"
        )
    if "keep" in load.bound() or load.static("keep"):
        raise UnfitError("it loads a part of its tile")
    for use in acquire.result.uses:
        user = use.operation
        if user is not load and "w" in effects_of(user).slots[acquire.result]:
            raise UnfitError("its tile is changed in place")
    return acquire


def _follow(nest: Nest) -> None:
    """Find what the operands of the load come from."""
    blocks = {loop.body.block: loop for loop in nest.loops}
    seen: set[SSAValue] = set()
    todo = [v for v in nest.load.args if not isinstance(v.type, dsa.SlotType)]
    while todo:
        value = todo.pop()
        owner = value.owner
        if value in seen:
            continue
        seen.add(value)
        if isinstance(owner, Block):
            loop = blocks.get(owner)
            if loop is None:
                continue  # an argument of the kernel
            nest.depends.add(loop)
            number = loop.body.block.args.index(value) - 1
            if number >= 0:
                nest.carried.setdefault(loop, set()).add(number)
                todo += [loop.iter_args[number], terminator(owner).operands[number]]
        elif owner.parent in blocks:
            if owner.regions or not is_arithmetic(owner):
                raise UnfitError("its address or mask depends on loaded data, or on a condition")
            nest.needed.add(owner)
            todo += owner.operands


def _trips(loop: scf.ForOp) -> int | None:
    lb, ub, step = (constant_of(v) for v in (loop.lb, loop.ub, loop.step))
    return None if lb is None or ub is None or not step else max(0, -(-(ub - lb) // step))


def _grid_trips(sizes: tuple[int, ...] | None, target: Target) -> int | None:
    if sizes is None:
        return None
    programs = prod(sizes)
    return -(-programs // max(1, min(target.cores, programs)))


def make_resident(nest: Nest, level: int, target: Target, flag: SSAValue | None = None) -> None:
    """Let the load fill one buffer with all its tiles before the loop at `level`.

    Args:
        level: as in `Nest.obstacle`.
        flag: an integer of the control core; where it is 0 the buffer has its contents already.
    """
    loop = nest.loops[level]
    assert loop.parent is not None
    loops = [around for around in nest.loops[level:] if around in nest.depends]
    slot = nest.acquire.result
    tile = nest.ring.bytes.value.data
    stride = slot_stride(tile, target)
    users = [use for use in slot.uses if use.operation is not nest.load]
    if loops:
        nest.ring.bytes = IntegerAttr(stride * nest.tiles(level), i64)
        sizes = [nest.trips[around] for around in loops]
        nest.ring.shape = i64_array([*sizes, *ints(nest.ring.shape)])
    nest.ring.slots = IntegerAttr(0, i64)  # one will do, however many a microkernel has asked for
    home = nest.load.parent
    assert home is not None
    home.detach_op(nest.acquire)
    loop.parent.insert_op_before(nest.acquire, loop)
    writer = _Writer(nest, level, tile, stride, loops)
    writer.fill(Builder(InsertPoint.before(loop)), flag)
    if loops:
        b = Builder(InsertPoint.before(nest.load))
        part = writer.part(b, {})
        for use in users:
            use.operation.operands[use.index] = part
    home.erase_op(nest.load)


@dataclass
class _Writer:
    """Emits the loops that fill a resident buffer.

    `tile` are the bytes of a tile, `stride` those from one to the next; `loops` are those that give other boxes.
    """

    nest: Nest
    level: int
    tile: int
    stride: int
    loops: list[scf.ForOp]

    def fill(self, b: Builder, flag: SSAValue | None) -> None:
        """The loads, under a condition when they may be needless."""
        conditions = [c for c in (self.unless_zero(b, flag), *self.run_at_all(b)) if c is not None]
        if not conditions:
            self.loads(b, self.level, {})
            return
        condition = conditions[0]
        for other in conditions[1:]:
            condition = self.put(b, arith.AndIOp(condition, other))
        block = Block()
        inner = Builder(InsertPoint.at_end(block))
        self.loads(inner, self.level, {})
        self.put(inner, scf.YieldOp())
        self.put(b, scf.IfOp(condition, [], [block]))

    def unless_zero(self, b: Builder, flag: SSAValue | None) -> SSAValue | None:
        """Whether the flag tells to load."""
        if flag is None:
            return None
        zero = self.put(b, arith.ConstantOp(IntegerAttr(0, i64)))
        return self.put(b, arith.CmpiOp(flag, zero, "ne"))

    def run_at_all(self, b: Builder) -> list[SSAValue]:
        """Conditions under which loops of unknown length run: else what they load may not be there."""
        return [
            self.put(b, arith.CmpiOp(loop.lb, loop.ub, "slt"))
            for loop in self.nest.loops[self.level :]
            if loop not in self.nest.trips and loop is not self.nest.grid
        ]

    def loads(self, b: Builder, level: int, values: dict[SSAValue, SSAValue]) -> None:
        """The loops from `level` on, as far as boxes depend on them, and in them the load."""
        if level == len(self.nest.loops):
            self.load(b, values)
            return
        loop = self.nest.loops[level]
        if loop not in self.loops:
            self.body(b, level, values)
            return
        low, high, step = (self.bound(b, v) for v in (loop.lb, loop.ub, loop.step))
        numbers = sorted(self.nest.carried.get(loop, ()))
        inits = [values.get(v, v) for v in (loop.iter_args[k] for k in numbers)]
        block = Block(arg_types=[loop.lb.type, *(v.type for v in inits)])
        values[loop.body.block.args[0]] = block.args[0]
        for k, arg in zip(numbers, block.args[1:], strict=True):
            values[loop.body.block.args[1 + k]] = arg
        inner = Builder(InsertPoint.at_end(block))
        self.body(inner, level, values)
        yielded = [terminator(loop.body.block).operands[k] for k in numbers]
        self.put(inner, scf.YieldOp(*(values.get(v, v) for v in yielded)))
        self.put(b, scf.ForOp(low, high, step, inits, block))

    def body(self, b: Builder, level: int, values: dict[SSAValue, SSAValue]) -> None:
        """What a loop's body computes for the load, and the loops in it."""
        for op in self.nest.loops[level].body.block.ops:
            if op in self.nest.needed:
                copy = copied(op, values)
                b.insert(copy)
                values.update(zip(op.results, copy.results, strict=True))
        self.loads(b, level + 1, values)

    def load(self, b: Builder, values: dict[SSAValue, SSAValue]) -> None:
        """One tile."""
        if self.loops:
            part = self.part(b, values)
            values = {**values, self.nest.acquire.result: part}
        b.insert(copied(self.nest.load, values))

    def part(self, b: Builder, values: Mapping[SSAValue, SSAValue]) -> SSAValue:
        """The tile of the present iterations: tiles stand in the order in which they are loaded."""
        weight, offset = self.stride, None
        for loop in reversed(self.loops):
            counter = loop.body.block.args[0]
            term = self.scaled(b, loop, values.get(counter, counter), weight)
            offset = term if offset is None else self.put(b, arith.AddiOp(term, offset))
            weight *= self.nest.trips[loop]
        assert offset is not None
        return self.put(b, dsa.PartOp(self.nest.acquire.result, offset, self.tile))

    def scaled(self, b: Builder, loop: scf.ForOp, counter: SSAValue, weight: int) -> SSAValue:
        """The number of an iteration times `weight`, as i64."""
        low, step = constant_of(loop.lb), constant_of(loop.step)
        number = counter
        if low != 0:
            number = self.put(b, arith.SubiOp(number, self.bound(b, loop.lb)))
        if step is None or weight % step:
            number = self.put(b, arith.DivUIOp(number, self.bound(b, loop.step)))
        elif step:
            weight //= step
        if number.type != i64:
            number = self.put(b, arith.ExtSIOp(number, i64))
        return self.put(
            b, arith.MuliOp(number, self.put(b, arith.ConstantOp(IntegerAttr(weight, i64))))
        )

    def bound(self, b: Builder, value: SSAValue) -> SSAValue:
        """A bound of a loop, which stands outside of all loops or is a constant, made anew."""
        number = constant_of(value)
        if number is None:
            return value
        if not isinstance(value.owner, arith.ConstantOp):
            raise InternalError("reside: a constant that is none")
        return self.put(b, copied(value.owner, {}))

    def put(self, b: Builder, op: Operation) -> SSAValue:
        """Insert an op at the load's place in the source; its first result."""
        op.location = self.nest.load.location
        b.insert(op)
        return op.results[0] if op.results else self.nest.acquire.result


def arguments_behind(values: Iterable[SSAValue], kernel: func.FuncOp) -> set[int]:
    """The numbers of the kernel arguments that values depend on, by way of anything."""
    found: set[int] = set()
    seen: set[SSAValue] = set()
    todo = list(values)
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, Operation):
            todo += owner.operands
        elif owner is kernel.body.block:
            found.add(owner.args.index(value))
        else:
            loop = owner.parent_op()
            if isinstance(loop, scf.ForOp):
                todo += [*loop.operands, *terminator(owner).operands]
    return found


def bounds(loops: Iterable[scf.ForOp]) -> list[SSAValue]:
    """What says how often loops run."""
    return [value for loop in loops for value in (loop.lb, loop.ub, loop.step)]
