"""Puts a relocatable object into memory, ready to run, without LLVM.

Objects of x86-64 ELF systems are linked here: importing LLVM takes longer than most kernels run. On other
hosts LLVM's own loader does it.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_EM_X86_64 = 62
_NOBITS, _RELA, _SYMTAB = 8, 4, 2
_WRITE, _ALLOC = 1, 2
_READ, _EXEC = 1, 4  # PROT_*
_ABS64, _PC32, _PLT32, _PC64 = 1, 2, 4, 24
_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX = 9, 41, 42
_STUB = b"\xff\x25\x00\x00\x00\x00"  # jmp *0(%rip); the address follows
_STUB_BYTES = 16


_NOTHING: Mapping[str, int] = {}


class LoadError(Exception):
    """The object cannot be loaded by this loader."""


class Code(NamedTuple):
    """Host code in memory, valid as long as `owner` lives. `symbols` are addresses of its functions.

    `note` is what was kept beside it.
    """

    symbols: dict[str, int]
    owner: Any
    note: bytes = b""


def load(
    data: bytes,
    names: tuple[str, ...],
    note: bytes = b"",
    known: Mapping[str, int] = _NOTHING,
) -> Code:
    """Load an object; `names` are the functions that are wanted, `known` addresses of some that it refers to."""
    if platform.machine() in ("x86_64", "AMD64") and sys.platform.startswith("linux"):
        try:
            return _Linker(data, known).code(names)._replace(note=note)
        except LoadError:
            pass
    return _load_llvm(data, names, known)._replace(note=note)


def _load_llvm(data: bytes, names: tuple[str, ...], known: Mapping[str, int]) -> Code:
    import llvmlite.binding as llvm

    from .host import machine

    machine()
    # MCJIT owns its target machine, so it gets one of its own
    own = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), own)
    for name, address in known.items():
        llvm.add_symbol(name, address)
    engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    return Code({name: engine.get_function_address(name) for name in names}, engine)


class _Linker:
    """One pass over an object: lay out the sections, copy, relocate, make executable."""

    def __init__(self, data: bytes, known: Mapping[str, int]) -> None:
        self.data, self.known = data, known
        header = _HEADER.unpack_from(data, 0)
        if header[0][:6] != b"\x7fELF\x02\x01" or header[2] != _EM_X86_64:
            raise LoadError("not an x86-64 ELF object")
        at, size, count = header[6], header[11], header[12]
        self.sections = [_SECTION.unpack_from(data, at + k * size) for k in range(count)]
        tables = [k for k, s in enumerate(self.sections) if s[1] == _SYMTAB]
        if len(tables) != 1:
            raise LoadError("no symbol table")
        table = self.sections[tables[0]]
        self.strings = self.sections[table[6]]
        self.symbols = [
            _SYMBOL.unpack_from(data, table[4] + k * _SYMBOL.size)
            for k in range(table[5] // _SYMBOL.size)
        ]
        self.offsets: dict[int, int] = {}
        self.stubs: dict[int, int] = {}
        self.place()

    def place(self) -> None:
        """Offsets of the sections in memory, then stubs for functions of the C library, then their addresses."""
        end = 0
        self.relocations: list[tuple[int, int, int, int, int]] = []
        for k, (_, kind, flags, _, at, size, _, info, align, _) in enumerate(self.sections):
            if kind == _RELA and self.sections[info][2] & _ALLOC:
                for r in range(size // _RELOCATION.size):
                    offset, number, symbol, addend = _RELOCATION.unpack_from(
                        self.data, at + r * _RELOCATION.size
                    )
                    self.relocations.append((info, offset, number, symbol, addend))
            if not flags & _ALLOC or kind == _RELA or size == 0:
                continue
            if self.name_of(self.sections[k][0], section=True).startswith(".eh_frame"):
                continue
            if flags & _WRITE and not self.name_of(self.sections[k][0], section=True).startswith(
                ".data.rel.ro"
            ):
                raise LoadError("the object has writable data")
            end += -end % max(align, 1)
            self.offsets[k] = end
            end += size
        self.relocations = [r for r in self.relocations if r[0] in self.offsets]
        end += -end % 16
        for _, _, number, symbol, _ in self.relocations:
            outside = self.symbols[symbol][3] == 0
            if (outside or number in (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX)) and (
                symbol not in self.stubs
            ):
                self.stubs[symbol] = end
                end += _STUB_BYTES
        self.size = max(end, 1)

    def name_of(self, offset: int, section: bool = False) -> str:
        """A name of the symbols' or of the sections' string table."""
        strings = self.sections[_HEADER.unpack_from(self.data, 0)[13]] if section else self.strings
        start = strings[4] + offset
        return self.data[start : self.data.index(b"\0", start)].decode()

    def address(self, symbol: int, base: int) -> int:
        """The address of a symbol."""
        name, _, _, section, value, _ = self.symbols[symbol]
        if section == 0:
            text = self.name_of(name)
            return self.known.get(text) or _outside(text)
        if section not in self.offsets:
            raise LoadError("a reference to what is not loaded")
        return int(base + self.offsets[section] + value)

    def code(self, names: tuple[str, ...]) -> Code:
        """Load, and find some functions."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        base = libc.mmap(None, self.size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if base in (None, ctypes.c_void_p(-1).value):
            raise LoadError("no memory")
        owner = _Mapping()
        weakref.finalize(owner, libc.munmap, base, self.size).atexit = False
        ctypes.memmove(base, bytes(self.contents(base)), self.size)
        if libc.mprotect(base, self.size, _READ | _EXEC) != 0:
            raise LoadError("memory cannot be made executable")
        known = {
            self.name_of(s[0]): base + self.offsets[s[3]] + s[4]
            for s in self.symbols
            if s[3] in self.offsets and s[0]
        }
        missing = [name for name in names if name not in known]
        if missing:
            raise LoadError(f"the object has no function {missing[0]}")
        return Code({name: known[name] for name in names}, owner)

    def contents(self, base: int) -> bytearray:
        """The bytes of the mapping at `base`."""
        memory = bytearray(self.size)
        for k, offset in self.offsets.items():
            _, kind, _, _, at, size, *_ = self.sections[k]
            if kind != _NOBITS:
                memory[offset : offset + size] = self.data[at : at + size]
        for symbol, offset in self.stubs.items():
            memory[offset : offset + 6] = _STUB
            struct.pack_into("<Q", memory, offset + 6, self.address(symbol, base))
        for section, offset, number, symbol, addend in self.relocations:
            self.relocate(memory, base, self.offsets[section] + offset, number, symbol, addend)
        return memory

    def relocate(
        self, memory: bytearray, base: int, at: int, number: int, symbol: int, addend: int
    ) -> None:
        """Apply one relocation."""
        target = self.address(symbol, base)
        if number in (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX):
            target = base + self.stubs[symbol] + 6  # the address in the stub
        elif symbol in self.stubs and number in (_PC32, _PLT32):
            target = base + self.stubs[symbol]
        if number == _ABS64:
            struct.pack_into("<Q", memory, at, (target + addend) & (1 << 64) - 1)
        elif number == _PC64:
            struct.pack_into("<q", memory, at, target + addend - base - at)
        elif number in (_PC32, _PLT32, _GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX):
            struct.pack_into("<i", memory, at, target + addend - base - at)
        else:
            raise LoadError(f"relocation {number}")


class _Mapping:
    """Keeps a mapping alive."""


def _outside(name: str) -> int:
    for library in (None, "libm.so.6"):
        try:
            function = getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise LoadError(f"there is no function {name}")
