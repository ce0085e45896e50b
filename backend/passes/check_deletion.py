"""How tight the semaphores of a kernel are: delete each pair and see whether the checker notices."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ..dialects.locations import from_ir
from ..errors import Loc
from ..target import Target
from .check import CREDIT, Interpreter, hazards_of
from .check_program import Program, Signal, build


@dataclass(frozen=True)
class DeletionReport:
    """Of `pairs` set/wait pairs, deleting one is caught by the checker or proven harmless.

    `redundant_at` has the places of the sets and waits of the harmless ones.
    """

    pairs: int
    caught: int
    redundant: int
    redundant_at: tuple[tuple[Loc | None, ...], ...]


def deletion_report(module: ModuleOp, target: Target) -> DeletionReport:
    """Delete each pair of a kernel in turn, without changing the module."""
    program = build(module, target)
    units = pairs_of(program, target)
    harmless = [unit for unit in units if not hazards_of(program, target, unit)]
    places = tuple(tuple(from_ir(signal.op.location) for signal in unit) for unit in harmless)
    return DeletionReport(len(units), len(units) - len(harmless), len(harmless), places)


def pairs_of(program: Program, target: Target) -> list[list[Signal]]:
    """The sets and waits that belong together: a set and the wait that takes its tokens.

    Several of each come together when they take each other's tokens, or share initial credits.
    """
    run = Interpreter(program, target, (), target.semaphore_max + 1)
    run.run()
    group = {signal.number: signal.number for signal in program.signals}

    def root(number: int) -> int:
        while group[number] != number:
            number = group[number]
        return number

    for setter, waiter in run.matches:
        if setter != CREDIT:
            group[root(setter)] = root(waiter)
    by_sem: dict[int, list[int]] = defaultdict(list)
    for signal in program.signals:
        by_sem[signal.sem].append(signal.number)
    for sem, numbers in by_sem.items():
        if sem < len(program.credits) and program.credits[sem]:
            for number in numbers:
                group[root(number)] = root(numbers[0])
    units: dict[int, list[Signal]] = defaultdict(list)
    for signal in program.signals:
        units[root(signal.number)].append(signal)
    return list(units.values())
