"""What the instructions do, against loops over single elements."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsalang._backend import formats
from dsalang._backend.isa.table import (
    INVALID_OFFSET,
    NONE,
    OPCODES,
    AtomicKind,
    ReduceKind,
)
from dsalang._backend.isa.vprog import MicroOp, VectorProgram
from dsalang._backend.numerics import elementwise
from dsalang._runtime.reference.units import SEMANTICS

from .machine import LD, MM, ST, VE, Program

CODE = {name: fmt.code for name, fmt in formats.BY_NAME.items()}


def test_every_opcode_has_semantics() -> None:
    assert {op.name for op in OPCODES} - set(SEMANTICS) == {"set", "wait"}


def run_with_sram_dump(p: Program, last: Any, count: int) -> np.ndarray:
    """Run, then store `count` bytes of SRAM from address 0, whether initialised or not."""
    out = np.zeros(count, np.uint8)
    address = p.array("dump", out)
    p.sync(last, ST, 7)
    p.store(0, address, count, 1)
    p.run(check_init=False)
    return out


boxes = st.integers(0, 3).flatmap(
    lambda ndim: st.tuples(*(
        st.tuples(st.integers(1, 4), st.integers(-1, 4), st.integers(-1, 5), st.booleans())
        for _ in range(ndim)
    ))
)  # fmt: skip


@settings(derandomize=True, deadline=None, max_examples=120)
@given(
    boxes, st.sampled_from([1, 2, 4, 8]), st.booleans(), st.integers(0, 2**64 - 1), st.booleans()
)
def test_box_load_and_store(
    dims: tuple[tuple[int, int, int, bool], ...], width: int, keep: bool, fill: int, store: bool
) -> None:
    size = tuple(d[0] for d in dims)
    strides = [width * 3 ** (i + 1) * (-1 if i == 1 else 1) for i in range(len(dims))]
    sram_strides = [width * 4**i for i in range(len(dims))]
    index = tuple(256 + 64 * i if d[3] else NONE for i, d in enumerate(dims))
    vectors = [np.arange(n)[::-1] * 2 % 5 for n in size]
    source = np.arange(4096, dtype=np.int64).astype(np.uint8) ^ 0x5A
    p = Program()
    x = p.array("x", source.copy())
    target = p.segments[0].data
    base = 2000
    for i, vector in enumerate(vectors):
        p.load(p.array(f"i{i}", vector.astype(np.int32)), 256 + 64 * i, len(vector))
    before = np.arange(256, dtype=np.uint8)
    p.load(p.array("before", before), 0, 256, 1)
    fields = {
        "elem_bytes": width, "ndim": len(dims), "size": size, "hbm": x + base,
        "hbm_stride": tuple(strides), "sram": 0, "sram_stride": tuple(sram_strides),
        "lo": tuple(d[1] for d in dims), "hi": tuple(d[2] for d in dims), "index": index,
        "index_fmt": 3,
    }  # fmt: skip
    if store:
        p.sync(LD, ST, 0)
        p.issue("dma.store", **fields)
        sram = run_with_sram_dump(p, LD, 256)
    else:
        p.sync(LD, LD, 0)
        p.issue("dma.load", **fields, keep=int(keep), fill=fill)
        sram = run_with_sram_dump(p, LD, 256)

    want_sram, want_hbm = before.copy(), source.copy()
    for at in itertools.product(*(range(n) for n in size)):
        valid = all(d[1] <= i < d[2] for i, d in zip(at, dims))
        steps = [vectors[k][i] if dims[k][3] else i for k, i in enumerate(at)]
        there = base + sum(int(i) * s for i, s in zip(steps, strides))
        here = sum(i * s for i, s in zip(at, sram_strides))
        if valid and store:
            want_hbm[there : there + width] = before[here : here + width]
        elif valid:
            want_sram[here : here + width] = source[there : there + width]
        elif not store and not keep:
            pattern = np.frombuffer(fill.to_bytes(8, "little"), np.uint8)
            want_sram[here : here + width] = pattern[:width]
    assert np.array_equal(sram, want_sram)
    assert np.array_equal(target, want_hbm)


def test_gather_and_scatter_skip_invalid_and_keep_the_last() -> None:
    p = Program()
    x = np.arange(100, 116, dtype=np.int16)
    out = np.zeros(8, np.int16)
    offsets = np.array([6, INVALID_OFFSET, 0, -2 + 32], np.int64)
    p.load(p.array("o", offsets), 0, 4, 8)
    p.sync(LD, LD, 0)
    a, b = p.array("x", x), p.array("out", out)
    shape = {"elem_bytes": 2, "ndim": 2, "size": (2, 2), "offset": 0, "sram_stride": (8, 2)}
    p.issue("dma.gather", **shape, sram=64, hbm=a, fill=0xFFF9)
    back = np.array([4, 4, INVALID_OFFSET, 0], np.int64)
    p.load(p.array("back", back), 32, 4, 8)
    p.sync(LD, ST, 1)
    p.issue("dma.scatter", **{**shape, "offset": 32}, sram=64, hbm=b)
    sram = run_with_sram_dump(p, ST, 128).view(np.int16)
    assert sram[[32, 33, 36, 37]].tolist() == [103, -7, 100, 115]
    assert out.tolist() == [115, 0, -7, 0, 0, 0, 0, 0]


ATOMICS = [
    ("fp32", AtomicKind.FADD, "fadd"), ("fp16", AtomicKind.FADD, "fadd"),
    ("bf16", AtomicKind.FADD, "fadd"), ("fp32", AtomicKind.FMAX, "fmax"),
    ("fp16", AtomicKind.FMIN, "fmin"), ("int32", AtomicKind.IADD, "iadd"),
    ("int64", AtomicKind.SMAX, "smax"), ("int32", AtomicKind.SMIN, "smin"),
    ("int32", AtomicKind.UMAX, "umax"), ("uint32", AtomicKind.UMIN, "umin"),
    ("int32", AtomicKind.AND, "iand"), ("int32", AtomicKind.OR, "ior"),
    ("int32", AtomicKind.XOR, "ixor"), ("int32", AtomicKind.XCHG, None),
    ("int32", AtomicKind.CAS, None),
]  # fmt: skip


@pytest.mark.parametrize("name, kind, op", ATOMICS, ids=[f"{a[1].name}-{a[0]}" for a in ATOMICS])
def test_atomics_are_sequential(name: str, kind: AtomicKind, op: str | None) -> None:
    fmt = formats.by_name(name)
    width, count = fmt.bytes, 24
    rng = np.random.default_rng(int(kind))
    cells = rng.integers(-40, 40, 5)
    values = rng.integers(-40, 40, count)
    compare = rng.choice(cells, count)
    as_format = lambda a: (a / 7 if fmt.is_float else a).astype(fmt.storage)  # noqa: E731
    cells, values, compare = as_format(cells), as_format(values), as_format(compare)
    where = rng.integers(0, 5, count)
    offsets = np.where(np.arange(count) % 7 == 3, INVALID_OFFSET, where * width)

    p = Program()
    memory = cells.copy()
    m = p.array("m", memory)
    p.load(p.array("o", offsets.astype(np.int64)), 512, count, 8)
    p.load(p.array("v", values), 1024, count, width)
    p.load(p.array("c", compare), 2048, count, width)
    p.sync(LD, ST, 0)
    p.issue(
        "dma.atomic", elem_bytes=width, ndim=1, size=(count,), offset=512, sram=1024,
        sram_stride=(width,), hbm=m, kind=int(kind), fmt=fmt.code, compare=2048, old=0,
    )  # fmt: skip
    p.sync(ST, ST, 1)
    old = run_with_sram_dump(p, ST, count * width).view(fmt.storage)

    want, want_old = cells.copy(), np.zeros(count, fmt.storage)
    for i in range(count):
        if offsets[i] == INVALID_OFFSET:
            continue
        found = want[where[i]]
        want_old[i] = found
        if op is not None:
            pair = (np.array([found], fmt.storage), values[i : i + 1])
            want[where[i]] = elementwise.apply(op, fmt, fmt, *pair)[0]
        elif kind is AtomicKind.XCHG or found == compare[i]:
            want[where[i]] = values[i]
    assert memory.tobytes() == want.tobytes()
    assert old.tobytes() == want_old.tobytes()


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("accumulate", [0, 1])
def test_mma_walks_strides_and_batches(trans_a: int, trans_b: int, accumulate: int) -> None:
    batch, m, n, k = 2, 3, 4, 5
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (batch, m, k)).astype(np.float16)
    b = rng.integers(-4, 5, (batch, k, n)).astype(np.float16)
    d = rng.integers(-4, 5, (batch, m, n)).astype(np.float32)
    stored_a = np.ascontiguousarray(a.swapaxes(1, 2) if trans_a else a)
    stored_b = np.ascontiguousarray(b.swapaxes(1, 2) if trans_b else b)
    p = Program()
    p.load(p.array("d", d), 0, d.size)
    p.load(p.array("a", stored_a), 256, a.size, 2)
    p.load(p.array("b", stored_b), 512, b.size, 2)
    p.sync(LD, MM, 0)
    p.issue(
        "mma", fmt_a=CODE["fp16"], fmt_b=CODE["fp16"], fmt_d=CODE["fp32"], trans_a=trans_a,
        trans_b=trans_b, accumulate=accumulate, batch=batch, m=m, n=n, k=k,
        a=256, lda=stored_a.strides[1], batch_a=stored_a.strides[0],
        b=512, ldb=stored_b.strides[1], batch_b=stored_b.strides[0],
        d=0, ldd=4 * n, batch_d=4 * n * m,
    )  # fmt: skip
    got = run_with_sram_dump(p, MM, d.nbytes).view(np.float32).reshape(d.shape)
    want = a.astype(np.float32) @ b.astype(np.float32) + accumulate * d
    assert np.array_equal(got, want)


def test_mma_without_k_clears_the_accumulator() -> None:
    p = Program()
    shape = {"fmt_a": CODE["fp16"], "fmt_b": CODE["fp16"], "fmt_d": CODE["fp32"], "batch": 1}
    p.issue("mma", **shape, m=2, n=3, d=0, ldd=16, accumulate=0)
    p.issue("mma", **shape, m=2, n=3, d=0, ldd=16, accumulate=1)
    words = run_with_sram_dump(p, MM, 32).view(np.uint32)
    assert words.tolist() == [0, 0, 0, 0xFFFFFFFF] * 2


def test_vexec_broadcasts_scalars_constants_indices_and_works_in_place() -> None:
    """out0[i, j] = in0[i, j] * s + in1[j]; out1[i, j] = in0[i, j] (transposed, over in0); out2 = i*10 + j."""
    bf16, i32 = "bf16", "int32"
    ten = MicroOp("const", i32, i32, 8, (), 10)
    program = VectorProgram(
        (bf16, bf16), (bf16,), (bf16, bf16, i32),
        (
            MicroOp("in", bf16, bf16, 0, (), 0),
            MicroOp("in", bf16, bf16, 1, (), 1),
            MicroOp("scalar", bf16, bf16, 2, (), 0),
            MicroOp("ffma", bf16, bf16, 3, (0, 2, 1)),
            MicroOp("index", i32, i32, 6, (), 0), MicroOp("index", i32, i32, 7, (), 1), ten,
            MicroOp("imul", i32, i32, 6, (6, 8)), MicroOp("iadd", i32, i32, 6, (6, 7)),
            MicroOp("out", bf16, bf16, 0, (3,), 0), MicroOp("out", bf16, bf16, 0, (0,), 1),
            MicroOp("out", i32, i32, 0, (6,), 2),
        ),
    )  # fmt: skip
    a = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    b = np.array([100, 200, 300, 400]).astype(ml_dtypes.bfloat16)
    p = Program()
    p.load(p.array("a", a), 0, 12, 2)
    p.load(p.array("b", b), 128, 4, 2)
    p.sync(LD, VE, 0)
    scale = int(np.array(2.0, ml_dtypes.bfloat16).view(np.uint16))
    p.vexec(
        program, (3, 4), (0, 128), ((8, 2), (0, 2)), (0, 64, 192), ((8, 2), (2, 6), (16, 4)),
        scalars=1, scalar=(scale,),
    )  # fmt: skip
    sram = run_with_sram_dump(p, VE, 256)
    got = sram[:24].view(ml_dtypes.bfloat16).reshape(3, 4).astype(np.float32)
    assert np.array_equal(got, (a.astype(np.float32) * 2 + b.astype(np.float32)))
    assert np.array_equal(sram[64:88].view(ml_dtypes.bfloat16).reshape(4, 3), a.T)
    want = np.arange(3)[:, None] * 10 + np.arange(4)
    assert np.array_equal(sram[192:240].view(np.int32).reshape(3, 4), want)


def test_vexec_cleans_computed_nans_and_keeps_moved_ones() -> None:
    ops = (
        MicroOp("in", "fp32", "fp32", 0, (), 0),
        MicroOp("out", "fp32", "fp32", 0, (0,), 0),
        MicroOp("fsub", "fp32", "fp32", 1, (0, 0)),
        MicroOp("fneg", "fp32", "fp32", 1, (1,)),
        MicroOp("out", "fp32", "fp32", 0, (1,), 1),
    )
    program = VectorProgram(("fp32",), (), ("fp32", "fp32"), ops)
    bits = np.array([0xFFC12345, 0x7F800000, 0x7FC00001], np.uint32)
    p = Program()
    p.load(p.array("x", bits), 0, 3, 4)
    p.sync(LD, VE, 0)
    p.vexec(program, (3,), (0,), ((4,),), (64, 128), ((4,), (4,)))
    dump = run_with_sram_dump(p, VE, 140).view(np.uint32)
    assert dump[16:19].tolist() == bits.tolist()
    assert dump[32:35].tolist() == [0x7FC00000] * 3


def test_reduce_and_arg_reduce_and_scan() -> None:
    x = np.array([[3, 9, 2, 9], [-1, -7, 5, 0]], np.int32)
    p = Program()
    p.load(p.array("x", x), 0, 8)
    p.sync(LD, VE, 0)
    shape = {"fmt": CODE["int32"], "ndim": 2, "size": (2, 4), "in_": 0, "in_stride": (16, 4)}
    p.issue("reduce", kind=int(ReduceKind.ISUM), **shape, axis=0, out=64, out_stride=(0, 4))
    p.issue(
        "reduce", kind=int(ReduceKind.SMAX), **shape, axis=1, out=96, out_stride=(8, 0), arg=128,
        arg_stride=(4, 0),
    )  # fmt: skip
    p.issue("reduce", kind=int(ReduceKind.SMIN), **shape, axis=1, arg=136, arg_stride=(4, 0))
    p.issue(
        "scan", kind=int(ReduceKind.ISUM), **shape, axis=1, out=160, out_stride=(16, 4), reverse=1
    )
    words = run_with_sram_dump(p, VE, 192).view(np.int32)
    assert words[16:20].tolist() == [2, 2, 7, 9]
    assert words[[24, 26]].tolist() == [9, 5]
    assert words[32:36].tolist() == [1, 2, 2, 1]
    assert np.array_equal(words[40:48].reshape(2, 4), x[:, ::-1].cumsum(axis=1)[:, ::-1])


def test_open_fields_patch_scalars_and_array_entries() -> None:
    p = Program()
    x = np.arange(16, dtype=np.int8)
    out = np.full(4, -1, np.int8)
    a, b = p.array("x", x), p.array("out", out)
    p.issue(
        "dma.load", elem_bytes=1, ndim=2, size=(2, 2), hbm_stride=(0, 1), sram_stride=(2, 1),
        hi=(2, 0), open=(("hbm", a), ("hi.1", 2), ("hbm_stride.0", -4), ("sram", 32)),
    )  # fmt: skip
    p.operands[0] = a + 8
    p.sync(LD, ST, 0)
    p.store(32, b, 4, 1)
    p.run()
    assert out.tolist() == [8, 9, 4, 5]
