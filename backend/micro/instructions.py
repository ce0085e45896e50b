"""The instruction set as methods: one per row of the instruction table, fields by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

from .. import formats
from ..errors import MicrokernelError
from ..isa.check import check_program, normalized
from ..isa.table import (
    BY_NAME,
    MAX_DMA_DIMS,
    NONE,
    AtomicKind,
    Field,
    Instruction,
    Opcode,
    ReduceKind,
)
from ..isa.text import print_program
from ..isa.vprog import VectorProgram
from ..passes.placing.emit import Fields, Placement, pad
from .scalars import Address, Number
from .tiles import Tile, view_of

RUN_TIME = ("hbm", "hbm_stride", "lo", "hi", "scalar", "fill", "accumulate")
"""Fields that a value of the control core may fill in a microkernel; sizes are known when it is written."""

FLAGS = ("set", "wait")


class Instructions:
    """`k.isa.mma(a=x, b=w, d=out, m=…)`: exactly one instruction, with the fields that are given.

    SRAM addresses are tiles (lists of them in array fields), the HBM address is an `Address`; formats, kinds and
    vector programs go by name or object. Absent fields are 0, absent optional tiles are none. A name with a dot is
    written with an underscore: `dma_load`.
    """

    def __init__(self, placement: Placement) -> None:
        self._placement = placement

    def __dir__(self) -> list[str]:
        return [name.replace(".", "_") for name in BY_NAME if name not in FLAGS]

    def __getattr__(self, name: str) -> Callable[..., None]:
        for row in BY_NAME.values():
            if row.name.replace(".", "_") == name and row.name not in FLAGS:
                return lambda **fields: self._issue(row, fields)
        close = difflib.get_close_matches(name, dir(self), 1)
        hint = (
            "k.set and k.wait write flags"
            if name in FLAGS
            else f"did you mean {close[0]!r}?"
            if close
            else ""
        )
        raise MicrokernelError(f"the machine has no instruction {name!r}", hint=hint)

    def kind(self, op: str, name: str) -> int:
        """The code of a kind of `reduce`, `scan` or `dma.atomic` by its name."""
        kinds: Any = AtomicKind if op == "dma.atomic" else ReduceKind
        if not isinstance(name, str) or name.upper() not in kinds.__members__:
            raise MicrokernelError(
                f"{op} has no kind {name!r}",
                hint=f"kinds are {', '.join(kinds.__members__).lower()}",
            )
        return int(kinds[name.upper()])

    def _issue(self, row: Opcode, given: dict[str, Any]) -> None:
        made, program, argument = Fields(), None, None
        for name, value in given.items():
            field = row.by_name.get(name)
            if field is None:
                close = difflib.get_close_matches(name, list(row.by_name), 1)
                hint = (
                    f"did you mean {close[0]!r}?"
                    if close
                    else f"fields are {', '.join(row.by_name)}"
                )
                raise MicrokernelError(f"{row.name} has no field {name!r}", hint=hint)
            if field.values == "program":
                program = _program(row, value)
            elif isinstance(value, Address):
                made.put(_hbm_field(row, field), value.number.ssa)
                argument = value.argument
            elif field.count == 1:
                self._put(row, made, field, value, None)
            else:
                made.static[name] = [NONE if field.optional else 0] * field.count
                if not isinstance(value, Sequence) or len(value) > field.count:
                    raise MicrokernelError(
                        f"{row.name}: {name} takes up to {field.count} values, not {value!r}"
                    )
                for k, entry in enumerate(value):
                    self._put(row, made, field, entry, k)
        _check(row, made, program)
        if argument is None and any((f.role or "").startswith("hbm_") for f in row.fields):
            raise MicrokernelError(
                f"{row.name}: the field hbm is an address", hint="pass a pointer operand"
            )
        text = None if program is None else print_program(program)
        made.issue(self._placement, row.name, text, argument)

    def _put(self, row: Opcode, made: Fields, field: Field, value: Any, entry: int | None) -> None:
        name = field.name
        if isinstance(value, Tile):
            if not (field.role or "").startswith("sram_"):
                raise MicrokernelError(f"{row.name}: {name} is no SRAM address, but got {value}")
            made.put_view(name, view_of(value), entry)
        elif value is None and field.optional:
            made.put(name, NONE, entry)
        elif isinstance(value, Number):
            if name not in RUN_TIME:
                raise MicrokernelError(
                    f"{row.name}: {name} must be known when the microkernel is compiled"
                )
            made.put(name, value.ssa, entry)
        elif isinstance(value, str) and (
            field.values in ("format", "operand") or name.endswith("fmt")
        ):
            known = formats.OPERANDS if field.values == "operand" else formats.BY_NAME
            if value not in known:
                raise MicrokernelError(f"there is no format {value!r}")
            made.put(name, known[value].code, entry)
        elif isinstance(value, str) and field.values in ("reduce", "atomic"):
            made.put(name, self.kind(row.name, value), entry)
        elif isinstance(value, int):
            made.put(name, int(value), entry)
        else:
            raise MicrokernelError(f"{row.name}: {name} does not take {value!r}")


def _hbm_field(row: Opcode, field: Field) -> str:
    if not (field.role or "").startswith("hbm_"):
        raise MicrokernelError(f"{row.name}: {field.name} is no HBM address")
    return field.name


def _program(row: Opcode, value: Any) -> VectorProgram:
    if not isinstance(value, VectorProgram):
        raise MicrokernelError(f"{row.name}: program is a vector program, not {value!r}")
    check_program(value)
    return value


def _check(row: Opcode, made: Fields, program: VectorProgram | None) -> None:
    static = {n: v if isinstance(v, int) else tuple(v) for n, v in made.static.items()}
    try:
        normalized(Instruction(row.name, row.engines[0], static))
    except ValueError as error:
        raise MicrokernelError(f"{row.name}: {error}") from None
    if program is None and any(f.values == "program" for f in row.fields):
        raise MicrokernelError(f"{row.name}: the vector program is missing")


def box(p: Placement, op: str, tile: Tile, address: Address, strides: Sequence[int]) -> None:
    """A dma.load or dma.store of a whole tile."""
    if not isinstance(address, Address):
        raise MicrokernelError(
            f"{op} takes an address, not {address!r}", hint="pass a pointer operand"
        )
    if len(strides) != tile.ndim or not all(isinstance(s, int) for s in strides):
        raise MicrokernelError(
            f"{op} takes {tile.ndim} strides in bytes for {tile}, not {list(strides)}"
        )
    if tile.ndim > MAX_DMA_DIMS:
        raise MicrokernelError(f"{op} takes up to {MAX_DMA_DIMS} dims, not {tile}")
    n = MAX_DMA_DIMS
    fields = Fields(
        elem_bytes=tile.elem_bytes,
        ndim=tile.ndim,
        size=pad(tile.shape, n),
        hbm_stride=pad(strides, n),
        sram_stride=pad(tile.strides, n),
        lo=[0] * n,
        hi=pad(tile.shape, n),
    )
    fields.put("hbm", address.number.ssa)
    fields.put_view("sram", view_of(tile))
    fields.issue(p, op, hbm_arg=address.argument)
