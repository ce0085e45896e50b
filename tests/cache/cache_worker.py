"""A process that uses a cache until it is killed: `python cache_worker.py FOLDER SEED ROUNDS`."""

from __future__ import annotations

import hashlib
import random
import sys
from pathlib import Path

from dsalang._backend.image.elf import load, save
from dsalang._runtime.cache import Cache

KEYS = [hashlib.sha256(bytes([k])).hexdigest() for k in range(6)]


def main(folder: str, seed: int, rounds: int) -> None:
    image = load(Path(folder, "template.elf").read_bytes())
    cache = Cache(Path(folder, "cache"))
    rng = random.Random(seed)
    for _ in range(rounds):
        key = rng.choice(KEYS)
        if rng.random() < 0.5:  # make it again, as after damage
            cache.path(key).unlink(missing_ok=True)
        found = cache.image(key, lambda image: True, lambda: image)
        if found != image or save(found) != image.file:
            print("WRONG", key)
            sys.exit(3)
    print("done")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
