"""Templates that differ in SRAM addresses alone, made to share host code.

Those of a static schedule have the address of a ring's slot in them, so there is one per slot of each operand. Where
the addresses of otherwise equal templates differ, they become run-time operands behind the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from dsalang._backend.cost import FieldValue
from dsalang._backend.image.model import Image
from dsalang._backend.isa.check import normalized
from dsalang._backend.isa.table import BY_NAME, NONE, Instruction

from ..reference.prepare import OpenField, Prepared

Place = tuple[str, int]
"""A field and its entry, -1 where it is no array."""


class Shared(NamedTuple):
    """A template: as host code sees it, the number of the first one like that, the operands that differ."""

    prepared: Prepared
    unit: int
    fixed: tuple[int, ...]


def share(image: Image, prepared: Sequence[Prepared]) -> list[Shared]:
    """The templates of an image, with the addresses open in which those of a group differ."""
    groups: dict[object, list[int]] = {}
    found = [dict(_addresses(one)) for one in prepared]
    for number, (one, addresses) in enumerate(zip(prepared, found)):
        groups.setdefault(_key(one, addresses, image), []).append(number)
    shared: dict[int, Shared] = {}
    for members in groups.values():
        first = found[members[0]]
        differ = [p for p in first if any(found[m][p] != first[p] for m in members)]
        for m in members:
            operands = tuple(found[m][place] for place in differ)
            shared[m] = Shared(_opened(prepared[m], differ), members[0], operands)
    return [shared[number] for number in range(len(prepared))]


def _addresses(prepared: Prepared) -> Iterator[tuple[Place, int]]:
    """Static addresses that say nothing but where the operand is; that an optional one is there decides what is done."""
    given = {(slot.name, slot.entry) for slot in prepared.open}
    for name, field in BY_NAME[prepared.op].by_name.items():
        if not (field.role or "").startswith("sram") or (field.optional and prepared.op != "vexec"):
            continue
        value = prepared.fields[name]
        for place, entry in _entries(name, value):
            if entry != NONE and place not in given:
                yield place, entry


def _entries(name: str, value: FieldValue) -> Iterator[tuple[Place, int]]:
    if isinstance(value, tuple):
        yield from (((name, d), entry) for d, entry in enumerate(value))
    else:
        yield (name, -1), value


def _key(prepared: Prepared, addresses: dict[Place, int], image: Image) -> object:
    """Equal for templates that differ in these addresses alone, and in their source lines."""
    fields = dict(prepared.fields)
    number = fields.pop("program", None)
    program = image.programs[number] if isinstance(number, int) else None
    rest = tuple(
        (place, 0 if place in addresses else entry)
        for name, value in fields.items()
        for place, entry in _entries(name, value)
    )
    return prepared.op, prepared.engine, rest, prepared.open, program, prepared.template.hbm_arg


def _opened(prepared: Prepared, places: Sequence[Place]) -> Prepared:
    """The template with some static fields as run-time operands behind the others."""
    if not places:
        return prepared
    names = tuple(f"{name}.{entry}" if entry >= 0 else name for name, entry in places)
    fields: dict[str, FieldValue] = dict(prepared.fields)
    for name, entry in places:
        value = fields[name]
        if isinstance(value, tuple):
            fields[name] = (*value[:entry], 0, *value[entry + 1 :])
        else:
            fields[name] = 0
    types = BY_NAME[prepared.op].by_name
    slots = tuple(OpenField(name, entry, types[name].type) for name, entry in places)
    template = replace(
        prepared.template,
        instruction=normalized(Instruction(prepared.op, prepared.engine, fields)),
        open=(*prepared.template.open, *names),
    )
    return replace(prepared, template=template, fields=fields, open=(*prepared.open, *slots))
