"""Placed, buffered and allocated kernels compute what numpy says, executed in order."""

from __future__ import annotations

import numpy as np
import pytest

from dsalang._backend.passes.allocate import allocate
from dsalang._backend.passes.buffer import buffer
from dsalang._backend.passes.place import place
from dsalang._backend.target import Target

from . import kernels
from .build import Memory, view_of
from .execute import Machine, run
from .validate import validate

CASES = {
    "vector_add": kernels.vector_add,
    "softmax": kernels.softmax,
    "matmul": kernels.matmul,
    "matmul_static": lambda: kernels.matmul(static=True),
    "matmul_transposed_b": lambda: kernels.matmul(transposed_b=True),
    "matmul_k0": lambda: kernels.matmul(kk=0),
}


def check(case: kernels.Case, target: Target | None = None, allocated: bool = True) -> Machine:
    """Compile and run a case, and compare the arrays it changes."""
    target = target or Target.by_name("edge")
    module = case.module()
    place(module, target)
    module.verify()
    if allocated:
        buffer(module, target)
        allocate(module, target)
        module.verify()
    validate(module, target, allocated)
    memory = Memory()
    addresses = [memory.put(a) if isinstance(a, np.ndarray) else a for a in case.args]
    machine = Machine(memory.bytes(), case.grid)
    run(module, machine, addresses)
    for number, expected in case.expected.items():
        found = view_of(machine.hbm, addresses[number], case.args[number])
        np.testing.assert_allclose(
            found.astype(np.float64), expected.astype(np.float64), rtol=1e-3, atol=1e-3
        )
    return machine


@pytest.mark.parametrize("allocated", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_runs(name: str, allocated: bool) -> None:
    check(CASES[name](), allocated=allocated)
