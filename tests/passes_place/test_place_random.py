"""Random kernels: placed, buffered and allocated they compute what the tile IR says, bit for bit."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from dsalang._backend.errors import SramOverflowError
from dsalang._backend.passes.allocate import allocate
from dsalang._backend.passes.buffer import buffer
from dsalang._backend.passes.hoist import hoist
from dsalang._backend.passes.place import place
from dsalang._backend.passes.skew import skew
from dsalang._backend.target import Target

from .build import Memory
from .execute import Machine, run
from .interpret import interpret
from .plans import use_random_plans
from .random_kernel import Random
from .validate import validate

SEARCHED = 13
"""A kernel that needs more than 4 KiB for the slots it wants."""


def build(seed: int) -> ModuleOp:
    """The random kernel of a seed."""
    source = random.Random(seed)
    return Random(source.randrange).module()


def compare(seed: int, target: Target) -> None:
    """Interpreting the tile IR and running the placed kernel leave the same memory."""
    memory = Memory()
    rng = np.random.default_rng(3)
    x = memory.put(rng.integers(-50, 50, 64).astype(np.int32))
    out = memory.put(np.zeros(256, np.int32))
    args, grid = [x, out, 5], (2, 1, 1)
    expected = memory.bytes()
    interpret(build(seed), expected, args, grid)
    module = build(seed)
    place(module, target)
    hoist(module, target)
    skew(module, target)
    module.verify()
    buffer(module, target)
    allocate(module, target)
    validate(module, target, True)
    machine = Machine(memory.bytes(), grid)
    run(module, machine, args)
    np.testing.assert_array_equal(machine.hbm.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("sram_bytes", [1 << 20, 1 << 12])
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_kernels(first: int, sram_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target = dataclasses.replace(Target.by_name("edge"), sram_bytes=sram_bytes)
    plans = use_random_plans(monkeypatch, first)
    for seed in range(first, first + 20):
        try:
            compare(seed, target)
        except SramOverflowError:
            assert sram_bytes == 1 << 12
        except Exception as error:
            raise AssertionError(f"seed {seed} with {sram_bytes} bytes of SRAM") from error
    assert plans.chosen > 0


def test_random_kernel_with_the_plan_of_a_search() -> None:
    compare(SEARCHED, dataclasses.replace(Target.by_name("edge"), sram_bytes=1 << 12))
