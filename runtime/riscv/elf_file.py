"""The control core's program as pyelftools reads it: a second witness beside `backend/image/reader.py`."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from dsalang._backend.errors import ImageError
from dsalang._backend.image.model import Image

from .extra import elffile

ENTRY = "dsa_kernel"


@dataclass(frozen=True)
class BareProgram:
    """Code and constants as they are to stand in memory from `address`; `entry` is where to start."""

    memory: bytes
    address: int
    entry: int


def read_program(image: Image) -> BareProgram:
    """The program in the image's ELF file.

    Raises ImageError when the file is missing or damaged, or says something else than our own reader.
    """
    if not image.file:
        raise ImageError(f"image {image.name!r} has no ELF file to run")
    reader = elffile()
    try:
        elf = reader.ELFFile(io.BytesIO(image.file))
        program = _program(elf, image.code_address)
    except ImageError:
        raise
    except Exception as error:  # pyelftools raises whatever a damaged file leads it to
        raise ImageError(f"damaged image: pyelftools says: {error}") from None
    if program.memory != image.code or program.entry != image.code_address + image.entry:
        raise ImageError(
            f"damaged image {image.name!r}: pyelftools reads another program from it than dsalang does"
        )
    return program


def _program(elf: Any, address: int) -> BareProgram:
    if elf["e_machine"] != "EM_RISCV" or elf.elfclass != 64 or not elf.little_endian:
        raise ImageError("not a device image: not a 64-bit little-endian RISC-V file")
    memory, places = bytearray(), {}
    sections = list(enumerate(elf.iter_sections()))
    for index, section in sorted(sections, key=lambda pair: pair[1].name != ".text"):
        if section.name == ".text" or section.name.startswith((".rodata", ".srodata")):
            memory += bytes(-(address + len(memory)) % max(section["sh_addralign"], 1))
            places[index] = address + len(memory)
            memory += section.data()
    symbols = elf.get_section_by_name(".symtab").get_symbol_by_name(ENTRY) or []
    starts = [places[s["st_shndx"]] + s["st_value"] for s in symbols if s["st_shndx"] in places]
    if len(starts) != 1:
        raise ImageError(f"damaged image: {len(starts)} entry points {ENTRY}")
    return BareProgram(bytes(memory), address, starts[0])
