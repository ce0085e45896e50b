"""Knowledge flow between engines: which completions does an engine know of at which point of a body.

A body with n children has positions 0 … 2n: 2i is right before child i (where waits stand), 2i + 1 right
after it (where sets stand). Executions of a body are numbered over the kernel's life on a core, and
`Moment` = execution * period + position orders the points of all executions on one line.

An edge says: what `source` has completed when it gets to `set_at` in execution k, `target` knows at
`wait_at` in execution k + distance. In its own queue an engine keeps what it knows, and what the control
core knows holds for everything that it issues from there on.

That an engine has gone past an instruction of its own does not mean that the instruction is complete. So
an engine has two nodes: what it knows (of others, and of itself through its own semaphores), and `own`, what
it has issued, which only its sets tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import LocationAttr

from ..isa.table import QUEUED, Engine
from .sync_accesses import Access, Body
from .sync_dependences import Dependence

Moment: TypeAlias = int
Node: TypeAlias = int
Passage: TypeAlias = "tuple[frozenset[Node], int]"
"""Nodes, and the child that they leave or enter."""

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


@dataclass(eq=False)
class Edge(Link):
    """A link by a semaphore pair in `body`: a set at `set_at`, a wait at `wait_at`.

    A drain is an edge to the control core whose set and wait stand together, before a child. A leash serves
    no dependence: it keeps the source of another edge from running ahead beyond what a semaphore counts.
    """

    body: Body
    set_location: LocationAttr
    wait_location: LocationAttr
    reason: Dependence | None
    """The dependence it was made for, None when for several or none."""
    drain: bool = False
    leash: bool = False


class Graph:
    """The edges of every body, and what follows from them.

    Answers are remembered. They depend on a body and the bodies in it only, so a change makes those for the
    body and the bodies around it stale.
    """

    def __init__(self, bodies: list[Body]) -> None:
        self.edges: dict[int, list[Edge]] = {}
        self.passed: dict[int, list[Body]] = {}
        """By body, the bodies in it that every execution goes through."""
        for body in bodies:
            if body.always and body.parent is not None:
                self.passed.setdefault(id(body.parent), []).append(body)
        self._links: dict[int, list[Link]] = {}
        self._known: dict[int, dict[tuple[frozenset[Node], int], dict[Node, Moment]]] = {}
        self._left: dict[int, dict[tuple[int, int], Passage]] = {}
        self._entered: dict[int, dict[tuple[int, int], Passage]] = {}

    def links(self, body: Body) -> list[Link]:
        """The edges of a body, and what goes on for sure in its children."""
        links = self._links.get(id(body))
        if links is None:
            links = [*self.edges.get(id(body), [])]
            for inner in self.passed.get(id(body), []):
                links += self._through(inner)
            self._links[id(body)] = links
        return links

    def _through(self, inner: Body) -> Iterator[Link]:
        for source in QUEUED:
            start: dict[Node, Moment] = {source: 0, own(source): 0}
            known = spread(self.links(inner), start, period(inner))
            for target in Engine:
                if target is not source and known.get(target, NEVER) < period(inner):
                    yield Link(source, target, 2 * inner.at, 2 * inner.at + 1, 0)

    def all(self) -> list[Edge]:
        """Every edge."""
        return [edge for edges in self.edges.values() for edge in edges]

    def add(self, edge: Edge) -> None:
        """Add an edge to its body."""
        self.edges.setdefault(id(edge.body), []).append(edge)
        self._forget(edge.body)

    def remove(self, edge: Edge) -> None:
        """Take an edge away."""
        self.edges[id(edge.body)].remove(edge)
        self._forget(edge.body)

    def _forget(self, body: Body) -> None:
        for around in body.enclosing():
            self._links.pop(id(around), None)
            self._known.pop(id(around), None)
        for depth in range(body.depth):
            self._left.pop(depth, None)
            self._entered.pop(depth, None)

    def knows_after(self, access: Access, body: Body) -> Passage:
        """Nodes that have, when the child of `body` that holds the access is over, that it is complete.

        The child's number comes with them. A child that is left without executing the access has nothing
        to tell.
        """
        passages = self._left.setdefault(body.depth, {})
        passage = passages.get((id(access), id(body)))
        if passage is None:
            nodes, here, index = frozenset({own(access.engine)}), access.body, access.index
            while here is not body:
                known = self.known(here, nodes, index)
                nodes = frozenset(n for n, moment in known.items() if moment < period(here))
                here, index = _outward(here)
            passage = passages[id(access), id(body)] = nodes, index
        return passage

    def heeds_before(self, access: Access, body: Body) -> Passage:
        """Nodes whose knowledge at the start of a child of `body` reaches the access in it, always."""
        passages = self._entered.setdefault(body.depth, {})
        passage = passages.get((id(access), id(body)))
        if passage is None:
            nodes, here, index = frozenset({int(access.engine)}), access.body, access.index
            while here is not body:
                nodes = _needed(self.links(here), nodes, 2 * index)
                here, index = _outward(here)
            passage = passages[id(access), id(body)] = nodes, index
        return passage

    def known(self, body: Body, nodes: frozenset[Node], after: int) -> dict[Node, Moment]:
        """When each node has what `nodes` have after a child of a body."""
        answers = self._known.setdefault(id(body), {})
        known = answers.get((nodes, after))
        if known is None:
            start = dict.fromkeys(nodes, 2 * after + 1)
            known = answers[nodes, after] = spread(self.links(body), start, period(body))
        return known

    def flows(self, body: Body, out: Passage, into: Passage, distance: int) -> bool:
        """Whether what comes `out` of a child gets `into` a child, `distance` executions of the body later."""
        limit = distance * period(body) + 2 * into[1]
        known = self.known(body, *out)
        return any(known.get(node, NEVER) <= limit for node in into[0])

    def implies(self, edge: Edge) -> bool:
        """Whether the edges of the body say what an edge that is not in the graph says."""
        limit = edge.distance * period(edge.body) + edge.wait_at
        known = spread(self.links(edge.body), {own(edge.source): edge.set_at}, period(edge.body))
        return known.get(edge.target, NEVER) <= limit


def _outward(body: Body) -> tuple[Body, int]:
    assert body.parent is not None, "the body does not enclose the access"
    return body.parent, body.at


def period(body: Body) -> int:
    """The number of positions of one execution."""
    return 2 * len(body.children) + 2


def spread(links: list[Link], start: dict[Node, Moment], period: int) -> dict[Node, Moment]:
    """The first moment at which each node has what `start` has, for the nodes that get it at all."""
    known = dict(start)
    changed = True
    while changed:
        changed = False
        core = known.get(Engine.CORE)
        if core is not None:
            for engine in map(int, QUEUED):
                if known.get(engine, NEVER) > core:
                    known[engine] = core
                    changed = True
        for link in links:
            since = min(known.get(link.source, NEVER), known.get(own(link.source), NEVER))
            if since == NEVER:
                continue
            execution, position = divmod(since, period)
            if link.set_at < position:
                execution += 1
            arrival = (execution + link.distance) * period + link.wait_at
            if arrival < known.get(link.target, NEVER):
                known[link.target] = arrival
                changed = True
    return known


def _needed(links: list[Link], nodes: frozenset[Node], position: int) -> frozenset[Node]:
    """Nodes that, having something at position 0, tell one of `nodes` up to `position`."""
    needed: dict[Node, Moment] = dict.fromkeys(nodes, position)
    changed = True
    while changed:
        changed = False
        latest = max(needed.values())
        if needed.get(Engine.CORE, -1) < latest:
            needed[Engine.CORE] = latest
        for link in links:
            if link.distance or link.wait_at > needed.get(link.target, -1):
                continue
            for node in (int(link.source), own(link.source)):
                if link.set_at > needed.get(node, -1):
                    needed[node] = link.set_at
                    changed = True
    return frozenset(needed)


def backlog(graph: Graph, edge: Edge) -> int | None:
    """How far an edge's semaphore can count: its credits and what the source can run ahead; None: no bound.

    The source runs ahead of the target until something makes it wait for the target.
    """
    here = edge.body
    if not here.repeats:
        return edge.distance + 1
    start: dict[Node, Moment] = {edge.target: edge.wait_at}
    heeders: frozenset[Node] = frozenset({int(edge.source)})
    before = edge.set_at
    while True:
        span = period(here)
        known = spread(graph.links(here), start, span)
        ahead = [
            execution + (position > before)
            for execution, position in (divmod(known[e], span) for e in heeders if e in known)
        ]
        if ahead:
            return edge.distance + min(ahead)
        if here.loop or here.parent is None:
            return None
        start = {e: 2 * here.at + 1 for e, moment in known.items() if moment < span}
        heeders, before = _needed(graph.links(here), heeders, before), 2 * here.at
        here = here.parent
