"""What a plan of slots and addresses costs: the kernel with its flags, predicted for a typical launch.

Exact where a rehearsal estimates, and some ten times as slow, so it decides between the few best plans.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from ..dialects import dsa
from ..predict import Prediction, predict
from ..target import Target
from .buffer_model import UNKNOWN_TRIPS
from .sync import sync

TRIPS = (2, UNKNOWN_TRIPS)
"""Iterations of loops with unknown bounds: a plan should suit short loops and long ones."""

PROGRAMS = 8
"""Programs of a core in a typical launch."""

VALUES = [1 << n for n in range(5, 21)]
"""Values to try for the integers of a typical launch."""


class Trial:
    """Plans for one kernel, tried one by one. Trying raises UserError where a kernel's course depends on data."""

    def __init__(self, kernel: func.FuncOp, target: Target) -> None:
        self.module, self.target = ModuleOp([kernel.clone()]), target
        (clone,) = self.module.ops
        assert isinstance(clone, func.FuncOp)
        self.rings = [op for op in clone.body.block.ops if isinstance(op, dsa.RingOp)]
        self.arguments = len(clone.body.block.args)
        self.launches: list[int] = []  # the value of all integers in each
        self.firsts: list[int] = []  # cycles of the first plan

    def cycles(self, slots: Sequence[int], addresses: Sequence[int]) -> float:
        """Cycles of typical launches, as a multiple of those of the first plan."""
        for ring, count, address in zip(self.rings, slots, addresses, strict=True):
            ring.slots, ring.address = IntegerAttr(count, i64), IntegerAttr(address, i64)
        module = self.module.clone()
        sync(module, self.target)
        if not self.launches:
            self.launches = self._typical(module)
        cycles = [self._predict(module, value).cycles for value in self.launches]
        if not self.firsts:
            self.firsts = [max(1, first) for first in cycles]
        return sum(now / first for now, first in zip(cycles, self.firsts, strict=True))

    def _typical(self, module: ModuleOp) -> list[int]:
        """The largest values with which loops run at most TRIPS times."""

        @cache
        def trips(value: int) -> int:
            return self._predict(module, value, programs=1).longest

        found = [VALUES[max(0, bisect_right(VALUES, n, key=trips) - 1)] for n in TRIPS]
        return list(dict.fromkeys(found))

    def _predict(self, module: ModuleOp, value: int, programs: int = PROGRAMS) -> Prediction:
        grid = (programs * self.target.cores, 1, 1)
        return predict(module, self.target, [value] * self.arguments, grid)
