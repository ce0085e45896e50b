"""Sections that are added to an object."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dsalang._backend.image.reader import SHF_ALLOC, read_object
from dsalang._backend.image.writer import with_sections
from dsalang._backend.llvm.riscv import compile_object

PLAIN = compile_object("define void @dsa_kernel() {\n ret void\n}\n")
NAMES = st.text("abc.", min_size=1, max_size=9).map(".dsa.".__add__)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.dictionaries(NAMES, st.binary(max_size=40), max_size=5))
def test_added_sections_are_read_back_and_the_others_stay(added):
    data, places = with_sections(PLAIN, added)
    before, after = read_object(PLAIN), read_object(data)
    count = len(before.sections)
    assert [s.name for s in after.sections] == [*(s.name for s in before.sections), *added]
    for old, new in zip(before.sections, after.sections):
        if old.name != ".strtab":  # it has the new names, too
            assert old == new
            assert before.contents(old) == after.contents(new)
    assert after.symbols == before.symbols
    assert after.relocations == before.relocations
    for section in after.sections[count:]:
        assert after.contents(section) == added[section.name]
        assert section.offset == places[section.name]
        assert section.offset % section.align == 0
        assert not section.flags & SHF_ALLOC


def test_sections_are_added_twice():
    once, _ = with_sections(PLAIN, {".dsa.a": b"one"})
    obj = read_object(with_sections(once, {".dsa.b": b"two"})[0])
    assert [obj.contents(obj.section(name)) for name in (".dsa.a", ".dsa.b")] == [b"one", b"two"]
