"""Random structured kernels in the short form of `sync_kernels`."""

from __future__ import annotations

from random import Random
from typing import Any

from sync_kernels import R


def random_kernel(rng: Random) -> tuple[dict[str, R], list[Any], list[int]]:
    """Rings (some share memory), steps of the grid loop's body, and alias groups of four arguments."""
    shared = rng.random() < 0.4
    rings = {}
    for n in range(rng.randint(1, 6)):
        at = rng.choice([0, 64, 128, 1024]) if shared and rng.random() < 0.6 else None
        rings[f"r{n}"] = R(rng.choice([1, 1, 2, 2, 3]), at, rng.choice([4, 64, 100]))
    free = list(rings)
    rng.shuffle(free)
    alias = rng.choice([[0, 1, 2, 3], [0, 0, 2, 3], [0, 0, 0, 0]])
    steps = _block(rng, free, [], 0, {name: ring.slots - 1 for name, ring in rings.items()})
    return rings, steps, alias


def _block(
    rng: Random, free: list[str], slots: list[str], depth: int, ages: dict[str, int]
) -> list[Any]:
    slots = list(slots)
    steps: list[Any] = []
    for _ in range(rng.randint(1, 7 - 2 * min(depth, 2))):
        if free and (not slots or rng.random() < 0.45):
            ring = free.pop()
            steps.append(("acq", ring))
            slots.append(ring)
            if ages[ring] and rng.random() < 0.4:
                steps.append(("held", ring, rng.randint(1, ages[ring]), f"{ring}.held"))
                slots.append(f"{ring}.held")
        if not slots:
            continue
        nested = depth < 3 and rng.random() < 0.3
        steps.append(_nest(rng, free, slots, depth + 1, ages) if nested else _access(rng, slots))
    return steps


def _nest(rng: Random, free: list[str], slots: list[str], depth: int, ages: dict[str, int]) -> Any:
    kind = rng.choice(["for", "for", "if", "while"])
    if kind == "for":
        return ("for", _block(rng, free, slots, depth, ages))
    first = _block(rng, free, slots, depth, ages)
    return (kind, first, _block(rng, free, slots, depth, ages) if rng.random() < 0.7 else [])


def _access(rng: Random, slots: list[str]) -> Any:
    def pick() -> str:
        return rng.choice(slots)

    arg = {"arg": rng.choice([0, 1, 2, 3, -1]) if rng.random() < 0.3 else rng.randrange(4)}
    kind = rng.choice(["ld", "ld", "st", "st", "mm", "ve", "ve", "read", "ldx", "atomic"])
    if kind == "ld":
        return ("ld", pick(), arg)
    if kind == "ldx":
        return rng.choice([("ld", pick(), pick(), arg), ("gather", pick(), pick(), arg)])
    if kind == "st":
        return ("st", pick(), arg)
    if kind == "atomic":
        return ("atomic", pick(), pick(), pick(), arg)
    if kind == "mm":
        return ("mm", pick(), pick(), pick())
    if kind == "ve":
        inputs = [pick() for _ in range(rng.randint(0, 2))]
        return ("ve", inputs, [pick() for _ in range(rng.randint(1, 2))])
    return ("read", pick())
