"""Collecting what the glue refers to by number: templates, vector programs, prints, assertions."""

from __future__ import annotations

from typing import TypeVar

from xdsl.dialects.builtin import StringAttr

from ..dialects.dsa import AssertOp, IssueOp, PrintOp, SetOp, SlotType, WaitOp
from ..dialects.locations import from_ir
from ..dialects.tile import ints
from ..errors import InternalError
from ..isa.check import normalized, type_range
from ..isa.table import BY_NAME, NONE, Engine, Field, Instruction
from ..isa.text import AsmSyntaxError, parse_program
from ..isa.vprog import VectorProgram
from .model import AssertInfo, PrintInfo, Template

T = TypeVar("T")


class Tables:
    """Numbered, duplicate-free lists."""

    def __init__(self) -> None:
        self._templates: dict[tuple[object, ...], int] = {}
        self._programs: dict[str, int] = {}
        self._prints: dict[PrintInfo, int] = {}
        self._asserts: dict[AssertInfo, int] = {}
        self.templates: list[Template] = []
        self.programs: list[VectorProgram] = []

    @property
    def prints(self) -> tuple[PrintInfo, ...]:
        """The prints by number."""
        return tuple(self._prints)

    @property
    def asserts(self) -> tuple[AssertInfo, ...]:
        """The assertions by number."""
        return tuple(self._asserts)

    def add_template(self, template: Template) -> int:
        """The number of a template; equal ones share it."""
        instruction = template.instruction
        key = (
            instruction.op,
            instruction.engine,
            tuple(instruction.fields.items()),
            template.open,
            template.loc,
            template.hbm_arg,
        )
        number = self._templates.setdefault(key, len(self.templates))
        if number == len(self.templates):
            self.templates.append(template)
        return number

    def add_program(self, text: str) -> int:
        """The number of a vector program given as text."""
        number = self._programs.get(text)
        if number is None:
            try:
                program = parse_program(text)
            except AsmSyntaxError as error:
                raise InternalError(f"lower: bad vector program: {error}\n{text}") from None
            if program in self.programs:
                number = self.programs.index(program)
            else:
                number = len(self.programs)
                self.programs.append(program)
            self._programs[text] = number
        return number

    def add_print(self, op: PrintOp) -> int:
        """The number of a device print."""
        fmts = tuple(fmt.data for fmt in op.fmts if isinstance(fmt, StringAttr))
        shapes = tuple(
            ints(shape) if isinstance(value.type, SlotType) else None
            for shape, value in zip(op.shapes, op.args, strict=True)
        )
        return _number(self._prints, PrintInfo(op.prefix.data, fmts, shapes, from_ir(op.location)))

    def add_assert(self, op: AssertOp) -> int:
        """The number of an assertion."""
        return _number(self._asserts, AssertInfo(op.message.data, from_ir(op.location)))


def _number(table: dict[T, int], entry: T) -> int:
    return table.setdefault(entry, len(table))


def semaphore_template(op: SetOp | WaitOp) -> Template:
    """The template of a set or wait."""
    name = "set" if isinstance(op, SetOp) else "wait"
    instruction = Instruction(name, Engine(op.engine.value.data), {"sem": op.sem.value.data})
    return Template(_normalized(instruction), (), from_ir(op.location))


def issue_template(
    op: IssueOp, known: dict[str, int | None], tables: Tables
) -> tuple[Template, list[int]]:
    """The template of an issue.

    `known` has, per bound field in operand order, the constant it is bound to (a slot's address for slots) or
    None. The result is the template and, per open field, the byte offset to add to its operand. A constant
    that its field cannot hold stays open, so that the machine reports it when it gets there.
    """
    row = BY_NAME[op.op.data]
    bound = op.bound()
    values = {field.name: _entries(op, field) for field in row.fields}
    open_fields: list[str] = []
    offsets: list[int] = []
    for name, constant in known.items():
        field_name, _, entry = name.partition(".")
        field, index = row.by_name[field_name], int(entry or 0)
        offset = 0
        if isinstance(bound[name].type, SlotType):
            given = values[field_name][index]
            offset = 0 if given == NONE else given
        value = None if constant is None else _fit(field, constant + offset)
        if value is None:
            open_fields.append(name)
            offsets.append(offset)
        values[field_name][index] = value or 0
    if (op.program is not None) != ("program" in row.by_name):
        raise InternalError(
            f"lower: {row.name} {'without' if op.program is None else 'with'} a program"
        )
    if op.program is not None:
        _add_program(values, tables, op.program.data)
    fields = {
        field.name: values[field.name][0] if field.count == 1 else tuple(values[field.name])
        for field in row.fields
    }
    hbm_arg = -1 if op.hbm_arg is None else op.hbm_arg.value.data
    instruction = _normalized(Instruction(row.name, op.engine, fields))
    return Template(instruction, tuple(open_fields), from_ir(op.location), hbm_arg), offsets


def _entries(op: IssueOp, field: Field) -> list[int]:
    fill = NONE if field.optional else 0
    if field.name not in op.fields.data:
        return [fill] * field.count
    static = op.static(field.name)
    entries = [static] if isinstance(static, int) else list(static)
    if field.type == "u64":
        entries = [entry & ((1 << 64) - 1) for entry in entries]
    return entries + [fill] * (field.count - len(entries))


def _fit(field: Field, value: int) -> int | None:
    if field.type == "u64":
        return value & ((1 << 64) - 1)
    low, high = type_range(field.type)
    return value if low <= value <= high else None


def _add_program(values: dict[str, list[int]], tables: Tables, text: str) -> None:
    number = tables.add_program(text)
    program = tables.programs[number]
    values["program"] = [number]
    values["inputs"] = [len(program.inputs)]
    values["scalars"] = [len(program.scalars)]
    values["outputs"] = [len(program.outputs)]


def _normalized(instruction: Instruction) -> Instruction:
    try:
        return normalized(instruction)
    except ValueError as error:
        raise InternalError(f"lower: {error}") from None
