"""Lowering with a static schedule: every instruction gets the cycle at which it starts, flags are left out.

The control core of each core issues from a table (`llvm/table_glue.py`), in the order that the scheduler
found best. Where no order is shorter than what flags would give, the times are those that flags would give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from .schedule_problem import Problem, Work, problem_of, work_of
from .schedule_refine import refine
from .schedule_stream import Step, alias_groups
from .schedule_trace import Trace

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
    plans = _plans(kernel, trace, streams, target)
    issues = [
        [
            Scheduled(TimedIssue(step.template, start, step.operands), position, step.program)
            for position, start in ((n, timed.start[n]) for n in timed.order)
            for step in (instructions[position],)
        ]
        for instructions, timed in zip(
            map(_instructions, streams), (plan.timed for plan in plans), strict=True
        )
    ]
    tables = trace.tables
    cycles = check_schedule(issues, tables.templates, tables.programs, alias_groups(kernel), target)
    if cycles != tuple(plan.timed.cycles for plan in plans):
        raise InternalError("schedule: the length of a schedule is not what it was planned to be")
    timing = Timing(
        grid=(x, y, z),
        cycles=cycles,
        dynamic=tuple(plan.dynamic for plan in plans),
        bound=tuple(plan.bound for plan in plans),
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


@dataclass
class _Plan:
    """A core's schedule, its cycles with flags, and the least cycles that any schedule takes."""

    problem: Problem
    timed: Timed
    dynamic: int
    bound: int


def _plans(
    kernel: func.FuncOp, trace: Trace, streams: Sequence[Sequence[Step]], target: Target
) -> list[_Plan]:
    """A plan for each core. Cores with the same costs and dependences share one."""
    alias, credits = alias_groups(kernel), ints(kernel.attributes["dsa.credits"])
    tables = trace.tables
    work = [work_of(t, tables.programs, target, trace.cores) for t in tables.templates]
    known: dict[object, _Plan] = {}
    plans = []
    for stream in streams:
        problem = problem_of(_instructions(stream), work, alias)
        flags = tuple(
            (step.engine, step.sem, step.op == "set", step.operands_before) for step in stream
        )
        key = flags, problem.key()
        if key not in known:
            known[key] = _plan(stream, problem, work, credits, target)
        plans.append(known[key])
    done = 0
    for plan in sorted(known.values(), key=lambda plan: -plan.timed.cycles):
        # Only a core that is slower than the others makes the kernel slow.
        if plan.timed.cycles > done:
            plan.timed = refine(plan.problem, plan.timed, target)
            done = max(done, plan.timed.cycles)
    return plans


def _plan(
    stream: Sequence[Step],
    problem: Problem,
    work: Sequence[Work],
    credits: Sequence[int],
    target: Target,
) -> _Plan:
    """The first plan of a core."""
    dynamic = simulate(stream, work, credits, target)
    if dynamic is None:
        raise InternalError("schedule: the kernel gets stuck with its flags")
    timed = best(problem, target)
    if timed.cycles > dynamic.cycles:
        timed = replay(problem, dynamic.start, target) or timed
    return _Plan(problem, timed, dynamic.cycles, lower_bound(problem))
