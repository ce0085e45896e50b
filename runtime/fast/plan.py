"""What the engine knows about an image before it runs: static figures per template, and whether it can run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dsalang._backend.cost import FieldValue, compute_cycles, operations, scalar
from dsalang._backend.image.model import Image
from dsalang._backend.isa.table import NONE, Engine
from dsalang._backend.target import Target

from ..reference.prepare import Prepared, prepare
from . import timing
from .addresses import share
from .glue import Glue
from .outline import UnsuitedError

_SHAPE = ("size", "batch", "m", "n", "k")
"""Fields that costs depend on."""


_DRAIN = -2
"""In place of the engine that sets a semaphore: whoever, but one token at a time."""


@dataclass(frozen=True)
class Row:
    """A template: what timing needs to know, and where its run-time operands matter.

    Attributes:
        kind: of `timing`.
        cycles, work: cost of the engine and operations, where they are static.
        address: the SRAM address that names it in reports, where that is static; else -1.
        address_operand: number of the operand that holds it, -1 for none.
        open_cost: the cost depends on run-time operands.
        unit: number of the template whose host code it has, its own or that of an equal one.
        fixed: what that one gets as last operands.
    """

    prepared: Prepared
    kind: int
    engine: Engine
    sem: int
    issue: int
    cycles: int
    work: int
    address: int
    address_operand: int
    open_cost: bool
    unit: int
    fixed: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The operation."""
        return self.prepared.op


def rows_of(image: Image, target: Target) -> tuple[Row, ...]:
    """A row per template. Raises ImageError when the image does not fit the target.

    The templates of a static schedule have addresses in them that others take at run time: there are many, which share
    host code.
    """
    prepared = prepare(image, target)
    rows = [_row(one, target, number) for number, one in enumerate(prepared)]
    if image.timing is not None:
        for number, (shared, unit, operands) in enumerate(share(image, prepared)):
            rows[number] = replace(rows[number], prepared=shared, unit=unit, fixed=operands)
    return tuple(rows)


def _row(prepared: Prepared, target: Target, unit: int) -> Row:
    op, fields = prepared.op, prepared.fields
    names = [slot.name for slot in prepared.open]
    kind = {"set": timing.SET, "wait": timing.TAKE}.get(op, timing.COMPUTE)
    if kind == timing.COMPUTE and prepared.engine in (Engine.LD, Engine.ST):
        kind = timing.DMA
    open_cost = kind == timing.COMPUTE and any(name in _SHAPE for name in names)
    if "sem" in names:
        raise UnsuitedError(f"{op} with a semaphore that is known at run time only")
    static = kind in (timing.COMPUTE, timing.DMA) and not open_cost
    return Row(
        prepared=prepared,
        kind=kind,
        engine=prepared.engine,
        sem=scalar(fields, "sem") if "sem" in fields else -1,
        issue=prepared.issue_cycles,
        cycles=compute_cycles(op, fields, prepared.program, target) if static else 0,
        work=operations(op, fields, prepared.program) if static else 0,
        address=prepared.address(fields),
        address_operand=_address_operand(prepared),
        open_cost=open_cost,
        unit=unit,
    )


def _address_operand(prepared: Prepared) -> int:
    """The operand that is the instruction's address in reports: that of the first field that is there."""
    for name in ("sram", "d", "out", "arg"):
        if name not in prepared.fields:
            continue
        for number, slot in enumerate(prepared.open):
            if slot.name == name and slot.entry <= 0:
                return number
        value: FieldValue = prepared.fields[name]
        if (value[0] if isinstance(value, tuple) else value) != NONE:
            return -1
    return -1


def takers(
    rows: Sequence[Row], glue: Glue, credits: Sequence[int], semaphores: int
) -> tuple[int, ...]:
    """The engine that waits for each semaphore. Raises UnsuitedError when several set or wait for one.

    Several may set one of which the control core takes each token before it lets anybody set the next.
    """
    waited = glue.waited
    if waited is None:
        raise UnsuitedError("a wait of the control core for a semaphore that is not a constant")
    taker = [-1] * semaphores
    setter = [-1] * semaphores
    for sem in waited:
        if sem < semaphores:
            taker[sem] = Engine.CORE
    for number, row in enumerate(rows):
        side = {timing.SET: setter, timing.TAKE: taker}.get(row.kind)
        if side is None:
            continue
        if not 0 <= row.sem < semaphores:
            raise UnsuitedError(f"semaphore {row.sem} does not exist")
        drains = side is setter and glue.drains.get(number) == row.sem
        if drains and not any(credits[row.sem : row.sem + 1]) and side[row.sem] in (-1, _DRAIN):
            side[row.sem] = _DRAIN
            continue
        if side[row.sem] not in (-1, row.engine):
            raise UnsuitedError(f"several engines set or wait for semaphore {row.sem}")
        side[row.sem] = row.engine
    return tuple(Engine.CORE if engine < 0 else engine for engine in taker)
