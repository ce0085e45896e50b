"""Elements that a mask switches off whatever the data are: a scatter or atomic need not be as long as that.

Offsets of element lists come from a vector program, which writes INVALID_OFFSET where its mask is false. Run with
what compile time knows (constants, scalars, coordinates) it tells which elements can never be valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import numpy.typing as npt

from .. import formats
from ..cost import array, scalar
from ..image.model import Template
from ..image.tables import Tables
from ..isa.table import INVALID_OFFSET, NONE, Instruction
from ..isa.vprog import CONST, IN, INDEX, OUT, SCALAR, MicroOp, VectorProgram
from ..numerics import elementwise
from .schedule_stream import Access

Values = npt.NDArray[np.generic]
Known = npt.NDArray[np.bool_]
LISTS = ("dma.scatter", "dma.atomic")
"""Instructions for which an element that is switched off does nothing."""


class OffsetLists:
    """Follows which vexec has written the offsets in SRAM last, and shortens the scatters that read them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._writers: dict[tuple[int, int], tuple[int, int]] = {}
        self._known: dict[tuple[int, int, int], int] = {}

    def note(self, number: int, accesses: Sequence[Access]) -> None:
        """An instruction, by its template, writes slots."""
        instruction = self._tables.templates[number].instruction
        for access in accesses:
            if not access.writes or access.arg > -2:
                continue
            low, high = access.low, access.high
            for span in [s for s in self._writers if s[0] < high and low < s[1]]:
                del self._writers[span]
            if instruction.op == "vexec":
                out = array(instruction.fields, "out")
                if out.count(low) == 1:
                    self._writers[low, high] = number, out.index(low)

    def shortened(self, number: int) -> int:
        """The template of a scatter or atomic without what is switched off in any case."""
        template = self._tables.templates[number]
        offset = scalar(template.instruction.fields, "offset")
        writer = next((w for span, w in self._writers.items() if span[0] == offset), None)
        if writer is None:
            return number
        key = number, *writer
        if key not in self._known:
            offsets = self._tables.templates[writer[0]]
            program = self._tables.programs[scalar(offsets.instruction.fields, "program")]
            shorter = without_tail(template, offsets, program, writer[1])
            self._known[key] = self._tables.add_template(shorter)
        return self._known[key]


def without_tail(
    template: Template, offsets: Template, program: VectorProgram, output: int
) -> Template:
    """A scatter or atomic without the rows at its end that are switched off in any case; one row stays.

    Args:
        offsets: the vexec that has written the offsets, as its output `output`.
    """
    fields = template.instruction.fields
    size = array(fields, "size")
    sizes = size[: scalar(fields, "ndim")]
    count = _possible(offsets, program, output)
    if count is None or not sizes or fields.get("old", NONE) != NONE:
        return template
    rows = max(1, -(-count // prod(sizes[1:])))
    if rows >= sizes[0]:
        return template
    shorter = {**fields, "size": (rows, *size[1:])}
    instruction = Instruction(template.instruction.op, template.instruction.engine, shorter)
    return replace(template, instruction=instruction)


def _possible(template: Template, program: VectorProgram, output: int) -> int | None:
    """How many of the first offsets are all that can be valid; None when the list is not written row by row."""
    fields = template.instruction.fields
    ndim = scalar(fields, "ndim")
    shape = array(fields, "size")[:ndim]
    strides = array(fields, "out_stride")[4 * output : 4 * output + ndim]
    step = 8
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length > 1 and stride != step:
            return None
        step *= length
    if program.outputs[output] != "int64" or any("size" in name for name in template.open):
        return None
    registers: dict[int, tuple[Values, Known]] = {}
    result: tuple[Values, Known] | None = None
    with np.errstate(all="ignore"):
        for op in program.ops:
            if op.op != OUT:
                registers[op.dst] = _run(op, template, shape, registers)
            elif op.imm == output:
                result = registers[op.srcs[0]]
    assert result is not None
    off = result[1] & (result[0].astype(np.int64) == INVALID_OFFSET)
    valid = np.flatnonzero(~np.broadcast_to(off, shape))
    return int(valid[-1]) + 1 if valid.size else 0


def _run(
    op: MicroOp,
    template: Template,
    shape: tuple[int, ...],
    registers: dict[int, tuple[Values, Known]],
) -> tuple[Values, Known]:
    """The values of a micro-op, and where they are known."""
    fmt, one = formats.by_name(op.fmt), (1,) * len(shape)
    if op.op == INDEX:
        along = list(one)
        along[op.imm] = shape[op.imm]
        return np.arange(shape[op.imm], dtype=fmt.storage).reshape(along), np.ones(one, np.bool_)
    if op.op in (CONST, SCALAR):
        bits = op.imm if op.op == CONST else array(template.instruction.fields, "scalar")[op.imm]
        raw = np.array(bits & (1 << 8 * fmt.bytes) - 1, np.dtype(f"u{fmt.bytes}"))
        open_ = op.op == SCALAR and f"scalar.{op.imm}" in template.open
        return raw.view(fmt.storage).reshape(one), np.full(one, not open_)
    if op.op == IN:
        return np.zeros(one, fmt.storage), np.zeros(one, np.bool_)
    values = [registers[source][0] for source in op.srcs]
    known = [registers[source][1] for source in op.srcs]
    result = elementwise.apply(op.op, fmt, formats.by_name(op.src_fmt), *values)
    if op.op == "select":
        return result, known[0] & np.where(values[0] != 0, known[1], known[2])
    if op.op == "iand" and op.fmt == "int1":
        no = [k & (v == 0) for v, k in zip(values, known)]
        return np.where(no[0] | no[1], 0, result).astype(result.dtype), (
            no[0] | no[1] | known[0] & known[1]
        )
    everything = known[0]
    for part in known[1:]:
        everything = everything & part
    return result, everything
