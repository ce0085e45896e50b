"""The instruction table and its binary layout."""

from pathlib import Path

from dsalang._backend import formats
from dsalang._backend.isa import docs, rv64, table, vector_ops, vprog
from dsalang._backend.isa.check import BITS
from dsalang._backend.isa.encode import LAYOUTS
from dsalang._backend.isa.table import OPCODES


def test_names_and_codes_are_unique_and_fit():
    assert len({row.name for row in OPCODES}) == len({row.code for row in OPCODES}) == len(OPCODES)
    assert all(0 < row.code < 1 << 16 for row in OPCODES)
    codes = [op.code for op in vector_ops.VECTOR_OPS] + list(vprog.SPECIAL_CODES.values())
    names = [op.name for op in vector_ops.VECTOR_OPS] + list(vprog.SPECIAL_CODES)
    assert len(set(codes)) == len(set(names)) == len(codes)
    assert max(codes) < 1 << 16
    assert len({fmt.code for fmt in formats.FORMATS}) == len(formats.FORMATS)


def test_rows_are_well_formed():
    roles = {None, "sem"} | {f"{m}_{a}" for m in ("sram", "hbm") for a in ("r", "w", "rw")}
    for row in OPCODES:
        assert row.engines and row.doc
        assert len({field.name for field in row.fields}) == len(row.fields)
        for field in row.fields:
            assert field.type in BITS and field.count >= 1 and field.role in roles
            assert field.values in ("", "format", "operand", "reduce", "atomic", "program")
            if field.role and field.role.startswith("sram"):
                assert field.type == "u32"
            if field.role and field.role.startswith("hbm"):
                assert field.type == "u64"
            if field.optional:
                assert field.role and field.role.startswith("sram")


def test_fields_are_aligned_and_do_not_overlap():
    for row in OPCODES:
        layout = LAYOUTS[row.name]
        used = set(range(8))
        for field in row.fields:
            width = BITS[field.type] // 8
            start = layout.offsets[field.name]
            assert start % width == 0
            place = set(range(start, start + width * field.count))
            assert not place & used
            used |= place
        assert max(used) < layout.size and layout.size % 8 == 0


def test_rv64_rows_are_distinct():
    words = [(row.opcode, row.funct3, row.funct7, row.form in "UJ") for row in rv64.ROWS]
    assert len(set(words)) == len(words)
    assert len(rv64.BY_MNEMONIC) == len(rv64.ROWS)


def test_page_is_fresh():
    page = Path(__file__).parents[2] / "docs" / "isa.md"
    assert page.read_text("utf-8") == docs.isa_page(), (
        "docs/isa.md is stale: python -m dsalang._backend.isa.docs > docs/isa.md"
    )


def test_queued_engines_can_set_and_wait():
    for name in ("set", "wait"):
        assert set(table.QUEUED) <= set(table.BY_NAME[name].engines)
