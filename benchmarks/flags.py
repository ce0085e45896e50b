"""How tight the flags are: `python benchmarks/flags.py [--check] [--target NAME]`.

For each kernel of the suite, every set/wait pair is deleted in turn; the static checker reports a race or a deadlock, or
proves the pair redundant. `--check` fails and names every kernel with a redundant pair.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table
from suite import CASES

from dsalang import Target
from dsalang._backend.dialects import parse_ir
from dsalang._backend.passes.check_deletion import deletion_report


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--target", default="edge")
    options = parser.parse_args()
    target = Target.by_name(options.target)
    table = Table(title=f"set/wait pairs on {target.name}, each deleted once")
    for column in ("kernel", "pairs", "caught", "redundant", "semaphores"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    failures = []
    for name, make in CASES.items():
        case = make()
        kernel = case.kernel.warmup(*case.args, grid=case.grid, **case.meta, target=target)
        report = deletion_report(parse_ir(kernel.text["dsa"]), target)
        used = len(kernel.image.credits)
        counts = (report.pairs, report.caught, report.redundant, used)
        table.add_row(name, *(str(n) for n in counts))
        if report.redundant:
            failures.append(f"{name}: {report.redundant} of {report.pairs} pairs are redundant")
    Console().print(table)
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
