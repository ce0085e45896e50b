"""reside: what a loop would load anew in each of its iterations is loaded once, before it, and stays in SRAM.

A load whose boxes repeat in every iteration of a loop around it fills a buffer with all of them before the
outermost such loop: weights in a loop over steps, say, be there a loop over their tiles in between. That is done where
it makes the kernel faster, and as far as the SRAM lasts. Loads that only programs repeat are left to `hoist`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..dialects import dsa
from ..target import Target
from .buffer_model import Work, trips
from .effects import alias_groups, effects_of, grid_loop, may_alias
from .hoist import fits
from .reside_nest import Nest, UnfitError, make_resident, nest_of
from .sram import ring_uses, slot_stride


def reside(module: ModuleOp, target: Target) -> None:
    """Load what repeats in loops once, where that pays and fits."""
    for kernel in module.ops:
        if isinstance(kernel, func.FuncOp):
            _reside(kernel, target)


def _reside(kernel: func.FuncOp, target: Target) -> None:
    grid = grid_loop(kernel)
    if grid is None:
        return
    nests = [nest for nest in _nests(kernel, grid, target) if _levels(nest)]
    if not nests or any(isinstance(op, dsa.AssertOp) for op in kernel.walk()):
        return  # what comes after an assertion may rely on it
    work, uses = Work(target), ring_uses(kernel)
    kept: dict[SSAValue, int] = {}
    best_first = sorted(nests, key=lambda nest: -max(_gains(nest, work).values()))
    for nest in best_first:
        gains = _gains(nest, work)  # less than before, where others no longer load
        for level in sorted(gains, key=lambda level: -gains[level]):
            slot, size = nest.acquire.result, _bytes(nest, level, target)
            if gains[level] > 0 and fits(uses, {**kept, slot: size}, target):
                kept[slot] = size
                make_resident(nest, _outermost(nest, level), target)
                work.changed()
                break


def _nests(kernel: func.FuncOp, grid: scf.ForOp, target: Target) -> Iterator[Nest]:
    """The loads in loops of programs whose arrays the kernel does not write."""
    groups = alias_groups(kernel)
    stored = {arg for arg, role in effects_of(kernel).hbm if "w" in role}
    for op in kernel.walk():
        if not isinstance(op, dsa.IssueOp) or op.op.data != "dma.load" or op.hbm_arg is None:
            continue
        number = op.hbm_arg.value.data
        if number < 0 or any(may_alias(groups, number, other) for other in stored):
            continue
        try:
            yield nest_of(op, grid, None, target)
        except UnfitError:
            continue


def _levels(nest: Nest) -> list[int]:
    """The loops of a program that repeat the load."""
    levels = range(len(nest.loops))
    return [n for n in levels if nest.loops[n] is not nest.grid and nest.repeats_in(n)]


def _outermost(nest: Nest, level: int) -> int:
    """How far out the same buffer can be filled, the grid loop included."""
    tiles = nest.tiles(level)
    return min(n for n in range(level + 1) if nest.repeats_in(n) and nest.tiles(n) == tiles)


def _gains(nest: Nest, work: Work) -> dict[int, float]:
    """Cycles of a program that filling a buffer before a loop saves, by the loop's level.

    Loads in a loop run beside other work; those before it do not.
    """
    transfer, whole, gains = work.transfer(nest.load), work.busy(nest.load), dict[int, float]()
    for level in _levels(nest):
        loop = nest.loops[level]
        inside = prod(trips(other) for other in nest.loops[level + 1 :])
        around = prod(trips(other) for other in nest.loops[:level] if other is not nest.grid)
        busy = dict(work.block_busy(loop.body.block))
        before = max(busy.values())
        busy["HBM"] -= transfer * inside
        busy["LD"] -= whole * inside
        saved = (before - max(busy.values())) * trips(loop) - whole * nest.tiles(level)
        gains[level] = saved * around
    return gains


def _bytes(nest: Nest, level: int, target: Target) -> int:
    """The size of a buffer."""
    return slot_stride(nest.ring.bytes.value.data, target) * nest.tiles(level)
