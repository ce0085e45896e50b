"""The main job, end to end: `make demo`, `dsa demo`.

y = gelu(x @ W + b) as one tile kernel on fp16 data, compiled for a target, run on the emulator, compared with
numpy in float64, and reported.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
from rich.console import Console

import dsalang as dsa

M, K, N = 512, 1024, 1024
BLOCKS = {"BM": 256, "BN": 512, "BK": 128}
SIGNATURE = "*fp16:16, *fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16"


@dsa.jit
def gelu(x):  # type: ignore[no-untyped-def]
    """Gelu with the error function, elementwise on a tile."""
    return 0.5 * x * (1.0 + dsa.erf(x * 0.7071067811865476))


@dsa.jit
def linear_gelu(  # type: ignore[no-untyped-def]
    x, w, bias, y, M, N, K, BM: dsa.constexpr, BN: dsa.constexpr, BK: dsa.constexpr
):
    """y[M, N] = gelu(x[M, K] @ w[K, N] + bias[N]), all fp16 and contiguous."""
    rows = dsa.program_id(0) * BM + dsa.arange(0, BM)
    cols = dsa.program_id(1) * BN + dsa.arange(0, BN)
    keep_rows, keep_cols = rows[:, None] < M, cols[None, :] < N
    acc = dsa.zeros((BM, BN), dtype=dsa.float32)
    for k in range(0, K, BK):
        inner = k + dsa.arange(0, BK)
        x_tile = dsa.load(
            x + rows[:, None] * K + inner[None, :],
            mask=keep_rows & (inner[None, :] < K),
            other=0.0,
        )
        w_tile = dsa.load(
            w + inner[:, None] * N + cols[None, :],
            mask=(inner[:, None] < K) & keep_cols,
            other=0.0,
        )
        acc = dsa.dot(x_tile, w_tile, acc)
    acc += dsa.load(bias + cols, mask=cols < N, other=0.0).to(dsa.float32)[None, :]
    y_at = y + rows[:, None] * N + cols[None, :]
    dsa.store(y_at, gelu(acc).to(dsa.float16), mask=keep_rows & keep_cols)


def main(target: str = "edge", output: str | Path | None = None) -> int:
    """Run the demo, print the report; the timeline goes to `output` (a file, default in the temp folder)."""
    console = Console()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((M, K)).astype(np.float16)
    w = (rng.standard_normal((K, N)) / math.sqrt(K)).astype(np.float16)
    bias = rng.standard_normal(N).astype(np.float16)
    y = np.zeros((M, N), np.float16)
    grid = (dsa.cdiv(M, BLOCKS["BM"]), dsa.cdiv(N, BLOCKS["BN"]))
    console.print(f"y = gelu(x @ W + b): {M}x{K} by {K}x{N}, fp16, target [bold]{target}[/]")

    cold, warm = _compile_times(target)
    run = linear_gelu[grid](x, w, bias, y, M, N, K, **BLOCKS, target=target)
    z = x.astype(np.float64) @ w.astype(np.float64) + bias
    exact = 0.5 * z * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))
    error = float(np.abs(y - exact).max())

    print(run.summary(color=console.is_terminal))
    path = Path(output or Path(tempfile.gettempdir()) / "dsalang-demo-timeline.json")
    run.timeline(path)
    console.print(f"max error against float64 numpy: {error:.2e}")
    console.print(f"{run.cycles:,} cycles = {run.microseconds:.1f} µs on {target}")
    console.print(f"compile: cold {cold * 1e3:.0f} ms, from the cache {warm * 1e3:.1f} ms")
    console.print(f"timeline: {path}  (open it at https://ui.perfetto.dev)")
    if error > 4e-3:
        console.print("[red]the result is wrong[/]")
        return 1
    return 0


def _compile_times(target: str) -> tuple[float, float]:
    """Seconds of a compile into an empty cache, and of finding the image in it from a fresh kernel object."""
    import_module("dsalang._backend.pipeline")  # so that the compiler's own import is not timed
    import_module("dsalang._jit.parse")
    seconds = []
    with tempfile.TemporaryDirectory() as folder, _environment("DSA_CACHE_DIR", folder):
        for _ in range(2):
            kernel = dsa.jit(linear_gelu.fn)
            start = time.perf_counter()
            kernel.compile(SIGNATURE, constants=BLOCKS, target=target)
            seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1]


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
