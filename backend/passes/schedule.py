"""Lowering with a static schedule: every instruction gets the cycle at which it starts, flags are left out.

The control core of each core issues from a table (`llvm/table_glue.py`), in the order that the scheduler
found best. Where no order is shorter than what flags would give, the times are those that flags would give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from ..dialects.tile import ints
from ..errors import InternalError
from ..image.model import Image, Timing
from ..llvm.table_glue import TimedIssue, build_table_glue
from ..target import Target
from .lower import image_of, kernel_of
from .schedule_check import Scheduled, check_schedule
from .schedule_dynamic import simulate
from .schedule_order import Timed, best, lower_bound, replay
from .schedule_problem import Work, problem_of, work_of
from .schedule_trace import Step, Trace, alias_groups

_NONE: Mapping[str, int] = {}


def schedule(
    module: ModuleOp, target: Target, grid: Sequence[int], values: Mapping[str, int] = _NONE
) -> Image:
    """The image of a module with one kernel, as after `check`, for one grid.

    Args:
        grid: programs along each axis, three of them.
        values: of integer arguments, by name; the image ignores what it is launched with for them.

    Raises:
        CompileError: what happens depends on something that compile time does not know.
    """
    kernel = kernel_of(module)
    x, y, z = grid
    trace = Trace(kernel, target, (x, y, z), max(1, min(target.cores, prod(grid))), values)
    streams = [trace.core(number) for number in range(trace.cores)]
    planner = _Planner(kernel, trace, target)
    plans = [planner.plan(stream) for stream in streams]
    issues = [
        [
            Scheduled(TimedIssue(step.template, start, step.operands), position, step.program)
            for position, start in ((n, timed.start[n]) for n in timed.order)
            for step in (instructions[position],)
        ]
        for instructions, (timed, _, _) in zip(map(_instructions, streams), plans, strict=True)
    ]
    tables = trace.tables
    cycles = check_schedule(issues, tables.templates, tables.programs, alias_groups(kernel), target)
    if cycles != tuple(timed.cycles for timed, _, _ in plans):
        raise InternalError("schedule: the length of a schedule is not what it was planned to be")
    timing = Timing(
        grid=(x, y, z),
        cycles=cycles,
        dynamic=tuple(dynamic for _, dynamic, _ in plans),
        bound=tuple(bound for _, _, bound in plans),
        flags=sum(step.sem >= 0 for stream in streams for step in stream),
        issues=tuple(
            tuple(word for e in core for word in (e.issue.template, e.issue.start))
            for core in issues
        ),
    )
    glue = build_table_glue([[entry.issue for entry in core] for core in issues])
    return image_of(kernel, target, tables, glue, (), timing)


def _instructions(stream: Sequence[Step]) -> list[Step]:
    return [step for step in stream if step.sem < 0]


class _Planner:
    """Plans cores; cores with the same costs and dependences are planned once."""

    def __init__(self, kernel: func.FuncOp, trace: Trace, target: Target) -> None:
        self.target, self.alias = target, alias_groups(kernel)
        self.credits = ints(kernel.attributes["dsa.credits"])
        self.work: list[Work] = [
            work_of(template, trace.tables.programs, target, trace.cores)
            for template in trace.tables.templates
        ]
        self.plans: dict[object, tuple[Timed, int, int]] = {}

    def plan(self, stream: Sequence[Step]) -> tuple[Timed, int, int]:
        """A core's schedule, its cycles with flags, and the least cycles that any schedule takes."""
        problem = problem_of(_instructions(stream), self.work, self.alias)
        flags = tuple(
            (step.engine, step.sem, step.op == "set", step.operands_before) for step in stream
        )
        key = flags, problem.key()
        found = self.plans.get(key)
        if found is None:
            dynamic = simulate(stream, self.work, self.credits, self.target)
            if dynamic is None:
                raise InternalError("schedule: the kernel gets stuck with its flags")
            chosen = best(problem, self.target)
            if chosen.cycles > dynamic.cycles:
                chosen = replay(problem, dynamic.start, self.target) or chosen
            found = self.plans[key] = chosen, dynamic.cycles, lower_bound(problem)
        return found
