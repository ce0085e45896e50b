"""A strict reader of ELF64 RISC-V relocatable objects, the only kind that device images are.

Every offset and size is checked against the file before it is used; what does not add up is an ImageError.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ..errors import ImageError

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QIIq")

ET_REL, EM_RISCV = 1, 243
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOBITS = 1, 2, 3, 4, 8
SHF_ALLOC = 2
MAX_SECTIONS = 1000


@dataclass(frozen=True)
class Section:
    """A section: where its contents are in the file, and its header's fields."""

    name: str
    index: int
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


@dataclass(frozen=True)
class Symbol:
    """A symbol; `section` is the index of the section it is defined in, 0 when undefined."""

    name: str
    section: int
    value: int


@dataclass(frozen=True)
class Relocation:
    """A relocation of `section`; `at` is the file offset of the entry itself."""

    section: int
    offset: int
    type: int
    symbol: Symbol
    addend: int
    at: int


@dataclass(frozen=True)
class Object:
    """A parsed object."""

    data: bytes
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]

    def section(self, name: str) -> Section:
        """The one section of a name."""
        found = [section for section in self.sections if section.name == name]
        if len(found) != 1:
            raise ImageError(f"object has {len(found)} sections {name!r}, expected one")
        return found[0]

    def contents(self, section: Section) -> bytes:
        """The bytes of a section."""
        return self.data[section.offset : section.offset + section.size]


def read_object(data: bytes) -> Object:
    """Parse an object. Raises ImageError for anything that is not a whole, well-formed one."""
    if len(data) < HEADER.size:
        raise ImageError("not a device image: shorter than an ELF header")
    ident, kind, machine, *_, shoff, _, ehsize, _, _, shentsize, shnum, shstrndx = (
        HEADER.unpack_from(data)
    )
    if ident[:7] != b"\x7fELF\x02\x01\x01":
        raise ImageError("not a device image: no ELF64 little-endian header")
    if kind != ET_REL or machine != EM_RISCV:
        raise ImageError("not a device image: not a RISC-V relocatable object")
    if ehsize != HEADER.size or shentsize != SECTION.size or not 0 < shnum <= MAX_SECTIONS:
        raise ImageError("damaged image: ELF header with wrong sizes")
    if shoff + shnum * SECTION.size > len(data) or shstrndx >= shnum:
        raise ImageError("damaged image: section table is cut off")
    headers = [SECTION.unpack_from(data, shoff + i * SECTION.size) for i in range(shnum)]
    for header in headers:
        if header[1] != SHT_NOBITS and header[4] + header[5] > len(data):
            raise ImageError("damaged image: a section is cut off")
    strings = _strings(data, headers, shstrndx)
    sections = tuple(_section(i, header, strings) for i, header in enumerate(headers))
    symbols = _symbols(data, headers, sections)
    return Object(data, sections, symbols, _relocations(data, sections, symbols))


def _strings(data: bytes, headers: list[tuple[int, ...]], index: int) -> bytes:
    if index >= len(headers) or headers[index][1] != SHT_STRTAB:
        raise ImageError("damaged image: string table is missing")
    return data[headers[index][4] : headers[index][4] + headers[index][5]]


def _name(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset)
    if offset >= len(strings) or end < 0:
        raise ImageError("damaged image: a name is cut off")
    return strings[offset:end].decode("utf-8", "replace")


def _section(index: int, header: tuple[int, ...], strings: bytes) -> Section:
    name, type_, flags, _, offset, size, link, info, align, _ = header
    if align > 4096 or align & (align - 1):
        raise ImageError("damaged image: a section's alignment is not a small power of two")
    return Section(_name(strings, name), index, type_, flags, offset, size, link, info, align)


def _entries(data: bytes, section: Section, layout: struct.Struct) -> list[tuple[int, ...]]:
    if section.size % layout.size:
        raise ImageError(f"damaged image: section {section.name!r} has a broken entry")
    contents = data[section.offset : section.offset + section.size]
    return list(layout.iter_unpack(contents))


def _symbols(
    data: bytes, headers: list[tuple[int, ...]], sections: tuple[Section, ...]
) -> tuple[Symbol, ...]:
    tables = [section for section in sections if section.type == SHT_SYMTAB]
    if len(tables) != 1:
        raise ImageError("damaged image: not one symbol table")
    strings = _strings(data, headers, tables[0].link)
    return tuple(
        Symbol(_name(strings, name), section, value)
        for name, _, _, section, value, _ in _entries(data, tables[0], SYMBOL)
    )


def _relocations(
    data: bytes, sections: tuple[Section, ...], symbols: tuple[Symbol, ...]
) -> tuple[Relocation, ...]:
    result = []
    for table in sections:
        if table.type != SHT_RELA:
            continue
        for i, entry in enumerate(_entries(data, table, RELOCATION)):
            offset, type_, symbol, addend = entry
            if symbol >= len(symbols) or table.info >= len(sections):
                raise ImageError("damaged image: a relocation of something that does not exist")
            at = table.offset + i * RELOCATION.size
            result.append(Relocation(table.info, offset, type_, symbols[symbol], addend, at))
    return tuple(result)
