"""Compile times per kernel of the suite: `python benchmarks/compile.py`.

Cold is from Python source to device image with an empty cache (the compiler's modules are loaded already), warm finds the image
on disk with a fresh kernel object. The median of three.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table
from suite import CASES, Case

import dsalang as dsa
from dsalang._backend.image import elf


def seconds(case: Case, target: str) -> float:
    """One compile with a fresh kernel object; this process has no equal glue yet."""
    elf._linked.cache_clear()
    kernel = dsa.jit(case.kernel.fn)
    start = time.perf_counter()
    kernel.warmup(*case.args, grid=case.grid, **case.meta, target=target)
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", default="edge")
    options = parser.parse_args()
    table = Table(title=f"compile time on {options.target}, ms")
    for column in ("kernel", "cold", "warm"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    seconds(CASES["add_odd"](), options.target)
    for name, make in CASES.items():
        case = make()
        cold, warm = [], []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["DSA_CACHE_DIR"] = folder
                cold.append(seconds(case, options.target))
                warm.append(seconds(case, options.target))
        table.add_row(
            name, f"{statistics.median(cold) * 1e3:.0f}", f"{statistics.median(warm) * 1e3:.1f}"
        )
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
