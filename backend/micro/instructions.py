"""The instruction set as methods: one per row of the instruction table, fields by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import formats
from ..errors import MicrokernelError, did_you_mean
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
        hint = "k.set and k.wait write flags" if name in FLAGS else did_you_mean(name, dir(self))
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
                hint = did_you_mean(name, row.by_name) or f"fields are {', '.join(row.by_name)}"
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


def product(
    p: Placement, out: Tile, a: Tile, b: Tile, accumulate: bool, fmt_b: str | None = None
) -> None:
    """An mma of whole tiles."""
    fmts = [a.fmt, b.fmt if fmt_b is None else fmt_b]
    rates = p.target.tensor.macs_per_cycle
    for name in fmts:
        if name not in rates:
            raise MicrokernelError(
                f"the tensor engine of {p.target.name!r} does not multiply {name}",
                hint=f"it multiplies {', '.join(rates)}",
            )
    packed = formats.OPERANDS[fmts[1]].per_element
    ranks = {out.ndim, a.ndim, b.ndim}
    k = a.shape[-1] if a.ndim else 0
    fits = (
        ranks in ({2}, {3})
        and k == b.shape[-2] * packed
        and b.elem_bytes == formats.OPERANDS[fmts[1]].bytes
    )
    if not fits or out.shape != (*a.shape[:-1], b.shape[-1]) or a.shape[:-2] != b.shape[:-2]:
        raise MicrokernelError(
            f"{a} times {b} does not give {out}",
            hint="the last two dims multiply, one before is a batch",
        )
    _check_types(p, fmts, out)
    (m, n), limit = out.shape[-2:], p.target.tensor.max_dim
    if max(m, n, k) > limit:
        raise MicrokernelError(
            f"an mma takes up to {limit} per dim, not {m} x {n} x {k}", hint="cut the tiles"
        )
    fields = Fields(
        fmt_a=formats.OPERANDS[fmts[0]].code,
        fmt_b=formats.OPERANDS[fmts[1]].code,
        fmt_d=formats.by_name(out.fmt).code,
        accumulate=int(accumulate),
        batch=out.shape[0] if out.ndim == 3 else 1,
        m=m,
        n=n,
        k=k,
    )
    for name, tile in (("a", a), ("b", b), ("d", out)):
        plain = tile.strides[-1] == tile.elem_bytes or tile.shape[-1] == 1
        across = name != "d" and (tile.strides[-2] == tile.elem_bytes or tile.shape[-2] == 1)
        if not plain and not across:
            raise MicrokernelError(
                f"neither rows nor columns of {tile} are packed", hint="k.copy it first"
            )
        if name != "d":
            fields.put(f"trans_{name}", int(not plain))
        fields.put(f"ld{name}", tile.strides[-2] if plain else tile.strides[-1])
        fields.put(f"batch_{name}", tile.strides[0] if tile.ndim == 3 else 0)
        fields.put_view(name, view_of(tile))
    fields.issue(p, "mma")


def _check_types(p: Placement, fmts: Sequence[str], out: Tile) -> None:
    kinds = {formats.OPERANDS[name].is_float for name in fmts}
    floats = True in kinds
    if len(kinds) == 2 and not p.target.tensor.block_scales:
        raise MicrokernelError(
            f"the tensor engine of {p.target.name!r} does not take integers beside floats",
            hint="a target with block_scales does (docs/targets.md)",
        )
    results = ("fp32", "bf16") if floats else ("int32",)
    if out.fmt not in results:
        raise MicrokernelError(
            f"a product of {fmts[0]} and {fmts[1]} sums in {' or '.join(results)}, not {out.fmt}"
        )
