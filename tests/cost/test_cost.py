"""Costs against figures worked out by hand, and properties that hold for every target."""

from __future__ import annotations

import dataclasses
import itertools
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsalang._backend import cost, formats
from dsalang._backend.isa.table import BY_NAME, MAX_DMA_DIMS, NONE, OPCODES, Engine, Instruction
from dsalang._backend.isa.vprog import MicroOp, VectorProgram
from dsalang._backend.target import Target

EDGE = Target.by_name("edge")
CODE = {name: fmt.code for name, fmt in formats.OPERANDS.items()}


def box(size: tuple[int, ...], stride: tuple[int, ...], **changes: object) -> cost.Fields:
    fields = {"elem_bytes": 2, "ndim": len(size), "size": size, "hbm_stride": stride}
    return cost.complete("dma.load", {**fields, "hi": size, **changes})


def test_every_opcode_has_a_cost() -> None:
    assert list(cost.COSTS) == [op.name for op in OPCODES]


@pytest.mark.parametrize("fields, run, runs", [
    (box((64,), (2,)), 64, 1),
    (box((64,), (4,)), 1, 64),
    (box((64,), (-2,)), 1, 64),
    (box((8, 64), (128, 2)), 512, 1),
    (box((8, 64), (256, 2)), 64, 8),
    (box((8, 64), (2, 128)), 8, 64),
    (box((8, 64), (2, 16)), 512, 1),
    (box((4, 8, 64), (16, 2, 64)), 2048, 1),
    (box((8, 64), (128, 2), hi=(8, 63)), 63, 8),
    (box((8, 64), (128, 2), lo=(2, 0)), 384, 1),
    (box((8, 64), (128, 2), lo=(-5, 0), hi=(99, 64)), 512, 1),
    (box((8, 64), (128, 2), hi=(8, 0)), 0, 0),
    (box((8, 64), (128, 2), hi=(-1, 64)), 0, 0),
    (box((1, 8, 1, 64), (4, 128, 6, 2)), 512, 1),
    (box((8, 64), (128, 2), index=(0, NONE)), 64, 8),
    (box((8, 64), (128, 2), index=(NONE, 0)), 1, 512),
    (box((), ()), 1, 1),
])  # fmt: skip
def test_contiguous_runs(fields: cost.Fields, run: int, runs: int) -> None:
    assert cost.contiguous_run(fields) == (run, runs)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.data())
def test_runs_cover_the_box_and_are_contiguous(data: st.DataObject) -> None:
    ndim = data.draw(st.integers(0, 3))
    size = tuple(data.draw(st.integers(1, 4)) for _ in range(ndim))
    stride = tuple(data.draw(st.sampled_from([-2, 0, 2, 4, 6, 8, 16, 32])) for _ in range(ndim))
    lo = tuple(data.draw(st.integers(-1, n)) for n in size)
    hi = tuple(data.draw(st.integers(0, n + 1)) for n in size)
    fields = box(size, stride, lo=lo, hi=hi)
    run, runs = cost.contiguous_run(fields)
    lengths = [b - a for a, b in cost.valid_box(fields)]
    assert run * runs == prod(lengths)
    if run:
        steps = [np.arange(n) * s for n, s in zip(lengths, stride)]
        grids = np.meshgrid(*steps, indexing="ij") if steps else [np.zeros(1)]
        offsets = np.asarray(sum(grids)).reshape(lengths)
        walks = [
            offsets.transpose(order).reshape(runs, run)
            for order in itertools.permutations(range(ndim))
        ]
        assert any((np.diff(walk, axis=1) == 2).all() for walk in walks)


def test_dma_bytes_round_up_per_run() -> None:
    assert EDGE.hbm.burst_bytes == 64
    assert cost.dma_bytes("dma.load", box((64,), (2,)), EDGE) == 128
    assert cost.dma_bytes("dma.load", box((8, 33), (256, 2)), EDGE) == 8 * 128
    assert cost.dma_bytes("dma.store", box((8,), (4,)), EDGE) == 8 * 64
    gather = cost.complete("dma.gather", {"elem_bytes": 8, "ndim": 2, "size": (3, 5)})
    assert cost.dma_bytes("dma.gather", gather, EDGE) == 15 * 64
    assert cost.dma_bytes("dma.gather", gather, EDGE, valid=4) == 4 * 64


@settings(derandomize=True, deadline=None)
@given(st.integers(0, 1 << 40), st.integers(1, 4096), st.integers(1, 1 << 45))
def test_transfer_cycles_are_the_exact_ceiling(bytes_: int, cores: int, rate: int) -> None:
    hbm = dataclasses.replace(EDGE.hbm, bytes_per_second=rate)
    target = dataclasses.replace(EDGE, hbm=hbm)
    exact = bytes_ / target.hbm_bytes_per_cycle(cores)
    cycles = cost.transfer_cycles(bytes_, target, cores)
    assert cycles - 1 < exact <= cycles


def mma(a: str, b: str, m: int, n: int, k: int, batch: int = 1) -> int:
    fields = {"fmt_a": CODE[a], "fmt_b": CODE[b], "m": m, "n": n, "k": k, "batch": batch}
    return cost.compute_cycles("mma", cost.complete("mma", fields), None, EDGE)


def test_mma_counts_native_blocks() -> None:
    # edge: 16×16 native, fp16 4096 MACs/cycle, so k = 16; fp8 k = 32; fp32 k = 4.
    assert mma("fp16", "fp16", 256, 256, 256) == 32 + 16**3
    assert mma("fp16", "fp16", 1, 17, 1, batch=3) == 32 + 3 * 2
    assert mma("fp8e4m3", "fp8e4m3", 16, 16, 64) == 32 + 2
    assert mma("fp8e4m3", "fp16", 16, 16, 64) == 32 + 4
    assert mma("fp32", "fp32", 16, 16, 64) == 32 + 16
    assert mma("fp4e2m1", "int4", 16, 16, 65) == 32 + 2  # k = 64
    assert mma("bf16", "int4", 16, 16, 64) == 32 + 4
    with pytest.raises(KeyError):
        mma("int32", "int32", 16, 16, 16)


def vexec(program: VectorProgram, *size: int) -> int:
    fields = cost.complete("vexec", {"ndim": len(size), "size": size})
    return cost.compute_cycles("vexec", fields, program, EDGE)


def test_vexec_sums_micro_ops_and_never_beats_one_pass() -> None:
    source = MicroOp("in", "fp16", "fp16", 0, (), 0)
    widen = MicroOp("fcvt", "fp32", "fp16", 1, (0,))
    exp = MicroOp("fexp", "fp32", "fp32", 1, (1,))
    erf = MicroOp("ferf", "fp32", "fp32", 1, (1,))
    narrow = MicroOp("fcvt", "fp16", "fp32", 1, (1,))
    sink = MicroOp("out", "fp16", "fp16", 0, (1,), 0)
    program = VectorProgram(("fp16",), (), ("fp16",), (source, widen, exp, erf, narrow, sink))
    # 1000 points of 4 bytes over 512 bytes/cycle: 8 cycles per cheap op; medium 4×, costly 8×.
    assert vexec(program, 10, 100) == 16 + 8 * (1 + 4 + 8 + 1)
    copy = VectorProgram(
        ("fp32",), (), ("fp16",),
        (dataclasses.replace(source, fmt="fp32", src_fmt="fp32"), sink),
    )  # fmt: skip
    assert vexec(copy, 1000) == 16 + 8
    index = MicroOp("index", "int32", "int32", 0, (), 0)
    count = VectorProgram((), (), ("int32",), (index, dataclasses.replace(sink, fmt="int32")))
    assert vexec(count, 1000) == 16 + 8
    assert vexec(count) == 16 + 1


def test_reduce_and_scan() -> None:
    for op in ("reduce", "scan"):
        fields = cost.complete(op, {"fmt": CODE["fp16"], "ndim": 2, "size": (10, 100)})
        assert cost.compute_cycles(op, fields, None, EDGE) == 16 + 4


def test_take_is_as_wide_as_its_indices() -> None:
    shape = {"ndim": 1, "size": (1000,), "length": 7, "picks_fmt": CODE["int32"]}
    price = EDGE.vector.op_cycles["medium"]
    per = EDGE.vector.bytes_per_cycle
    for name, width in (("fp16", 4), ("int64", 8)):
        fields = cost.complete("take", {"fmt": CODE[name], **shape})
        passes = -(-1000 * width // per)
        assert (
            cost.compute_cycles("take", fields, None, EDGE)
            == EDGE.vector.startup_cycles + passes * price
        )


def test_issue_cycles() -> None:
    assert [cost.issue_cycles(n, EDGE) for n in (0, 1, 5)] == [8, 10, 18]


def test_cycles_alone_is_setup_and_transfer() -> None:
    fields = dict(box((1024,), (2,)))
    load = Instruction("dma.load", Engine.LD, fields)
    assert cost.cycles_alone(load, None, EDGE) == 32 + 32
    assert cost.cycles_alone(load, None, EDGE, active_cores=3) == 32 + 96
    assert cost.cycles_alone(Instruction("set", Engine.LD, {}), None, EDGE) == 0


def test_operations() -> None:
    fields = cost.complete("mma", {"m": 2, "n": 3, "k": 4, "batch": 5})
    assert cost.operations("mma", fields, None) == 240
    assert cost.operations("dma.load", box((4,), (2,)), None) == 0


def test_full_box_and_complete() -> None:
    assert cost.full_box(2, (3, 4, 0, 0, 0)) == {"lo": (0,) * 5, "hi": (3, 4, 0, 0, 0)}
    full = cost.complete("dma.load", {"size": (3,)})
    assert set(full) == set(BY_NAME["dma.load"].by_name)
    assert full["size"] == (3, 0, 0, 0, 0)
    assert full["index"] == (NONE,) * MAX_DMA_DIMS
