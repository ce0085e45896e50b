"""What reads files of strangers: images, instructions, target files. Each has seeds, a mutation and a reader.

A reader may succeed or raise its own kind of UserError. Anything else is a bug.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from suite.cases import CASES

from dsalang._backend import targets
from dsalang._backend.errors import ImageError, TargetError
from dsalang._backend.image.elf import load
from dsalang._backend.image.objdump import objdump
from dsalang._backend.image.reader import read_object
from dsalang._backend.isa.encode import decode, decode_program, encode, encode_program
from dsalang._backend.isa.rv64 import decode_rv64, disassemble_word
from dsalang._backend.isa.text import print_instruction, print_program
from dsalang._backend.target import Target, parse_target
from dsalang._runtime.reference.prepare import prepare

from .mutate import some_bytes, some_text

KERNELS = (
    "add_odd",
    "softmax_odd",
    "matmul_odd",
    "attention_64_causal",
    "histogram",
    "running_length",
)
_DIGEST = 16  # offset in .dsa.ident


@dataclass(frozen=True)
class Surface:
    """`make` gives the mutated input of a random generator, `read` reads it and returns whether it was accepted."""

    make: Callable[[random.Random], bytes]
    read: Callable[[bytes], bool]


@cache
def images() -> tuple[bytes, ...]:
    """Images of the suite's kernels."""
    found = []
    for name in KERNELS:
        case = CASES[name]()
        compiled = case.kernel.warmup(
            *case.args, grid=case.grid, target="edge", **case.meta, **case.options
        )
        found.append(compiled.image.file)
    return tuple(found)


@cache
def _sections(data: bytes) -> dict[str, tuple[int, int]]:
    return {s.name: (s.offset, s.size) for s in read_object(data).sections if s.size}


def make_image(rng: random.Random) -> bytes:
    """A mutated image; three times in four with a digest that fits, so that more than it is looked at.

    Half of the mutations stay within one section and keep its size.
    """
    seed = rng.choice(images())
    other = rng.choice(images())
    sections = _sections(seed)
    ident = sections[".dsa.ident"][0]
    if rng.random() < 0.5:
        offset, size = rng.choice(sorted(sections.values()))
        piece = some_bytes(seed[offset : offset + size], rng, other)[:size]
        data = seed[:offset] + piece.ljust(size, b"\0") + seed[offset + size :]
    else:
        data = some_bytes(seed, rng, other)
    if rng.random() < 0.75 and len(data) >= ident + _DIGEST + 32:
        at = ident + _DIGEST
        zeroed = data[:at] + bytes(32) + data[at + 32 :]
        data = data[:at] + hashlib.sha256(zeroed).digest() + data[at + 32 :]
    return data


def read_image(data: bytes) -> bool:
    """Load, disassemble and make ready to run."""
    try:
        image = load(data)
    except ImageError:
        return False
    objdump(image)
    try:
        prepare(image, Target.by_name("edge"))
    except ImageError:
        return False
    return True


def make_code(rng: random.Random) -> bytes:
    """A kind of code, and mutated bytes of it: instructions, vector programs or RISC-V."""
    seed = rng.choice(images())
    kind = rng.randrange(3)
    offset, size = _sections(seed).get((".dsa.templates", ".dsa.programs", ".text")[kind], (0, 64))
    return bytes([kind]) + some_bytes(seed[offset : offset + size], rng, rng.choice(images()))


def read_code(data: bytes) -> bool:
    """Decode to the end; what decodes also prints, and encodes to the same bytes."""
    kind, data, at = data[0], data[1:], 0
    if kind == 2:
        for at in range(0, len(data) - 3, 4):
            word = int.from_bytes(data[at : at + 4], "little")
            decode_rv64(word)
            disassemble_word(word, at)
        return True
    try:
        while at < len(data):
            start = at
            if kind == 0:
                instruction, at = decode(data, at)
                print_instruction(instruction)
                again = encode(instruction)
            else:
                program, at = decode_program(data, at)
                print_program(program)
                again = encode_program(program)
            if not start < at <= len(data) or again != data[start:at]:
                raise AssertionError(f"decoded bytes {start} to {at} encode to others")
    except ImageError:
        return False
    return True


@cache
def target_texts() -> tuple[str, ...]:
    """The shipped target files."""
    folder = resources.files(targets)
    return tuple(
        f.read_text("utf-8")
        for f in sorted(folder.iterdir(), key=lambda f: f.name)
        if f.name.endswith(".toml")
    )


def make_target(rng: random.Random) -> bytes:
    """A mutated target file."""
    return some_text(rng.choice(target_texts()), rng).encode("utf-8", "replace")


def read_target(data: bytes) -> bool:
    """Parse; what parses has a digest and bandwidth."""
    try:
        target = parse_target(data.decode(), "fuzz.toml")
    except TargetError:
        return False
    assert target.digest and target.hbm_bytes_per_cycle(target.cores) > 0
    return True


SURFACES = {
    "image": Surface(make_image, read_image),
    "code": Surface(make_code, read_code),
    "target": Surface(make_target, read_target),
}
