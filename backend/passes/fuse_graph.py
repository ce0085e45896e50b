"""The dependence graph of a block's ops, for grouping and reordering them.

An op depends on the ops of its block that define what it (or anything nested in it) uses, and on earlier ops
whose effects it must not overtake. Members of clusters depend on what they read through views and cheap
tiles, not on those ops themselves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence, Set

from xdsl.ir import Block, Operation, SSAValue

from ..dialects import tile
from ..dialects.definition import operands_of
from .simplify_dead import READS
from .simplify_motion import ANY_MEMORY, memory_of

_WRITES: tuple[type[Operation], ...] = (tile.StoreBoxOp, tile.ScatterOp, tile.AtomicListOp)
_ORDERED: tuple[type[Operation], ...] = (*_WRITES, tile.PrintOp, tile.AssertOp)

Reads = Callable[[Operation], Iterable[SSAValue] | None]
"""What a member of a cluster reads; None for other ops."""


class BlockGraph:
    """`before[k]` are the numbers of the ops that op k of `ops` depends on. The terminator is left out."""

    def __init__(self, block: Block, reads: Reads, groups: Sequence[int] | None) -> None:
        self.ops = [op for op in block.ops if op is not block.last_op]
        self.number: dict[Operation | Block, int] = {op: k for k, op in enumerate(self.ops)}
        self.before: list[set[int]] = [set() for _ in self.ops]
        for k, op in enumerate(self.ops):
            values = reads(op)
            for value in _all_operands(op) if values is None else values:
                source = self.number.get(value.owner)
                if source is not None:
                    self.before[k].add(source)
        self._order_effects(groups)

    def _order_effects(self, groups: Sequence[int] | None) -> None:
        loads, effects = _Touched(), _Touched()
        last: list[int] = []
        for k, op in enumerate(self.ops):
            read = _nested(op, READS)
            ordered = _nested(op, _ORDERED)
            written = {memory_of(o, groups) for o in ordered if isinstance(o, _WRITES)}
            if ordered:
                self.before[k].update(last, loads.by(written))
            if read:
                places = {memory_of(o, groups) for o in read}
                self.before[k].update(effects.by(places))
                loads.add(k, places)
            if ordered:
                effects.add(k, written)
                last = [k]


class _Touched:
    """Numbers of ops by the memory that they touch; looking them up does not go through those of other memory."""

    def __init__(self) -> None:
        self._numbers: dict[int, list[int]] = {}

    def add(self, number: int, places: Iterable[int]) -> None:
        """An op touches some memory."""
        for place in places:
            self._numbers.setdefault(place, []).append(number)

    def by(self, places: Set[int]) -> Iterator[int]:
        """The ops that may touch the same memory."""
        if not places:
            return
        for place, numbers in self._numbers.items():
            if place in places or ANY_MEMORY in (place, *places):
                yield from numbers


def _nested(op: Operation, kinds: tuple[type[Operation], ...]) -> list[Operation]:
    if not op.regions:
        return [op] if isinstance(op, kinds) else []
    return [inner for inner in op.walk() if isinstance(inner, kinds)]


def _all_operands(op: Operation) -> Iterable[SSAValue]:
    """Operands of an op and of everything nested in it."""
    if not op.regions:
        return operands_of(op)
    return [value for inner in op.walk() for value in operands_of(inner)]


class Grouping:
    """A partition of a block's ops into groups that stays acyclic.

    `rank` is an order of the groups that respects dependences. A search for paths between two groups stays
    between their ranks, and merging them renumbers only what it has found there (after Pearce and Kelly).
    """

    def __init__(self, graph: BlockGraph) -> None:
        self.graph = graph
        self.group = list(range(len(graph.ops)))
        self.members: dict[int, list[int]] = {k: [k] for k in self.group}
        self.rank = list(range(len(graph.ops)))
        self._sources: list[set[int]] = [set(before) for before in graph.before]
        self._targets: list[set[int]] = [set() for _ in graph.ops]
        for k, before in enumerate(graph.before):
            for source in before:
                self._targets[source].add(k)

    def before(self, group: int) -> set[int]:
        """The groups that a group depends on."""
        numbers = {n for member in self.members[group] for n in self.graph.before[member]}
        return {self.group[n] for n in numbers} - {group}

    def try_merge(self, a: int, b: int) -> bool:
        """Make two groups one, unless a path between them runs through a third."""
        if a == b:
            return True
        low, high = (a, b) if self.rank[a] < self.rank[b] else (b, a)
        span = range(self.rank[low], self.rank[high] + 1)
        behind = self._reach(high, low, self._sources, span)
        if behind is None:
            return False
        ahead = self._reach(low, high, self._targets, span)
        assert ahead is not None
        keep, gone = (a, b) if len(self.members[a]) >= len(self.members[b]) else (b, a)
        ranks = sorted(self.rank[g] for g in (*behind, *ahead, a, b))
        order = [*sorted(behind, key=self.rank.__getitem__), keep]
        order += sorted(ahead, key=self.rank.__getitem__)
        for group, rank in zip(order, ranks):
            self.rank[group] = rank
        for member in self.members.pop(gone):
            self.group[member] = keep
            self.members[keep].append(member)
        self._sources[keep] |= self._sources[gone]
        self._targets[keep] |= self._targets[gone]
        return True

    def _reach(
        self, start: int, goal: int, edges: Sequence[set[int]], span: range
    ) -> set[int] | None:
        """The groups within a span of ranks reached from one, None when the goal is reached through a third."""
        found: set[int] = set()
        work = [start]
        while work:
            group = work.pop()
            for number in edges[group]:
                target = self.group[number]
                if target == goal and group != start:
                    return None
                if target in found or target in (start, goal) or self.rank[target] not in span:
                    continue
                found.add(target)
                work.append(target)
        return found

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
