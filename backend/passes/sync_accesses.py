"""What `sync` knows of a kernel: its bodies (blocks with their place in the structure) and its accesses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import dsa
from ..dialects.tile import ints
from ..errors import InternalError
from ..isa.table import BY_NAME, Engine
from ..target import Target
from .effects import grid_loop


@dataclass(eq=False)
class Body:
    """A block, and where it stands: child `at` of `parent` (None for the function's own block)."""

    block: Block
    parent: Body | None
    at: int
    loop: bool
    depth: int
    children: list[Operation]
    repeats: bool
    """Executes more than once in a kernel: it is, or is nested in, the body of a loop."""
    own: str | None
    """The call of a microkernel whose loop's body it is, if the microkernel keeps its own order there."""
    way: bool
    """Every execution of the op that holds it goes at least once through this body or another such one."""

    def enclosing(self) -> Iterator[Body]:
        """This body, then every body around it, outwards."""
        body: Body | None = self
        while body is not None:
            yield body
            body = body.parent

    @cached_property
    def path(self) -> tuple[int, ...]:
        """Where it stands, from the outermost body on."""
        return tuple(body.at for body in self.enclosing())[::-1]


@dataclass(eq=False)
class Ring:
    """A ring of SRAM slots; `home` is the body of its acquire."""

    slots: int
    start: int
    end: int
    home: Body


@dataclass(eq=False)
class Access:
    """An op touches a ring, or (ring None) the HBM behind kernel argument `hbm_arg`.

    `age` is how many acquires ago its slot of the ring was the current one.
    """

    op: Operation
    engine: Engine
    body: Body
    index: int
    ring: Ring | None
    hbm_arg: int
    reads: bool
    writes: bool
    age: int = 0

    @property
    def atomic(self) -> bool:
        """Reads and modifies HBM in one go."""
        return self.ring is None and self.reads and self.writes

    def child_of(self, body: Body) -> int:
        """The number of the child of `body` that is or holds the op."""
        here, index = self.body, self.index
        while here is not body:
            index = here.at
            if here.parent is None:
                raise InternalError("an access is not inside the body it is asked for")
            here = here.parent
        return index


@dataclass
class Kernel:
    """Bodies in program order (outer before inner), rings and accesses of the one function."""

    function: func.FuncOp
    bodies: list[Body] = field(default_factory=list)
    rings: list[Ring] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    grid: Body | None = None
    alias: tuple[int, ...] | None = None

    def may_alias(self, a: int, b: int) -> bool:
        """Whether HBM accesses through arguments `a` and `b` may touch the same bytes."""
        if a == b or a < 0 or b < 0 or self.alias is None:
            return True
        if max(a, b) >= len(self.alias):
            return True
        return self.alias[a] == self.alias[b]


def collect(module: ModuleOp, target: Target) -> Kernel:
    """The bodies, rings and accesses of a module with one kernel."""
    functions = [op for op in module.ops if isinstance(op, func.FuncOp)]
    if len(functions) != 1:
        raise InternalError(f"sync expects one kernel, the module has {len(functions)}")
    kernel = Kernel(functions[0])
    alias = functions[0].attributes.get("dsa.alias")
    if isinstance(alias, DenseArrayBase):
        kernel.alias = ints(alias)
    _add_body(kernel, functions[0].body.block, None, 0)
    _find_grid(kernel)
    rings = _find_rings(kernel, target)
    for body in kernel.bodies:
        for index, op in enumerate(body.children):
            kernel.accesses.extend(_accesses_of(op, body, index, rings))
    return kernel


def _add_body(kernel: Kernel, block: Block, parent: Body | None, at: int) -> None:
    owner = block.parent_op()
    loop = isinstance(owner, (scf.ForOp, scf.WhileOp))
    body = Body(
        block,
        parent,
        at,
        loop,
        depth=0 if parent is None else parent.depth + 1,
        children=list(block.ops),
        repeats=loop or (parent is not None and parent.repeats),
        own=None if owner is None else dsa.own_call(owner),
        way=_is_way(owner, block),
    )
    kernel.bodies.append(body)
    for index, op in enumerate(body.children):
        if not op.regions:
            continue
        if not isinstance(op, (scf.ForOp, scf.WhileOp, scf.IfOp)):
            raise InternalError(f"sync does not know the control flow of {op.name}")
        for region in op.regions:
            if region.blocks:
                _add_body(kernel, region.block, body, index)


def _is_way(owner: Operation | None, block: Block) -> bool:
    if isinstance(owner, scf.WhileOp):
        return block is owner.before_region.block
    return isinstance(owner, scf.IfOp) and all(region.blocks for region in owner.regions)


def _find_grid(kernel: Kernel) -> None:
    """Programs are the iterations of the one loop there is, or of the one that starts at the core's number."""
    outermost = [b for b in kernel.bodies if b.parent is kernel.bodies[0]]
    if len(outermost) > 1:
        loop = grid_loop(kernel.function)
        outermost = [b for b in outermost if b.block.parent_op() is loop]
    if len(outermost) == 1 and isinstance(outermost[0].block.parent_op(), scf.ForOp):
        kernel.grid = outermost[0]


def _find_rings(kernel: Kernel, target: Target) -> dict[SSAValue, Ring]:
    """Rings by the result of their acquire."""
    rings: dict[SSAValue, Ring] = {}
    for body in kernel.bodies:
        for op in body.children:
            if not isinstance(op, dsa.AcquireOp):
                continue
            declared = op.ring.owner
            if not isinstance(declared, dsa.RingOp):
                raise InternalError("an acquire does not name a dsa.ring")
            start, slots = declared.address.value.data, declared.slots.value.data
            if start < 0 or slots < 1:
                raise InternalError(f"ring {declared.label.data} is not allocated")
            align = target.sram_align_bytes
            stride = -(-declared.bytes.value.data // align) * align
            rings[op.result] = Ring(slots, start, start + slots * stride, body)
    kernel.rings = list(rings.values())
    return rings


def _accesses_of(
    op: Operation, body: Body, index: int, rings: dict[SSAValue, Ring]
) -> Iterator[Access]:
    if isinstance(op, dsa.IssueOp):
        yield from _issue_accesses(op, body, index, rings)
    elif isinstance(op, (dsa.ReadOp, dsa.PrintOp)):
        slots = [v for v in op.operands if isinstance(v.type, dsa.SlotType)]
        for ring, age in dict.fromkeys(_ring(v, rings) for v in slots):
            yield Access(op, Engine.CORE, body, index, ring, -1, True, False, age)
    elif not isinstance(op, dsa.HeldOp | dsa.PartOp) and any(
        isinstance(v.type, dsa.SlotType) for v in op.operands
    ):
        raise InternalError(f"sync does not know what {op.name} does with a slot")


def _ring(value: SSAValue, rings: dict[SSAValue, Ring]) -> tuple[Ring, int]:
    """The ring of a slot and the slot's age."""
    acquire, age = dsa.rotation_of(value)
    ring = rings.get(acquire.result)
    if ring is None or ring.slots <= age:
        raise InternalError("a slot does not come from an acquire of a ring with as many slots")
    return ring, age


def _issue_accesses(
    op: dsa.IssueOp, body: Body, index: int, rings: dict[SSAValue, Ring]
) -> Iterator[Access]:
    row = BY_NAME[op.op.data]
    found: dict[tuple[Ring, int], tuple[bool, bool]] = {}
    for name, value in op.bound().items():
        if not isinstance(value.type, dsa.SlotType):
            continue
        role = row.by_name[name.partition(".")[0]].role or ""
        if not role.startswith("sram_"):
            raise InternalError(f"a slot is bound to {row.name}.{name}, which is no SRAM address")
        place = _ring(value, rings)
        reads, writes = found.get(place, (False, False))
        found[place] = (reads or "r" in role[5:], writes or "w" in role[5:])
    for (ring, age), (reads, writes) in found.items():
        yield Access(op, op.engine, body, index, ring, -1, reads, writes, age)
    for hbm in row.fields:
        if hbm.role is not None and hbm.role.startswith("hbm_"):
            arg = op.hbm_arg.value.data if isinstance(op.hbm_arg, IntegerAttr) else -1
            kind = hbm.role[4:]
            yield Access(op, op.engine, body, index, None, arg, "r" in kind, "w" in kind)
