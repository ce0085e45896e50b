"""Where SRAM is short, no random plan of slots and addresses beats the one that is chosen."""

from __future__ import annotations

import dataclasses
import random

import pytest
from xdsl.dialects import func

from dsalang._backend.alloc.pack import first_fit, peak
from dsalang._backend.passes.buffer import buffer
from dsalang._backend.passes.buffer_trial import Trial
from dsalang._backend.passes.place import place
from dsalang._backend.passes.sram import LIVES, buffers, ring_uses
from dsalang._backend.target import Target

from . import kernels

EDGE = Target.by_name("edge")


@pytest.mark.parametrize("kib", [112, 128, 144, 176])
def test_no_random_plan_is_faster(kib: int) -> None:
    module = kernels.matmul(m=512, n=512, kk=512, bm=128, bn=128, bk=64, static=True).module()
    target = dataclasses.replace(EDGE, sram_bytes=kib * 1024)
    place(module, target)
    (kernel,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    trial, uses = Trial(kernel, target), ring_uses(kernel)
    buffer(module, target)
    chosen = trial.cycles(
        [use.ring.slots.value.data for use in uses], [use.ring.address.value.data for use in uses]
    )
    rng, fitting = random.Random(kib), 0
    for _ in range(400):
        slots = [rng.randint(use.least, 3) for use in uses]
        problem = buffers(uses, slots, [rng.randrange(len(LIVES)) for _ in uses], target)
        rng.shuffle(problem)
        offsets = first_fit(problem)
        if peak(problem, offsets) <= target.sram_bytes and fitting < 12:
            fitting += 1
            addresses = [offsets[str(number)] for number in range(len(uses))]
            assert chosen <= 1.02 * trial.cycles(slots, addresses), (slots, addresses)
    assert fitting > 2
