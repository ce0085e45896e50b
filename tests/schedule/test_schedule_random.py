"""Random kernels with a static schedule: the same bits as with flags, the promised cycles, and not more of them."""

from __future__ import annotations

from random import Random

import numpy as np
from e2e.random_runs import copy_of, data_of, defined, launch_of, same_bits, tiny_target
from e2e.random_text import write_kernel
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import dsalang as dsa
from dsalang._backend.isa.table import BY_NAME
from dsalang._backend.target import Target
from dsalang._jit.schedule import fixed
from dsalang._runtime.reference.options import Options


def check(seed: int, target: Target) -> str:
    """A word for what came of it: the same, refused, or too big for the SRAM."""
    kernel = write_kernel(Random(seed))
    note(f"python tests/e2e/random_kernels.py --only {seed}\n{kernel.text}")
    arrays = data_of(kernel, seed)
    with defined(kernel.text) as function, np.errstate(all="ignore"):
        plain, got = copy_of(kernel, arrays), copy_of(kernel, arrays)
        launch = launch_of(function, kernel, plain)
        try:
            image = launch.image(target)
        except dsa.CompileError:
            return "too big"
        flags = launch.run(image, target, Options(timeline=False))
        launch = launch_of(function, kernel, got)
        launch.spec = fixed(launch.spec, launch.arguments, launch.grid)
        try:
            static = launch.image(target)
        except dsa.CompileError as error:
            assert error.loc is not None
            return "refused"
        cycles = launch.run(static, target, Options(timeline=False))
        same_bits(plain, got, "static")
        assert static.timing is not None
        elements = any("offset" in BY_NAME[t.instruction.op].by_name for t in static.templates)
        # How many elements are masked off is data.
        most = max(flags, *static.timing.dynamic) if elements else flags
        assert max(static.timing.bound) <= cycles <= most
        return "same"


@settings(
    max_examples=12, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_random_kernels(seed: int, tiny: bool) -> None:
    check(seed, tiny_target(Random(seed)) if tiny else Target.by_name("edge"))
