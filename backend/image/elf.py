"""Device images as files: ELF64 RISC-V relocatable objects, which `readelf` reads.

LLVM writes the object with the glue's code; these sections are added to it:

| section | contents |
| --- | --- |
| `.dsa.ident` | magic `dsalang\\0`, version u32, reserved u32, SHA-256 of the file with these 32 bytes zeroed |
| `.dsa.meta` | JSON, see `meta.py` |
| `.dsa.templates` | the templates' instructions, encoded, one after the other |
| `.dsa.programs` | the vector programs, encoded, one after the other |
| `.dsa.glue` | the glue's LLVM IR for the host, zlib |

The code is linked: it is meant for address `code_address`, and all relocations are R_RISCV_NONE.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache

from .. import formats
from ..errors import ImageError, InternalError
from ..isa.check import type_range
from ..isa.encode import decode, decode_program, encode, encode_program
from ..isa.table import BY_NAME, Instruction
from ..isa.vprog import VectorProgram
from . import link as linker
from .meta import Meta, TemplateMeta, dump, parse
from .model import Image, Template
from .reader import Object, read_object
from .writer import with_sections

CODE_ADDRESS = 0x10000
VERSION = 4
MAX_GLUE_BYTES = 64 << 20
ENTRY = "dsa_kernel"

_MAGIC = b"dsalang\0"
_IDENT = struct.Struct("<8sII32s")
_DIGEST_OFFSET = 16


def link_image(image: Image) -> Image:
    """The image with its glue compiled for RV64: `code`, `entry` and `file` are filled in."""
    glue = _linked(image.glue, image.code_address)
    file, places = with_sections(glue.file, {**_sections(image), ".dsa.glue": glue.source})
    data = bytearray(file)
    at = places[".dsa.ident"] + _DIGEST_OFFSET
    data[at : at + 32] = hashlib.sha256(data).digest()
    linked = dataclasses.replace(image, code=glue.code, entry=glue.entry)
    return linked.stored_in(bytes(data))


@dataclass(frozen=True)
class _Glue:
    """Glue that is compiled: the object, what it puts into the device's memory, its entry point, its compressed source."""

    file: bytes
    code: bytes
    entry: int
    source: bytes


# Kernels that differ in what their instructions do, but not in their order, have the same glue: types, operators.
@lru_cache(maxsize=256)
def _linked(glue: str, address: int) -> _Glue:
    # loading a cached image must not pay for importing LLVM
    from ..llvm.riscv import compile_object

    file = linker.link(compile_object(glue), address)
    obj = read_object(file)
    return _Glue(file, linker.memory(obj, address), _entry(obj), zlib.compress(glue.encode()))


def save(image: Image) -> bytes:
    """The image as a file."""
    if image.file:
        return image.file
    linked = link_image(image)
    if linked != image:
        raise InternalError(f"image {image.name}: code is not what its glue compiles to")
    return linked.file


def _sections(image: Image) -> dict[str, bytes]:
    templates = tuple(TemplateMeta(t.open, t.loc, t.hbm_arg) for t in image.templates)
    shared = {
        f.name: getattr(image, f.name) for f in dataclasses.fields(Meta) if f.name not in _COUNTED
    }
    meta = Meta(templates=templates, programs=len(image.programs), **shared)
    return {
        ".dsa.ident": _IDENT.pack(_MAGIC, VERSION, 0, bytes(32)),
        ".dsa.meta": dump(meta),
        ".dsa.templates": b"".join(encode(t.instruction) for t in image.templates),
        ".dsa.programs": b"".join(map(encode_program, image.programs)),
    }


_COUNTED = ("templates", "programs")


def load(data: bytes) -> Image:
    """The image of a file. Raises ImageError when the file is damaged, foreign or of another version."""
    obj = read_object(data)
    _check_ident(obj)
    meta = parse(_contents(obj, ".dsa.meta"))
    templates = _templates(_contents(obj, ".dsa.templates"), meta)
    programs = _programs(_contents(obj, ".dsa.programs"), meta.programs)
    if any(r.type != linker.R_NONE for r in obj.relocations):
        raise ImageError("damaged image: code is not linked")
    image = Image(
        name=meta.name,
        target=meta.target,
        target_digest=meta.target_digest,
        arguments=meta.arguments,
        templates=templates,
        programs=programs,
        credits=meta.credits,
        rings=meta.rings,
        prints=meta.prints,
        asserts=meta.asserts,
        sram_bytes=meta.sram_bytes,
        code=linker.memory(obj, meta.code_address),
        code_address=meta.code_address,
        entry=_entry(obj),
        glue=_inflate(_contents(obj, ".dsa.glue")),
        timing=meta.timing,
        residency=meta.residency,
        choices=meta.choices,
    )
    _check_numbers(image)
    return image.stored_in(bytes(data))


def _contents(obj: Object, name: str) -> bytes:
    return obj.contents(obj.section(name))


def _check_ident(obj: Object) -> None:
    names = {section.name for section in obj.sections}
    if ".dsa.ident" not in names:
        raise ImageError("not a device image: an ELF object without dsalang's sections")
    section = obj.section(".dsa.ident")
    if section.size < _IDENT.size:
        raise ImageError("damaged image: identification is cut off")
    magic, version, _, digest = _IDENT.unpack_from(obj.data, section.offset)
    if magic != _MAGIC:
        raise ImageError("not a device image: wrong magic")
    if version != VERSION:
        raise ImageError(
            f"image version is {version}, this dsalang reads version {VERSION}",
            hint="compile the kernel again",
        )
    zeroed = bytearray(obj.data)
    at = section.offset + _DIGEST_OFFSET
    zeroed[at : at + 32] = bytes(32)
    if hashlib.sha256(zeroed).digest() != digest:
        raise ImageError("damaged image: its digest is wrong", hint="compile the kernel again")


def _templates(data: bytes, meta: Meta) -> tuple[Template, ...]:
    result = []
    at = 0
    for entry in meta.templates:
        instruction, at = decode(data, at)
        for name in entry.open:
            _check_open(instruction, name)
        if len(set(entry.open)) != len(entry.open):
            raise ImageError(f"damaged image: {instruction.op} has an open field twice")
        result.append(Template(instruction, entry.open, entry.loc, entry.hbm_arg))
    if at != len(data):
        raise ImageError("damaged image: more instructions than templates")
    return tuple(result)


def _check_open(instruction: Instruction, name: str) -> None:
    field_name, dot, entry = name.partition(".")
    field = BY_NAME[instruction.op].by_name.get(field_name)
    indexes = [str(d) for d in range(field.count)] if field and field.count > 1 else [""]
    if field is None or entry not in indexes or bool(dot) != (field.count > 1):
        raise ImageError(f"damaged image: {instruction.op} has no open field {name!r:.80}")


def _programs(data: bytes, count: int) -> tuple[VectorProgram, ...]:
    result = []
    at = 0
    while at < len(data):
        program, at = decode_program(data, at)
        result.append(program)
    if len(result) != count:
        raise ImageError(f"damaged image: {len(result)} vector programs instead of {count}")
    return tuple(result)


def _entry(obj: Object) -> int:
    text = obj.section(".text")
    values = [s.value for s in obj.symbols if s.name == ENTRY and s.section == text.index]
    if len(values) != 1 or values[0] >= text.size or values[0] % 4:
        raise ImageError(f"damaged image: no entry point {ENTRY}")
    return values[0]


def _inflate(data: bytes) -> str:
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(data, MAX_GLUE_BYTES)
        if not inflater.eof:
            raise ImageError("damaged image: glue is cut off or too big")
        return text.decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise ImageError(f"damaged image: glue: {error}") from None


def _check_timing(image: Image) -> None:
    """A schedule is about templates that exist, and about as many cores everywhere."""
    timing = image.timing
    if timing is None:
        return
    cores = {len(timing.cycles), len(timing.dynamic), len(timing.bound), len(timing.issues)}
    if len(cores) != 1 or len(timing.grid) != 3:
        raise ImageError("damaged image: its schedule is about different numbers of cores")
    for issues in timing.issues:
        if len(issues) % 2 or any(not 0 <= t < len(image.templates) for t in issues[::2]):
            raise ImageError("damaged image: its schedule names a template that is not there")


def _check_residency(image: Image) -> None:
    """What stays in SRAM is in the SRAM that the image uses, and comes from arguments that exist."""
    found = image.residency
    if found is None:
        return
    numbers = (found.flag, *found.arrays, *found.depends)
    if any(not 0 <= number < len(image.arguments) for number in numbers) or len(found.grid) != 3:
        raise ImageError(
            "damaged image: what stays in SRAM depends on an argument that is not there"
        )
    if not 0 <= found.start <= found.stop <= image.sram_bytes:
        raise ImageError("damaged image: what stays in SRAM is not in the SRAM that is used")


def _check_numbers(image: Image) -> None:
    """Numbers that refer to something refer to something that exists."""
    for template in image.templates:
        program = template.instruction.fields.get("program", 0)
        if "program" in BY_NAME[template.instruction.op].by_name and not (
            isinstance(program, int) and program < len(image.programs)
        ):
            raise ImageError(f"damaged image: no vector program {program}")
        if not -1 <= template.hbm_arg < len(image.arguments):
            raise ImageError(f"damaged image: no argument {template.hbm_arg}")
    _check_timing(image)
    _check_residency(image)
    low, high = type_range("u32")
    numbers = [image.sram_bytes, image.code_address, *image.credits]
    for ring in image.rings:
        numbers += [ring.address, ring.slots, ring.stride_bytes, ring.slot_bytes, *ring.shape]
    if any(not low <= number <= high for number in numbers):
        raise ImageError("damaged image: a size is out of range")
    names = [argument.fmt for argument in image.arguments]
    names += [ring.fmt for ring in image.rings]
    names += [fmt for info in image.prints for fmt in info.fmts]
    for name in names:
        if name not in formats.BY_NAME:
            raise ImageError(f"damaged image: unknown format {name!r:.80}")
