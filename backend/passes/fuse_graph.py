"""The dependence graph of a block's ops, for grouping and reordering them.

An op depends on the ops of its block that define what it (or anything nested in it) uses, and on earlier ops
whose effects it must not overtake. Members of clusters depend on what they read through views and cheap
tiles, not on those ops themselves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from ..dialects import tile
from .simplify_dead import READS
from .simplify_motion import may_alias

_WRITES: tuple[type[Operation], ...] = (tile.StoreBoxOp, tile.ScatterOp, tile.AtomicListOp)
_ORDERED: tuple[type[Operation], ...] = (*_WRITES, tile.PrintOp, tile.AssertOp)

Reads = Callable[[Operation], Iterable[SSAValue] | None]
"""What a member of a cluster reads; None for other ops."""


class BlockGraph:
    """`before[k]` are the numbers of the ops that op k of `ops` depends on. The terminator is left out."""

    def __init__(self, block: Block, reads: Reads, groups: Sequence[int] | None) -> None:
        self.ops = [op for op in block.ops if op is not block.last_op]
        self.number = {op: k for k, op in enumerate(self.ops)}
        self.before: list[set[int]] = [set() for _ in self.ops]
        for k, op in enumerate(self.ops):
            values = reads(op)
            for value in _all_operands(op) if values is None else values:
                source = (
                    self.number.get(value.owner) if isinstance(value.owner, Operation) else None
                )
                if source is not None:
                    self.before[k].add(source)
        self._order_effects(groups)

    def _order_effects(self, groups: Sequence[int] | None) -> None:
        loads: list[tuple[int, list[Operation]]] = []
        effects: list[tuple[int, list[Operation]]] = []
        for k, op in enumerate(self.ops):
            read = _nested(op, READS)
            ordered = _nested(op, _ORDERED)
            writes = [o for o in ordered if isinstance(o, _WRITES)]
            if ordered:
                self.before[k].update(e for e, _ in effects)
                self.before[k].update(n for n, ops in loads if _touch(ops, writes, groups))
            if read:
                self.before[k].update(e for e, ops in effects if _touch(read, ops, groups))
                loads.append((k, read))
            if ordered:
                effects.append((k, writes))


def _touch(a: list[Operation], b: list[Operation], groups: Sequence[int] | None) -> bool:
    return any(may_alias(x, y, groups) for x in a for y in b)


def _nested(op: Operation, kinds: tuple[type[Operation], ...]) -> list[Operation]:
    if not op.regions:
        return [op] if isinstance(op, kinds) else []
    return [inner for inner in op.walk() if isinstance(inner, kinds)]


def _all_operands(op: Operation) -> Iterable[SSAValue]:
    """Operands of an op and of everything nested in it."""
    if not op.regions:
        return op.operands
    return [value for inner in op.walk() for value in inner.operands]


class Grouping:
    """A partition of a block's ops into groups that stays acyclic."""

    def __init__(self, graph: BlockGraph) -> None:
        self.graph = graph
        self.group = list(range(len(graph.ops)))
        self.members: dict[int, list[int]] = {k: [k] for k in self.group}

    def before(self, group: int) -> set[int]:
        """The groups that a group depends on."""
        numbers = {n for member in self.members[group] for n in self.graph.before[member]}
        return {self.group[n] for n in numbers} - {group}

    def try_merge(self, a: int, b: int) -> bool:
        """Make two groups one, unless a path between them runs through a third."""
        if a == b:
            return True
        if self._path_through_others(a, b):
            return False
        keep, gone = (a, b) if len(self.members[a]) >= len(self.members[b]) else (b, a)
        for member in self.members.pop(gone):
            self.group[member] = keep
            self.members[keep].append(member)
        return True

    def _path_through_others(self, a: int, b: int) -> bool:
        pair = {a, b}
        work = list((self.before(a) | self.before(b)) - pair)
        seen = set(work)
        while work:
            for group in self.before(work.pop()):
                if group in pair:
                    return True
                if group not in seen:
                    seen.add(group)
                    work.append(group)
        return False

    def split(self, group: int, parts: Sequence[Sequence[int]]) -> None:
        """Cut a group into consecutive parts."""
        del self.members[group]
        for part in parts:
            name = part[0]
            self.members[name] = list(part)
            for member in part:
                self.group[member] = name

    def order(self) -> list[list[int]]:
        """The groups in an order that respects dependences and otherwise stays close to the program's."""
        waiting = {group: len(self.before(group)) for group in self.members}
        after: dict[int, list[int]] = {group: [] for group in self.members}
        for group in self.members:
            for source in self.before(group):
                after[source].append(group)
        ready = [(max(self.members[g]), g) for g, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        result: list[list[int]] = []
        while ready:
            _, group = heapq.heappop(ready)
            result.append(sorted(self.members[group]))
            for user in after[group]:
                waiting[user] -= 1
                if waiting[user] == 0:
                    heapq.heappush(ready, (max(self.members[user]), user))
        assert len(result) == len(self.members), "a cycle of groups"
        return result
