"""Extents: every SRAM operand of every instruction has one, and it is what the instruction touches."""

from __future__ import annotations

import pytest

from dsalang._backend.cost import complete
from dsalang._backend.isa.extents import EXTENTS, Extent
from dsalang._backend.isa.table import OPCODES
from dsalang._backend.isa.text import parse_program


@pytest.mark.parametrize("row", [r for r in OPCODES if any((f.role or "").startswith("sram") for f in r.fields)], ids=lambda r: r.name)  # fmt: skip
def test_every_instruction_has_a_row(row):
    assert row.name in EXTENTS
    fields = complete(row.name, {f.name: _some(f) for f in row.fields})
    program = parse_program(
        "program inputs(fp32) scalars() outputs(fp32)\nr0 = in.fp32 0\nout.fp32 r0, 0"
    )
    found = {e.field for e in EXTENTS[row.name](fields, program)}
    assert found == {f.name for f in row.fields if (f.role or "").startswith("sram")}


def _some(field):
    """A value that makes the field mean something: sizes 2, dims 1, a format of a byte that is also an index's."""
    values = {"ndim": 1, "fmt_a": 13, "fmt_b": 13, "fmt_d": 13, "elem_bytes": 4}
    value = values.get(
        field.name, 3 if field.name.endswith("fmt") else 2 if field.role is None else 64
    )
    value = 0 if field.name in ("axis", "trans_a", "trans_b") else value
    return value if field.count == 1 else (value,) * field.count


def test_a_transposed_packed_operand():
    fields = complete(
        "mma",
        {"fmt_a": 12, "fmt_b": 32, "fmt_d": 13, "trans_b": 1, "batch": 1, "m": 2, "n": 3, "k": 7,
         "lda": 14, "ldb": 4, "ldd": 12, "a": 0, "b": 100, "d": 200},
    )  # fmt: skip
    found = {e.field: e for e in EXTENTS["mma"](fields, None)}
    assert found["a"] == Extent("a", 0, (1, 2, 7), (0, 14, 2), 2)
    assert found["b"] == Extent("b", 0, (1, 4, 3), (0, 1, 4), 1)
    assert found["d"] == Extent("d", 0, (1, 2, 3), (0, 12, 4), 4)
