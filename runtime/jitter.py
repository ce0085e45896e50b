"""How late an HBM with jitter answers: one sequence of numbers per seed and core, which every engine makes alike."""

from __future__ import annotations

import hashlib

MODULUS, FACTOR = 2**31 - 1, 48_271
"""A multiplicative generator of full period; products of its numbers fit in 64 bits."""


def first_state(seed: int, core: int) -> int:
    """The state before the first transfer of a core.

    >>> first_state(0, 0) == first_state(0, 0) != first_state(0, 1)
    True
    """
    digest = hashlib.sha256(f"HBM jitter {seed} {core}".encode()).digest()
    return int.from_bytes(digest[:8], "little") % (MODULUS - 1) + 1


def next_state(state: int) -> int:
    """The state at the next transfer, in the order in which the port serves them."""
    return state * FACTOR % MODULUS


def lateness(state: int, most: int) -> int:
    """Cycles by which the transfer completes late, 0 to `most`."""
    return state % (most + 1)
