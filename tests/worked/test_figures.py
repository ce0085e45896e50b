"""The worked figures of the design, on kernels compiled from Python: time, SRAM, traffic of intermediates."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang import CompiledKernel, SramOverflowError, Target

EDGE = Target.by_name("edge")
KIB = 1024
MICROSECOND = 1000
"""Cycles at 1000 MHz."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


# Ten tiles: compute 100 µs each, a transfer of 60 or 120 µs each.

TILE = 6000


@dsa.jit
def ten_tiles(x, out, n, TILE: tl.constexpr, SQUARES: tl.constexpr):
    at = tl.arange(0, TILE)
    total = tl.zeros((TILE,), tl.float32)
    for i in range(10):
        y = tl.load(x + i * TILE + at)
        for _ in tl.static_range(0, SQUARES):
            y = y * y
        total = total + y
    tl.store(out + at, total, mask=at < n)


def free_machine(transfer_us: int, compute_us: int, operations: int) -> Target:
    """Nothing costs anything but a tile's transfer and its arithmetic."""
    rate = 4 * TILE * 1_000_000 // transfer_us
    width = 4 * TILE * operations // (compute_us * MICROSECOND)
    assert width * compute_us * MICROSECOND == 4 * TILE * operations
    return dataclasses.replace(
        EDGE,
        hbm=dataclasses.replace(EDGE.hbm, bytes_per_second=rate, latency_cycles=0, burst_bytes=1),
        dma=dataclasses.replace(EDGE.dma, setup_cycles=0),
        vector=dataclasses.replace(EDGE.vector, startup_cycles=0, bytes_per_cycle=width),
        scalar=dataclasses.replace(EDGE.scalar, issue_cycles=0, operand_cycles=0, read_cycles=0),
    )


@pytest.mark.parametrize(
    ("slots", "transfer", "total"), [(1, 60, 1600), (2, 60, 1060), (1, 120, 2200), (2, 120, 1300)]
)
def test_ten_tiles(slots: int, transfer: int, total: int) -> None:
    squares = 24
    target = free_machine(transfer, 100, squares + 1)
    x, out = np.zeros(10 * TILE, np.float32), np.ones(TILE, np.float32)
    run = ten_tiles[(1,)](
        x, out, 0, TILE=TILE, SQUARES=squares, num_stages=slots, target=target, timeline=True
    )
    loads = [ring for ring in run.image.rings if ring.label == "y"]
    assert [ring.slots for ring in loads] == [slots]
    first = min(event.start for event in run.cores[0].events)
    print(f"{slots} slot(s), DMA {transfer} µs: {run.microseconds:g} µs")
    assert first == 0 and run.microseconds == total


# One tile of a matrix product: A, B in fp16, the accumulator in fp32.


@dsa.jit
def product(a, b, c, M, N, K, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k0 in range(0, K, B):
        k = k0 + tl.arange(0, B)
        left = tl.load(a + m[:, None] * K + k[None, :])
        right = tl.load(b + k[:, None] * N + n[None, :])
        acc = tl.dot(left, right, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


def compiled(block: int, sram: int, num_stages: int | None = None) -> CompiledKernel:
    target = dataclasses.replace(EDGE, sram_bytes=sram)
    found: CompiledKernel = product.compile(
        "*fp16:16, *fp16:16, *fp32:16, i32:16, i32:16, i32:16",
        constants={"B": block}, target=target, num_stages=num_stages,
    )  # fmt: skip
    return found


@pytest.mark.parametrize(("block", "single"), [(64, 32), (256, 512), (512, 2048)])
def test_sram_of_a_product(block: int, single: int) -> None:
    once = compiled(block, single * KIB, num_stages=1)
    assert once.image.sram_bytes == single * KIB
    assert all(ring.slots == 1 for ring in once.image.rings)
    twice = compiled(block, 2 * single * KIB, num_stages=2)
    assert twice.image.sram_bytes == 2 * single * KIB
    assert all(ring.slots == 2 for ring in twice.image.rings)
    print(f"{block}³: {single} KiB single, {2 * single} KiB double-buffered")


@pytest.mark.parametrize(("block", "single"), [(64, 32), (256, 512), (512, 2048)])
def test_a_byte_less_is_not_enough(block: int, single: int) -> None:
    with pytest.raises(SramOverflowError):
        compiled(block, single * KIB - 64, num_stages=1)
    with pytest.raises(SramOverflowError, match="num_stages=2"):
        compiled(block, single * KIB, num_stages=2)


# gelu(x @ w + b) as three kernels and as one.


@dsa.jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@dsa.jit
def linear(x, w, bias, y, N, K, B: tl.constexpr, FUSED: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k0 in range(0, K, B):
        k = k0 + tl.arange(0, B)
        left = tl.load(x + m[:, None] * K + k[None, :])
        right = tl.load(w + k[:, None] * N + n[None, :])
        acc = tl.dot(left, right, acc)
    if FUSED:
        acc = gelu(acc + tl.load(bias + n).to(tl.float32)[None, :])
    tl.store(y + m[:, None] * N + n[None, :], acc.to(tl.float16))


@dsa.jit
def add_bias(y, bias, N, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    at = y + m[:, None] * N + n[None, :]
    tl.store(at, tl.load(at) + tl.load(bias + n)[None, :])


@dsa.jit
def apply_gelu(y, N, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    at = y + m[:, None] * N + n[None, :]
    tl.store(at, gelu(tl.load(at).to(tl.float32)).to(tl.float16))


def moved(runs: list[Any], name: str) -> int:
    """Bytes of one array read and written."""
    return sum(run.hbm[name].read + run.hbm[name].written for run in runs if name in run.hbm)


def test_intermediates_of_a_fused_layer() -> None:
    m, n, k, block = 128, 192, 64, 64
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    bias, y = rng.standard_normal(n).astype(np.float16), np.zeros((m, n), np.float16)
    grid = (m // block, n // block)
    fused = linear[grid](x, w, bias, y, n, k, B=block, FUSED=True)
    separate = [
        linear[grid](x, w, bias, y, n, k, B=block, FUSED=False),
        add_bias[grid](y, bias, n, B=block),
        apply_gelu[grid](y, n, B=block),
    ]
    tile = y.nbytes
    intermediates = [moved(runs, "y") - tile for runs in (separate, [fused])]
    print(f"intermediates: {intermediates[0] // tile} T as three kernels, {intermediates[1]} fused")
    assert intermediates == [4 * tile, 0]
    assert sum(run.hbm_bytes for run in separate) - fused.hbm_bytes == 4 * tile
