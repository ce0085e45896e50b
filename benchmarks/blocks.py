"""Products with weights in block formats beside bf16: `python benchmarks/blocks.py [--check] [--target NAME] [ROW …]`.

Each row runs on data, is compared with what ml_dtypes makes of the same bits, and shows HBM bytes and cycles as shares of
bf16's. A batch of 1 is limited by the weights' bytes: `--check` fails when a row's cycles there are more than its bytes'
share and a tenth (of bf16's cycles), or when a result is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table
from suite import Case
from suite import block_kernels as kernels
from suite.block_cases import channels_case, groups_case, mx_case, plain_case, tiles
from suite.cases import BF16, FP8

import dsalang.language as tl

SIZES = {"batch 1": (1, 4096, 4096), "batch 256": (256, 2048, 2048)}
SLACK = 1.1
"""Most cycles at batch 1, relative to the share of bf16's bytes."""

Size = tuple[int, int, int]


@dataclass(frozen=True)
class Row:
    """A format: how a case of it is made, and whether a batch of 1 is to be limited by HBM."""

    name: str
    make: Callable[[Size], Case]
    bandwidth: bool = True


def bf16(size: Size) -> Case:
    meta = tiles(1, 256, 1024) if size[0] == 1 else tiles(256, 256, 256)
    return plain_case("bf16", size, BF16, {**meta, "ACC": tl.float32}, BF16)


def int8(size: Size) -> Case:
    meta = tiles(1, 256, 2048) if size[0] == 1 else tiles(256, 256, 256)
    return channels_case("int8 per channel", size, meta, BF16)


def fp8(size: Size) -> Case:
    meta = tiles(1, 256, 2048) if size[0] == 1 else tiles(256, 256, 1024)
    return plain_case("fp8 in bf16", size, FP8, {**meta, "ACC": tl.bfloat16}, BF16)


def mx(left: str, right: str) -> Callable[[Size], Case]:
    def make(size: Size) -> Case:
        meta = tiles(1, 256, 4096) if size[0] == 1 else tiles(256, 256, 1024)
        return mx_case(f"mx {left} {right}", size, (left, right), meta, BF16)

    return make


def int4(size: Size) -> Case:
    meta = tiles(1, 256, 1024) if size[0] == 1 else tiles(256, 256, 512)
    return groups_case("int4 dequantised", kernels.matmul_int4, size, {**meta, "GROUP": 128}, BF16)


def int4_sums(size: Size) -> Case:
    meta = tiles(1, 256, 1024) if size[0] == 1 else tiles(256, 256, 512)
    meta["GROUP"] = 128
    return groups_case("int4 beside bf16", kernels.matmul_int4_sums, size, meta, BF16)


ROWS = (
    Row("bf16", bf16),
    Row("int8, scale per channel", int8),
    Row("fp8 e4m3, accumulated in bf16", fp8),
    Row("mxfp8 e4m3", mx("e4m3", "e4m3")),
    Row("mxfp4 e2m1", mx("e2m1", "e2m1")),
    Row("mxfp4 weights, mxfp8 x", mx("e4m3", "e2m1")),
    Row("int4 groups of 128, dequantised to bf16", int4, bandwidth=False),
    Row("int4 groups of 128, read by the tensor engine", int4_sums),
)


def main() -> int:
    """Measure, print, and give the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="parts of names of rows; bf16 always runs")
    parser.add_argument("--check", action="store_true", help="fail where a bound is missed")
    parser.add_argument("--target", default="edge")
    options = parser.parse_args()
    failures: list[str] = []
    for label, size in SIZES.items():
        table = Table("format", "HBM bytes", "of bf16", "cycles", "of bf16", "largest error")
        base = None
        for row in ROWS:
            if base is not None and options.rows and not any(p in row.name for p in options.rows):
                continue
            case = row.make(size)
            run = case.launch(target=options.target)
            base = base or run
            share = run.hbm_bytes / base.hbm_bytes, run.cycles / base.cycles
            error = max(case.errors())
            table.add_row(
                row.name, f"{run.hbm_bytes:,}", f"{share[0]:.3f}", f"{run.cycles:,}", f"{share[1]:.3f}",
                f"{error:.1e}",
            )  # fmt: skip
            if error > 1.6e-2:
                failures.append(f"{label}, {row.name}: error {error:.2g}")
            if size[0] == 1 and row.bandwidth and share[1] > SLACK * share[0]:
                failures.append(f"{label}, {row.name}: {share[1]:.3f} of the cycles")
        Console().print(f"{label}: M, N, K = {size} on {options.target}", table)
    for failure in failures:
        print("FAILED:", failure)
    return int(options.check and bool(failures))


if __name__ == "__main__":
    sys.exit(main())
