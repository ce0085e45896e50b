"""Linking the glue's object to its place on the device.

Code and constants are laid out one after the other from a fixed address, every relocation is applied, and
calls of `__dsa_*` become custom-0 instructions. The object stays a valid one: its relocations turn into
R_RISCV_NONE.
"""

from __future__ import annotations

from ..errors import ImageError, InternalError
from ..isa.rv64 import CALLS, NOP, custom_0
from .reader import RELOCATION, SHF_ALLOC, SHT_PROGBITS, Object, Relocation, Section, read_object

R_NONE, R_BRANCH, R_JAL, R_CALL, R_CALL_PLT = 0, 16, 17, 18, 19
R_PCREL_HI20, R_PCREL_LO12_I, R_PCREL_LO12_S = 23, 24, 25
R_HI20, R_LO12_I, R_LO12_S = 26, 27, 28

_PREFIX = "__dsa_"
# auipc ra, 0; jalr ra, 0(ra)
_CALL_PAIR = (0x00000097, 0x000080E7)


def layout(obj: Object, address: int) -> dict[int, int]:
    """The address of every section of the device's memory, by section index: .text, then constants."""
    text = obj.section(".text")
    constants = [
        section
        for section in obj.sections
        if section.name.startswith((".rodata", ".srodata")) and section.type == SHT_PROGBITS
    ]
    places: dict[int, int] = {}
    for section in (text, *constants):
        address += -address % max(section.align, 1)
        places[section.index] = address
        address += section.size
    return places


def memory(obj: Object, address: int) -> bytes:
    """The device's memory from `address`: code and constants."""
    result = bytearray()
    for index, place in layout(obj, address).items():
        result += bytes(place - address - len(result))
        result += obj.contents(obj.sections[index])
    return bytes(result)


def link(data: bytes, address: int) -> bytes:
    """The object with all relocations applied for code at `address`. Raises InternalError when it cannot."""
    try:
        obj = read_object(data)
    except ImageError as error:
        raise InternalError(f"link: LLVM's object: {error}") from None
    places = layout(obj, address)
    for section in obj.sections:
        if _unplaced(section, places):
            raise InternalError(f"link: unexpected section {section.name!r}")
    linker = _Linker(obj, places)
    for relocation in obj.relocations:
        linker.apply(relocation)
    return bytes(linker.out)


def _unplaced(section: Section, places: dict[int, int]) -> bool:
    return (
        bool(section.flags & SHF_ALLOC)
        and section.size > 0
        and section.index not in places
        and not section.name.startswith(".dsa.")
    )


class _Linker:
    def __init__(self, obj: Object, places: dict[int, int]) -> None:
        self.obj = obj
        self.places = places
        self.out = bytearray(obj.data)
        self.high_parts = {
            places[r.section] + r.offset: self.distance(r)
            for r in obj.relocations
            if r.type == R_PCREL_HI20 and r.section in places
        }

    def target(self, relocation: Relocation) -> int:
        symbol = relocation.symbol
        if symbol.section not in self.places:
            raise InternalError(f"link: undefined symbol {symbol.name!r}")
        return self.places[symbol.section] + symbol.value + relocation.addend

    def distance(self, relocation: Relocation) -> int:
        return self.target(relocation) - self.places[relocation.section] - relocation.offset

    def word(self, at: int) -> int:
        return int.from_bytes(self.out[at : at + 4], "little")

    def patch(self, at: int, mask: int, bits: int) -> None:
        """Replace the bits of a word under `mask`."""
        self.out[at : at + 4] = (self.word(at) & ~mask | bits & mask).to_bytes(4, "little")

    def apply(self, relocation: Relocation) -> None:
        """Apply one relocation and turn it into R_RISCV_NONE."""
        if relocation.section not in self.places:
            raise InternalError(f"link: relocation of section {relocation.section}")
        at = self.obj.sections[relocation.section].offset + relocation.offset
        type_ = relocation.type
        if type_ in (R_CALL, R_CALL_PLT):
            self.call(relocation, at)
        elif type_ in (R_HI20, R_PCREL_HI20):
            value = self.target(relocation) if type_ == R_HI20 else self.distance(relocation)
            self.high(at, value)
        elif type_ in (R_LO12_I, R_LO12_S):
            self.low(at, self.target(relocation), type_ == R_LO12_S)
        elif type_ in (R_PCREL_LO12_I, R_PCREL_LO12_S):
            # the symbol is the label of the auipc whose distance this is the low part of
            self.low(at, self.high_parts[self.target(relocation)], type_ == R_PCREL_LO12_S)
        elif type_ == R_BRANCH:
            self.patch(at, 0xFE000F80, _branch_bits(self.distance(relocation)))
        elif type_ == R_JAL:
            self.patch(at, 0xFFFFF000, _jump_bits(self.distance(relocation)))
        elif type_ != R_NONE:
            raise InternalError(f"link: unexpected relocation type {type_}")
        RELOCATION.pack_into(self.out, relocation.at, relocation.offset, R_NONE, 0, 0)

    def call(self, relocation: Relocation, at: int) -> None:
        name = relocation.symbol.name
        if not name.startswith(_PREFIX) or name[len(_PREFIX) :] not in CALLS:
            raise InternalError(f"link: call of {name!r}, which the device does not have")
        if (self.word(at), self.word(at + 4)) != _CALL_PAIR:
            raise InternalError(f"link: call of {name} is not an auipc-jalr pair through ra")
        self.patch(at, 0xFFFFFFFF, custom_0(CALLS.index(name[len(_PREFIX) :])))
        self.patch(at + 4, 0xFFFFFFFF, NOP)

    def high(self, at: int, value: int) -> None:
        if not -(1 << 31) <= value < (1 << 31) - 0x800:
            raise InternalError(f"link: address {value:#x} is out of reach")
        self.patch(at, 0xFFFFF000, value + 0x800)

    def low(self, at: int, value: int, store: bool) -> None:
        if store:
            self.patch(at, 0xFE000F80, (value >> 5 & 0x7F) << 25 | (value & 0x1F) << 7)
        else:
            self.patch(at, 0xFFF00000, value << 20)


def _branch_bits(distance: int) -> int:
    if not -4096 <= distance < 4096:
        raise InternalError(f"link: branch over {distance} bytes")
    return (
        (distance >> 12 & 1) << 31
        | (distance >> 5 & 63) << 25
        | (distance >> 1 & 15) << 8
        | (distance >> 11 & 1) << 7
    )


def _jump_bits(distance: int) -> int:
    if not -(1 << 20) <= distance < 1 << 20:
        raise InternalError(f"link: jump over {distance} bytes")
    return (
        (distance >> 20 & 1) << 31
        | (distance >> 1 & 0x3FF) << 21
        | (distance >> 11 & 1) << 20
        | (distance >> 12 & 0xFF) << 12
    )
