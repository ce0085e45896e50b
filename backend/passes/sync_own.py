"""The flags of microkernels that keep their own order, as `sync` sees them: knowledge that is there already."""

from __future__ import annotations

from collections import defaultdict

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, i32

from ..dialects import dsa
from ..dialects.tile import ints
from ..isa.table import Engine
from .sync_accesses import Body, Kernel
from .sync_flow import Link

Links = dict[int, list[Link]]
"""By the id of a body."""


def own_credits(function: func.FuncOp) -> tuple[int, ...]:
    """Initial counts of the semaphores that microkernels have declared."""
    credits = function.attributes.get(dsa.OWN_CREDITS)
    return () if credits is None else ints(credits)


def own_links(kernel: Kernel) -> Links:
    """What the pairs of microkernels tell: those with one set and one wait, which stand in the same body."""
    credits = own_credits(kernel.function)
    sets: dict[int, list[tuple[Body, int]]] = defaultdict(list)
    waits: dict[int, list[tuple[Body, int]]] = defaultdict(list)
    for body in kernel.bodies if credits else ():
        for index, op in enumerate(body.children):
            if isinstance(op, dsa.SetOp | dsa.WaitOp):
                found = sets if isinstance(op, dsa.SetOp) else waits
                found[op.sem.value.data].append((body, index))
    links: Links = defaultdict(list)
    for number, places in sets.items():
        if len(places) != 1 or len(waits[number]) != 1 or places[0][0] is not waits[number][0][0]:
            continue
        (body, set_at), (_, wait_at) = places[0], waits[number][0]
        distance = credits[-1 - number]
        if wait_at < set_at and not distance:
            continue  # a deadlock, which the check pass reports
        source, target = (_engine(body, index) for index in (set_at, wait_at))
        # Set and wait are children themselves: what comes before one, and what comes after the other.
        links[id(body)].append(Link(source, target, 2 * set_at, 2 * wait_at + 1, distance))
    return links


def _engine(body: Body, index: int) -> Engine:
    op = body.children[index]
    assert isinstance(op, dsa.SetOp | dsa.WaitOp)
    return Engine(op.engine.value.data)


def number_own(function: func.FuncOp, first: int) -> None:
    """Number the semaphores of microkernels, from `first` on."""
    for op in function.walk():
        if isinstance(op, dsa.SetOp | dsa.WaitOp) and op.sem.value.data < 0:
            op.sem = IntegerAttr(first - 1 - op.sem.value.data, i32)
