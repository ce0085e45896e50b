"""Which accesses must not run at the same time or out of order, and where a pair for them can stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..dialects import dsa
from ..isa.table import Engine
from .sync_accesses import Access, Body, Kernel, Ring

OVERLAPPING = (Engine.LD, Engine.ST)
"""Queues whose instructions overlap their latency: a later one may start before an earlier one has ended."""


@dataclass(eq=False)
class Dependence:
    """`target` must see `source` complete.

    Any one of `levels` suffices: at (body, distance) what is known after the child with the source must
    reach the child with the target, `distance` executions of the body later. A pair is placed at the first.
    With `drain` the two stand in different regions of one `scf.while`, which do not run equally often:
    the source's engine is drained right before the target's child of `levels[0]`'s body.
    """

    source: Access
    target: Access
    levels: list[tuple[Body, int]]
    drain: bool = False


def dependences(kernel: Kernel, most: int) -> list[Dependence]:
    """All dependences; `most` caps distances (a semaphore's greatest count)."""
    found: dict[tuple[int, int, int, int], Dependence] = {}
    for source, target in _conflicts(kernel):
        for dependence in _between(kernel, source, target, most):
            body, distance = dependence.levels[0]
            key = (id(source.op), id(target.op), id(body), distance)
            found.setdefault(key, dependence)
    return list(found.values())


def _conflicts(kernel: Kernel) -> Iterator[tuple[Access, Access]]:
    """Ordered pairs of accesses that may touch the same bytes and that no queue orders."""
    by_ring: dict[int, list[Access]] = {id(ring): [] for ring in kernel.rings}
    hbm: list[Access] = []
    for access in kernel.accesses:
        (hbm if access.ring is None else by_ring[id(access.ring)]).append(access)
    groups = [(by_ring[id(a)], by_ring[id(b)]) for a, b in _overlapping(kernel.rings)]
    groups += [(accesses, accesses) for accesses in by_ring.values()]
    for sources, targets in groups:
        for source in sources:
            for target in targets:
                if _ordered(source, target):
                    yield source, target
    yield from _hbm_conflicts(kernel, hbm)


def _hbm_conflicts(kernel: Kernel, hbm: list[Access]) -> Iterator[tuple[Access, Access]]:
    """The pairs of HBM accesses, in program order of sources, then of targets.

    Accesses of one kind conflict with the same others: long kernels have many that conflict with none.
    """

    def kind(access: Access) -> tuple[Engine, int, bool, bool]:
        return access.engine, access.hbm_arg, access.reads, access.writes

    one_of = {kind(access): access for access in hbm}
    targets: dict[tuple[Engine, int, bool, bool], list[Access]] = {}
    for name, source in one_of.items():
        clashing = {
            other
            for other, target in one_of.items()
            if _ordered(source, target) and kernel.may_alias(source.hbm_arg, target.hbm_arg)
        }
        targets[name] = [access for access in hbm if kind(access) in clashing] if clashing else []
    for source in hbm:
        for target in targets[kind(source)]:
            yield source, target


def _overlapping(rings: list[Ring]) -> Iterator[tuple[Ring, Ring]]:
    """Ordered pairs of different rings that share memory."""
    by_start = sorted(rings, key=lambda r: r.start)
    for position, first in enumerate(by_start):
        for second in by_start[position + 1 :]:
            if second.start >= first.end:
                break
            yield first, second
            yield second, first


def _ordered(source: Access, target: Access) -> bool:
    """Whether the target must wait for the source when they touch the same bytes."""
    if source.engine is Engine.CORE:
        return False  # What is issued later is ordered after what the control core has done.
    if source.engine is target.engine:
        if source.atomic and target.atomic:
            return False  # Atomics of one queue land in order, reads and writes together.
        return source.engine in OVERLAPPING and source.writes and target.reads
    return source.writes or target.writes


def _between(kernel: Kernel, source: Access, target: Access, most: int) -> Iterator[Dependence]:
    common = _common(source, target)
    first, second = source.child_of(common), target.child_of(common)
    own = _own(source, target)
    if own is not None and any(b.loop and b.own == own for b in common.enclosing()):
        return  # In a loop of the microkernel.
    crossing = _crossing(source, target, common)
    turns = _turns_between(source, target)
    if first < second and not turns and own is None:
        yield Dependence(source, target, [(common, 0)])
    if source.ring is not None and source.ring is target.ring:
        yield from _rotations(source, target, common, most, crossing)
        return
    if source.ring is None:
        carried = _loop_between(common, kernel.grid)  # Programs are not ordered.
    else:
        carried = common.repeats
    if crossing is not None:
        yield crossing
    elif carried:
        yield Dependence(source, target, _later(common, 1))


def _rotations(
    source: Access, target: Access, common: Body, most: int, crossing: Dependence | None
) -> Iterator[Dependence]:
    """Dependences through one ring, other than the order within one execution of the common body."""
    ring = source.ring
    assert ring is not None
    turns = _turns_between(source, target)
    if crossing is not None:
        yield crossing
    elif _loop_between(common, ring.home) and not turns:
        yield Dependence(source, target, _later(common, 1))
    if ring.home.repeats:
        levels = _later(ring.home, min(turns or ring.slots, most))
        for body in common.enclosing():
            if body is ring.home:
                break
            levels.append((body, 1))
        yield Dependence(source, target, levels)


def _own(source: Access, target: Access) -> str | None:
    """The call of a microkernel that both accesses are of, and that keeps their order by flags of its own."""
    own = dsa.own_call(source.op)
    return own if own == dsa.own_call(target.op) else None


def _turns_between(source: Access, target: Access) -> int:
    """How many turns of their common ring the target comes after the source in the same slot, modulo slots."""
    if source.ring is None or source.ring is not target.ring:
        return 0
    return (target.age - source.age) % source.ring.slots


def _common(a: Access, b: Access) -> Body:
    """The innermost body that holds both."""
    around = set(map(id, a.body.enclosing()))
    return next(body for body in b.body.enclosing() if id(body) in around)


def _loop_between(inner: Body, outer: Body | None) -> bool:
    """Whether `inner` runs more than once in one execution of `outer` (None: of the kernel)."""
    for body in inner.enclosing():
        if body is outer:
            return False
        if body.loop:
            return True
    return False


def _later(body: Body, distance: int) -> list[tuple[Body, int]]:
    """A distance at a body, and at the bodies around it as long as they run it at most once."""
    levels = [(body, distance)]
    while not body.loop and body.parent is not None:
        body = body.parent
        levels.append((body, distance))
    return levels


def _crossing(source: Access, target: Access, common: Body) -> Dependence | None:
    """The dependence between the two regions of one `scf.while`, if source and target stand so."""
    regions = []
    for access in (source, target):
        inner = [b for b in access.body.enclosing() if b.parent is common]
        if not inner:
            return None
        regions.append(inner[0])
    if regions[0].at != regions[1].at or not regions[0].loop:
        return None
    return Dependence(source, target, [(regions[1], 0)], drain=True)
