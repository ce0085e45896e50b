"""Feeds mutated images, instructions and target files to what reads them.

    python tests/fuzz/fuzz.py --count 100000 [--seed 0] [--surface image] [--index 17]

No input may end in anything but success or the reader's own error, take more than two seconds of processor time, or need more
than 4 GiB. A failure prints how to get its input again; `--index` runs that one alone.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.surfaces import SURFACES, Surface

SECONDS = 2.0
MEMORY_BYTES = 4 << 30


class HangError(Exception):
    """An input took too long."""


@dataclass
class Outcome:
    """What became of the inputs of a surface. `failures` are indexes and tracebacks."""

    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0
    failures: list[tuple[int, str]] = field(default_factory=list)


def _expired(number: int, frame: object) -> None:
    raise HangError


def one(surface: Surface, seed: int, index: int, outcome: Outcome) -> None:
    """Run one input."""
    data = surface.make(random.Random(seed * 1_000_003 + index))
    start = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            accepted = surface.read(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except Exception:
        outcome.failures.append((index, traceback.format_exc()))
        return
    outcome.accepted += accepted
    outcome.refused += not accepted
    outcome.slowest = max(outcome.slowest, time.process_time() - start)


def fuzz(surface: Surface, seed: int, indexes: range, most_failures: int = 5) -> Outcome:
    """Run the inputs of a range; stops after some failures."""
    before = signal.signal(signal.SIGPROF, _expired)
    outcome = Outcome()
    try:
        for index in indexes:
            one(surface, seed, index, outcome)
            if len(outcome.failures) >= most_failures:
                break
    finally:
        signal.signal(signal.SIGPROF, before)
    return outcome


def main() -> int:
    """The command; 1 when an input failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=3000, help="inputs, over all surfaces")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--surface", choices=tuple(SURFACES), help="only this one")
    parser.add_argument("--index", type=int, help="only this input")
    given = parser.parse_args()
    names = [given.surface] if given.surface else list(SURFACES)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    failed = False
    for name in names:
        share = -(-given.count // len(names))
        indexes = range(share) if given.index is None else range(given.index, given.index + 1)
        start = time.perf_counter()
        outcome = fuzz(SURFACES[name], given.seed, indexes)
        print(
            f"{name}: {outcome.accepted} accepted, {outcome.refused} refused, "
            f"{len(outcome.failures)} failed, slowest {outcome.slowest * 1e3:.0f} ms, "
            f"{time.perf_counter() - start:.0f} s",
            flush=True,
        )
        for index, text in outcome.failures:
            failed = True
            print(f"--seed {given.seed} --surface {name} --index {index}\n{text}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
