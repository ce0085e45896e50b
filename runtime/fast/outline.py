"""What a launch needs to know of an image: plain values, kept beside the host code.

A process that finds both on disk runs the kernel without reading the image, which takes longer than most
kernels run. The image is read when somebody asks for more: a report's buffers and lines, an error.
"""

from __future__ import annotations

import json
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsalang._backend.image.model import Image
    from dsalang._backend.target import Target

    from .plan import Row

FORMAT = 4
"""How outlines are written; part of the key of the files that hold one."""


class UnsuitedError(Exception):
    """The image is not one for the fast engine; the reference engine runs it."""


class Outline(NamedTuple):
    """Figures of an image and of the target that it is for.

    Attributes:
        arguments: name and format of each.
        ordered: cores run one after the other: atomics take turns, and printed lines come core by core.
        beyond: as in `Image`.
        operands: the most run-time operands that an instruction has.
        columns: figures per template, by name (`plan.Row`).
        taker: per semaphore the engine that waits for it.
        machine: figures of the target, by name (`_machine`).
        fixed: of an image with a static schedule when each core is done, else nothing.
        grid: the only one that the image is for, nothing where it is for any.
        shared: rings whose slots share a place (`sharing.Shared`).
    """

    name: str
    arguments: Sequence[tuple[str, str]]
    sram_bytes: int
    ordered: bool
    beyond: bool
    operands: int
    columns: Mapping[str, Sequence[int]]
    taker: Sequence[int]
    credits: Sequence[int]
    machine: Mapping[str, int]
    fixed: Sequence[int]
    grid: Sequence[int]
    shared: Sequence[Sequence[int]]

    def pack(self) -> bytes:
        """As bytes."""
        return json.dumps(self).encode()

    @staticmethod
    def unpack(data: bytes) -> Outline:
        """From bytes that a digest has vouched for."""
        return Outline(*json.loads(data))


def outline_of(image: Image, target: Target, rows: Sequence[Row], taker: Sequence[int]) -> Outline:
    """The outline of an image."""
    from dsalang._backend.llvm.host.sharing import shared_slots  # not loaded with an outline

    names = ("kind", "engine", "sem", "issue", "cycles", "work", "address")
    return Outline(
        image.name,
        tuple((argument.name, argument.fmt) for argument in image.arguments),
        image.sram_bytes,
        bool(image.prints) or any(row.name == "dma.atomic" for row in rows),
        image.beyond,
        max((len(row.prepared.open) for row in rows), default=0),
        {name: [int(getattr(row, name)) for row in rows] for name in names},
        tuple(map(int, taker)),
        tuple(map(int, image.credits)),
        _machine(target),
        image.timing.cycles if image.timing else (),
        image.timing.grid if image.timing else (),
        shared_slots(image),
    )


def _machine(target: Target) -> dict[str, int]:
    return {
        "cores": target.cores,
        "hertz": target.clock_mhz * 1_000_000,
        "queue_depth": target.queue_depth,
        "semaphores": target.semaphores,
        "semaphore_max": target.semaphore_max,
        "bytes_per_second": target.hbm.bytes_per_second,
        "latency_cycles": target.hbm.latency_cycles,
        "jitter_cycles": target.hbm.jitter_cycles,
        "read_cycles": target.scalar.read_cycles,
    }


def cycles_per_byte(machine: Mapping[str, int], active_cores: int) -> tuple[int, int]:
    """Cycles per byte of an HBM transfer as a fraction, as in `cost.transfer_cycles`."""
    numerator = machine["hertz"] * active_cores
    denominator = machine["bytes_per_second"]
    common = gcd(numerator, denominator)
    numerator, denominator = numerator // common, denominator // common
    if numerator * denominator >= 1 << 62 or numerator >= 1 << 30:
        raise UnsuitedError("HBM bandwidth and clock have no fraction of small numbers")
    return numerator, denominator
