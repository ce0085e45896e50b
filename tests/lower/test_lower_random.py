"""Random kernels: the RV64 code, the host's code and a Python reading of the IR ask for the same things."""

from __future__ import annotations

import random

import pytest
from glue_machines import MOST_EVENTS, run_host, run_rv64
from glue_oracle import Oracle, spelled_out
from glue_random import random_kernel, random_launch

from dsalang._backend.dialects import parse_ir
from dsalang._backend.image.elf import load, save
from dsalang._backend.passes.lower import lower
from dsalang._backend.target import Target

EDGE = Target.by_name("edge")


@pytest.mark.parametrize("seed", range(40))
def test_three_readings_of_random_kernels_agree(seed):
    rng = random.Random(seed)
    module = parse_ir(random_kernel(rng))
    image = lower(module, EDGE)
    assert load(save(image)) == image
    for _ in range(3):
        launch = random_launch(rng)
        expected = Oracle(image, *launch).run(module)
        assert len(expected) < MOST_EVENTS
        host = run_host(image, *launch)
        assert spelled_out(image, host) == expected
        assert run_rv64(image, *launch) == host
