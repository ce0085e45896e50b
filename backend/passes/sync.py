"""The sync pass: semaphores that order the engines wherever they touch the same memory."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ..dialects import dsa
from ..dialects.tile import i64_array
from ..target import Target
from .sync_accesses import Body, collect
from .sync_dependences import dependences
from .sync_graph import Edge
from .sync_own import number_own, own_credits, own_links
from .sync_plan import plan
from .sync_semaphores import assign


def sync(module: ModuleOp, target: Target) -> None:
    """Insert `dsa.set` / `dsa.wait` pairs for every dependence between engines, and set `dsa.credits`."""
    kernel = collect(module, target)
    needed = dependences(kernel, target.semaphore_max)
    own = own_credits(kernel.function)
    left = replace(target, semaphores=target.semaphores - len(own))
    semaphores = assign(plan(needed, kernel.bodies, own_links(kernel)), needed, left)
    number_own(kernel.function, len(semaphores))
    # Waits go before drains at the same place: a drain passes on what its engine has waited for.
    by_body: dict[int, list[tuple[Edge, int]]] = {}
    for number, edges in enumerate(semaphores):
        for edge in edges:
            by_body.setdefault(id(edge.body), []).append((edge, number))
    for body in kernel.bodies:
        _insert(body, sorted(by_body.get(id(body), []), key=lambda pair: pair[0].drain))
    kernel.function.attributes["dsa.credits"] = i64_array(
        [*(sum(edge.distance for edge in edges) for edges in semaphores), *own]
    )


def _insert(body: Body, pairs: list[tuple[Edge, int]]) -> None:
    """Put the pairs of one body in their places."""
    before: dict[int, list[Operation]] = {}
    after: dict[int, list[Operation]] = {}
    for edge, number in pairs:
        setter = dsa.SetOp(edge.source, number)
        setter.location = edge.set_location
        waiter = dsa.WaitOp(edge.target, number)
        waiter.location = edge.wait_location
        here = before.setdefault(edge.wait_at // 2, [])
        if edge.drain:
            here.append(setter)
        else:
            after.setdefault(edge.set_at // 2, []).append(setter)
        here.append(waiter)
    for child, ops in before.items():
        body.block.insert_ops_before(ops, body.children[child])
    for child, ops in after.items():
        body.block.insert_ops_after(ops, body.children[child])
