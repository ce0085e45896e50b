"""Random kernels for as long as wanted: `python tests/e2e/random_kernels.py --seconds 600 --seed 1`.

Prints each failure with its seed and the kernel; `--only SEED` runs one. Failures of one message are
counted and shown once.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.random_model import RandomKernel
from e2e.random_runs import check_deletions, check_kernel, signature_of
from e2e.random_shrink import shrink
from e2e.random_text import write_kernel


def smaller(kernel: RandomKernel, seed: int, key: str, seconds: float) -> RandomKernel:
    """A smaller kernel with the same failure."""

    def fails(candidate: RandomKernel) -> bool:
        try:
            check_kernel(candidate, seed)
        except Exception as error:
            return signature_of(error)[:60] == key[:60]
        return False

    return shrink(kernel, fails, seconds)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, default=None)
    parser.add_argument(
        "--deletions", action="store_true", help="delete set/wait pairs of every fifth kernel"
    )
    parser.add_argument(
        "--shrink", type=float, default=0, help="seconds to make a failing kernel smaller"
    )
    parser.add_argument("--quiet", action="store_true", help="do not print the kernels of failures")
    options = parser.parse_args()
    os.environ["DSA_VERIFY"] = "1"
    if options.only is not None:
        kernel = write_kernel(Random(options.only))
        print(kernel.text, kernel.grid, kernel.scalars, kernel.aliases)
        check_kernel(kernel, options.only)
        print(check_deletions(kernel, options.only))
        return 0
    end, seed = time.monotonic() + options.seconds, options.seed
    failures: Counter[str] = Counter()
    stats: dict[str, int] = {}
    words: Counter[str] = Counter()
    while time.monotonic() < end:
        kernel = write_kernel(Random(seed))
        try:
            check_kernel(kernel, seed, stats)
            if options.deletions and seed % 5 == 0:
                words.update(check_deletions(kernel, seed))
        except Exception as error:
            key = signature_of(error)
            failures[key] += 1
            if failures[key] == 1:
                print(
                    f"seed {seed}: {len(kernel.text.splitlines())} lines: {str(error)[:900]}",
                    flush=True,
                )
                if not options.quiet:
                    traceback.print_exc()
                if options.shrink:
                    kernel = smaller(kernel, seed, key, options.shrink)
                if not options.quiet:
                    print(kernel.text, kernel.grid, kernel.scalars, kernel.aliases, flush=True)
            else:
                print(f"seed {seed}: again {key} ({len(kernel.text)} chars)", flush=True)
        seed += 1
    print(f"{seed - options.seed} kernels from seed {options.seed}, {stats}, {dict(words)}")
    for key, count in failures.most_common():
        print(f"{count:5d} {key}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
