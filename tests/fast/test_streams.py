"""Timing of random hand-made programs: queues, semaphores and the HBM port against the reference engine."""

from __future__ import annotations

import dataclasses
import itertools
from random import Random

import numpy as np
import pytest
from engine.machine import Program, Stream, simple_target

from dsalang._backend.errors import DeviceError
from dsalang._backend.image.model import Image
from dsalang._backend.isa.table import QUEUED, Engine
from dsalang._backend.target import Hbm, Target
from dsalang._runtime.fast import engine as fast
from dsalang._runtime.memory import Memory
from dsalang._runtime.reference.engine import run as run_reference
from dsalang._runtime.reference.options import Options
from dsalang._runtime.report import Run

from .compare import same, silent
from .glue_text import glue_of

NUMBERS = itertools.count()
"""Programs are told apart by their keys, because hand-made images have no file."""
LD, ST, MM, VE, CORE = *QUEUED, Engine.CORE


def target_of(rng: Random) -> Target:
    """A machine of odd figures."""
    base = simple_target(
        queue_depth=rng.choice([1, 2, 3, 16]), scalar__issue_cycles=rng.choice([0, 1, 7]),
        dma__setup_cycles=rng.choice([0, 5]), semaphore_max=rng.choice([1, 2, 15]),
    )  # fmt: skip
    hbm = Hbm(rng.choice([10**9, 3 * 10**9, 7]), rng.choice([0, 9, 200]), rng.choice([1, 32, 64]))
    if hbm.bytes_per_second == 7:
        hbm = dataclasses.replace(hbm, bytes_per_second=2_333_333_333)
    return dataclasses.replace(base, hbm=hbm)


def random_program(rng: Random) -> Program:
    """Transfers, vector instructions, and tokens that flow forwards between fixed pairs of engines."""
    program = Program(target_of(rng), sram_bytes=8192)
    pairs = [(rng.choice(QUEUED), rng.choice([*QUEUED, CORE])) for _ in range(6)]
    pairs = [(a, b) for a, b in pairs if a is not b]
    address = program.array("x", np.zeros(4096, np.uint8))
    for sem in range(len(pairs)):
        program.credits[sem] = rng.choice([0, 0, 1, program.target.semaphore_max])
    ahead = list(program.credits)
    for _ in range(rng.randrange(1, 120)):
        kind = rng.random()
        if kind < 0.25:
            size = rng.randrange(1, 300)
            opened = (("hi.0", rng.randrange(0, size + 1)),) if rng.random() < 0.5 else ()
            move = program.load if rng.random() < 0.6 else program.store
            where = (address, 0) if move == program.load else (0, address)
            move(*where, size, 1, argument=0, open=opened)
        elif kind < 0.45:
            program.busy(rng.randrange(1, 400), 0, 4096)
        elif pairs:
            sem = rng.randrange(len(pairs))
            source, to = pairs[sem]
            if ahead[sem] and rng.random() < 0.6:
                program.wait(to, sem)
                ahead[sem] -= 1
            elif rng.random() < 0.98:
                program.set(source, sem)
                ahead[sem] += 1
    if rng.random() < 0.2 and pairs:
        for _ in range(ahead[0] + 1):  # one more than there are tokens: nobody ends this wait
            program.wait(pairs[0][1], 0)
    return program


def outcome(run: object) -> Run | str:
    """What a run gives: a report, or the text of its error."""
    try:
        return run()  # type: ignore[operator, no-any-return]
    except DeviceError as error:
        return str(error)


def on_both(program: Program) -> tuple[Run | str, Run | str]:
    """Run a hand-made program on both engines."""
    image: Image = program.image()
    glue = glue_of(program.calls, program.operands, image.templates)
    image = dataclasses.replace(image, glue=glue)
    memory = Memory(program.segments)
    args, target = list(program.args), program.target
    ours = outcome(
        lambda: fast.Program(image, target, None, f"stream {next(NUMBERS)}", functional=False)
        .run(args, (1, 1, 1), memory, fast.Options(timeline=True, write=silent))
    )  # fmt: skip
    return ours, outcome(lambda: on_reference(program))


def on_reference(program: Program) -> Run:
    """Times of a hand-made program on the reference engine."""
    options = Options(functional=False, check_races=False, write=silent)
    return run_reference(
        program.image(), program.target, program.args, (1, 1, 1), Memory(program.segments), options,
        lambda core, cores: Stream(program.calls, program.operands),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_random_streams(seed: int) -> None:
    ours, theirs = on_both(random_program(Random(seed)))
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs
    else:
        same(ours, theirs)


def test_streams_end_in_every_way() -> None:
    """The generator reaches clean ends, deadlocks and overflows; else the test above shows little."""
    ends = set()
    for seed in range(40):
        program = random_program(Random(seed))
        found = outcome(lambda p=program: on_reference(p))
        ends.add(next((w for w in ("deadlock", "overflowed") if w in str(found)), "done"))
    assert ends == {"done", "deadlock", "overflowed"}


def test_a_long_stream_passes_through_a_bounded_trace() -> None:
    program = Program(simple_target(queue_depth=4))
    for _ in range(700):
        program.busy(3, 0, 8)
        program.sync(VE, MM, 0)
        program.sync(MM, VE, 1)
    ours, theirs = on_both(program)
    assert isinstance(ours, Run) and isinstance(theirs, Run)
    same(ours, theirs)


def test_a_semaphore_of_several_setters_is_not_for_this_engine() -> None:
    program = Program()
    program.set(LD, 0)
    program.set(VE, 0)
    with pytest.raises(fast.UnsuitedError, match="several engines"):
        on_both(program)
