"""Element lists lose the rows at their end that no data can switch on, and nothing else."""

from __future__ import annotations

import pytest

from dsalang._backend.image.model import Template
from dsalang._backend.isa.check import normalized
from dsalang._backend.isa.table import Engine, Instruction
from dsalang._backend.isa.text import parse_program
from dsalang._backend.passes.schedule_masks import without_tail

MASKED = """\
program inputs(int64, int1) scalars(int32) outputs(int64)
r0 = in.int64 0
r1 = scalar.int32 0
r2 = index.int32 0
r3 = slt.int1<int32> r2, r1
r4 = in.int1 1
r5 = {mask}
r6 = const.int64 0x8000000000000000
r7 = select.int64 r5, r0, r6
out.int64 r7, 0"""


def templates(bound: int, size: tuple[int, ...], strides: tuple[int, ...], **more: int):
    shape = {"ndim": len(size), "size": size}
    vexec = {
        **shape, "inputs": 2, "scalars": 1, "outputs": 1, "in": (0, 4096),
        "scalar": (bound & (1 << 64) - 1,), "out": (8192,), "out_stride": strides,
    }  # fmt: skip
    scatter = {**shape, "elem_bytes": 4, "offset": 8192, "sram": 16384, **more}
    op = "dma.atomic" if "old" in more else "dma.scatter"
    return tuple(
        Template(normalized(Instruction(name, engine, fields)), (), None)
        for name, engine, fields in ((op, Engine.ST, scatter), ("vexec", Engine.VE, vexec))
    )


def rows(
    mask: str, bound: int, size: tuple[int, ...], strides: tuple[int, ...], **more: int
) -> int:
    scatter, vexec = templates(bound, size, strides, **more)
    program = parse_program(MASKED.format(mask=mask))
    found = without_tail(scatter, vexec, program, 0).instruction.fields["size"]
    assert isinstance(found, tuple)
    assert found[1:] == scatter.instruction.fields["size"][1:]  # type: ignore[index]
    return found[0]


@pytest.mark.parametrize(("bound", "left"), [(10, 10), (64, 64), (99, 64), (1, 1), (0, 1), (-3, 1)])
def test_tail_goes(bound: int, left: int) -> None:
    assert rows("iand.int1 r3, r3", bound, (64,), (8,)) == left


def test_a_mask_that_data_joins_still_ends() -> None:
    assert rows("iand.int1 r3, r4", 10, (64,), (8,)) == 10
    assert rows("iand.int1 r4, r3", 10, (64,), (8,)) == 10


def test_a_mask_that_data_widens_does_not() -> None:
    assert rows("ior.int1 r3, r4", 10, (64,), (8,)) == 64


def test_rows_go_as_a_whole() -> None:
    assert rows("iand.int1 r3, r3", 3, (8, 5), (40, 8)) == 3


def test_other_layouts_and_old_values_stay() -> None:
    assert rows("iand.int1 r3, r3", 3, (8, 5), (8, 64)) == 8
    assert rows("iand.int1 r3, r3", 3, (8,), (8,), old=20_000) == 8


def test_a_bound_that_is_not_known() -> None:
    scatter, vexec = templates(3, (8,), (8,))
    vexec = Template(vexec.instruction, ("scalar.0",), None)
    program = parse_program(MASKED.format(mask="iand.int1 r3, r3"))
    assert without_tail(scatter, vexec, program, 0) == scatter
