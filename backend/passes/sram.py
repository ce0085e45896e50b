"""How the rings of a placed kernel use SRAM: who touches them, when they are alive, whether they fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import func, scf
from xdsl.ir import Block, Operation, SSAValue

from ..alloc.model import Buffer, Offsets, lower_bound
from ..alloc.pack import pack, pack_fast, peak
from ..dialects import dsa
from ..isa.table import BY_NAME, Engine
from ..target import Target

Interval = tuple[int, int]
"""The first and the last position."""


@dataclass(eq=False)
class RingUse:
    """A ring and its accesses. Positions count operations in program order.

    `least` is how many slots it must have: a microkernel may have said. `exact` is the life of the value in one turn of its home block;
    `loop` the innermost loop around that block (or the kernel) and `loop_wide` its positions.
    """

    ring: dsa.RingOp
    slot: SSAValue
    home: Block
    loop: Operation
    accesses: list[tuple[Operation, Engine, str]]
    least: int
    exact: Interval
    loop_wide: Interval

    @property
    def repeats(self) -> bool:
        """Whether its acquire is in a loop."""
        return not isinstance(self.loop, func.FuncOp)

    @property
    def engines(self) -> set[Engine]:
        """All engines that access it, CORE for the control core."""
        return {engine for _, engine, _ in self.accesses}

    @property
    def bytes(self) -> int:
        """Bytes of one slot."""
        return self.ring.bytes.value.data

    @property
    def fixed(self) -> int | None:
        """The address of a ring that is kept across launches: behind all others."""
        return None if self.ring.kept is None else self.ring.address.value.data


def slot_stride(bytes_: int, target: Target) -> int:
    """Bytes from one slot of a ring to the next."""
    align = target.sram_align_bytes
    return -(-bytes_ // align) * align


def ring_uses(kernel: func.FuncOp) -> list[RingUse]:
    """The rings of a kernel, in the order of their declarations."""
    start: dict[Operation, int] = {kernel: 0}
    end: dict[Operation, int] = {}
    _number(kernel.body.block, start, end)
    end[kernel] = len(start) + len(end)
    uses: list[RingUse] = []
    for ring in kernel.body.block.ops:
        if not isinstance(ring, dsa.RingOp):
            continue
        acquire = next(iter(ring.result.uses)).operation
        assert isinstance(acquire, dsa.AcquireOp) and acquire.parent is not None
        home = acquire.parent
        slots, users = _slots_and_users(acquire)
        spots = [_ancestor_in(op, home) for op in users] or [acquire]
        loop = enclosing_loop(acquire)
        uses.append(
            RingUse(
                ring,
                acquire.result,
                home,
                loop,
                _accesses(slots, users),
                max(ring.slots.value.data, 1 + max(dsa.rotation_of(slot)[1] for slot in slots)),
                (min(start[op] for op in spots), max(end[op] for op in spots)),
                (start[loop], end[loop]),
            )
        )
    return uses


def _number(block: Block, start: dict[Operation, int], end: dict[Operation, int]) -> None:
    for op in block.ops:
        start[op] = len(start) + len(end)
        for region in op.regions:
            for inner in region.blocks:
                _number(inner, start, end)
        end[op] = len(start) + len(end)


def pipelined_slots(uses: Sequence[RingUse]) -> list[int]:
    """The fewest slots with which loads overlap the work on what they have loaded."""
    return [
        2
        if any(engine is Engine.LD and "w" in role for _, engine, role in use.accesses)
        and use.repeats
        else use.least
        for use in uses
    ]


def enclosing_loop(op: Operation) -> Operation:
    """The innermost loop around an operation of the kernel's body, the kernel itself when there is none."""
    parent = op.parent_op()
    while not isinstance(parent, scf.ForOp | scf.WhileOp | func.FuncOp):
        assert parent is not None
        parent = parent.parent_op()
    return parent


def _ancestor_in(op: Operation, block: Block) -> Operation:
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def _slots_and_users(acquire: dsa.AcquireOp) -> tuple[list[SSAValue], list[Operation]]:
    """The slots that an acquire gives, now and held from before, their parts, and the operations on them."""
    slots: list[SSAValue] = [acquire.result]
    users = []
    for slot in slots:  # grows
        for use in slot.uses:
            if isinstance(use.operation, dsa.HeldOp | dsa.PartOp):
                slots.append(use.operation.result)
            else:
                users.append(use.operation)
    return slots, users


def _accesses(
    slots: Sequence[SSAValue], users: Sequence[Operation]
) -> list[tuple[Operation, Engine, str]]:
    found: list[tuple[Operation, Engine, str]] = []
    for op in dict.fromkeys(users):
        if isinstance(op, dsa.IssueOp):
            for name, value in op.bound().items():
                if value in slots:
                    role = BY_NAME[op.op.data].by_name[name.partition(".")[0]].role or ""
                    found.append((op, op.engine, role.removeprefix("sram_")))
        else:
            found.append((op, Engine.CORE, "r"))
    return found


# Fitting

EXACT_SECONDS = 20.0
"""How long the exact search may take for a kernel that fits no other way."""


def _apart(use: RingUse, slots: int) -> Interval | None:
    return use.exact if _is_private(use, slots) else None


def _by_loop(use: RingUse, slots: int) -> Interval | None:
    return use.exact if _is_private(use, slots) else use.loop_wide


def _shared(use: RingUse, slots: int) -> Interval | None:
    return use.exact if slots == 1 else use.loop_wide


def _is_private(use: RingUse, slots: int) -> bool:
    """True for a temporary of one engine, whose queue is in order anyway: sharing its address costs nothing."""
    return slots == 1 and len(use.engines) == 1


LIVES: tuple[Callable[[RingUse, int], Interval | None], ...] = (_apart, _by_loop, _shared)
"""Lives of rings to try in turn, None being the whole program: from no false dependence to all reuse there can be.

An address that two engines use makes them wait for each other although no data flows between them, so rings
stay apart while SRAM lasts; then loops share with the loops before and after them; then all values share that
are not alive together.
"""


def buffers(
    uses: Sequence[RingUse], slots: Sequence[int], levels: Sequence[int], target: Target
) -> list[Buffer]:
    """The allocation problem with a level of reuse, an index of LIVES, for every ring that has no address yet."""
    last = max((use.loop_wide[1] for use in uses), default=0)
    result = []
    for number, (use, count, level) in enumerate(zip(uses, slots, levels, strict=True)):
        if use.fixed is not None:
            continue
        life = LIVES[level](use, count) or (0, last)
        size = slot_stride(use.bytes, target) * count
        result.append(Buffer(str(number), life[0], life[1] + 1, size))
    return result


def fit(
    uses: Sequence[RingUse],
    slots: Sequence[int],
    target: Target,
    exact: bool = True,
    levels: int = len(LIVES),
) -> list[int] | None:
    """The address of every ring with the least reuse that fits the SRAM; None when nothing fits.

    Without `exact`, only fast packing is tried, which may miss a fit; `levels` limits the reuse.
    """
    if not uses:
        return []
    space = room(uses, target)
    for level in range(levels):
        problem = buffers(uses, slots, [level] * len(uses), target)
        if lower_bound(problem) > space:
            continue
        fast = pack_fast(problem)
        offsets: Offsets | None = fast if peak(problem, fast) <= space else None
        if offsets is None and exact and level == len(LIVES) - 1:
            offsets = pack(problem, space, EXACT_SECONDS)
        if offsets is not None:
            return addresses_of(uses, offsets)
    return None


def addresses_of(uses: Sequence[RingUse], offsets: Offsets) -> list[int]:
    """The address of every ring: what packing `buffers` has found, or the one that it has already."""
    return [
        offsets[str(number)] if use.fixed is None else use.fixed for number, use in enumerate(uses)
    ]


def room(uses: Sequence[RingUse], target: Target) -> int:
    """The SRAM in front of what is kept across launches."""
    return min([target.sram_bytes, *(use.fixed for use in uses if use.fixed is not None)])


def least_bytes(uses: Sequence[RingUse], slots: Sequence[int], target: Target) -> int:
    """The most bytes alive at once with all the reuse there can be, beside what is kept across launches."""
    return lower_bound(buffers(uses, slots, [len(LIVES) - 1] * len(uses), target))
