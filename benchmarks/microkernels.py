"""Generated against hand-written: `python benchmarks/microkernels.py [--check] [NAME …]`.

Each line runs a kernel on the emulated machine with microkernels switched off, by the cost model's choice, and wherever they
serve a call, and compares the results with float64. Generated code of "int4 linear" is the op's definition, which multiplies
packed weights, that of "int4 dequantised" turns them into bf16 first. `--check` fails when
    - a line that is marked + does not take the microkernel, or is not faster with it than generated code;
    - the cost model's choice is slower than the better of both by more than 1 %;
    - a result is further from float64 than its line allows.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from microkernel_kernels import (
    attention,
    dequantised_dot,
    int4_linear,
    recurrence,
    row_product,
)
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from dsalang import JITFunction
from dsalang.microkernels import int4_dot

Array = NDArray[Any]
BF16, FP16, FP32 = ml_dtypes.bfloat16, np.float16, np.float32
MODES = ("off", "auto", "always")
SLACK = 0.01


@dataclass(frozen=True)
class Shot:
    """A launch: arrays before the output, scalars and constants after it, and what float64 says."""

    kernel: JITFunction
    inputs: tuple[Array, ...]
    output: Array
    values: tuple[int, ...]
    constants: Mapping[str, Any]
    grid: int
    exact: Array
    plain: Mapping[str, Any] = field(default_factory=dict)  # other constants for generated code


@dataclass(frozen=True)
class Line:
    """A comparison. `wins`: the microkernel must run and be faster. `allowed`: error relative to the largest result."""

    name: str
    target: str
    make: Callable[[], Shot]
    wins: bool
    allowed: float


def normal(seed: int, *shape: int, scale: float = 1.0, dtype: Any = FP32) -> Array:
    """Repeatable data."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def recurrent(n: int, dtype: Any, steps: int = 10) -> Shot:
    """A recurrent layer of n units."""
    x, w = normal(0, n, dtype=dtype), normal(1, n, n, scale=n**-0.5, dtype=dtype)
    state = x.astype(np.float64)
    for _ in range(steps):
        state = np.tanh(state @ w.astype(np.float64))
    return Shot(recurrence, (x, w), np.zeros(n, dtype), (steps,), {"N": n}, 1, state)


def streamed(depth: int, n: int, dtype: Any) -> Shot:
    """A row times weights from HBM."""
    x, w = normal(0, depth, dtype=dtype), normal(1, depth, n, dtype=dtype)
    exact = x.astype(np.float64) @ w.astype(np.float64)
    return Shot(
        row_product, (x, w), np.zeros(n, FP32), (depth, n), {"BK": 256, "BN": 256}, n // 256, exact
    )


def attended(m: int, n: int, d: int, keys: int = 2048, programs: int = 2) -> Shot:
    """Attention of some blocks of m queries."""
    q = normal(0, m * programs, d, scale=d**-0.5, dtype=BF16)
    k, v = normal(1, keys, d, dtype=BF16), normal(2, keys, d, dtype=BF16)
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    exact = weights @ v.astype(np.float64) / weights.sum(1, keepdims=True)
    constants = {"M": m, "N": n, "D": d}
    return Shot(attention, (q, k, v), np.zeros(q.shape, FP32), (keys,), constants, programs, exact)


def quantised(
    m: int, depth: int, n: int, bn: int, group: int = 64, plain: JITFunction = int4_dot
) -> Shot:
    """int4 weights with a scale per group; generated code is that of `plain`."""
    random = np.random.default_rng(0)
    weights = random.integers(-8, 8, (depth, n))
    packed = ((weights[0::2] & 15) | ((weights[1::2] & 15) << 4)).astype(np.uint8)
    scales = (random.random((depth // group, n)) / 64).astype(FP32)
    x = normal(1, m, depth, dtype=BF16)
    exact = x.astype(np.float64) @ (weights * np.repeat(scales, group, 0))
    constants = {"M": m, "BN": bn, "BK": 512, "G": group, "product": int4_dot}
    other = {"product": plain}
    return Shot(
        int4_linear,
        (x, packed, scales),
        np.zeros((m, n), FP32),
        (depth, n),
        constants,
        n // bn,
        exact,
        other,
    )


LINES = (
    Line("batch-1 fp32, 512 in SRAM", "edge", lambda: recurrent(512, FP32), True, 1e-5),
    Line("batch-1 fp32, 512 in SRAM", "edge-server", lambda: recurrent(512, FP32), True, 1e-5),
    Line("batch-1 fp32, 512 in SRAM", "center", lambda: recurrent(512, FP32), True, 1e-5),
    Line("batch-1 fp32, 512 in SRAM", "tpu-v5e-like", lambda: recurrent(512, FP32), True, 1e-5),
    Line("batch-1 bf16, 1024 in SRAM", "edge", lambda: recurrent(1024, BF16), True, 3e-2),
    Line("batch-1 fp32 from HBM", "edge", lambda: streamed(1024, 2048, FP32), False, 1e-5),
    Line("softmax step 128x128, d 64", "edge", lambda: attended(128, 128, 64), True, 1e-2),
    Line("softmax step 128x256, d 64", "edge", lambda: attended(128, 256, 64), True, 1e-2),
    Line("softmax step 128x128, d 64", "center", lambda: attended(128, 128, 64, programs=32), True, 1e-2),
    Line("softmax step 64x128, d 128", "edge", lambda: attended(64, 128, 128), False, 1e-2),
    Line("int4 dequantised, 1 row", "edge", lambda: quantised(1, 1024, 1024, 256, plain=dequantised_dot), True, 1e-2),
    Line("int4 dequantised, 16 rows", "edge", lambda: quantised(16, 1024, 1024, 256, plain=dequantised_dot), True, 1e-2),
    Line("int4 dequantised, 16 rows", "center", lambda: quantised(16, 1024, 4096, 128, plain=dequantised_dot), True, 1e-2),
    Line("int4 linear, 1 row", "edge", lambda: quantised(1, 1024, 1024, 256), False, 1e-5),
    Line("int4 linear, 16 rows", "edge", lambda: quantised(16, 1024, 1024, 256), True, 1e-5),
    Line("int4 linear, 64 rows", "edge", lambda: quantised(64, 1024, 1024, 256), True, 1e-5),
    Line("int4 linear, 64 rows", "edge-server", lambda: quantised(64, 1024, 1024, 256), True, 1e-5),
    Line("int4 linear, 16 rows, groups of 32", "center", lambda: quantised(16, 1024, 4096, 128, 32), True, 1e-5),
    Line("int4 linear, 64 rows", "center", lambda: quantised(64, 1024, 4096, 128), True, 1e-5),
)  # fmt: skip


@contextmanager
def microkernels(mode: str) -> Iterator[None]:
    """DSA_MICROKERNELS for a while."""
    before = os.environ.get("DSA_MICROKERNELS")
    os.environ["DSA_MICROKERNELS"] = mode
    try:
        yield
    finally:
        if before is None:
            del os.environ["DSA_MICROKERNELS"]
        else:
            os.environ["DSA_MICROKERNELS"] = before


def measured(shot: Shot, target: str, mode: str) -> tuple[int, float, str]:
    """Cycles, error, and which microkernel runs."""
    with microkernels(mode):
        args = (*shot.inputs, shot.output, *shot.values)
        shot.output[...] = 0
        constants = {**shot.constants, **(shot.plain if mode == "off" else {})}
        report = shot.kernel[(shot.grid,)](*args, **constants, target=target)
        compiled = shot.kernel.warmup(*args, **constants, grid=(shot.grid,), target=target)
    error = np.abs(shot.output.astype(np.float64) - shot.exact).max() / np.abs(shot.exact).max()
    ran = [choice.kernel.rpartition(":")[2] for choice in compiled.microkernels if choice.ran]
    return report.cycles, float(error), ", ".join(ran) or "generated"


def main() -> int:
    """Measure, print, check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="only lines whose name contains one of these")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    table = Table(title="microkernels, in emulated cycles")
    for column in (
        "",
        "kernel",
        "target",
        "generated",
        "hand-written",
        "chosen",
        "runs",
        "faster",
        "errors",
    ):
        table.add_column(
            column, justify="left" if column in ("", "kernel", "target", "runs") else "right"
        )
    failures: list[str] = []
    for line in LINES:
        if options.names and not any(name in line.name for name in options.names):
            continue
        shot = line.make()
        found = {mode: measured(shot, line.target, mode) for mode in MODES}
        (generated, error, _), (chosen, _, runs), (written, other, _) = (found[m] for m in MODES)
        table.add_row(
            "+" if line.wins else "", line.name, line.target, f"{generated:,}", f"{written:,}", f"{chosen:,}",
            runs, f"{generated / chosen:.2f}x", f"{error:.0e} {other:.0e}",
        )  # fmt: skip
        label = f"{line.name} on {line.target}"
        if line.wins and (runs == "generated" or chosen >= generated):
            failures.append(
                f"{label}: {runs} runs in {chosen} cycles, generated code takes {generated}"
            )
        if chosen > (1 + SLACK) * min(generated, written):
            failures.append(
                f"{label}: the choice takes {chosen} cycles, the better one {min(generated, written)}"
            )
        failures += [
            f"{label}: {mode} is off by {worst:.1e}, allowed are {line.allowed:.0e}"
            for mode, (_, worst, _) in found.items()
            if not worst <= line.allowed
        ]
    Console(width=130).print(table)
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
