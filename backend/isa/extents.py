"""Which SRAM bytes an instruction touches: one walk per address field, from its other fields.

For whoever has to hold an instruction to a tile before it runs. A new instruction with SRAM fields needs its row in
`EXTENTS`; a test compares it with the instruction table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from .. import formats
from .table import MAX_VECTOR_DIMS, NONE, SCALE_BLOCK
from .vprog import VectorProgram

Fields = Mapping[str, "int | tuple[int, ...]"]


@dataclass(frozen=True)
class Extent:
    """Elements of `elem_bytes` at the address in `field` (entry `entry` of it) + Σ i_d * strides[d]."""

    field: str
    entry: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    elem_bytes: int


def _one(fields: Fields, name: str) -> int:
    value = fields[name]
    assert isinstance(value, int)
    return value


def _dims(fields: Fields, name: str, first: int = 0) -> tuple[int, ...]:
    value = fields[name]
    assert isinstance(value, tuple)
    return value[first : first + _one(fields, "ndim")]


def _bytes(fields: Fields, name: str) -> int:
    return formats.BY_CODE[_one(fields, name)].bytes


def _box(fields: Fields, program: VectorProgram | None) -> Iterator[Extent]:
    size = _dims(fields, "size")
    yield Extent("sram", 0, size, _dims(fields, "sram_stride"), _one(fields, "elem_bytes"))
    for d, address in enumerate(_dims(fields, "index")):
        if address != NONE:
            width = _bytes(fields, "index_fmt")
            yield Extent("index", d, (size[d],), (width,), width)


def _list(fields: Fields, program: VectorProgram | None) -> Iterator[Extent]:
    size, strides = _dims(fields, "size"), _dims(fields, "sram_stride")
    packed: list[int] = []
    step = 8
    for n in reversed(size):
        packed.insert(0, step)
        step *= n
    yield Extent("offset", 0, size, tuple(packed), 8)
    for name in ("sram", "compare", "old"):
        if fields.get(name, NONE) != NONE:
            yield Extent(name, 0, size, strides, _one(fields, "elem_bytes"))


def _mma(fields: Fields, program: VectorProgram | None) -> Iterator[Extent]:
    batch, m, n, k = (_one(fields, name) for name in ("batch", "m", "n", "k"))
    width = _bytes(fields, "fmt_d")
    strides = (_one(fields, "batch_d"), _one(fields, "ldd"), width)
    yield Extent("d", 0, (batch, m, n), strides, width)
    for name, along in (("a", m), ("b", n)) if k else ():
        fmt = formats.OPERANDS_BY_CODE[_one(fields, f"fmt_{name}")]
        shape = [along, fmt.stored(k)] if name == "a" else [fmt.stored(k), along]
        rows = [_one(fields, f"ld{name}"), fmt.bytes]
        if _one(fields, f"trans_{name}"):
            rows.reverse()
        lead = _one(fields, f"batch_{name}")
        yield Extent(name, 0, (batch, *shape), (lead, *rows), fmt.bytes)
        if fields[f"scale_{name}"] != NONE:
            walk = (_one(fields, f"batch_scale_{name}"), _one(fields, f"ld_scale_{name}"), 1)
            yield Extent(f"scale_{name}", 0, (batch, along, -(-k // SCALE_BLOCK)), walk, 1)


def _vexec(fields: Fields, program: VectorProgram | None) -> Iterator[Extent]:
    assert program is not None
    size = _dims(fields, "size")
    for name, operands in (("in", program.inputs), ("out", program.outputs)):
        for k, fmt in enumerate(operands):
            strides = _dims(fields, f"{name}_stride", k * MAX_VECTOR_DIMS)
            yield Extent(name, k, size, strides, formats.by_name(fmt).bytes)


def _reduce(fields: Fields, program: VectorProgram | None) -> Iterator[Extent]:
    size, axis, width = _dims(fields, "size"), _one(fields, "axis"), _bytes(fields, "fmt")
    kept = tuple(1 if d == axis else n for d, n in enumerate(size))
    yield Extent("in", 0, size, _dims(fields, "in_stride"), width)
    for name, bytes_ in (("out", width), ("arg", 4)):
        if fields[name] != NONE:
            yield Extent(name, 0, kept, _dims(fields, f"{name}_stride"), bytes_)


def _scan(fields: Fields, program: VectorProgram | None) -> Iterator[Extent]:
    for name in ("in", "out"):
        strides = _dims(fields, f"{name}_stride")
        yield Extent(name, 0, _dims(fields, "size"), strides, _bytes(fields, "fmt"))


def _take(fields: Fields, program: VectorProgram | None) -> Iterator[Extent]:
    size, axis = _dims(fields, "size"), _one(fields, "axis")
    source = tuple(_one(fields, "length") if d == axis else n for d, n in enumerate(size))
    for name, shape, fmt in (
        ("in", source, "fmt"),
        ("picks", size, "picks_fmt"),
        ("out", size, "fmt"),
    ):
        yield Extent(name, 0, shape, _dims(fields, f"{name}_stride"), _bytes(fields, fmt))


EXTENTS: dict[str, Callable[[Fields, VectorProgram | None], Iterator[Extent]]] = {
    "dma.load": _box,
    "dma.store": _box,
    "dma.gather": _list,
    "dma.scatter": _list,
    "dma.atomic": _list,
    "mma": _mma,
    "vexec": _vexec,
    "reduce": _reduce,
    "scan": _scan,
    "take": _take,
}
"""By opcode; the fields are complete, those of sizes, strides and formats static."""
