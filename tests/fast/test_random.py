"""Random kernels on the fast and on the reference engine: same bits, same figures, same timeline."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from e2e.random_runs import data_of, defined, launch_of, tiny_target
from e2e.random_text import write_kernel

from dsalang._backend.errors import SramOverflowError
from dsalang._backend.target import Target
from dsalang._jit.launch import argument_bits, memory_of

from .compare import both


@pytest.mark.parametrize("seed", range(8))
def test_same(seed: int) -> None:
    kernel = write_kernel(Random(seed))
    target = tiny_target(Random(seed)) if seed % 2 else Target.by_name("edge")
    with defined(kernel.text) as function, np.errstate(all="ignore"):
        launch = launch_of(function, kernel, data_of(kernel, seed))
        try:
            image = launch.image(target)
        except SramOverflowError:
            return
        values = [argument_bits(launch.arguments, a.name) for a in image.arguments]
        both(image, target, values, launch.grid, memory_of(launch.arguments))
