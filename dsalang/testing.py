"""Measuring kernels and comparing arrays, with the names of `triton.testing`."""

from __future__ import annotations

from dsalang._jit.testing import (
    Benchmark,
    Mark,
    assert_close,
    do_bench,
    do_bench_cudagraph,
    perf_report,
)
from dsalang._jit.testing_rates import (
    cuda_memcheck,
    get_dram_gbps,
    get_max_simd_tflops,
    get_max_tensorcore_tflops,
    nvsmi,
    set_gpu_clock,
)

do_bench_proton = do_bench
do_bench_cudagraph_proton = do_bench_cudagraph

__all__ = [
    "Benchmark", "Mark", "assert_close", "cuda_memcheck", "do_bench", "do_bench_cudagraph", "do_bench_cudagraph_proton",
    "do_bench_proton", "get_dram_gbps", "get_max_simd_tflops", "get_max_tensorcore_tflops", "nvsmi", "perf_report", "set_gpu_clock",
]  # fmt: skip
