"""Knowledge flow between engines: which completions does an engine know of at which point of a body.

A body with n children has positions 0 … 2n: 2i is right before child i (where waits stand), 2i + 1 right
after it (where sets stand). Executions of a body are numbered over the kernel's life on a core, and
`Moment` = execution * period + position orders the points of all executions on one line.

An edge says: what `source` has completed when it gets to `set_at` in execution k, `target` knows at
`wait_at` in execution k + distance. In its own queue an engine keeps what it knows, and what the control
core knows holds for everything that it issues from there on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import LocationAttr

from ..isa.table import QUEUED, Engine
from .sync_accesses import Access, Body

Moment = int


@dataclass(eq=False)
class Edge:
    """A semaphore pair in `body`: a set on `source` at `set_at`, a wait on `target` at `wait_at`.

    A drain is an edge to the control core whose set and wait stand together, before a child. A leash serves
    no dependence: it keeps the source of another edge from running ahead beyond what a semaphore counts.
    """

    body: Body
    source: Engine
    target: Engine
    set_at: int
    wait_at: int
    distance: int
    set_location: LocationAttr
    wait_location: LocationAttr
    drain: bool = False
    leash: bool = False


@dataclass
class Graph:
    """The edges of every body."""

    edges: dict[int, list[Edge]] = field(default_factory=dict)

    def of(self, body: Body) -> list[Edge]:
        """The edges of a body (a live list)."""
        return self.edges.setdefault(id(body), [])

    def all(self) -> list[Edge]:
        """Every edge."""
        return [edge for edges in self.edges.values() for edge in edges]

    def add(self, edge: Edge) -> None:
        """Add an edge to its body."""
        self.of(edge.body).append(edge)

    def remove(self, edge: Edge) -> None:
        """Take an edge away."""
        self.of(edge.body).remove(edge)


def period(body: Body) -> int:
    """The number of positions of one execution."""
    return 2 * len(body.children) + 2


def spread(
    edges: list[Edge], start: dict[Engine, Moment], period: int, limit: Moment
) -> dict[Engine, Moment]:
    """The first moment, up to `limit`, at which each engine knows what `start` says is known."""
    known = dict(start)
    changed = True
    while changed:
        changed = False
        core = known.get(Engine.CORE)
        if core is not None:
            for engine in QUEUED:
                if known.get(engine, limit + 1) > core:
                    known[engine] = core
                    changed = True
        for edge in edges:
            since = known.get(edge.source)
            if since is None:
                continue
            execution, position = divmod(since, period)
            if edge.set_at < position:
                execution += 1
            arrival = (execution + edge.distance) * period + edge.wait_at
            if arrival <= limit and arrival < known.get(edge.target, limit + 1):
                known[edge.target] = arrival
                changed = True
    return known


def knows_after(graph: Graph, access: Access, body: Body) -> tuple[set[Engine], int]:
    """Engines that know, when the child of `body` that holds the access is over, that the access is complete.

    The child's number comes with them. A child that is left without executing the access has nothing to tell.
    """
    return _leave(graph, {access.engine}, access.body, access.index, body)


def _leave(
    graph: Graph, engines: set[Engine], here: Body, index: int, body: Body
) -> tuple[set[Engine], int]:
    while here is not body:
        start = {engine: 2 * index + 1 for engine in engines}
        span = period(here)
        engines = set(spread(graph.of(here), start, span, span - 1))
        index = here.at
        assert here.parent is not None, "the body does not enclose the access"
        here = here.parent
    return engines, index


def heeds_before(graph: Graph, access: Access, body: Body) -> tuple[set[Engine], int]:
    """Engines whose knowledge at the start of a child of `body` reaches the access in it, always."""
    return _enter(graph, {access.engine}, access.body, 2 * access.index, body)


def _enter(
    graph: Graph, engines: set[Engine], here: Body, position: int, body: Body
) -> tuple[set[Engine], int]:
    while here is not body:
        engines = _needed(graph.of(here), engines, position)
        position = 2 * here.at
        assert here.parent is not None, "the body does not enclose the access"
        here = here.parent
    return engines, position // 2


def _needed(edges: list[Edge], engines: set[Engine], position: int) -> set[Engine]:
    """Engines that, knowing something at position 0, tell one of `engines` up to `position`."""
    needed = {engine: position for engine in engines}
    changed = True
    while changed:
        changed = False
        latest = max(needed.values())
        if needed.get(Engine.CORE, -1) < latest:
            needed[Engine.CORE] = latest
        for edge in edges:
            if edge.distance == 0 and edge.wait_at <= needed.get(edge.target, -1):
                if edge.set_at > needed.get(edge.source, -1):
                    needed[edge.source] = edge.set_at
                    changed = True
    return set(needed)


def flows(
    graph: Graph, body: Body, sources: Iterable[Engine], after: int, targets: Iterable[Engine],
    before: int, distance: int,
) -> bool:  # fmt: skip
    """Whether what `sources` know after child `after` gets to one of `targets` before child `before`, `distance` executions later."""
    span = period(body)
    limit = distance * span + 2 * before
    start = {engine: 2 * after + 1 for engine in sources}
    return reaches(graph, body, start, targets, limit)


def reaches(
    graph: Graph, body: Body, start: dict[Engine, Moment], targets: Iterable[Engine], limit: Moment
) -> bool:
    """Whether what is known at `start` gets to one of `targets` up to `limit`."""
    start = {engine: moment for engine, moment in start.items() if moment <= limit}
    known = spread(graph.of(body), start, period(body), limit)
    return not known.keys().isdisjoint(targets)


def implied(graph: Graph, edge: Edge) -> bool:
    """Whether the other edges of the body say what an edge that is not in the graph says."""
    limit = edge.distance * period(edge.body) + edge.wait_at
    return reaches(graph, edge.body, {edge.source: edge.set_at}, [edge.target], limit)


FAR = 300
"""Executions over which a bound on a semaphore is looked for; semaphores count to 255 at most."""


def backlog(graph: Graph, edge: Edge) -> int | None:
    """How far an edge's semaphore can count: its credits and what the source can run ahead; None: no bound.

    The source runs ahead of the target until something makes it wait for the target.
    """
    here = edge.body
    if not here.repeats:
        return edge.distance + 1
    start, heeders, before = {edge.target: edge.wait_at}, {edge.source}, edge.set_at
    while True:
        span = period(here)
        known = spread(graph.of(here), start, span, FAR * span)
        ahead = [
            execution + (position > before)
            for execution, position in (divmod(known[e], span) for e in heeders if e in known)
        ]
        if ahead:
            return edge.distance + min(ahead)
        if here.loop or here.parent is None:
            return None
        start = {e: 2 * here.at + 1 for e, moment in known.items() if moment < span}
        heeders, before = _needed(graph.of(here), heeders, before), 2 * here.at
        here = here.parent
