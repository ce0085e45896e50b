"""Random structured kernels: sync against check, and both against a dynamic oracle."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from sync_kernels import kernel, machine
from sync_oracle import credits_of, races, record, simulate
from sync_random import random_kernel

from dsalang._backend.dialects.locations import from_ir
from dsalang._backend.dialects.tile import ints
from dsalang._backend.passes.check import find_hazards, hazards_of
from dsalang._backend.passes.check_deletion import pairs_of
from dsalang._backend.passes.check_program import Builder, build, clash, kind_of, may_alias
from dsalang._backend.passes.sync import sync

SEEDS = st.integers(0, 1 << 32)
TARGETS = st.sampled_from([(32, 15), (32, 1), (8, 3), (4, 2), (3, 1), (2, 15)])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SEEDS, TARGETS)
def test_what_sync_makes_is_safe(seed: int, limits: tuple[int, int]) -> None:
    rings, steps, alias = random_kernel(Random(seed))
    module, target = kernel(rings, steps, alias), machine(*limits)
    sync(module, target)
    module.verify()
    assert find_hazards(module, target) == []
    credits = credits_of(module)
    assert len(credits) <= target.semaphores
    for run in range(3):
        trace = record(module, run)
        assert races(trace, credits, alias) == []
        for depth in (1, 4, 64):
            assert simulate(trace, credits, target.semaphore_max, depth, run) == ""


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SEEDS, TARGETS)
def test_what_goes_wrong_without_a_pair_is_found(seed: int, limits: tuple[int, int]) -> None:
    rng = Random(seed)
    rings, steps, alias = random_kernel(rng)
    module, target = kernel(rings, steps, alias), machine(*limits)
    sync(module, target)
    program, credits = build(module, target), credits_of(module)
    pairs = pairs_of(program, target)
    for pair in rng.sample(pairs, min(4, len(pairs))):
        if hazards_of(program, target, pair):
            continue
        skip = frozenset(id(signal.op) for signal in pair)
        for run in range(6):
            trace = record(module, run, skip=skip)
            assert races(trace, credits, alias) == []
            assert simulate(trace, credits, target.semaphore_max, 64, run) == ""


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SEEDS)
def test_races_of_kernels_without_semaphores_are_found(seed: int) -> None:
    rings, steps, alias = random_kernel(Random(seed))
    module, target = kernel(rings, steps, alias), machine()
    found = {frozenset(map(str, hazard.locs)) for hazard in find_hazards(module, target)}
    for run in range(4):
        for first, later in races(record(module, run), [], alias):
            assert frozenset(str(from_ir(event.op.location)) for event in (first, later)) in found


def foes_of_pairs(builder: Builder) -> list[int]:
    """What `find_foes` finds, pair by pair."""
    alias = ints(builder.function.attributes["dsa.alias"])
    found = dict.fromkeys(map(id, (touch.issue for touch in builder.touches)), 0)
    ranges = {ring: builder.range_of(ring) for ring in builder.rotations}
    for first in builder.touches:
        for later in builder.touches:
            bits = first.bits
            if first.ring is None or later.ring is None:
                near = first.ring is later.ring and may_alias(alias, first.arg, later.arg)
            elif first.ring is later.ring:
                near, bits = True, bits[later.age : later.age + 1]
            else:
                (a, b), (c, d) = ranges[first.ring], ranges[later.ring]
                near = a < d and c < b
            if near and clash(kind_of(first), kind_of(later)):
                found[id(later.issue)] |= sum(1 << bit for bit in bits)
    return list(found.values())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEEDS, st.booleans())
def test_foes_are_those_of_every_pair(seed: int, shared: bool) -> None:
    rng = Random(seed)
    rings, steps, alias = random_kernel(rng)
    if shared:
        rings = {name: replace(ring, at=64 * rng.randrange(4)) for name, ring in rings.items()}
    builder = Builder(kernel(rings, steps, alias), machine())
    builder.program()
    issues = {id(touch.issue): touch.issue for touch in builder.touches}
    assert [issue.foes for issue in issues.values()] == foes_of_pairs(builder)
