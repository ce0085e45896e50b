"""Streams that repeat themselves: what the engine goes over without simulating it must cost what it would have cost."""

from __future__ import annotations

import dataclasses
from random import Random

import numpy as np
import pytest
from engine.machine import Program, simple_target

from dsalang._backend.errors import DeviceError
from dsalang._backend.isa.table import QUEUED, Engine
from dsalang._backend.target import Hbm, Target
from dsalang._runtime.fast import engine as fast
from dsalang._runtime.fast.context import BATCH
from dsalang._runtime.fast.simulator import View
from dsalang._runtime.memory import Memory

from .compare import same, silent
from .glue_text import glue_of
from .test_streams import NUMBERS, on_reference

CORE = Engine.CORE


def target_of(rng: Random) -> Target:
    """A machine of odd figures, whose costs do not fit each other."""
    base = simple_target(
        queue_depth=rng.choice([2, 3, 16]), scalar__issue_cycles=rng.choice([1, 7]),
        dma__setup_cycles=rng.choice([0, 5]), semaphore_max=rng.choice([1, 3, 15]),
    )  # fmt: skip
    rate = rng.choice([10**9, 3 * 10**9, 2_333_333_333])
    return dataclasses.replace(base, hbm=Hbm(rate, rng.choice([0, 9, 200]), rng.choice([1, 64])))


def body(program: Program, rng: Random, address: int) -> None:
    """One turn of a loop: engines in a row hand tokens on, and the last may hand one back to the first."""
    chain = rng.sample(QUEUED, rng.randrange(2, 5))
    back = rng.random() < 0.7
    if back:
        program.credits[0] = rng.randrange(1, program.target.semaphore_max + 1)
        program.wait(chain[0], 0)
    for number, engine in enumerate(chain):
        if number:
            program.sync(chain[number - 1], engine, number)
        if engine in (Engine.LD, Engine.ST):
            move = program.load if engine is Engine.LD else program.store
            where = (address, 0) if engine is Engine.LD else (0, address)
            move(*where, rng.randrange(1, 300), 1, argument=0)
        elif engine is Engine.VE:
            program.busy(rng.randrange(1, 400), 0, 4096)
    if back:
        program.set(chain[-1], 0)
    if rng.random() < 0.3:
        program.sync(chain[-1], CORE, 6)


def looped(rng: Random) -> Program:
    """Loops, one after the other, with something odd in between."""
    program = Program(target_of(rng), sram_bytes=8192)
    address = program.array("x", np.zeros(4096, np.uint8))
    start = len(program.calls)
    body(program, rng, address)
    turn = program.calls[start:]
    program.calls += turn * rng.randrange(40, 150)
    program.busy(rng.randrange(1, 1000), 0, 4096)
    program.calls += turn * rng.randrange(1, 60)
    return program


def skipped_and_whole(program: Program) -> tuple[bool, bool]:
    """Compare with the reference engine; whether periods were found, and whether the run came to an end."""
    image = program.image()
    glue = glue_of(program.calls, program.operands, image.templates)
    image = dataclasses.replace(image, glue=glue)
    native = fast.Program(image, program.target, None, f"repeats {next(NUMBERS)}", functional=False)
    try:
        theirs = on_reference(program)
    except DeviceError as error:
        with pytest.raises(DeviceError) as ours:
            native.run(list(program.args), (1, 1, 1), Memory(program.segments), _OPTIONS)
        assert str(ours.value) == str(error)
        return False, False
    ours_ = native.run(list(program.args), (1, 1, 1), Memory(program.segments), _OPTIONS)
    assert isinstance(ours_, fast.FastRun)
    same(ours_.detailed(), theirs)
    (result,) = ours_._results
    return View(ours_._source.layout, result.words).value("skipped") > 0, True


_OPTIONS = fast.Options(write=silent)


@pytest.mark.parametrize("seed", range(12))
def test_repeated_streams(seed: int) -> None:
    skipped_and_whole(looped(Random(seed)))


def test_most_of_them_are_skipped() -> None:
    """Else the test above shows little."""
    found = [skipped_and_whole(looped(Random(seed))) for seed in range(30, 36)]
    assert sum(skipped for skipped, _ in found) >= 3


def test_a_loop_over_many_batches() -> None:
    program = Program(simple_target(queue_depth=4, scalar__issue_cycles=3))
    address = program.array("x", np.zeros(4096, np.uint8))
    program.load(address, 0, 77, 1, argument=0)
    program.sync(Engine.LD, Engine.VE, 0)
    program.busy(50, 0, 8)
    program.sync(Engine.VE, Engine.LD, 1)
    program.calls *= 3 * BATCH // len(program.calls)
    assert skipped_and_whole(program) == (True, True)
