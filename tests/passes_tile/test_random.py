"""Random kernels mean the same before and after each pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, UnknownLoc

from dsalang._backend.passes.access import access
from dsalang._backend.passes.fuse import fuse
from dsalang._backend.passes.simplify import simplify

from .evaluate import Machine, run
from .random_ir import arguments, memory_image, random_kernel

PASSES: dict[str, list[Callable[[ModuleOp], None]]] = {
    "simplify": [simplify],
    "access": [access],
    "fuse": [fuse],
    "all": [simplify, access, fuse],
}


def outcome(module: ModuleOp, seed: int, program: tuple[int, int, int]) -> Machine:
    image = memory_image(seed)
    machine = Machine(len(image), program)
    machine.memory[:] = image
    run(module, arguments(seed), machine)
    return machine


def lost_locations(module: ModuleOp) -> list[str]:
    """Names of ops without a source location; kernels of `random_ir` give every op one."""
    (function,) = module.ops
    return [
        op.name
        for op in function.walk()
        if op is not function and isinstance(op.location, UnknownLoc)
    ]


def check(seed: int, passes: list[Callable[[ModuleOp], None]]) -> None:
    module = random_kernel(seed)
    programs = [(0, 0, 0), (2, 1, 3)]
    try:
        expected = [outcome(module, seed + n, p) for n, p in enumerate(programs)]
    except IndexError:
        return  # an address ran out of the arrays
    for run_pass in passes:
        run_pass(module)
        module.verify()
    assert lost_locations(module) == []
    for n, program in enumerate(programs):
        found = outcome(module, seed + n, program)
        assert np.array_equal(found.memory, expected[n].memory), (seed, program)
        assert found.log == expected[n].log, (seed, program)


@pytest.mark.parametrize("name", list(PASSES))
@settings(derandomize=True, deadline=None, max_examples=12)
@given(seed=st.integers(0, 2**31))
def test_passes_keep_meaning(name: str, seed: int) -> None:
    check(seed, PASSES[name])
