"""buffer: how many slots every ring gets, and where."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from ..alloc.pack import ORDERS
from ..dialects.locations import from_ir
from ..errors import SramOverflowError, UserError
from ..isa.table import Engine
from ..target import Target
from .buffer_model import Rates, Work, loop_rates
from .buffer_rehearsal import Rehearsal
from .buffer_search import Choice, Search, Space
from .buffer_trial import Trial
from .sram import LIVES, RingUse, fit, ring_uses
from .sram_overflow import kib, overflow_error


def buffer(module: ModuleOp, target: Target, num_stages: int | None = None) -> None:
    """Choose the slots of every ring from the cost model and the SRAM there is.

    A ring between engines gets as many slots as its hand-overs take iterations, the most useful per byte
    first, while all fits. `num_stages`, or the attribute `dsa.num_stages` of a loop, fixes the slots of
    rings that are loaded in a loop. Raises SramOverflowError when single slots do not fit, or the fixed ones.
    """
    for kernel in module.ops:
        if isinstance(kernel, func.FuncOp):
            _buffer_kernel(kernel, target, num_stages)


def _buffer_kernel(kernel: func.FuncOp, target: Target, num_stages: int | None) -> None:
    uses = ring_uses(kernel)
    slots = [use.least for use in uses]
    addresses = fit(uses, slots, target)
    if addresses is None:
        raise overflow_error(uses, slots, target)
    fixed = _fixed_slots(uses, num_stages, target)
    if fixed:
        slots = [fixed.get(number, count) for number, count in enumerate(slots)]
        addresses = fit(uses, slots, target)
        if addresses is None:
            raise _stages_error(uses, slots, fixed, target)
    better = _choose(kernel, uses, slots, set(fixed), target)
    # Where there is nothing better, only the exact search has found addresses.
    for use, count, address in zip(uses, *(better or (slots, addresses)), strict=True):
        use.ring.slots, use.ring.address = IntegerAttr(count, i64), IntegerAttr(address, i64)


def _fixed_slots(uses: Sequence[RingUse], num_stages: int | None, target: Target) -> dict[int, int]:
    """Slots by ring that the user fixed: those of microkernels; for rings that LD fills once per iteration of their loop."""
    fixed: dict[int, int] = {}
    for number, use in enumerate(uses):
        if use.ring.slots.value.data:  # a microkernel has said how many
            fixed[number] = use.least
            continue
        if not any(engine is Engine.LD and role == "w" for _, engine, role in use.accesses):
            continue
        stages = num_stages
        attribute = use.loop.attributes.get("dsa.num_stages")
        if isinstance(attribute, IntegerAttr):
            stages = attribute.value.data
        if stages is not None and _is_overlapped(use):
            fixed[number] = max(use.least, min(stages, target.semaphore_max))
    return fixed


def _is_overlapped(use: RingUse) -> bool:
    return len(use.engines) > 1 and use.repeats


def _stages_error(
    uses: Sequence[RingUse], slots: Sequence[int], fixed: dict[int, int], target: Target
) -> SramOverflowError:
    """`num_stages` asks for more than there is."""
    biggest = max(fixed, key=lambda number: uses[number].bytes * slots[number])
    stages = slots[biggest]
    possible = stages
    while possible > 1:
        possible -= 1
        trial = [
            max(uses[n].least, min(count, possible)) if n in fixed else count
            for n, count in enumerate(slots)
        ]
        if fit(uses, trial, target) is not None:
            break
    total = sum(use.bytes * count for use, count in zip(uses, slots, strict=True))
    use = uses[biggest]
    return SramOverflowError(
        f"num_stages={stages} needs {kib(total)} of SRAM, target {target.name!r} has "
        f"{kib(target.sram_bytes)}; the biggest loaded tile, {use.ring.label.data}, takes "
        f"{kib(use.bytes)} per stage",
        from_ir(use.ring.location),
        f"at most num_stages={possible} fits; smaller blocks make room for more",
    )


def _choose(
    kernel: func.FuncOp, uses: Sequence[RingUse], slots: list[int], fixed: set[int], target: Target
) -> tuple[Sequence[int], Sequence[int]] | None:
    """Slots by what they gain while the SRAM lasts, and addresses; where it does not, what a search finds, if anything."""
    work = Work(target)
    rates = loop_rates(uses, work)
    limits = {
        n: min(rates[n].wanted, target.semaphore_max) for n in sorted(rates) if n not in fixed
    }
    starts: list[list[Choice]] = []
    for level in range(len(LIVES)):
        if fit(uses, slots, target, exact=False, levels=level + 1) is None:
            continue
        more = _give(uses, slots, rates, fixed, target, level + 1)
        addresses = fit(uses, more, target, exact=False, levels=1)
        if addresses is not None and all(limit <= more[n] for n, limit in limits.items()):
            return more, addresses
        levels = (level,) * len(uses)
        starts += [
            [Choice(tuple(trial), levels, n) for n in range(len(ORDERS))] for trial in (slots, more)
        ]
    space = Space(uses, limits, target)
    best = _search(kernel, space, starts, work) if starts else None
    return None if best is None else (best.slots, space.addresses(best)[0])


def _search(
    kernel: func.FuncOp, space: Space, starts: Sequence[Sequence[Choice]], work: Work
) -> Choice | None:
    """The best choice of a search from each of the starts; None when none of them fits."""
    rehearsals = Search(space, Rehearsal(kernel, space.uses, work).cycles, MOST_REHEARSALS)
    firsts = {rehearsals.cheapest(start): None for start in starts}
    each = MOST_REHEARSALS // len(firsts)
    improved = {rehearsals.improve(first, each): None for first in firsts}
    found = [choice for choice in firsts | improved if rehearsals.cost(choice)[0] < inf]
    if not found:
        return None
    trials = Search(space, Trial(kernel, space.target).cycles, MOST_TRIALS)
    try:
        return trials.improve(trials.cheapest(found), MOST_TRIALS)
    except UserError:  # what the kernel does depends on data
        return rehearsals.cheapest(found)


MOST_REHEARSALS, MOST_TRIALS = 180, 30
"""How much is tried for a kernel whose rings do not get all the slots they want."""


def _give(
    uses: Sequence[RingUse],
    given: Sequence[int],
    rates: dict[int, Rates],
    fixed: set[int],
    target: Target,
    levels: int,
) -> list[int]:
    """Raise slots step by step, the step with the largest gain per byte first, while everything fits."""
    slots = list(given)
    open_ = {n for n in rates if n not in fixed}
    while open_:
        best = max(open_, key=lambda n: (_gain(rates[n], slots[n]) / uses[n].bytes, -n))
        if _gain(rates[best], slots[best]) <= 0 or slots[best] >= target.semaphore_max:
            open_.discard(best)
            continue
        slots[best] += 1
        if fit(uses, slots, target, exact=False, levels=levels) is None:
            slots[best] -= 1
            open_.discard(best)
    return slots


def _gain(rates: Rates, slots: int) -> float:
    """Cycles that one more slot saves: the ring's turn bounds an iteration by held / slots."""
    now, then = (max(rates.period, rates.held / count) for count in (slots, slots + 1))
    saved = (now - then) * rates.turns
    if slots < rates.wanted and saved <= 0:  # room for jitter, worth little
        return rates.turns * 1e-6
    return saved
