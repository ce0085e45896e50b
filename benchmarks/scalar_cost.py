"""Scalar instructions per issue, counted by the RISC-V engine, beside what targets say an issue costs.

    python benchmarks/scalar_cost.py [target ...]

Columns: issues, instructions per issue, cycles per issue as stated, stated / counted, and the same with the
start of each core (entry to first call), which is a launch's cost and not an issue's.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from riscv.streams import Launched
from suite.cases import CASES

from dsalang._runtime.riscv.scalar_cost import measure


def main(targets: list[str]) -> None:
    """Print a table per target."""
    for target in targets:
        print(f"{target:28}{'issues':>8}{'counted':>9}{'stated':>8}{'ratio':>7}{'with start':>12}")
        totals = [0, 0, 0, 0]
        for name, make in CASES.items():
            launched = Launched(make(), target)
            cost = measure(
                launched.image, launched.target, launched.args, launched.grid, launched.memory
            )
            row = [len(cost.issues), cost.retired, cost.stated(launched.target), cost.start]
            totals = [total + value for total, value in zip(totals, row)]
            _print(name, row)
        _print("all", totals)


def _print(name: str, row: list[int]) -> None:
    issues, retired, stated, start = row
    print(
        f"{name:28}{issues:8}{retired / issues:9.2f}{stated / issues:8.2f}{stated / retired:7.2f}"
        f"{stated / (retired + start):12.2f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:] or ["edge", "edge-server", "center"])
