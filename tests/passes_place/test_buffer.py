"""Slots of rings, and the errors of kernels that do not fit."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import SSAValue

from dsalang._backend.dialects import dsa
from dsalang._backend.errors import SramOverflowError
from dsalang._backend.passes.allocate import allocate
from dsalang._backend.passes.buffer import buffer
from dsalang._backend.passes.place import place
from dsalang._backend.passes.sram import ring_uses
from dsalang._backend.target import Target

from . import kernels
from .build import Kernel

EDGE = Target.by_name("edge")


def with_sram(kib: int) -> Target:
    return dataclasses.replace(EDGE, sram_bytes=kib * 1024)


def with_hbm(latency: int, gigabytes: int = 64) -> Target:
    hbm = dataclasses.replace(EDGE.hbm, latency_cycles=latency, bytes_per_second=gigabytes * 10**9)
    return dataclasses.replace(EDGE, hbm=hbm)


def rings(module: ModuleOp) -> dict[str, dsa.RingOp]:
    return {op.label.data: op for op in module.walk() if isinstance(op, dsa.RingOp)}


def slots(module: ModuleOp, target: Target, num_stages: int | None = None) -> dict[str, int]:
    place(module, target)
    buffer(module, target, num_stages)
    return {label: op.slots.value.data for label, op in rings(module).items()}


def matmul(bm: int = 128, bn: int = 128, bk: int = 64) -> ModuleOp:
    return kernels.matmul(m=512, n=512, kk=512, bm=bm, bn=bn, bk=bk, static=True).module()


def test_loads_are_at_least_double_buffered() -> None:
    found = slots(matmul(), EDGE)
    assert found["a"] >= 2 and found["b"] >= 2


def test_an_accumulator_that_leaves_its_loop_is_double_buffered_across_programs() -> None:
    assert slots(matmul(), EDGE)["fused"] == 2


def test_a_kernel_without_a_loop_is_double_buffered_across_programs() -> None:
    found = slots(kernels.vector_add(n=1 << 16, block=4096).module(), EDGE)
    assert min(found.values()) >= 2


def test_temporaries_of_one_engine_have_one_slot() -> None:
    module = kernels.softmax(rows=64, columns=4096, block=4096).module()
    place(module, EDGE)
    buffer(module, EDGE)
    (kernel,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    alone = [use for use in ring_uses(kernel) if len(use.engines) == 1]
    assert alone and all(use.ring.slots.value.data == 1 for use in alone)


def test_longer_latency_asks_for_more_slots_until_semaphores_or_memory_end() -> None:
    depths = [
        slots(kernels.vector_add(n=1 << 16, block=1024).module(), with_hbm(latency))["x"]
        for latency in (0, 400, 1600, 100_000)
    ]
    assert depths == sorted(depths) and depths[0] < depths[2]
    assert depths[-1] == EDGE.semaphore_max


def test_slots_shrink_with_the_memory_and_one_is_enough() -> None:
    full = slots(matmul(), EDGE)
    tight = slots(matmul(), with_sram(64 + 16 + 16 + 4))
    assert set(tight.values()) == {1}
    middle = slots(matmul(), with_sram(64 + 32 + 32 + 4))
    assert middle["a"] == middle["b"] == 2 and middle["fused"] == 1
    assert all(full[name] >= middle[name] for name in full)


def test_num_stages_at_launch_fixes_loads() -> None:
    found = slots(matmul(), EDGE, num_stages=1)
    assert (found["a"], found["b"]) == (1, 1)
    assert slots(matmul(), EDGE, num_stages=5)["a"] == 5


def test_num_stages_of_a_loop_wins() -> None:
    module = matmul()
    loop = next(op for op in module.walk() if op.name == "scf.for")
    loop.attributes["dsa.num_stages"] = IntegerAttr(3, i32)
    found = slots(module, EDGE, num_stages=1)
    assert (found["a"], found["b"]) == (3, 3)


def test_num_stages_that_does_not_fit_is_an_error_with_figures() -> None:
    with pytest.raises(SramOverflowError) as error:
        slots(matmul(), with_sram(256), num_stages=12)
    text = str(error.value)
    assert text.startswith("kernel.py:")
    assert "num_stages=12 needs 448 KiB" in text and "has 256 KiB" in text
    assert "16 KiB per stage" in text
    assert "at most num_stages=6 fits" in text


def test_overflow_shows_buffers_lines_capacity_and_what_to_do() -> None:
    with pytest.raises(SramOverflowError) as error:
        slots(matmul(256, 256, 64), with_sram(64))
    lines = str(error.value).splitlines()
    assert lines[0].startswith("kernel.py:")
    assert "need 320 KiB of SRAM at once, target 'edge' has 64 KiB" in lines[0]
    assert lines[1].split()[:4] == ["256", "KiB", "fused:", "256×256"]
    assert "kernel.py:" in lines[1]
    assert "8 times smaller" in str(error.value)


def test_addresses_stay_apart_while_memory_lasts() -> None:
    module = two_loops()
    place(module, EDGE)
    buffer(module, EDGE)
    allocate(module, EDGE)
    assert not sharing(module)


def test_loops_share_memory_when_they_must() -> None:
    module, target = two_loops(), with_sram(12)
    place(module, target)
    buffer(module, target)
    allocate(module, target)
    assert sharing(module)


def two_loops() -> ModuleOp:
    """Two loops one after the other, each with a tile of 4 KiB in and one out."""
    k = Kernel(x="*fp32", out="*fp32")

    def body(k: Kernel, i: SSAValue) -> list[SSAValue]:
        start = k.map("imul", i, k.const(1024))
        x = k.load("x", [1024], k.address("x", start, 4), [4])
        k.store("out", k.same("fneg", x), k.address("out", start, 4), [4])
        return []

    k.loop(k.const(0), k.const(8), [], body)
    k.loop(k.const(0), k.const(8), [], body)
    return k.module()


def sharing(module: ModuleOp) -> bool:
    """True when two rings have bytes in common."""
    spans = sorted(
        (op.address.value.data, op.address.value.data + op.bytes.value.data * op.slots.value.data)
        for op in module.walk()
        if isinstance(op, dsa.RingOp)
    )
    return any(end > start for (_, end), (start, _) in itertools.pairwise(spans))
