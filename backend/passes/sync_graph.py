"""The semaphore pairs of a kernel, body by body, and what they make known where (see `sync_flow`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import LocationAttr

from ..isa.table import QUEUED, Engine
from .sync_accesses import Access, Body
from .sync_dependences import Dependence
from .sync_flow import NEVER, Flow, Link, Moment, Node, own

_NONE: Mapping[int, list[Link]] = {}

Passage: TypeAlias = "tuple[frozenset[Node], int]"
"""Nodes, and the child that they leave or enter."""


@dataclass(eq=False)
class Edge(Link):
    """A link by a semaphore pair in `body`: a set at `set_at`, a wait at `wait_at`.

    A drain is an edge to the control core whose set and wait stand together, before a child. A leash serves
    no dependence: it keeps the source of another edge from running ahead beyond what a semaphore counts.
    """

    body: Body
    set_location: LocationAttr
    wait_location: LocationAttr
    reasons: tuple[Dependence, ...]
    """The dependences it was made for."""
    drain: bool = False
    leash: bool = False


class Graph:
    """The edges of every body, and what follows from them and from links that are given.

    Answers are remembered. They depend on a body and the bodies in it only, so a change makes those for the
    body and the bodies around it stale.
    """

    def __init__(self, bodies: list[Body], given: Mapping[int, list[Link]] = _NONE) -> None:
        self.given = given
        self.edges: dict[int, list[Edge]] = {}
        self.ways: dict[int, dict[int, list[Body]]] = {}
        """By body and child, the bodies in the child of which each execution goes through one."""
        for body in bodies:
            if body.way and body.parent is not None:
                self.ways.setdefault(id(body.parent), {}).setdefault(body.at, []).append(body)
        self._flows: dict[int, Flow] = {}
        self._known: dict[int, dict[tuple[frozenset[Node], int], dict[Node, Moment]]] = {}
        self._left: dict[int, dict[tuple[int, int], Passage]] = {}
        self._entered: dict[int, dict[tuple[int, int], Passage]] = {}

    def flow(self, body: Body) -> Flow:
        """The edges of a body, and what goes on for sure in its children."""
        flow = self._flows.get(id(body))
        if flow is None:
            links: list[Link] = [*self.given.get(id(body), []), *self.edges.get(id(body), [])]
            for child, ways in self.ways.get(id(body), {}).items():
                links += self._through(child, ways)
            flow = self._flows[id(body)] = Flow(links, period(body))
        return flow

    def _through(self, child: int, ways: list[Body]) -> Iterator[Link]:
        for source in QUEUED:
            told = set(Engine)
            for way in ways:
                known = self.flow(way).spread({int(source): 0, own(source): 0})
                told &= {e for e in told if known.get(e, NEVER) < period(way)}
            for target in sorted(told - {source}):
                yield Link(source, target, 2 * child, 2 * child + 1, 0)

    def all(self) -> list[Edge]:
        """Every edge."""
        return [edge for edges in self.edges.values() for edge in edges]

    def add(self, edge: Edge) -> None:
        """Add an edge to its body."""
        self.edges.setdefault(id(edge.body), []).append(edge)
        self._forget(edge.body)
        if (flow := self._flows.get(id(edge.body))) is not None:
            flow.add(edge)

    def remove(self, edge: Edge) -> None:
        """Take an edge away."""
        self.edges[id(edge.body)].remove(edge)
        self._forget(edge.body)
        if (flow := self._flows.get(id(edge.body))) is not None:
            flow.remove(edge)

    def _forget(self, body: Body) -> None:
        for around in body.enclosing():
            if around is not body:
                self._flows.pop(id(around), None)
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
                nodes = self.flow(here).needed(nodes, 2 * index)
                here, index = _outward(here)
            passage = passages[id(access), id(body)] = nodes, index
        return passage

    def known(self, body: Body, nodes: frozenset[Node], after: int) -> dict[Node, Moment]:
        """When each node has what `nodes` have after a child of a body."""
        answers = self._known.setdefault(id(body), {})
        known = answers.get((nodes, after))
        if known is None:
            start = dict.fromkeys(nodes, 2 * after + 1)
            known = answers[nodes, after] = self.flow(body).spread(start)
        return known

    def flows(self, body: Body, out: Passage, into: Passage, distance: int) -> bool:
        """Whether what comes `out` of a child gets `into` a child, `distance` executions of the body later."""
        limit = distance * period(body) + 2 * into[1]
        known = self.known(body, *out)
        return any(known.get(node, NEVER) <= limit for node in into[0])

    def implies(self, edge: Edge) -> bool:
        """Whether the edges of the body say what an edge that is not in the graph says."""
        limit = edge.distance * period(edge.body) + edge.wait_at
        known = self.flow(edge.body).spread({own(edge.source): edge.set_at})
        return known.get(edge.target, NEVER) <= limit


def _outward(body: Body) -> tuple[Body, int]:
    assert body.parent is not None, "the body does not enclose the access"
    return body.parent, body.at


def period(body: Body) -> int:
    """The number of positions of one execution."""
    return 2 * len(body.children) + 2


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
        known = graph.flow(here).spread(start)
        ahead = [
            execution + (position > before)
            for execution, position in (divmod(known[e], span) for e in heeders if e in known)
        ]
        if ahead:
            return edge.distance + min(ahead)
        if here.loop or here.parent is None:
            return None
        start = {e: 2 * here.at + 1 for e, moment in known.items() if moment < span}
        heeders, before = graph.flow(here).needed(heeders, before), 2 * here.at
        here = here.parent
