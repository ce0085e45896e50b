"""reduce and scan as host code against the reference: kinds, formats, axes, layouts, positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from dsalang._backend import formats
from dsalang._backend.formats import Format
from dsalang._backend.isa.table import NONE, ReduceKind
from dsalang._backend.llvm.host.host import AVX2, AVX512, Host, this_host

from .draw import drawn
from .harness import Case, check, reference
from .test_vexec import values

HOSTS = [AVX512, AVX2] if this_host().vector_bytes == 64 else [this_host()]
SRAM = 1 << 15
EXTREMES = [k for k in ReduceKind if "MAX" in k.name or "MIN" in k.name]


def fits(kind: ReduceKind, fmt: Format) -> bool:
    """Whether a kind folds numbers of a format."""
    return fmt.is_float == kind.name.startswith("F")


def reduction(
    kind: ReduceKind, fmt: Format, size: tuple[int, ...], axis: int, seed: int, arg: bool
) -> Case:
    """A reduction of a row-major tile, with positions or without."""
    strides, run = [0] * len(size), fmt.bytes
    for d in reversed(range(len(size))):
        strides[d] = run
        run *= size[d]
    sram = values(fmt, seed, SRAM // fmt.bytes).copy()
    results = [1 if d == axis else n for d, n in enumerate(size)]
    out, out_strides = 1, [0] * len(size)
    for d in reversed(range(len(size))):
        out_strides[d] = 0 if d == axis else out
        out *= results[d]
    fields: dict[str, Any] = {
        "kind": kind, "fmt": fmt.code, "ndim": len(size), "size": size, "axis": axis, "in": 0,
        "in_stride": tuple(strides), "out": SRAM // 2, "arg": SRAM * 3 // 4 if arg else NONE,
        "out_stride": tuple(s * fmt.bytes for s in out_strides),
        "arg_stride": tuple(s * 4 for s in out_strides),
    }  # fmt: skip
    return Case("reduce", fields, {}, None, sram, what=f"{kind.name} {fmt} {size} {axis}")


def scanned(case: Case, reverse: int) -> Case:
    """The scan of the tile that a reduction reduces."""
    fields = dict(case.fields)
    for name in ("arg", "arg_stride"):
        del fields[name]
    fields["out_stride"] = fields["in_stride"]
    fields["reverse"] = reverse
    return Case(
        "scan", fields, dict(case.open), None, case.sram, what=f"scan {case.what} {reverse}"
    )


def _all(axis: int) -> list[Case]:
    cases: list[Case] = []
    for kind in ReduceKind:
        for fmt in formats.FORMATS:
            if not fits(kind, fmt):
                continue
            size = (3, 37) if axis == 1 else (19, 21)
            case = reduction(kind, fmt, size, axis, len(cases), kind in EXTREMES)
            cases += [case, scanned(case, len(cases) & 1)]
    return cases


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: str(h.vector_bytes))
@pytest.mark.parametrize("axis", (0, 1))
def test_kinds_and_formats(axis: int, host: Host) -> None:
    check(_all(axis), host)


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: str(h.vector_bytes))
def test_order_of_float_sums_and_products(host: Host) -> None:
    """Ordinary numbers, whose sums show every change of order."""
    cases: list[Case] = []
    for kind in (ReduceKind.FSUM, ReduceKind.FPROD):
        for name in ("fp32", "fp16", "bf16"):
            fmt = formats.by_name(name)
            for size in (
                (1,),
                (5,),
                (16,),
                (17,),
                (100,),
                (1000,),
                (6, 53),
                (53, 6),
                (40, 33),
                (7, 9, 4),
            ):
                for axis in range(len(size)):
                    case = reduction(kind, fmt, size, axis, 0, False)
                    numbers = np.random.default_rng(len(cases)).standard_normal(SRAM // fmt.bytes)
                    case.sram = numbers.astype(np.float32).astype(fmt.storage).view(np.uint8)
                    cases += [case, scanned(case, axis)]
    check(cases, host)


def test_sum_of_negative_zeros_is_negative() -> None:
    cases: list[Case] = []
    for size, axis in (((5,), 0), ((40,), 0), ((40, 8), 0), ((40, 8), 1)):
        case = reduction(ReduceKind.FSUM, formats.by_name("fp32"), size, axis, 0, False)
        case.sram = np.full(SRAM // 4, -0.0, np.float32).view(np.uint8)
        cases.append(case)
    check(cases)
    assert reference(cases[0]).sram.view(np.uint32)[SRAM // 8] == 0x8000_0000


def test_shifted_in_place_scan_reads_before_it_writes() -> None:
    cases: list[Case] = []
    for shift in (-8, -4, 0, 4, 8):
        for reverse in (0, 1):
            for axis in (0, 1):
                case = reduction(ReduceKind.ISUM, formats.by_name("int32"), (9, 21), axis, 1, False)
                case = scanned(case, reverse)
                case.fields["in"], case.fields["out"] = 64, 64 + shift
                cases.append(case)
    check(cases)


def _any(draw: st.DrawFn) -> Case:
    fmt = draw(st.sampled_from([formats.by_name(n) for n in ("fp32", "fp16", "int8", "int32")]))
    kind = draw(st.sampled_from([k for k in ReduceKind if fits(k, fmt)]))
    ndim = draw(st.integers(1, 4))
    size = tuple(draw(st.integers(1, (600, 40, 12, 6)[ndim - 1])) for _ in range(ndim))
    axis = draw(st.integers(0, ndim - 1))
    arg = kind in EXTREMES and draw(st.booleans())
    case = reduction(kind, fmt, size, axis, draw(st.integers(0, 99)), arg)
    fields = case.fields
    order = draw(st.permutations(range(ndim)))
    strides, run = [0] * ndim, fmt.bytes * draw(st.sampled_from([1, 1, 2]))
    for d in order:
        strides[d] = run * draw(st.sampled_from([1, 1, 1, -1]))
        run *= size[d]
    fields["in_stride"] = tuple(strides)
    fields["in"] = -sum(min((n - 1) * s, 0) for n, s in zip(size, strides))
    fields["out"] = draw(st.sampled_from([SRAM // 2, SRAM // 2, 0, fields["in"], 400]))
    if arg and draw(st.integers(0, 4)) == 0:
        fields["out"] = NONE
    if draw(st.booleans()) and fields["out"] != NONE:
        fields["out_stride"] = tuple(0 if d == axis else s for d, s in enumerate(strides))
        fields["out"] += fields["in"]
    if draw(st.booleans()):
        case = scanned(case, draw(st.integers(0, 1)))
        fields = case.fields
        fields["out"] = draw(st.sampled_from([fields["in"], SRAM // 2 + fields["in"]]))
    for name in ("in", "out", "size.0", f"size.{axis}", f"in_stride.{axis}", "arg", "reverse"):
        base, _, entry = name.partition(".")
        if base in fields and draw(st.integers(0, 5)) == 0:
            case.open[name] = fields[base][int(entry)] if entry else fields[base]
    return case


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: str(h.vector_bytes))
def test_random_layouts(host: Host) -> None:
    check(drawn(_any, 80), host)


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: str(h.vector_bytes))
def test_many_rows_of_fp32(host: Host) -> None:
    """Sixteen rows at a time: ordinary rows, and among them such with NaNs, zeros of both signs and infinities only."""
    fp32, rng = formats.by_name("fp32"), np.random.default_rng(0)
    odd = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf], np.float32)
    cases: list[Case] = []
    for kind in (ReduceKind.FSUM, ReduceKind.FMAXNUM, ReduceKind.FMINNUM):
        for size in ((16, 16), (37, 5), (33, 70), (2, 17, 20), (48, 1)):
            for share in (0.0, 0.2, 1.0):
                case = reduction(kind, fp32, size, len(size) - 1, 0, False)
                numbers = rng.standard_normal(SRAM // 4).astype(np.float32)
                here = rng.random(SRAM // 4) < share
                numbers[here] = rng.choice(odd[: 2 + 2 * int(rng.integers(3))], int(here.sum()))
                case.sram = numbers.view(np.uint8)
                cases.append(case)
        apart = reduction(kind, fp32, (21, 24), 1, len(cases), False)
        apart.fields["out_stride"] = (12, 0)
        cases.append(apart)
    check(cases, host)
