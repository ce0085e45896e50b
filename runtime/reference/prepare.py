"""An image made ready to run: complete fields per template, and where its run-time operands go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsalang._backend.cost import Fields, FieldValue, issue_cycles, scalar
from dsalang._backend.errors import DeviceError, ImageError
from dsalang._backend.image.model import Image, Template
from dsalang._backend.isa.check import BITS, check_program, normalized, run_time_range
from dsalang._backend.isa.table import BY_NAME, NONE, Engine
from dsalang._backend.isa.vprog import VectorProgram
from dsalang._backend.target import Target

from .wellformed import check_static


@dataclass(frozen=True)
class OpenField:
    """A field that a run-time operand fills: entry `entry` of `name` (-1: not an array)."""

    name: str
    entry: int
    type: str


@dataclass(frozen=True)
class Prepared:
    """A template ready to be issued. `issue_cycles` is what that costs the control core."""

    template: Template
    op: str
    engine: Engine
    fields: dict[str, FieldValue]
    open: tuple[OpenField, ...]
    program: VectorProgram | None
    issue_cycles: int

    def bind(self, values: Sequence[int]) -> dict[str, FieldValue]:
        """The complete fields with the operands filled in; one that does not fit is a DeviceError."""
        if not self.open:
            return self.fields
        fields = dict(self.fields)
        for slot, value in zip(self.open, values, strict=True):
            value = self._fit(slot, value)
            if slot.entry < 0:
                fields[slot.name] = value
            else:
                entries = fields[slot.name]
                assert isinstance(entries, tuple)
                fields[slot.name] = (*entries[: slot.entry], value, *entries[slot.entry + 1 :])
        return fields

    def address(self, fields: Fields) -> int:
        """The SRAM address that names the instruction in reports: its result's, a store's source."""
        for name in ("sram", "d", "out", "arg"):
            value = fields.get(name, NONE)
            if isinstance(value, tuple):
                value = value[0]
            if value != NONE:
                return value
        return NONE

    def _fit(self, slot: OpenField, value: int) -> int:
        if slot.type in ("u64", "i64"):
            return value & (1 << 64) - 1 if slot.type == "u64" else value
        low, high = run_time_range(slot.name, slot.type)
        if low <= value <= high:
            return value
        entry = f".{slot.entry}" if slot.entry >= 0 else ""
        raise DeviceError(
            f"{self.op}: operand {slot.name}{entry} = {value} does not fit {slot.type} "
            f"([{low}, {high}])",
            self.template.loc,
        )


def prepare(image: Image, target: Target) -> tuple[Prepared, ...]:
    """Check an image against a target and complete its templates. Raises ImageError."""
    if image.target_digest != target.digest:
        raise ImageError(
            f"image {image.name!r} was compiled for target {image.target!r} "
            f"(digest {image.target_digest}), not for {target.name!r} (digest {target.digest})",
            hint="compile the kernel again for this target",
        )
    if image.sram_bytes > target.sram_bytes:
        raise ImageError(
            f"image {image.name!r} uses {image.sram_bytes} bytes of SRAM, {target.name} has "
            f"{target.sram_bytes}"
        )
    if len(image.credits) > target.semaphores:
        raise ImageError(
            f"image {image.name!r} uses {len(image.credits)} semaphores, {target.name} has "
            f"{target.semaphores}"
        )
    try:
        for program in image.programs:
            check_program(program)
        return tuple(_prepare(template, image, target) for template in image.templates)
    except ValueError as error:
        raise ImageError(f"image {image.name!r}: {error}") from None


def _prepare(template: Template, image: Image, target: Target) -> Prepared:
    instruction = normalized(template.instruction)
    op, fields = instruction.op, instruction.fields
    program = None
    if op == "vexec":
        number = scalar(fields, "program")
        if number >= len(image.programs):
            raise ValueError(f"there is no vector program {number}")
        program = image.programs[number]
    open_fields = tuple(_open_field(op, name) for name in template.open)
    check_static(op, fields, template.open, program, target)
    if template.hbm_arg >= len(image.arguments):
        raise ValueError(f"{op} refers to argument {template.hbm_arg}, which does not exist")
    cost = issue_cycles(len(open_fields), target)
    return Prepared(template, op, instruction.engine, dict(fields), open_fields, program, cost)


def _open_field(op: str, text: str) -> OpenField:
    name, _, entry = text.partition(".")
    field = BY_NAME[op].by_name.get(name)
    if field is None or field.type not in BITS or bool(entry) != (field.count > 1):
        raise ValueError(f"{op} has no open field {text!r}")
    if entry and not 0 <= int(entry) < field.count:
        raise ValueError(f"{op} has no open field {text!r}")
    return OpenField(name, int(entry) if entry else -1, field.type)
