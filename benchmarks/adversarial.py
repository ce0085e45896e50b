"""Identical bits under random delays: `python benchmarks/adversarial.py [--seeds N] [--check] [NAME …]`.

Every kernel of the suite, and `--random` random kernels, run once by the rules of machine time and then with each seed on
the adversarial engine: everything takes randomly longer, SRAM starts as garbage, and accesses that no flag orders
stop the run. `--check` fails when any bit of any array differs, or a run stops.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from suite import CASES

from dsalang import Target
from dsalang._backend.errors import SramOverflowError, UserError
from dsalang._backend.image.model import Image
from dsalang._jit import launch
from dsalang._jit.arguments import Arguments, bind, classify
from dsalang._jit.compiled import compile_kernel
from dsalang._jit.specialize import specialize
from dsalang._runtime.reference.engine import run
from dsalang._runtime.reference.options import Options


@dataclass
class Trial:
    """A compiled launch, and the arrays that it may change with what they held before."""

    name: str
    image: Image
    target: Target
    arguments: Arguments
    grid: tuple[int, int, int]
    arrays: Sequence[np.ndarray[Any, Any]]
    before: Sequence[np.ndarray[Any, Any]]

    def bits(self, seed: int | None) -> list[bytes]:
        """What the arrays hold after a run that starts from the same contents."""
        for array, contents in zip(self.arrays, self.before, strict=True):
            array[...] = contents
        options = Options(timeline=False, adversarial_seed=seed, write=lambda line: None)
        values = [
            launch.argument_bits(self.arguments, argument.name) for argument in self.image.arguments
        ]
        run(self.image, self.target, values, self.grid, launch.memory_of(self.arguments), options)
        return [array.tobytes() for array in self.arrays]

    def differing(self, seeds: int) -> list[str]:
        """What went wrong, by seed."""
        plain = self.bits(None)
        found = []
        for seed in range(seeds):
            try:
                if self.bits(seed) != plain:
                    found.append(f"{self.name}, seed {seed}: other bits")
            except UserError as error:
                found.append(f"{self.name}, seed {seed}: {error}")
        return found


def trial(
    name: str, kernel: Any, bound: dict[str, Any], grid: Sequence[int], target: Target
) -> Trial:
    """Compile a launch of `kernel` with its arguments by name."""
    source = kernel.source
    arguments = classify(source, bound)
    image = compile_kernel(source, specialize(arguments, bound), target)
    arrays = [value for value in bound.values() if isinstance(value, np.ndarray)]
    x, y, z = (*grid, 1, 1)[:3]
    before = [array.copy() for array in arrays]
    return Trial(name, image, target, arguments, (x, y, z), arrays, before)


def suite_trial(name: str, target: Target) -> Trial:
    """A case of the suite."""
    case = CASES[name]()
    bound = bind(case.kernel.source, case.args, dict(case.meta))
    return trial(name, case.kernel, bound, case.grid, target)


def random_differing(number: int, seeds: int, target: Target) -> list[str]:
    """What went wrong with a random kernel; nothing when the target has too little SRAM for it."""
    from e2e.random_runs import data_of, defined
    from e2e.random_text import write_kernel

    kernel = write_kernel(Random(number))
    with defined(kernel.text) as function, np.errstate(all="ignore"):
        named = {**data_of(kernel, number), **kernel.scalars, **kernel.constants}
        bound = bind(function.source, (), named)
        try:
            made = trial(f"random {number}", function, bound, kernel.grid, target)
        except SramOverflowError:
            return []
        return made.differing(seeds)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="only cases whose name contains one of these")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--random", type=int, default=20, help="random kernels")
    parser.add_argument("--first", type=int, default=0, help="number of the first random kernel")
    parser.add_argument("--target", default="edge")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    target = Target.by_name(options.target)
    failures: list[str] = []
    table = Table(title=f"{options.seeds} seeds on {target.name}")
    table.add_column("kernel")
    table.add_column("same bits", justify="right")
    names = [n for n in CASES if not options.names or any(part in n for part in options.names)]
    for name in track(names, "suite", console=Console(stderr=True)):
        found = suite_trial(name, target).differing(options.seeds)
        failures += found
        table.add_row(name, f"{options.seeds - len(found)}/{options.seeds}")
    count = 0 if options.names else options.random
    same = 0
    for number in track(
        range(options.first, options.first + count), "random", console=Console(stderr=True)
    ):
        found = random_differing(number, options.seeds, target)
        failures += found
        same += options.seeds - len(found)
    table.add_row(f"{count} random kernels", f"{same}/{count * options.seeds}")
    Console().print(table)
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
