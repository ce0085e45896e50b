"""An image as text: arguments, SRAM map, semaphores, instructions, vector programs, code."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from ..errors import Loc
from ..isa.rv64 import BY_MNEMONIC, decode_rv64, disassemble_word
from ..isa.text import print_instruction, print_program
from .model import Argument, Image, RingInfo, Timing
from .reader import read_object

A0 = 10


def objdump(image: Image) -> str:
    """Everything an image says, for people."""
    parts = [
        f"kernel {image.name} for target {image.target} ({image.target_digest})\n",
        _section("arguments", _arguments(image.arguments)),
        _section(f"SRAM map, {image.sram_bytes} bytes used", _sram(image.rings)),
        _section("kept in SRAM between launches", _residency(image)),
        _section("semaphores", _semaphores(image)),
        _section("instruction templates", _templates(image)),
        _section("vector programs", _programs(image)),
        _section("static schedule", _schedule(image.timing)),
        _section("prints and assertions", _reports(image)),
        _section(f"code, {len(image.code)} bytes at {image.code_address:#x}", _code(image)),
    ]
    return "\n".join(part for part in parts if part)


def _section(title: str, lines: Iterable[str]) -> str:
    body = list(lines)
    return "\n".join([f"{title}:", *(f"  {line}".rstrip() for line in body), ""]) if body else ""


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]


def _schedule(timing: Timing | None) -> Iterator[str]:
    if timing is None:
        return
    yield f"for grid {'x'.join(map(str, timing.grid))}, {timing.flags} flags left out"
    for core, issues in enumerate(timing.issues):
        yield (
            f"core {core}: {timing.cycles[core]} cycles ({timing.dynamic[core]} with flags, at least "
            f"{timing.bound[core]})"
        )
        yield from (f"  {start:>9} #{number}" for number, start in zip(issues[::2], issues[1::2]))


def _at(loc: Loc | None) -> str:
    return "" if loc is None else str(loc)


def _arguments(arguments: Sequence[Argument]) -> list[str]:
    rows = [
        (str(number), argument.name, ("*" if argument.is_pointer else "") + argument.fmt)
        for number, argument in enumerate(arguments)
    ]
    return _columns(rows)


def _sram(rings: Sequence[RingInfo]) -> list[str]:
    rows = [("from", "to", "slots", "bytes", "tile", "label", "line")]
    for ring in sorted(rings, key=lambda r: (r.address, r.label)):
        end = ring.address + ring.stride_bytes * (ring.slots - 1) + ring.slot_bytes
        tile = "x".join(map(str, ring.shape)) + f" {ring.fmt}"
        rows.append(
            (
                f"{ring.address:#x}",
                f"{end:#x}",
                str(ring.slots),
                str(ring.slot_bytes),
                tile.strip(),
                ring.label,
                _at(ring.loc),
            )
        )
    return _columns(rows) if rings else []


def _residency(image: Image) -> Iterator[str]:
    found = image.residency
    if found is None:
        return
    names = [argument.name for argument in image.arguments]
    yield (
        f"{found.start:#x} to {found.stop:#x}, {found.stop - found.start} bytes per core, for grid "
        f"{'x'.join(map(str, found.grid))}; loaded when argument {names[found.flag]} is not 0"
    )
    for ring in image.rings:
        if ring.kept:
            yield f"{ring.kept}: {ring.slots * ring.slot_bytes} bytes at {ring.address:#x}"
    if found.depends:
        yield f"depends on {', '.join(names[number] for number in found.depends)}, too"


def _semaphores(image: Image) -> list[str]:
    users: dict[tuple[int, str], list[str]] = {}
    for number, template in enumerate(image.templates):
        instruction = template.instruction
        if instruction.op in ("set", "wait"):
            sem = instruction.fields["sem"]
            assert isinstance(sem, int)
            entry = users.setdefault((sem, instruction.op), [])
            entry.append(f"{instruction.engine.name}#{number}")
    for at, call, first in _calls(image):
        if call == "wait" and first is not None:
            users.setdefault((first, "wait"), []).append(f"CORE@{at:x}")
    rows: list[Sequence[str]] = [("number", "credits", "set by", "waited for by")]
    for sem in sorted({*(sem for sem, _ in users), *range(len(image.credits))}):
        credits_ = image.credits[sem] if sem < len(image.credits) else 0
        names = (" ".join(users.get((sem, op), ["-"])) for op in ("set", "wait"))
        rows.append((str(sem), str(credits_), *names))
    return _columns(rows) if len(rows) > 1 else []


def _templates(image: Image) -> Iterator[str]:
    for number, template in enumerate(image.templates):
        text = print_instruction(template.instruction, template.open)
        where = f"  ; {template.loc}" if template.loc else ""
        behind = (
            f"  ; argument {image.arguments[template.hbm_arg].name}"
            if template.hbm_arg >= 0
            else ""
        )
        yield f"#{number} {text}{behind}{where}"


def _programs(image: Image) -> Iterator[str]:
    for number, program in enumerate(image.programs):
        first, *rest = print_program(program).splitlines()
        yield f"{number}: {first}"
        yield from (f"   {line}" for line in rest)


def _reports(image: Image) -> Iterator[str]:
    for number, info in enumerate(image.prints):
        shapes = ", ".join(
            fmt if shape is None else f"{'x'.join(map(str, shape))} {fmt}"
            for fmt, shape in zip(info.fmts, info.shapes)
        )
        yield f"print {number}: {info.prefix!r} {shapes}  {_at(info.loc)}"
    for number, check in enumerate(image.asserts):
        yield f"assert {number}: {check.message!r}  {_at(check.loc)}"


def _words(image: Image) -> Iterator[tuple[int, int]]:
    """Address and word of every instruction; the constants behind the code are not part."""
    size = read_object(image.file).section(".text").size if image.file else len(image.code) // 4 * 4
    words = struct.iter_unpack("<I", image.code[:size])
    for number, (word,) in enumerate(words):
        yield image.code_address + 4 * number, word


def _labels(image: Image) -> dict[int, str]:
    labels = {}
    for at, word in _words(image):
        decoded = decode_rv64(word)
        if decoded is not None and BY_MNEMONIC[decoded.mnemonic].form in "BJ":
            labels[at + decoded.imm] = f".L{at + decoded.imm:x}"
    labels[image.code_address + image.entry] = "dsa_kernel"
    return labels


def _calls(image: Image) -> Iterator[tuple[int, str, int | None]]:
    """Address, name and (when a constant just before) first argument of the calls into the machine."""
    labels = _labels(image)
    known: int | None = None
    for at, word in _words(image):
        if at in labels:
            known = None
        decoded = decode_rv64(word)
        if decoded is None:
            continue
        if decoded.mnemonic.startswith("dsa."):
            yield at, decoded.mnemonic[4:], known
        if decoded.rd == A0:
            is_constant = decoded.mnemonic == "addi" and decoded.rs1 == 0
            known = decoded.imm if is_constant else None


def _code(image: Image) -> Iterator[str]:
    labels = _labels(image)
    what = {"issue": "template #", "wait": "semaphore ", "print": "print ", "assert": "assert "}
    notes = {
        at: f"  ; {what[call]}{first}"
        for at, call, first in _calls(image)
        if first is not None and call in what
    }
    end = image.code_address
    for at, word in _words(image):
        if at in labels:
            yield f"{labels[at]}:"
        yield f"  {at:6x}: {word:08x}  {disassemble_word(word, at)}{notes.get(at, '')}"
        end = at + 4
    first = end + -end % 8
    for at in range(first - image.code_address, len(image.code), 8):
        yield f"  {image.code_address + at:6x}: {image.code[at : at + 8].hex(' ')}"
