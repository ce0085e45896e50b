"""Sections that are added to an ELF64 object."""

from __future__ import annotations

from collections.abc import Mapping

from .reader import HEADER, SECTION, SHT_PROGBITS

ALIGN = 8
_SHOFF, _SHNUM, _SHSTRNDX = 6, 12, 13
_NAME, _OFFSET, _SIZE = 0, 4, 5


def with_sections(data: bytes, sections: Mapping[str, bytes]) -> tuple[bytes, dict[str, int]]:
    """An object and some sections (name to contents), which no program loads; with the file offset of each.

    What was in the file stays where it was. The new contents, the names of all sections and a new section table follow it.
    """
    header = list(HEADER.unpack_from(data))
    table, count = header[_SHOFF], header[_SHNUM]
    entries = [list(SECTION.unpack_from(data, table + i * SECTION.size)) for i in range(count)]
    names = entries[header[_SHSTRNDX]]
    strings = bytearray(data[names[_OFFSET] : names[_OFFSET] + names[_SIZE]])
    out, places = bytearray(data), {}
    for name, contents in sections.items():
        places[name] = _append(out, contents)
        entries.append(
            [len(strings), SHT_PROGBITS, 0, 0, places[name], len(contents), 0, 0, ALIGN, 0]
        )
        strings += name.encode() + b"\0"
    names[_OFFSET], names[_SIZE] = _append(out, bytes(strings)), len(strings)
    header[_SHOFF] = _append(out, b"".join(SECTION.pack(*entry) for entry in entries))
    header[_SHNUM] = len(entries)
    HEADER.pack_into(out, 0, *header)
    return bytes(out), places


def _append(out: bytearray, contents: bytes) -> int:
    out += bytes(-len(out) % ALIGN)
    at = len(out)
    out += contents
    return at
