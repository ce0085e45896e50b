"""Random kernels through sync, check and lower on the reference engine, which checks races and garbage."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr

from dsalang._backend.errors import SramOverflowError
from dsalang._backend.passes.allocate import allocate
from dsalang._backend.passes.buffer import buffer
from dsalang._backend.passes.check import check
from dsalang._backend.passes.lower import lower
from dsalang._backend.passes.place import place
from dsalang._backend.passes.sync import sync
from dsalang._backend.target import Target
from dsalang._runtime.memory import Memory, Segment
from dsalang._runtime.reference.engine import run

from .interpret import interpret
from .plans import use_random_plans
from .random_kernel import Random

BASE = 1 << 16


def compare(seed: int, target: Target) -> None:
    """Interpret the tile IR and run the image; the whole output must agree."""
    rng = np.random.default_rng(3)
    x, out = rng.integers(-50, 50, 64).astype(np.int32), np.zeros(256, np.int32)
    args, grid = [BASE, 2 * BASE, 5], (2, 1, 1)
    flat = np.zeros(2 * BASE + out.nbytes, np.uint8)
    flat[BASE : BASE + x.nbytes] = x.view(np.uint8)
    interpret(Random(random.Random(seed).randrange).module(), flat, args, grid)
    expected = flat[2 * BASE :].view(np.int32)

    module = Random(random.Random(seed).randrange).module()
    (kernel,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    kernel.attributes["dsa.formats"] = ArrayAttr(
        [StringAttr(name) for name in ("*int32", "*int32", "int32")]
    )
    place(module, target)
    buffer(module, target)
    allocate(module, target)
    sync(module, target)
    check(module, target)
    memory = Memory(
        [
            Segment(BASE, x.view(np.uint8), "x", True),
            Segment(2 * BASE, out.view(np.uint8), "out", True),
        ]
    )
    run(lower(module, target), target, args, grid, memory)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("sram_bytes", [1 << 20, 1 << 12])
@pytest.mark.parametrize("first", [1000, 1010])
def test_random_kernels_on_the_engine(
    first: int, sram_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = dataclasses.replace(Target.by_name("edge"), sram_bytes=sram_bytes)
    use_random_plans(monkeypatch, first)
    for seed in range(first, first + 10):
        try:
            compare(seed, target)
        except SramOverflowError:
            assert sram_bytes == 1 << 12
        except Exception as error:
            raise AssertionError(f"seed {seed} with {sram_bytes} bytes of SRAM") from error
