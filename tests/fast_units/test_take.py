"""take as host code against the reference: formats, axes, layouts, indices outside, overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from dsalang._backend import formats

from .harness import Case, check, reference

SRAM = 1 << 13
INDEX, OUT = SRAM // 2, SRAM * 3 // 4


def row_major(size: tuple[int, ...], step: int) -> tuple[int, ...]:
    """Strides in bytes."""
    strides = [step]
    for n in size[:0:-1]:
        strides.insert(0, strides[0] * n)
    return tuple(strides)


def case(
    fmt: str,
    index_fmt: str,
    size: tuple[int, ...],
    axis: int,
    length: int,
    seed: int,
    out: int = OUT,
) -> Case:
    """A take of random bytes; some indices lie outside."""
    element, index = formats.by_name(fmt), formats.by_name(index_fmt)
    rng = np.random.default_rng(seed)
    sram = rng.integers(0, 256, SRAM, dtype=np.uint8)
    count = int(np.prod(size))
    picks = rng.integers(-1, length + 1, count).astype(index.storage)
    sram[INDEX : INDEX + picks.nbytes] = picks.view(np.uint8)
    wide = (*size[:axis], length, *size[axis + 1 :])
    fields: dict[str, Any] = {
        "fmt": element.code, "picks_fmt": index.code, "ndim": len(size), "size": size, "axis": axis,
        "length": length, "in": 0, "in_stride": row_major(wide, element.bytes), "picks": INDEX,
        "picks_stride": row_major(size, index.bytes), "out": out,
        "out_stride": row_major(size, element.bytes),
    }  # fmt: skip
    return Case("take", fields, {}, None, sram, what=f"take {fmt} {index_fmt} {size} {axis}")


def test_formats_and_axes() -> None:
    cases = [
        case(fmt.name, index, size, axis, 7, seed)
        for seed, fmt in enumerate(formats.FORMATS)
        for index in ("int32", "int64")
        for size, axis in (((13,), 0), ((3, 5), 0), ((3, 5), 1), ((2, 3, 2, 4), 2))
    ]
    check(cases)


def test_layouts_and_overlap() -> None:
    backwards = case("fp32", "int32", (4, 6), 1, 9, 1)
    backwards.fields.update({"in": 32, "in_stride": (36, -4)})
    onto_input = case("fp32", "int32", (40,), 0, 40, 2, out=8)
    onto_index = case("int32", "int32", (40,), 0, 40, 3, out=INDEX + 4)
    moved = case("fp16", "int32", (10,), 0, 6, 4)
    del moved.fields["out"]
    moved.open["out"] = OUT + 2
    outside = case("fp32", "int32", (4,), 0, 1 << 20, 5)
    check([backwards, onto_input, onto_index, moved, outside])


def test_what_it_does() -> None:
    one = case("int32", "int32", (6,), 0, 5, 6)
    result = reference(one).sram.view(np.int32)
    table, picks = one.sram.view(np.int32)[:5], one.sram.view(np.int32)[INDEX // 4 :][:6]
    expected = [table[i] if 0 <= i < 5 else 0 for i in picks]
    assert result[OUT // 4 :][:6].tolist() == expected
