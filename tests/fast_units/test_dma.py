"""DMA as host code against the reference: boxes, index vectors, lists, atomics, bounds, traffic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from dsalang._backend import formats
from dsalang._backend.isa.table import INVALID_OFFSET, NONE, AtomicKind
from dsalang._backend.llvm.host import dma_copy
from dsalang._backend.llvm.host.abi import Slot
from dsalang._backend.llvm.host.host import AVX2, AVX512, Host, this_host

from .draw import drawn
from .harness import PAGE, Case, Machine, call_unit, check, compile_units, random_bytes
from .test_vexec import values

SRAM = 4096
HBM = 6000
INDEX = 3072
INT32, INT64 = (formats.by_name(name).code for name in ("int32", "int64"))
BIG = 2**63 - 1


def _opened(draw: st.DrawFn, fields: dict[str, Any], names: tuple[str, ...]) -> dict[str, int]:
    """Some fields as run-time operands of the same value."""
    opened = {}
    for name in names:
        value = fields[name]
        entries = enumerate(value) if isinstance(value, tuple) else [(-1, value)]
        for d, entry in entries:
            rarely = 11 if name in ("index", "keep", "compare", "old") else 3
            if draw(st.integers(0, rarely)) == 0 and not (name == "index" and entry == NONE):
                opened[name if d < 0 else f"{name}.{d}"] = entry
    return opened


def _box(draw: st.DrawFn) -> Case:
    ndim = draw(st.integers(0, 5))
    width = draw(st.sampled_from([1, 2, 4, 8]))
    size = tuple(draw(st.integers(1, (1, 90, 12, 6, 4, 3)[ndim])) for _ in range(ndim))
    hbm_stride, sram_stride = [0] * ndim, [0] * ndim
    order = draw(st.permutations(range(ndim))) if draw(st.booleans()) else tuple(range(ndim))
    hbm_run = sram_run = width
    for d in reversed(range(ndim)):
        h = order[d]
        hbm_run *= draw(st.sampled_from([1, 1, 1, 2]))
        sram_run *= draw(st.sampled_from([1, 1, 1, 2]))
        hbm_stride[h] = draw(st.sampled_from([1, 1, 1, 1, -1, 0])) * hbm_run
        sram_stride[d] = draw(st.sampled_from([1, 1, 1, -1])) * sram_run
        hbm_run, sram_run = hbm_run * size[h], sram_run * size[d]
    cut = [draw(st.sampled_from(["full", "full", "high", "any"])) for _ in size]
    lo = tuple(draw(st.integers(-2, n)) if c == "any" else 0 for n, c in zip(size, cut))
    hi = tuple(n if c == "full" else draw(st.integers(-1, n + 2)) for n, c in zip(size, cut))
    index, opened, sram = [], {}, random_bytes(SRAM, draw(st.integers(0, 99)))
    index_fmt = draw(st.sampled_from([INT32, INT64]))
    for d in range(ndim):
        if draw(st.integers(0, 6)):
            index.append(NONE)
            continue
        index.append(INDEX + 200 * d)
        entries = np.array([draw(st.integers(-2, 6)) for _ in range(size[d])])
        data = entries.astype(np.int32 if index_fmt == INT32 else np.int64).view(np.uint8)
        sram[index[-1] : index[-1] + len(data)] = data
    low = -sum(min((n - 1) * s, 0) for n, s in zip(size, sram_stride))
    base = PAGE + draw(st.sampled_from([1000, 2000, 3000]))
    fields: dict[str, Any] = {
        "elem_bytes": width, "ndim": ndim, "size": size, "hbm": base, "lo": lo, "hi": hi,
        "hbm_stride": tuple(hbm_stride), "sram": low + draw(st.sampled_from([0, 8, 100, INDEX])),
        "sram_stride": tuple(sram_stride), "index": tuple(index), "index_fmt": index_fmt,
    }  # fmt: skip
    names: tuple[str, ...] = (
        "hbm",
        "sram",
        "lo",
        "hi",
        "hbm_stride",
        "index",
        "size",
        "sram_stride",
    )
    op = draw(st.sampled_from(["dma.load", "dma.load", "dma.store"]))
    if op == "dma.load":
        fields["keep"] = draw(st.integers(0, 1))
        fields["fill"] = draw(st.sampled_from([0, BIG * 2 + 1, 0x0123456789ABCDEF]))
        names += ("fill", "keep")
    opened = _opened(draw, fields, names)
    if opened.get("fill", 0) >> 63:
        opened["fill"] -= 1 << 64
    argument = draw(st.sampled_from([-1, 0]))
    return Case(op, fields, opened, None, sram, [random_bytes(HBM, 7)], argument=argument, what=op)


def test_boxes() -> None:
    cases = drawn(_box, 160)
    for start in range(0, len(cases), 50):
        check(cases[start : start + 50])


def _list(draw: st.DrawFn) -> Case:
    op = draw(st.sampled_from(["dma.gather", "dma.scatter", "dma.atomic", "dma.atomic"]))
    ndim = draw(st.integers(0, 3))
    size = tuple(draw(st.integers(1, (1, 40, 7, 4)[ndim])) for _ in range(ndim))
    kind = draw(st.sampled_from(list(AtomicKind)))
    floats = [f for f in formats.FORMATS if f.is_float]
    ints = [f for f in formats.FORMATS if not f.is_float]
    fmt = draw(st.sampled_from(floats if kind.name.startswith("F") else ints))
    width = fmt.bytes if op == "dma.atomic" else draw(st.sampled_from([1, 2, 4, 8]))
    strides, run = [0] * ndim, width
    for d in reversed(range(ndim)):
        strides[d] = run * draw(st.sampled_from([1, 1, -1]))
        run *= size[d]
    count = int(np.prod(size, dtype=int))
    places = st.sampled_from([0, 8, 16, 24, 800, 808, INVALID_OFFSET, INVALID_OFFSET])
    if draw(st.integers(0, 9)) == 0:
        places = st.just(INVALID_OFFSET)
    if draw(st.integers(0, 19)) == 0:
        places = st.sampled_from([0, 8, 5000, 1 << 40])
    sram = np.zeros(SRAM, np.uint8)
    sram[:1024] = values(fmt, draw(st.integers(0, 99)), 1024 // fmt.bytes)
    offsets = np.array([draw(places) for _ in range(count)], np.int64)
    sram[2048 : 2048 + 8 * count] = offsets.view(np.uint8)
    low = -sum(min((n - 1) * s, 0) for n, s in zip(size, strides))
    fields: dict[str, Any] = {
        "ndim": ndim, "size": size, "offset": 2048, "sram": low, "sram_stride": tuple(strides),
        "hbm": PAGE + 1000, "elem_bytes": width,
    }  # fmt: skip
    names: tuple[str, ...] = ("hbm", "sram", "offset", "size")
    if op == "dma.gather":
        fields["fill"] = 0x0123456789ABCDEF
        fields["sram"] += draw(st.sampled_from([0, 2048, 2052]))
    if op == "dma.atomic":
        fields.update(kind=kind, fmt=fmt.code)
        fields["compare"] = draw(st.sampled_from([NONE, low + 512]))
        fields["old"] = draw(st.sampled_from([NONE, low + 1024, low, low + 2048]))
        names += ("compare", "old")
    hbm = values(fmt, draw(st.integers(0, 99)), HBM // fmt.bytes)
    opened = _opened(draw, fields, names)
    return Case(
        op, fields, opened, None, sram, [hbm], writable=draw(st.integers(0, 9)) > 0,
        argument=draw(st.sampled_from([-1, 0])), what=f"{op} {kind.name} {fmt}",
    )  # fmt: skip


def test_lists() -> None:
    cases = drawn(_list, 160)
    for start in range(0, len(cases), 50):
        check(cases[start : start + 50])


def _row(count: int = 16, **changes: Any) -> Case:
    fields: dict[str, Any] = {
        "elem_bytes": 4, "ndim": 1, "size": (count,), "hbm": PAGE, "hbm_stride": (4,), "sram": 0,
        "sram_stride": (4,), "lo": (0,), "hi": (count,),
    }  # fmt: skip
    case: dict[str, Any] = {"op": "dma.load", "opened": {}, "writable": True, "argument": -1}
    for name in case:
        case[name] = changes.pop(name, case[name])
    arrays = [random_bytes(HBM, 1), random_bytes(100, 2)]
    fields.update(changes)
    return Case(
        case["op"], fields, case["opened"], None, random_bytes(SRAM, 3), arrays, case["writable"],
        case["argument"], f"row {changes} {case}",
    )  # fmt: skip


def test_bounds() -> None:
    check([
        _row(),
        _row(hbm=PAGE - 4),
        _row(hbm=PAGE + HBM - 64),
        _row(hbm=PAGE + HBM - 60),
        _row(hbm=0),
        _row(hbm=2**64 - 16, hbm_stride=(PAGE // 8,), size=(2,), hi=(2,)),
        _row(hbm=(PAGE - 40) % 2**64, lo=(10,)),
        _row(hbm=(PAGE - 36) % 2**64, lo=(8,)),
        _row(hbm=2 * PAGE, argument=0),
        _row(hbm=2 * PAGE, argument=1),
        _row(hbm=2 * PAGE + 40, argument=1),
        _row(hbm=2 * PAGE + 40, argument=1, hi=(15,)),
        _row(hbm_stride=(1 << 62,)),
        _row(hbm_stride=(1 << 62,), hi=(1,)),
        _row(hbm_stride=(-(1 << 63),), size=(2,), hi=(2,)),
        _row(opened={"hbm_stride.0": 1 << 62}),
        _row(opened={"hbm_stride.0": -(1 << 63)}),
        _row(opened={"hbm_stride.0": 1 << 32}),
        _row(opened={"hbm": PAGE - 8}),
        _row(opened={"hi.0": 0, "hbm": 0}),
        _row(opened={"hi.0": -(1 << 31)}),
        _row(opened={"hi.0": 1 << 31}),
        _row(opened={"lo.0": 3, "hi.0": 2}, keep=1),
        _row(opened={"sram": SRAM - 60}),
        _row(opened={"sram": SRAM - 60}, keep=1, hi=(14,)),
        _row(opened={"size.0": 1 << 31}),
        _row(sram_stride=(-4,)),
        _row(sram_stride=(-4,), keep=1, hi=(1,)),
        _row(op="dma.store"),
        _row(op="dma.store", writable=False),
        _row(op="dma.store", hbm=PAGE + HBM - 60),
        _row(op="dma.store", hi=(0,), writable=False, hbm=0),
        _row(op="dma.store", sram=SRAM - 60, lo=(1,)),
        _row(op="dma.store", hbm_stride=(0,)),
        _row(op="dma.store", hbm_stride=(2,)),
    ])  # fmt: skip


def test_stores_past_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """As to a large array: rows at all distances from a cache line."""
    monkeypatch.setattr(dma_copy, "STREAM_BYTES", HBM)
    rows = [
        _row(op="dma.store", size=(count,), hi=(count,), lo=(low,), hbm=PAGE + at, sram=sram)
        for count, low, at, sram in (
            (64, 0, 0, 0), (64, 0, 4, 0), (64, 3, 60, 4), (65, 0, 64, 0), (500, 7, 12, 64),
            (500, 0, 40, 100), (64, 0, 1, 2), (64, 60, 0, 0), (64, 64, 0, 0), (700, 690, 9, 0),
        )
    ]  # fmt: skip
    small = _row(op="dma.store", size=(25,), hi=(25,), hbm=2 * PAGE)
    box = _row(
        op="dma.store", ndim=2, size=(9, 70), lo=(0, 0), hi=(9, 69), hbm_stride=(300, 4),
        sram_stride=(280, 4), hbm=PAGE + 8,
    )  # fmt: skip
    check([*rows, small, box, _row(op="dma.store", opened={"hi.0": 0}, size=(64,), hi=(64,))])


def _faulting(case: Case) -> dict[Slot, int]:
    """What the context says after a unit ran."""
    machine = Machine(case)
    (address,) = compile_units([case])
    call_unit(address, machine)
    return {slot: int(machine.context[slot]) for slot in Slot if slot is not Slot.SIZE}


def test_faults_say_where() -> None:
    context = _faulting(_row(hbm=PAGE + HBM - 60, lo=(1,), hi=(16,), opened={"sram": 0}))
    assert context[Slot.SEGMENT] == 0 and context[Slot.READ_BYTES] == 60
    context = _faulting(_row(opened={"hbm": PAGE + HBM - 8}))
    assert context[Slot.FAULT_ADDRESS] == PAGE + HBM - 8 and context[Slot.FAULT_BYTES] == 64
    context = _faulting(_row(opened={"hbm": 2 * PAGE, "sram": 5000}))
    assert context[Slot.SEGMENT] == 1
    assert context[Slot.FAULT_ADDRESS] == 5000 and context[Slot.FAULT_BYTES] == 64
    context = _faulting(_row(opened={"hbm": PAGE, "hi.0": 3, "sram": -7}))
    assert context[Slot.FAULT_FIELD] == 2 and context[Slot.FAULT_VALUE] == -7
    context = _faulting(_row(op="dma.store", opened={"hbm": 0}))
    assert context[Slot.SEGMENT] == -1 and context[Slot.FAULT_ADDRESS] == 0


def _tile(op: str, width: int, rows: int, columns: int, transposed: bool, **opened: int) -> Case:
    """A tile of a matrix whose rows are 12 bytes longer than they need be, or its transpose."""
    lead, sram = (rows if transposed else columns) * width + 12, random_bytes(1 << 15, width)
    fields: dict[str, Any] = {
        "elem_bytes": width, "ndim": 2, "size": (rows, columns), "hbm": PAGE + 8, "sram": 20,
        "hbm_stride": (width, lead) if transposed else (lead, width),
        "sram_stride": (columns * width, width), "lo": (0, 0), "hi": (rows, columns),
    }  # fmt: skip
    what = f"{op} {width} {rows}x{columns} {transposed} {opened}"
    return Case(op, fields, opened, None, sram, [random_bytes(1 << 16, 5)], argument=0, what=what)


HOSTS = [AVX512, AVX2] if this_host().vector_bytes == 64 else [this_host()]


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: str(h.vector_bytes))
def test_tiles_and_transposed_tiles(host: Host) -> None:
    """Rows of all lengths, squares with what is left of them, parts of tiles."""
    shapes = [(3, n) for n in (1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130, 1100)]
    shapes += [(40, 35), (16, 64), (33, 16), (5, 70), (64, 64)]
    parts: list[dict[str, int]] = [{}, {"hi.0": 2, "hi.1": 5}, {"hi.0": 0}, {"lo.0": 1, "hi.1": 33}]
    cases = [
        _tile(op, width, rows, columns, transposed, **parts[(rows + columns + width) % 4])
        for op in ("dma.load", "dma.store")
        for width in (1, 2, 4, 8)
        for rows, columns in shapes
        for transposed in (False, True)
        if rows * columns * width <= 30000
    ]
    for start in range(0, len(cases), 50):
        check(cases[start : start + 50], host)
