"""Knowledge flow between engines in one body: which completions does an engine know of at which point.

A body with n children has positions 0 … 2n: 2i is right before child i (where waits stand), 2i + 1 right
after it (where sets stand). Executions of a body are numbered over the kernel's life on a core, and
`Moment` = execution * period + position orders the points of all executions on one line.

A link says: what `source` has completed when it gets to `set_at` in execution k, `target` knows at
`wait_at` in execution k + distance. In its own queue an engine keeps what it knows, and what the control
core knows holds for everything that it issues from there on.

That an engine has gone past an instruction of its own does not mean that the instruction is complete. So
an engine has two nodes: what it knows (of others, and of itself through its own semaphores), and `own`, what
it has issued, which only its sets tell.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import TypeAlias

from ..isa.table import QUEUED, Engine

Moment: TypeAlias = int
Node: TypeAlias = int

NEVER = 1 << 60


def own(engine: Engine) -> Node:
    """The node of what an engine has issued; `int(engine)` is the node of what it knows."""
    return int(engine) + len(Engine)


@dataclass(eq=False)
class Link:
    """What `source` has at `set_at`, `target` has at `wait_at`, `distance` executions of the body later."""

    source: Engine
    target: Engine
    set_at: int
    wait_at: int
    distance: int


Pair: TypeAlias = "tuple[Engine, Engine]"
Table: TypeAlias = "tuple[list[int], list[int]]"


class Flow:
    """The links of a body, indexed by their engines. Tables are made anew only for engines whose links change."""

    def __init__(self, links: Iterable[Link], period: int) -> None:
        self.period = period
        self._links: dict[Pair, list[Link]] = defaultdict(list)
        for link in links:
            self._links[link.source, link.target].append(link)
        self._onward: dict[Pair, Table] = {}
        self._back: dict[Pair, Table] = {}

    def add(self, link: Link) -> None:
        """One more link."""
        self._links[link.source, link.target].append(link)
        self._forget((link.source, link.target))

    def remove(self, link: Link) -> None:
        """One link less."""
        pair = link.source, link.target
        self._links[pair].remove(link)
        if not self._links[pair]:
            del self._links[pair]
        self._forget(pair)

    def _forget(self, pair: Pair) -> None:
        self._onward.pop(pair, None)
        self._back.pop(pair, None)

    def _tables(
        self, tables: dict[Pair, Table], make: Callable[[list[Link], int], Table]
    ) -> list[tuple[Engine, Engine, list[int], list[int]]]:
        if len(tables) != len(self._links):
            for pair, links in self._links.items():
                if pair not in tables:
                    tables[pair] = make(links, self.period)
        return [(*pair, *table) for pair, table in tables.items()]

    def spread(self, start: dict[Node, Moment]) -> dict[Node, Moment]:
        """The first moment at which each node has what `start` has, for the nodes that get it at all."""
        known = dict(start)
        onward = self._tables(self._onward, _arrivals)
        changed = True
        while changed:
            changed = False
            core = known.get(Engine.CORE, NEVER)
            for engine in map(int, QUEUED):
                if known.get(engine, NEVER) > core:
                    known[engine] = core
                    changed = True
            for source, target, sets, arrivals in onward:
                since = min(known.get(source, NEVER), known.get(own(source), NEVER))
                if since == NEVER:
                    continue
                execution, position = divmod(since, self.period)
                arrival = (execution + 1) * self.period + arrivals[0]
                following = bisect_left(sets, position)
                if following < len(sets):
                    arrival = min(arrival, execution * self.period + arrivals[following])
                if arrival < known.get(target, NEVER):
                    known[target] = arrival
                    changed = True
        return known

    def needed(self, nodes: frozenset[Node], position: int) -> frozenset[Node]:
        """Nodes that, having something at position 0, tell one of `nodes` up to `position`."""
        needed: dict[Node, Moment] = dict.fromkeys(nodes, position)
        back = self._tables(self._back, _departures)
        changed = True
        while changed:
            changed = False
            needed[Engine.CORE] = max(needed.values())
            for source, target, waits, departures in back:
                heard = bisect_right(waits, needed.get(target, -1))
                if not heard:
                    continue
                for node in (int(source), own(source)):
                    if departures[heard - 1] > needed.get(node, -1):
                        needed[node] = departures[heard - 1]
                        changed = True
        return frozenset(needed)


def _arrivals(links: list[Link], period: int) -> Table:
    """Sets in order, and the first arrival (from the set's execution on) of each or a later one."""
    links = sorted(links, key=_SET_AT)
    arrivals = [link.distance * period + link.wait_at for link in reversed(links)]
    return [link.set_at for link in links], list(accumulate(arrivals, min))[::-1]


def _departures(links: list[Link], _: int) -> Table:
    """Waits for the same execution in order, and the last set that each or an earlier one hears."""
    links = sorted([link for link in links if not link.distance], key=_WAIT_AT)
    return [link.wait_at for link in links], list(accumulate(map(_SET_AT, links), max))


_SET_AT, _WAIT_AT = attrgetter("set_at"), attrgetter("wait_at")
