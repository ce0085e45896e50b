"""Runs an image on the fast and on the reference engine and compares all there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from dsalang._backend.image.model import Image
from dsalang._backend.target import Target
from dsalang._jit.arguments import bind, classify
from dsalang._jit.compiled import compile_kernel
from dsalang._jit.launch import argument_bits, grid_of, memory_of
from dsalang._jit.specialize import specialize
from dsalang._runtime.fast.engine import Options, Program
from dsalang._runtime.memory import Memory
from dsalang._runtime.reference.engine import run as run_reference
from dsalang._runtime.reference.options import Options as ReferenceOptions
from dsalang._runtime.report import Run


def silent(line: str) -> None:
    """Prints nothing."""


def both(
    image: Image,
    target: Target,
    values: Sequence[int],
    grid: tuple[int, int, int],
    memory: Memory,
    threads: int | None = None,
) -> Run:
    """Run on both engines from the same data; an AssertionError says what differs."""
    before = [segment.data.copy() for segment in memory.segments]
    program = Program(image, target)
    fast = program.run(values, grid, memory, Options(threads=threads, write=silent))
    after = [segment.data.copy() for segment in memory.segments]
    for segment, old in zip(memory.segments, before):
        if segment.writable:
            segment.data[:] = old
    options = ReferenceOptions(check_races=False, write=silent)
    reference = run_reference(image, target, values, grid, memory, options)
    for segment, found in zip(memory.segments, after):
        differs = np.flatnonzero(segment.data != found)
        assert differs.size == 0, f"{segment.label}: byte {differs[0]} and {differs.size - 1} more"
    same(fast.detailed(), reference)  # type: ignore[attr-defined]
    assert fast.cycles == reference.cycles
    return fast


def same(fast: Run, reference: Run) -> None:
    """Every figure of every core, and the timeline."""
    assert len(fast.cores) == len(reference.cores)
    for ours, theirs in zip(fast.cores, reference.cores):
        for one in fields(ours):
            a, b = getattr(ours, one.name), getattr(theirs, one.name)
            assert a == b, f"core {ours.core}: {one.name}"


def launch(
    kernel: Any,
    args: Sequence[Any],
    grid: Any,
    target: Target,
    threads: int | None = None,
    num_stages: int | None = None,
    **meta: Any,
) -> Run:
    """Compile a kernel for arguments and run it on both engines."""
    bound = bind(kernel.source, tuple(args), meta)
    arguments = classify(kernel.source, bound)
    image = compile_kernel(kernel.source, specialize(arguments, bound, (), num_stages), target)
    values = [argument_bits(arguments, argument.name) for argument in image.arguments]
    return both(image, target, values, grid_of(grid, bound), memory_of(arguments), threads)
