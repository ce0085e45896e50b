"""HBM that answers late: the fast engine is late by the same cycles as the reference engine."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from suite import CASES

import dsalang as dsa
from dsalang._backend.target import Target
from dsalang._jit.arguments import bind, classify
from dsalang._jit.compiled import compile_kernel
from dsalang._jit.launch import argument_bits, grid_of, memory_of
from dsalang._jit.specialize import specialize
from dsalang._runtime.fast.engine import Options, Program
from dsalang._runtime.jitter import MODULUS, first_state, lateness, next_state
from dsalang._runtime.reference.engine import run as run_reference
from dsalang._runtime.reference.options import Options as ReferenceOptions

from .compare import same


def shaky(name: str, cycles: int) -> Target:
    target = Target.by_name(name)
    return dataclasses.replace(target, hbm=dataclasses.replace(target.hbm, jitter_cycles=cycles))


@pytest.mark.parametrize(
    ("name", "target", "cycles"),
    [
        ("matmul_odd", "edge", 1),
        ("matmul_odd", "center", 300),
        ("attention_64", "edge", 40_000),
        ("softmax_odd", "edge", 300),
        ("softmax_odd", "center", 40_000),
        ("histogram", "edge", 300),
        ("running_length", "edge", 40_000),
    ],
)
def test_same(name: str, target: str, cycles: int) -> None:
    case, machine = CASES[name](), shaky(target, cycles)
    bound = bind(case.kernel.source, tuple(case.args), dict(case.meta))
    arguments = classify(case.kernel.source, bound)
    image = compile_kernel(case.kernel.source, specialize(arguments, bound), machine)
    values = [argument_bits(arguments, argument.name) for argument in image.arguments]
    grid, memory = grid_of(case.grid, bound), memory_of(arguments)
    program = Program(image, machine)
    before = [segment.data.copy() for segment in memory.segments]
    ends = set()
    for seed in (0, 1):
        for segment, old in zip(memory.segments, before):
            segment.data[:] = old
        fast = program.run(values, grid, memory, Options(seed=seed))
        for segment, old in zip(memory.segments, before):
            segment.data[:] = old
        options = ReferenceOptions(check_races=False, seed=seed)
        reference = run_reference(image, machine, values, grid, memory, options)
        same(fast.detailed(), reference)  # type: ignore[attr-defined]
        ends.add(fast.cycles)
    case.check()
    assert len(ends) == 2 or cycles == 1


@dsa.jit
def doubled(x, out, n, BLOCK: dsa.constexpr):
    for start in range(0, n, BLOCK):
        offs = start + dsa.arange(0, BLOCK)
        dsa.store(out + offs, dsa.load(x + offs) * 2)


@pytest.mark.parametrize("tiered", ("0", "1"))
def test_seed_of_a_launch(monkeypatch: pytest.MonkeyPatch, tiered: str) -> None:
    monkeypatch.setenv("DSA_TIERED", tiered)
    x = np.arange(4096, dtype=np.float32)
    out = np.zeros_like(x)
    cycles = {}
    for seed in ("3", "4"):
        monkeypatch.setenv("DSA_SEED", seed)
        for engine in ("fast", "reference", "timing"):
            monkeypatch.setenv("DSA_EMULATOR", engine)
            run = doubled[(1,)](x, out, 4096, BLOCK=64, target=shaky("edge", 500))
            cycles[seed, engine] = run.cycles
    assert len({cycles["3", engine] for engine in ("fast", "reference", "timing")}) == 1
    assert cycles["3", "fast"] != cycles["4", "fast"]


def test_numbers_are_spread_evenly() -> None:
    state, found = first_state(7, 0), np.zeros(11, int)
    for _ in range(11_000):
        state = next_state(state)
        found[lateness(state, 10)] += 1
        assert 0 < state < MODULUS
    assert found.min() > 850 and found.max() < 1150
