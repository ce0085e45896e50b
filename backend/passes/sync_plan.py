"""Choosing the semaphore pairs that satisfy all dependences, and none that the others imply."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from ..isa.table import Engine
from .sync_accesses import Body
from .sync_dependences import Dependence
from .sync_flow import Link
from .sync_graph import Edge, Graph

_NONE: Mapping[int, list[Link]] = {}


def plan(
    dependences: list[Dependence], bodies: list[Body], given: Mapping[int, list[Link]] = _NONE
) -> Graph:
    """Edges for all dependences, beside what is `given` by body.

    Inner bodies come first, since what they do in every execution is known outside; within a body short
    spans come first, since in-order queues make them imply the longer ones.
    """
    graph = Graph(bodies, given)
    for dependence in sorted(dependences, key=_priority):
        if not satisfied(graph, dependence):
            graph.add(edge_for(dependence))
    prune(graph, dependences)
    return graph


def _priority(dependence: Dependence) -> tuple[int, int, int]:
    body, distance = dependence.levels[0]
    if dependence.drain:
        return -body.depth, 0, 0
    span = dependence.target.child_of(body) - dependence.source.child_of(body)
    return -body.depth, distance, span


def satisfied(graph: Graph, dependence: Dependence) -> bool:
    """Whether the edges make the target see the source complete."""
    source, target = dependence.source, dependence.target
    if dependence.drain:
        outer = dependence.levels[0][0].parent
        assert outer is not None, "a drain stands in a region of an scf.while"
        knowing, _ = graph.knows_after(source, outer)
        heeding, _ = graph.heeds_before(target, outer)
        return not knowing.isdisjoint(heeding)
    return any(
        graph.flows(
            body, graph.knows_after(source, body), graph.heeds_before(target, body), distance
        )
        for body, distance in dependence.levels
    )


def edge_for(dependence: Dependence) -> Edge:
    """The pair that satisfies a dependence by itself."""
    source, target = dependence.source, dependence.target
    body, distance = dependence.levels[0]
    where = body, source.op.location, target.op.location, (dependence,)
    wait_at = 2 * target.child_of(body)
    if dependence.drain:
        return Edge(source.engine, Engine.CORE, wait_at, wait_at, 0, *where, drain=True)
    set_at = 2 * source.child_of(body) + 1
    return Edge(source.engine, target.engine, set_at, wait_at, distance, *where)


def prune(graph: Graph, dependences: list[Dependence]) -> None:
    """Drop every edge that is not needed, outermost and longest first."""
    edges = sorted(graph.all(), key=lambda e: (e.body.depth, -e.distance, e.set_at - e.wait_at))
    for edge in edges:
        graph.remove(edge)
        # An implied edge can be replaced by its path in any argument; another one only when nothing needs it.
        if not graph.implies(edge) and _needed(graph, edge, dependences):
            graph.add(edge)


def _needed(graph: Graph, edge: Edge, dependences: list[Dependence]) -> bool:
    """Whether a dependence is not satisfied without an edge (which is not in the graph)."""
    return not all(satisfied(graph, d) for d in chain(edge.reasons, dependences))
