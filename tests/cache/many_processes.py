"""Many processes compile and launch the same kernels through one cache folder, some killed at any moment.

    python tests/cache/many_processes.py [--seconds 600] [--processes 16] [--seed 0]

Each process launches kernels of the suite, having forgotten what is in its memory, and compares the bits with those
of a run without a cache. Now and then one deletes or damages an entry, or keeps the folder within a few kilobytes.
Afterwards no entry may be damaged and no lock held. Exits with 1 and says what was wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import filelock
from suite.cases import CASES

from dsalang._backend.errors import ImageError
from dsalang._backend.image.elf import load
from dsalang._jit import engines
from dsalang._runtime.fast import objects

NAMES = ("add_odd", "softmax_odd", "histogram", "embedding", "matvec", "layer_norm_rows")
WRONG, FAILED = 3, 4
"""How a process ends that found other bits, and one that raised."""
SMALL = 40_000
"""A limit of the folder that a few kernels exceed."""

Bits = Mapping[str, list[bytes]]


def bits_of(name: str) -> list[bytes]:
    """What a kernel of the suite gives, launched as if the process were new."""
    engines._programs.clear()
    objects._loaded.clear()
    case = CASES[name]()
    case.kernel._images.clear()
    case.kernel._launches.clear()
    run = case.launch(target="edge")
    assert run.image.name == case.kernel.source.name  # read from the folder too
    return [output.tobytes() for output in case.outputs]


def work(folder: Path, expected: Bits, seed: float, stop: float, done: int) -> None:
    """What each process does until the time `stop`; for each launch a byte goes to the file `done`."""
    rng = random.Random(seed)
    try:
        while time.monotonic() < stop:
            os.environ["DSA_CACHE_MAX_BYTES"] = str(rng.choice([SMALL, 1 << 30, 1 << 30]))
            if rng.random() < 0.3:
                spoil(folder, rng)
            name = rng.choice(NAMES)
            if bits_of(name) != expected[name]:
                print(f"{name}: other bits than without a cache", file=sys.stderr, flush=True)
                os._exit(WRONG)
            os.write(done, b".")  # a lock might die with its holder
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(FAILED)
    os._exit(0)


def spoil(folder: Path, rng: random.Random) -> None:
    """Delete an entry, or cut one off."""
    found = [path for path in folder.glob("??/*") if path.suffix in (".elf", ".o", ".note")]
    if not found:
        return
    path = rng.choice(found)
    try:
        if rng.random() < 0.5:
            path.unlink()
        else:
            os.truncate(path, rng.randrange(path.stat().st_size + 1))
    except OSError:  # another process was faster
        pass


def storm(folder: Path, seconds: float, count: int, seed: int) -> tuple[Counter[int], int]:
    """Run the processes and kill them at random. Returns how many ended with which code, and launches made."""
    rng = random.Random(seed)
    context = multiprocessing.get_context(
        "fork"
    )  # a process that has to import first would do little else
    os.environ["DSA_CACHE"] = "0"
    expected = {name: bits_of(name) for name in NAMES}
    os.environ.update(DSA_CACHE="1", DSA_CACHE_DIR=str(folder))
    stop = time.monotonic() + seconds
    running = []
    ended: Counter[int] = Counter()
    done = os.open(folder / "launches", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    while time.monotonic() < stop:
        while len(running) < count:
            process = context.Process(
                target=work, args=(folder, expected, rng.random(), stop, done)
            )
            process.start()
            running.append(process)
        time.sleep(rng.uniform(0.0, 0.1))
        victim = running.pop(rng.randrange(len(running)))
        victim.kill()
        victim.join()
        ended[victim.exitcode or 0] += 1
    for process in running:
        process.join(60)
        process.kill()
        process.join()
        ended[process.exitcode or 0] += 1
    return ended, os.fstat(done).st_size


def damage(folder: Path) -> list[str]:
    """What is wrong with a folder that nobody uses."""
    found = []
    for path in folder.glob("locks/*"):
        try:
            with filelock.FileLock(path, timeout=0):
                pass
        except filelock.Timeout:
            found.append(f"{path.name} is locked")
    for path in folder.glob("??/*.elf"):
        try:
            load(path.read_bytes())
        except ImageError as error:
            found.append(f"{path.name}: {error}")
    code = [p for p in folder.glob("??/*.o") if objects._checked(p.stem, p.read_bytes()) is None]
    return found + [f"{path.name} is damaged" for path in code]


def main() -> int:
    """Run, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ended, launches = storm(folder, options.seconds, options.processes, options.seed)
        for key in NAMES:  # whatever was spoilt on purpose is made again
            bits_of(key)
        wrong = [f"{count} processes ended with {code}" for code, count in ended.items()
                 if code not in (0, -signal.SIGKILL)]  # fmt: skip
        wrong += damage(folder)
    print(
        f"{launches} launches, {ended[-signal.SIGKILL]} processes killed, {ended[0]} came to the end, "
        f"{len(wrong)} faults"
    )
    print("\n".join(wrong), end="")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
