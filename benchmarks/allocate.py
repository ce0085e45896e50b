"""Times of the SRAM allocator on packing problems: `python benchmarks/allocate.py [FILE.csv …] [--check]`.

Each answer passes the independent validator. Problems are CSV files (id, lower, upper, size), with the capacity
as the second part of the name (`A.1048576.csv`); by default those of ../shared/data/minimalloc. `--check` fails
when one is not solved or takes longer than the C++ minimalloc's figure for it.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path

from dsalang._backend.alloc.model import Buffer, lower_bound
from dsalang._backend.alloc.pack import pack
from dsalang._backend.alloc.validate import validate

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "minimalloc"
BAR_SECONDS = {"A": 9.9, "B": 6.1, "C": 1.0, "D": 4.9, "E": 5.5, "F": 10.2}
DEFAULT_CAPACITY = 1 << 20


def read(path: Path) -> tuple[list[Buffer], int]:
    """The buffers and the capacity of a problem file."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    buffers = [Buffer(r["id"], int(r["lower"]), int(r["upper"]), int(r["size"])) for r in rows]
    parts = path.name.split(".")
    return buffers, int(parts[1]) if parts[1].isdigit() else DEFAULT_CAPACITY


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    failures = []
    print(f"{'problem':12} {'buffers':>7} {'bound':>9} {'capacity':>9} {'seconds':>8} {'bar':>5}")
    for path in options.files or sorted(DATA.glob("*.csv")):
        buffers, capacity = read(path)
        start = time.process_time()
        offsets = pack(buffers, capacity)
        seconds = time.process_time() - start
        name = path.name.split(".")[0]
        bar = BAR_SECONDS.get(name)
        bound = lower_bound(buffers)
        print(f"{name:12} {len(buffers):7} {bound:9} {capacity:9} {seconds:8.2f} {bar or '–':>5}")
        if offsets is None:
            failures.append(f"{name}: not solved")
        elif problems := validate(buffers, offsets, capacity):
            failures.append(f"{name}: {problems[0]}")
        elif bar is not None and seconds > bar:
            failures.append(f"{name}: {seconds:.2f} s, the bar is {bar} s")
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
