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

__all__ = ["Benchmark", "Mark", "assert_close", "do_bench", "do_bench_cudagraph", "perf_report"]
