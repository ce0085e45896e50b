"""The rehearsal tells good slots and addresses from bad ones."""

from __future__ import annotations

import dataclasses

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from dsalang._backend.passes.buffer import buffer
from dsalang._backend.passes.buffer_model import UNKNOWN_TRIPS, Work
from dsalang._backend.passes.buffer_rehearsal import Rehearsal
from dsalang._backend.passes.place import place
from dsalang._backend.passes.sram import fit, ring_uses
from dsalang._backend.target import Target

from . import kernels

EDGE = Target.by_name("edge")


def estimate(module: ModuleOp, slots: list[int], addresses: list[int] | None = None) -> float:
    """Cycles of UNKNOWN_TRIPS programs."""
    place(module, EDGE)
    (kernel,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    uses = ring_uses(kernel)
    addresses = addresses or fit(uses, slots, EDGE)
    assert addresses is not None
    return Rehearsal(kernel, uses, Work(EDGE)).cycles(slots, addresses)


def add() -> ModuleOp:
    return kernels.vector_add(n=1 << 16, block=4096).module()


def test_more_slots_are_faster_until_memory_bandwidth_is_the_limit() -> None:
    single, double, many = (estimate(add(), [n, n, n]) for n in (1, 2, 8))
    limit = UNKNOWN_TRIPS * 3 * 4096 * 4 / 64
    assert single > 1.3 * double
    assert limit <= many <= double
    assert many < 1.15 * limit


def test_a_shared_address_costs_the_overlap() -> None:
    size = 4096 * 4
    apart = estimate(add(), [2, 2, 2], [0, 2 * size, 4 * size])
    shared = estimate(add(), [2, 2, 2], [0, 2 * size, 0])
    assert shared > 1.2 * apart


def test_scarce_memory_goes_to_what_shortens_the_run_without_sharing() -> None:
    """128 KiB hold the accumulator (64) and both loads twice (32 each)."""
    module = kernels.matmul(m=512, n=512, kk=512, bm=128, bn=128, bk=64, static=True).module()
    target = dataclasses.replace(EDGE, sram_bytes=128 * 1024)
    place(module, target)
    buffer(module, target)
    (kernel,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    uses = ring_uses(kernel)
    slots = {use.ring.label.data: use.ring.slots.value.data for use in uses}
    assert slots == {"fused": 1, "a": 2, "b": 2}
    assert fit(uses, list(slots.values()), target, levels=1) is not None
