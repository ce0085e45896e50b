"""A static schedule as rows: what an image's `timing` says, worked out with the machine's cost functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .. import cost
from ..errors import Loc
from ..isa.table import Engine
from ..target import Target
from .model import Image, Template


@dataclass(frozen=True)
class Row:
    """An instruction of core `core`: the engine is held in [start, end), the result is there at `complete`.

    `transfer` is how many of the last cycles before `end` the HBM port is held for.
    """

    core: int
    engine: Engine
    op: str
    template: int
    start: int
    end: int
    complete: int
    transfer: int
    loc: Loc | None

    def busy(self) -> dict[str, int]:
        """Cycles for which it holds its engine, and the HBM port."""
        if self.transfer:
            return {"HBM": self.transfer}
        return {self.engine.name: self.end - self.start}


@dataclass(frozen=True)
class Span:
    """Cycles of the chain that decides the length: what they go to, and the instruction (None: nobody's)."""

    what: str
    cycles: int
    row: Row | None


def longest_chain(rows: Sequence[Row]) -> list[Span]:
    """What one core's schedule is as long as, from its end to its start: instructions that follow each other
    without a gap, by a result, an engine or the HBM port, and cycles in which nothing but the control core works.
    """
    by_complete: dict[int, Row] = {row.complete: row for row in rows}
    by_end: dict[tuple[Engine | None, int], Row] = {}
    for row in rows:
        by_end[row.engine, row.end] = row
        if row.transfer:
            by_end[None, row.end] = row
    spans: list[Span] = []
    at = max(rows, key=lambda row: row.complete, default=None)
    until = at.complete if at is not None else 0
    while at is not None:
        if until > at.end:
            spans.append(Span("HBM latency", until - at.end, at))
        spans.append(Span("transfers" if at.transfer else at.engine.name, at.end - at.start, at))
        until = at.start
        port = at.end - at.transfer
        if (result := by_complete.get(until)) is not None:
            at = result
        elif (before := by_end.get((at.engine, until))) is not None:
            at = before
        elif at.transfer and (other := by_end.get((None, port))) is not None:
            spans[-1] = Span("transfers", at.transfer, at)
            until, at = port, other
        else:
            earlier = [row for row in rows if row.end <= until and row is not at]
            at = max(earlier, key=lambda row: row.end, default=None)
            gap = until - (at.end if at is not None else 0)
            if gap:
                spans.append(Span("control core", gap, None))
            until = at.end if at is not None else 0
    return spans


def rows_of(image: Image, target: Target) -> Iterator[Row]:
    """The instructions of all cores in the order of issue; none for an image without a static schedule."""
    if image.timing is None:
        return
    cores = len(image.timing.issues)
    times = [_times(template, image, target, cores) for template in image.templates]
    for core, issues in enumerate(image.timing.issues):
        for number, start in zip(issues[::2], issues[1::2]):
            template = image.templates[number]
            before, transfer, latency = times[number]
            end = start + before + transfer
            yield Row(
                core=core,
                engine=template.instruction.engine,
                op=template.instruction.op,
                template=number,
                start=start,
                end=end,
                complete=end + latency,
                transfer=transfer,
                loc=template.loc,
            )


def _times(template: Template, image: Image, target: Target, cores: int) -> tuple[int, int, int]:
    """Cycles before the transfer, of the transfer, and from its end to completion."""
    op = template.instruction.op
    fields = cost.complete(op, template.instruction.fields)
    program = image.programs[cost.scalar(fields, "program")] if op == "vexec" else None
    before = cost.compute_cycles(op, fields, program, target)
    if template.instruction.engine not in (Engine.LD, Engine.ST):
        return before, 0, 0
    moved = cost.dma_bytes(op, fields, target)
    return before, cost.transfer_cycles(moved, target, cores), target.hbm.latency_cycles


def text(rows: Sequence[Row]) -> str:
    """Rows as a table, in the order of their starts."""
    lines = [f"{'engine':<7}{'start':>9}{'end':>9}{'complete':>10}  {'operation':<12}line"]
    for row in sorted(rows, key=lambda row: (row.start, row.engine)):
        line = f"{row.loc.line}" if row.loc else "-"
        lines.append(
            f"{row.engine.name:<7}{row.start:>9}{row.end:>9}{row.complete:>10}  {row.op:<12}{line}"
        )
    return "\n".join(lines)
