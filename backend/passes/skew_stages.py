"""Which half of a loop `skew` may issue one iteration ahead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects import func, scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ..dialects import dsa
from ..isa.table import QUEUED
from .effects import Effects, alias_groups, effects_of, is_arithmetic, may_alias, terminator


@dataclass(frozen=True)
class Stages:
    """The halves of a loop's body in order, each with the acquires and the arithmetic that it needs.

    `crossing` are the slots that both halves use; their acquires are in neither. `carried` numbers the carried
    values that the first half needs.
    """

    first: list[Operation]
    second: list[Operation]
    crossing: set[SSAValue]
    carried: list[int]


@dataclass(eq=False)
class _Work:
    """An op of the body that does more than arithmetic, what it does, and the later ones that depend on it."""

    op: Operation
    effects: Effects
    feeds: list[_Work]


def find_stages(loop: scf.ForOp, kernel: func.FuncOp) -> Stages | None:
    """The halves of a loop that profits from rotation, None for any other."""
    block, groups = loop.body.block, alias_groups(kernel)
    if any(isinstance(op, dsa.SetOp | dsa.WaitOp) for op in loop.walk()):
        return None  # A microkernel keeps an order of its own in it.
    works = _works_of(block, groups)
    ahead = _ahead(works)
    early, late = ([w for w in works if (w in ahead) is side] for side in (True, False))
    if not early or _collide(early, late, block, groups):
        return None
    first, arguments = _closure([work.op for work in early], block, around=True)
    second, _ = _closure([*(work.op for work in late), terminator(block)], block, around=False)
    if any(w.op in first for w in late) or any(w.op in second for w in early):
        return None  # a scalar of one half comes out of the other
    shared = {slot for work in early for slot in work.effects.slots}
    shared &= {slot for work in late for slot in work.effects.slots}
    crossing = {slot for slot in shared if _stands_in(slot.owner, block)}
    skipped = {slot.owner for slot in crossing} | {terminator(block)}
    return Stages(
        [op for op in block.ops if op in first and op not in skipped],
        [op for op in block.ops if op in second and op not in skipped],
        crossing,
        sorted(arguments),
    )


def _works_of(block: Block, groups: Sequence[int] | None) -> list[_Work]:
    works = [
        _Work(op, effects_of(op), [])
        for op in block.ops
        if not is_arithmetic(op) and not isinstance(op, dsa.AcquireOp | scf.YieldOp)
    ]
    for n, later in enumerate(works):
        scalars, _ = _closure([later.op], block, around=False)
        for work in works[:n]:
            if work.op in scalars or _meet(work.effects, later.effects, groups):
                work.feeds.append(later)
    return works


def _meet(a: Effects, b: Effects, groups: Sequence[int] | None) -> bool:
    """Whether two ops touch the same memory and one of them writes it."""
    if any("w" in roles + b.slots[slot] for slot, roles in a.slots.items() if slot in b.slots):
        return True
    return any(
        "w" in role + other and may_alias(groups, x, y) for x, role in a.hbm for y, other in b.hbm
    )


def _ahead(works: list[_Work]) -> set[_Work]:
    """The works that a round trip of an engine starts with and no round trip comes before, and what they need."""
    starts: set[_Work] = set()
    after: set[_Work] = set()
    ends = _round_trips(works)
    for n, work in enumerate(works):
        if ends[n]:
            starts.add(work)
            after.update(late for m, late in enumerate(works) if ends[n] >> m & 1)
    for work in works:
        if work in after:
            after.update(work.feeds)
    ahead = starts - after
    for work in reversed(works):
        if not ahead.isdisjoint(work.feeds):
            ahead.add(work)
    return ahead


def _round_trips(works: list[_Work]) -> list[int]:
    """For each work the ones of its engine that depend on it through another engine, as bits by number.

    Bits, because unrolled loops have thousands of works that all depend on each other.
    """
    number = {work: n for n, work in enumerate(works)}
    after = [0] * len(works)
    ends = [0] * len(works)
    for n in reversed(range(len(works))):
        for later in works[n].feeds:
            after[n] |= 1 << number[later] | after[number[later]]
    for engine in QUEUED:
        own = [engine in work.effects.engines for work in works]
        mine = sum(1 << n for n, here in enumerate(own) if here)
        found = [0] * len(works)
        for n in reversed(range(len(works))):
            if own[n]:
                feeds = [number[later] for later in works[n].feeds]
                for m in feeds:
                    found[n] |= found[m] if own[m] else after[m] & mine
        ends = [a | b for a, b in zip(ends, found)]
    return ends


def _collide(
    early: list[_Work], late: list[_Work], block: Block, groups: Sequence[int] | None
) -> bool:
    """Whether the first half of an iteration must not run before the second half of the one before."""
    for a in early:
        if a.effects.core or any("w" in role for _, role in a.effects.hbm):
            return True
        for b in late:
            lasting = Effects(
                slots={s: r for s, r in b.effects.slots.items() if not _stands_in(s.owner, block)},
                hbm=b.effects.hbm,
            )
            if _meet(a.effects, lasting, groups):
                return True
    return False


def _closure(
    ops: Iterable[Operation], block: Block, around: bool
) -> tuple[set[Operation], set[int]]:
    """The ops of a block that `ops` need, with `ops`, and the numbers of the carried values among that.

    With `around`, what brings the carried values about is needed too.
    """
    found: set[Operation] = set()
    arguments: set[int] = set()
    todo = list(ops)
    while todo:
        op = todo.pop()
        if op in found:
            continue
        found.add(op)
        for value in (value for inner in op.walk() for value in inner.operands):
            if isinstance(value, BlockArgument) and value.owner is block and value.index > 0:
                if around and value.index - 1 not in arguments:
                    _follow(terminator(block).operands[value.index - 1], block, arguments, todo)
                arguments.add(value.index - 1)
            elif _stands_in(value.owner, block):
                assert isinstance(value.owner, Operation)
                todo.append(value.owner)
    return found, arguments


def _follow(value: SSAValue, block: Block, arguments: set[int], todo: list[Operation]) -> None:
    """Go on from a value that the body yields, through carried values that it passes on."""
    while isinstance(value, BlockArgument) and value.owner is block and value.index > 0:
        if value.index - 1 in arguments:
            return
        arguments.add(value.index - 1)
        value = terminator(block).operands[value.index - 1]
    if _stands_in(value.owner, block):
        assert isinstance(value.owner, Operation)
        todo.append(value.owner)


def _stands_in(owner: Operation | Block, block: Block) -> bool:
    return isinstance(owner, Operation) and owner.parent is block
