"""How long a kernel will take, without running it: `predict`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from ..dialects.tile import ints
from ..errors import InternalError
from ..isa.table import Engine
from ..target import Target
from .machine import Machine
from .program import Program, program_of
from .slices import sliced
from .walk import Preview, Walk


@dataclass(frozen=True)
class Prediction:
    """What a launch will cost.

    Attributes:
        cycles: from launch until the busiest core has finished.
        busy: busy cycles of that core by engine ("LD", "ST", "MM", "VE", "CORE") and of its HBM port ("HBM").
        hbm_bytes: bytes of bursts of that core.
        bound: the resource that is busiest.
        exact: every iteration that was left out repeats one that was walked; else they are taken at the pace
            of their loop.
        walked, left_out: iterations of loops.
        longest: the most iterations of a loop.
    """

    cycles: int
    microseconds: float
    busy: Mapping[str, int]
    hbm_bytes: int
    bound: str
    exact: bool
    walked: int
    left_out: int
    longest: int


def predict(
    module: ModuleOp, target: Target, args: Sequence[int], grid: tuple[int, int, int]
) -> Prediction:
    """Predict a launch of the kernel in `module`, dsa IR after all passes.

    Loops are walked until they repeat themselves, not to their end. All elements of gathers, scatters and atomics
    count as valid. Cores that seem to have the same to do are taken as one.

    Args:
        args: one i64 per kernel argument, as for a launch; what pointers hold is of no importance.
        grid: programs along each axis.

    Raises:
        UserError: the kernel's course depends on data.
    """
    (kernel,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    credits = kernel.attributes.get("dsa.credits")
    program = sliced(program_of(kernel, target, () if credits is None else ints(credits)))
    if len(args) != len(program.arguments):
        raise InternalError(f"predict: {len(args)} values for {len(program.arguments)} arguments")
    active = max(1, min(target.cores, prod(grid)))
    values = list(program.initial)
    for number, value in zip(program.arguments, args, strict=True):
        values[number] = value
    values[program.cores] = active
    for number, size in zip(program.grid, grid, strict=True):
        values[number] = size
    walks = [_walk(program, target, values, core) for core in _different(program, values, active)]
    cycles, walk = max(walks, key=lambda found: found[0])
    counts = walk.machine.counts
    busy = {engine.name: counts.busy[engine] for engine in Engine} | {"HBM": counts.port}
    shares = {name: cycles for name, cycles in busy.items() if name not in ("LD", "ST")}
    return Prediction(
        cycles, target.microseconds(cycles), busy, counts.bytes,
        _BOUND[max(shares, key=lambda name: shares[name])],
        all(walk.exact for _, walk in walks), walk.walked, walk.left_out, walk.longest,
    )  # fmt: skip


def _different(program: Program, values: Sequence[int], active: int) -> list[int]:
    """Cores whose programs differ in what they cost, those with the most work first, not too many."""
    weights: dict[Hashable, tuple[float, int]] = {}
    for core in range(active):
        trial = list(values)
        trial[program.core] = core
        preview = Preview(program.body, trial)
        weights.setdefault(tuple(preview.found), (preview.weight, core))
    heaviest = sorted(weights.values(), key=lambda found: (-found[0], found[1]))
    return [core for _, core in heaviest[:_CORES]]


def _walk(program: Program, target: Target, values: Sequence[int], core: int) -> tuple[int, Walk]:
    """The cycles of one core, and how they were found."""
    own = list(values)
    own[program.core] = core
    walk = Walk(Machine(target, program.credits, program.taker, own[program.cores]))
    walk.run(program.body, own)
    return walk.machine.finish(), walk


_CORES = 8
"""Cores to predict; of more, those that seem to have the least work are left out."""
_BOUND = {
    "HBM": "HBM bandwidth",
    "MM": "tensor engine",
    "VE": "vector engine",
    "CORE": "control core",
}
