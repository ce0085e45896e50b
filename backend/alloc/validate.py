"""Checks an allocation; shares no code with the packer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .model import Buffer


def validate(buffers: Sequence[Buffer], offsets: Mapping[str, int], capacity: int) -> list[str]:
    """What is wrong with an allocation, one sentence each; empty when it is right."""
    problems: list[str] = []
    for b in buffers:
        if b.id not in offsets:
            problems.append(f"{b.id} has no offset")
        elif not 0 <= offsets[b.id] <= capacity - b.size:
            problems.append(f"{b.id} at {offsets[b.id]} does not lie within {capacity} bytes")
    known = [b for b in buffers if b.id in offsets]
    known.sort(key=lambda b: offsets[b.id])
    for i, low in enumerate(known):
        end = offsets[low.id] + low.size
        for high in known[i + 1 :]:
            if offsets[high.id] >= end:
                break
            if max(low.lower, high.lower) < min(low.upper, high.upper):
                problems.append(f"{low.id} and {high.id} overlap in memory while both are alive")
    return problems
