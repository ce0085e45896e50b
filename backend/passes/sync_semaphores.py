"""Numbering the semaphores of a plan within the target's count."""

from __future__ import annotations

from dataclasses import replace

from ..isa.table import Engine
from ..target import Target
from .sync_accesses import Body
from .sync_dependences import Dependence
from .sync_graph import Edge, Graph, backlog
from .sync_plan import prune


def assign(graph: Graph, dependences: list[Dependence], target: Target) -> list[list[Edge]]:
    """Semaphore s serves the edges of entry s. The plan is strengthened until the target has enough.

    Distinct semaphores are best. Then edges of equal engines share one; then such edges in one body become
    one edge; then edges become drains, which all share one semaphore.
    """
    strengthened = 0
    while True:
        bound = _bound(graph, target.semaphore_max)
        edges = _in_program_order(graph)
        pairs = [[edge] for edge in edges if not edge.drain]
        drains = [edge for edge in edges if edge.drain]
        room = target.semaphores - bool(drains)
        if len(pairs) > room:
            pairs = _share(edges, bound, target.semaphore_max)
        missing = len(pairs) - room
        if missing <= 0 and not strengthened:
            return pairs + [drains] * bool(drains)
        for _ in range((missing + 1) // 2):
            if not _merge(graph):
                _drain(graph)
            strengthened += 1
        # A strengthened edge makes others needless; looking for them takes longer than strengthening.
        if missing <= 0 or 5 * strengthened > len(edges):
            prune(graph, dependences)
            strengthened = 0


def _bound(graph: Graph, most: int) -> dict[int, int]:
    """The greatest count of each edge's semaphore; sources without a bound are put on a leash."""
    # Long enough to let the source run ahead as far as the rings of the kernel let anyone.
    length = 2 + max((edge.distance for edge in graph.all() if not edge.leash), default=0)
    for edge in graph.all():
        if edge.drain or _is_bounded(graph, edge, most):
            continue
        if edge.distance < most:
            graph.add(_leash(edge, min(length, most - edge.distance)))
        else:
            _make_drain(graph, edge)
    for leash in [edge for edge in graph.all() if edge.leash]:
        # A later leash may hold what an earlier one was made for.
        graph.remove(leash)
        if not all(edge.drain or _is_bounded(graph, edge, most) for edge in graph.all()):
            graph.add(leash)
    return {id(edge): backlog(graph, edge) or 0 for edge in graph.all() if not edge.drain}


def _is_bounded(graph: Graph, edge: Edge, most: int) -> bool:
    count = backlog(graph, edge)
    return count is not None and count <= most


def _leash(edge: Edge, distance: int) -> Edge:
    return replace(
        edge,
        source=edge.target,
        target=edge.source,
        set_at=edge.wait_at + 1,
        wait_at=edge.set_at - 1,
        distance=distance,
        set_location=edge.wait_location,
        wait_location=edge.set_location,
        reasons=(),
        leash=True,
    )


def _in_program_order(graph: Graph) -> list[Edge]:
    def key(edge: Edge) -> tuple[tuple[int, ...], int, int, int]:
        return edge.body.path, edge.set_at, edge.wait_at, edge.distance

    return sorted(graph.all(), key=key)


def _share(edges: list[Edge], bound: dict[int, int], most: int) -> list[list[Edge]]:
    """Group edges that can use one semaphore: its sets and waits then pair up first in, first out."""
    groups: list[list[Edge]] = []
    totals: list[int] = []
    for edge in edges:
        if edge.drain:
            continue
        count = bound[id(edge)]
        for number, group in enumerate(groups):
            if totals[number] + count <= most and all(_in_step(edge, other) for other in group):
                group.append(edge)
                totals[number] += count
                break
        else:
            groups.append([edge])
            totals.append(count)
    return groups


def _in_step(a: Edge, b: Edge) -> bool:
    """Whether the sets of two edges happen in the same order as their waits.

    Edges with credits do not share: a credit would have to be told from a token.
    """
    if (a.source, a.target) != (b.source, b.target) or a.distance or b.distance:
        return False
    if a.body is b.body:
        return (a.set_at < b.set_at) == (a.wait_at < b.wait_at) and a.set_at != b.set_at
    for outer, inner in ((a, b), (b, a)):
        child = _child_holding(outer.body, inner.body)
        if child is not None:
            return not outer.set_at < 2 * child < outer.wait_at
    return True


def _child_holding(outer: Body, inner: Body) -> int | None:
    """The child of `outer` that holds the body `inner`, None when none does."""
    for body in inner.enclosing():
        if body.parent is outer:
            return body.at
    return None


def _merge(graph: Graph) -> bool:
    """Make one edge of the two nearest with the later set and the earlier wait; False when no two allow it."""
    nearest: tuple[int, Edge, Edge] | None = None
    like: dict[tuple[int, Engine, Engine, int], Edge] = {}
    for edge in _in_program_order(graph):
        if edge.drain or edge.leash:
            continue
        key = id(edge.body), edge.source, edge.target, edge.distance
        before = like.get(key)
        like[key] = edge
        if before is None:
            continue
        if edge.distance == 0 and max(edge.set_at, before.set_at) > min(
            edge.wait_at, before.wait_at
        ):
            continue
        loss = abs(edge.set_at - before.set_at) + abs(edge.wait_at - before.wait_at)
        if nearest is None or loss < nearest[0]:
            nearest = loss, before, edge
    if nearest is None:
        return False
    _, a, b = nearest
    late, early = max(a, b, key=lambda e: e.set_at), min(a, b, key=lambda e: e.wait_at)
    graph.remove(a)
    graph.remove(b)
    graph.add(
        replace(
            a,
            set_at=late.set_at,
            wait_at=early.wait_at,
            set_location=late.set_location,
            wait_location=early.wait_location,
            reasons=a.reasons + b.reasons,
        )
    )
    return True


def _drain(graph: Graph) -> None:
    """Turn the edge that runs least often into a drain."""
    edges = [e for e in _in_program_order(graph) if not e.drain and not e.leash]
    if edges:
        _make_drain(graph, min(edges, key=_depth))


def _depth(edge: Edge) -> int:
    return edge.body.depth


def _make_drain(graph: Graph, edge: Edge) -> None:
    graph.remove(edge)
    graph.add(replace(edge, target=Engine.CORE, set_at=edge.wait_at, distance=0, drain=True))
