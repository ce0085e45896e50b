"""Which steps of a program its costs depend on; the others compute addresses, or only order engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .program import Body, Calc, CoreWait, If, Issue, Loop, Program, Read, While


def sliced(program: Program) -> Program:
    """The same program with `costly` of all blocks filled in."""
    needed: set[int] = set()
    body = program.body
    before = -1
    while before != len(needed):  # what loops carry feeds what they need
        before = len(needed)
        _need(body, needed)
    return replace(program, body=_marked(body, needed))


def _need(body: Body, needed: set[int]) -> None:
    """Add the values that the costs of a block depend on, going backwards."""
    for step in reversed(body.steps):
        if isinstance(step, Calc):
            if not needed.isdisjoint(step.results):
                needed.update(step.args)
        elif isinstance(step, Issue):
            needed.update(step.args)
        elif isinstance(step, Loop):
            needed |= {step.low, step.high, step.step}
            _pass(needed, step.results, step.body.passed, step.initial)
            _pass(needed, step.carried, step.body.passed, step.initial)
            _need(step.body, needed)
        elif isinstance(step, If):
            needed.add(step.condition)
            for arm in (step.then, step.other):
                if arm is not None:
                    _pass(needed, step.results, arm.passed)
                    _need(arm, needed)
        elif isinstance(step, While):
            _need_while(step, needed)


def _need_while(step: While, needed: set[int]) -> None:
    needed.add(step.before.passed[0])
    _pass(needed, step.results, step.before.passed[1:])
    _pass(needed, step.second, step.before.passed[1:])
    _pass(needed, step.first, step.initial, step.after.passed)
    _need(step.after, needed)
    _need(step.before, needed)


def _pass(needed: set[int], wanted: Sequence[int], *sources: Sequence[int]) -> None:
    """Where one of `wanted` is needed, so is its counterpart in each of the sources."""
    for source in sources:
        needed.update(s for w, s in zip(wanted, source, strict=True) if w in needed)


def _marked(body: Body, needed: set[int]) -> Body:
    steps: list[Any] = []
    for step in body.steps:
        if isinstance(step, Loop):
            step = replace(step, body=_marked(step.body, needed))
        elif isinstance(step, If):
            other = None if step.other is None else _marked(step.other, needed)
            step = replace(step, then=_marked(step.then, needed), other=other)
        elif isinstance(step, While):
            before, after = (_marked(part, needed) for part in (step.before, step.after))
            step = replace(step, before=before, after=after)
        elif isinstance(step, Read):
            step = replace(step, matters=step.result in needed)
        steps.append(step)
    costly = [
        step
        for step in steps
        if not isinstance(step, CoreWait)
        and not (isinstance(step, Calc) and needed.isdisjoint(step.results))
        and not (isinstance(step, Issue) and step.constant)
    ]
    return Body(tuple(steps), body.passed, tuple(costly))
