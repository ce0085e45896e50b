"""Cycles and utilisation per kernel of the suite: `python benchmarks/emulator.py [--target NAME]`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table
from suite import CASES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="edge")
    options = parser.parse_args()
    table = Table(title=f"emulated runs on {options.target}")
    columns = ("kernel", "cycles", "µs", "LD", "ST", "MM", "VE", "HBM", "error", "host ms")
    for column in columns:
        table.add_column(column, justify="left" if column == "kernel" else "right")
    for name, make in CASES.items():
        case = make()
        case.kernel.warmup(*case.args, grid=case.grid, **case.meta, target=options.target)
        start = time.perf_counter()
        run = case.launch(target=options.target)
        host = time.perf_counter() - start
        shares = [f"{run.utilisation(engine):.0%}" for engine in ("LD", "ST", "MM", "VE")]
        table.add_row(
            name, f"{run.cycles:,}", f"{run.microseconds:.1f}", *shares,
            f"{run.hbm_utilisation:.0%}", f"{max(case.errors()):.1e}", f"{host * 1e3:.1f}",
        )  # fmt: skip
    Console(width=110).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
