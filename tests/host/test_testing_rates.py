"""Rates of the machine by Triton's names."""

from __future__ import annotations

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang import testing
from dsalang._backend.errors import LaunchError


def test_rates_are_those_of_the_target():
    target = dsa.Target.by_name("edge")
    assert testing.get_dram_gbps() == pytest.approx(target.hbm.bytes_per_second / 1e9)
    per_second = target.cores * target.clock_mhz * 1e6
    fp16 = testing.get_max_tensorcore_tflops(tl.float16)
    assert fp16 == pytest.approx(2 * target.tensor.macs_per_cycle["fp16"] * per_second / 1e12)
    lanes = target.vector.bytes_per_cycle / 4
    assert testing.get_max_simd_tflops(np.dtype("float32")) == pytest.approx(
        lanes * per_second / 1e12
    )
    assert testing.nvsmi(["clocks.max.sm"]) == [target.clock_mhz]
    with testing.set_gpu_clock() as (flops, bandwidth):
        assert (flops, bandwidth) == (fp16, testing.get_dram_gbps())


def test_what_is_no_number_is_refused():
    with pytest.raises(LaunchError, match="no number type"):
        testing.get_max_simd_tflops("float12")
    with pytest.raises(LaunchError, match="property of GPUs"):
        testing.nvsmi(["power.draw"])
    with pytest.raises(LaunchError, match="does not take"):
        testing.get_max_tensorcore_tflops(tl.int64)


def test_memcheck_changes_nothing():
    def checked():
        return 3

    assert testing.cuda_memcheck(target_kwargs={})(checked) is checked
