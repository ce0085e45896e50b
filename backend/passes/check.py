"""The check pass: an independent proof that an emitted kernel has no race and no deadlock.

Abstract interpretation over the structured program in issue order. For every engine the state holds a
vector (see `check_program`) of what may still be incomplete as seen by the next instruction of its queue,
and for every semaphore the queue of tokens that are out, each with the vector its set stands for. A set
appends its engine's vector, with the engine's own work complete; a wait takes the oldest token and keeps
only what is incomplete by both accounts. Instructions issued later are incomplete for every token.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ..dialects import dsa, print_ir
from ..dialects.locations import from_ir
from ..errors import InternalError, Loc, MicrokernelError
from ..isa.table import Engine
from ..target import Target
from .check_program import Branch, Issue, Loop, Program, Rotate, Signal, Step, Touch, build

ENGINES = tuple(Engine)
CREDIT = -1
"""Origin of a token that no set has made."""


@dataclass(frozen=True)
class Hazard:
    """What can go wrong: kind is race, deadlock, overflow or unbalanced; locs are the lines at fault."""

    kind: str
    message: str
    locs: tuple[Loc | None, ...]
    ops: tuple[Operation, ...] = ()


@dataclass
class State:
    """Vectors by engine; by semaphore the tokens that are out, the oldest first: vectors, and sets they come from."""

    engines: list[int]
    tokens: dict[int, list[int]]
    origins: dict[int, list[int]]

    def copy(self) -> State:
        """A state that can change without changing this one."""
        return State(
            list(self.engines),
            {sem: list(queue) for sem, queue in self.tokens.items()},
            {sem: list(queue) for sem, queue in self.origins.items()},
        )


@dataclass
class _Ended:
    """A loop's states at the head, and on leaving it, that further turns do not change."""

    head: State
    leave: State


class _StopError(Exception):
    """The program cannot be interpreted further."""


class Interpreter:
    """Runs a program, with the signals in `skip` left out; collects hazards and which set fed which wait.

    Counts of waits go up to `wide`; narrow ones converge sooner, but may find overflows that cannot happen.
    """

    def __init__(
        self, program: Program, target: Target, skip: Collection[Signal], wide: int
    ) -> None:
        self.wide = wide
        self.program = program
        self.target = target
        self.skip = {id(signal) for signal in skip}
        self.hazards: dict[tuple[object, ...], Hazard] = {}
        self.ended: dict[int, _Ended] = {}
        self.matches: set[tuple[int, int]] = set()
        self.setters: dict[int, set[Engine]] = {}
        self.waiters: dict[int, set[Engine]] = {}
        self.count_at: dict[int, int] = {}
        self.counts: dict[int, list[int]] = {signal.sem: [] for signal in program.signals}
        """The first bits of counts, by the wait's number and by semaphore."""
        for signal in program.signals:
            if not signal.is_set and signal.engine is not Engine.CORE:
                self.count_at[signal.number] = program.first_count + len(self.count_at) * wide
                self.counts[signal.sem].append(self.count_at[signal.number])
            if id(signal) not in self.skip:
                group = self.setters if signal.is_set else self.waiters
                group.setdefault(signal.sem, set()).add(signal.engine)

    def run(self) -> list[Hazard]:
        """All hazards found."""
        credits = self.program.credits
        start = State([0] * len(ENGINES), {}, {})
        for sem in {signal.sem for signal in self.program.signals}:
            start.tokens[sem], start.origins[sem] = [], []
        for sem, count in enumerate(credits):
            if count > self.target.semaphore_max:
                self.report("overflow", f"semaphore {sem} starts with {count} credits", ())
            start.tokens[sem], start.origins[sem] = [0] * count, [CREDIT] * count
        for signal in self.program.signals:
            if not 0 <= signal.sem < self.target.semaphores:
                self.report("overflow", f"the target has no semaphore {signal.sem}", (signal.op,))
        with contextlib.suppress(_StopError):
            self.steps(self.program.steps, start)
        return list(self.hazards.values())

    def report(self, kind: str, message: str, ops: tuple[Operation, ...]) -> None:
        """Note a hazard once."""
        locs = tuple(from_ir(op.location) for op in ops)
        places = ", ".join(str(loc) for loc in locs if loc is not None)
        text = f"{kind}: {message}" + (f" ({places})" if places else "")
        self.hazards.setdefault(
            (kind, *map(id, ops), *message.split()[:1]), Hazard(kind, text, locs, ops)
        )

    def steps(self, steps: list[Step], state: State) -> State:
        """The state after some steps; `state` is changed."""
        for step in steps:
            if isinstance(step, Issue):
                self.issue(step, state)
            elif isinstance(step, Rotate):
                if step.width:
                    _rotate(step, state)
            elif isinstance(step, Signal):
                if id(step) not in self.skip:
                    (self.set if step.is_set else self.wait)(step, state)
            elif isinstance(step, Branch):
                arms = [self.steps(arm, state.copy()) for arm in step.arms]
                state = self.join(arms[0], arms[1], step.op)
            else:
                state = self.loop(step, state)
        return state

    def loop(self, step: Loop, head: State) -> State:
        """Go round until nothing new comes in at the head.

        Whatever comes to a loop grows from visit to visit, so a visit goes on from where the last one ended.
        """
        if step.grid:
            _change(head, lambda vector: vector & ~self.program.hbm)
        ended = self.ended.get(id(step))
        if ended is not None:
            head = self.join(head, ended.head, step.op)
            if head == ended.head:
                return ended.leave.copy()
        while True:
            leave = self.steps(step.before, head.copy())
            back = self.steps(step.body, leave.copy())
            if step.grid:
                _change(back, lambda vector: vector & ~self.program.hbm)
            joined = self.join(head, back, step.op)
            if joined == head:
                break
            head = joined
        if not step.before:
            leave = back if step.runs else head
        self.ended[id(step)] = _Ended(head, leave)
        return leave.copy()

    def join(self, a: State, b: State, op: Operation) -> State:
        """What may be incomplete on either way; both ways must leave equally many tokens."""
        joined = State([x | y for x, y in zip(a.engines, b.engines)], {}, {})
        for sem, queue in a.tokens.items():
            other = b.tokens[sem]
            if len(queue) != len(other):
                self.report(
                    "unbalanced",
                    f"semaphore {sem} has {len(queue)} or {len(other)} tokens after {op.name}, "
                    "depending on the way taken",
                    (op,),
                )
                raise _StopError
            joined.tokens[sem] = [x | y for x, y in zip(queue, other)]
            joined.origins[sem] = [max(x, y) for x, y in zip(a.origins[sem], b.origins[sem])]
        return joined

    def issue(self, step: Issue, state: State) -> None:
        """An instruction enters its queue, or the control core reads."""
        foes = state.engines[step.engine] & step.foes
        while foes:
            low = foes & -foes
            self.race(self.program.names[low.bit_length() - 1], step)
            foes ^= low
        if not step.born:
            return
        born = step.born
        mine = state.engines[step.engine]
        _change(state, lambda vector: vector | born)
        if step.engine not in (Engine.LD, Engine.ST):
            state.engines[step.engine] = mine

    def race(self, first: Touch, later: Issue) -> None:
        """Report that `later` can run while `first` is incomplete."""
        ring = first.ring
        what = f"HBM of argument {first.arg}" if ring is None else f"ring {ring.label.data!r}"
        self.report(
            "race",
            f"{_name(later)} can start before {_name(first.issue)} is done with {what}",
            (later.op, first.issue.op),
        )

    def set(self, step: Signal, state: State) -> None:
        """Append a token; the count must stay within the target's bound whatever the waits' progress."""
        vector = state.engines[step.engine]
        queue = state.tokens[step.sem]
        most = self.target.semaphore_max
        queue.append(vector & ~self.program.own[step.engine])
        state.origins[step.sem].append(step.number)
        if self.is_shared(step.sem):
            count = len(queue)
            most = 1
        else:
            count = len(queue) + self.pending_waits(vector, step.sem)
        if count > most:
            self.report(
                "overflow", f"semaphore {step.sem} can count to {count}, above {most}", (step.op,)
            )
            if len(queue) > most:
                raise _StopError

    def wait(self, step: Signal, state: State) -> None:
        """Take the oldest token."""
        queue = state.tokens[step.sem]
        if not queue:
            self.report(
                "deadlock",
                f"{step.engine.name} waits for semaphore {step.sem}, which nothing issued before sets",
                (step.op,),
            )
            raise _StopError
        token = queue.pop(0)
        self.matches.add((state.origins[step.sem].pop(0), step.number))
        if self.is_shared(step.sem) and (queue or self.waiters[step.sem] != {Engine.CORE}):
            self.report(
                "race",
                f"{step.engine.name} may take another engine's token of semaphore {step.sem}",
                (step.op,),
            )
        if step.engine is Engine.CORE:
            core = state.engines[Engine.CORE] & token
            state.engines = [vector & core for vector in state.engines]
            return
        first = self.count_at[step.number]
        mask = ((1 << self.wide) - 1) << first
        mine = state.engines[step.engine]

        def one_more(vector: int) -> int:
            return vector & ~mask | (vector & mask) << 1 & mask | 1 << first

        _change(state, one_more)
        state.engines[step.engine] = mine & token & ~mask

    def pending_waits(self, vector: int, sem: int) -> int:
        """How many waits on a semaphore may be issued and incomplete."""
        counts = [
            (vector >> first & ((1 << self.wide) - 1)).bit_length() for first in self.counts[sem]
        ]
        return self.target.semaphore_max if self.wide in counts else sum(counts)

    def is_shared(self, sem: int) -> bool:
        """Whether several engines set or wait on a semaphore: then nobody's token is first."""
        return len(self.setters.get(sem, ())) > 1 or len(self.waiters.get(sem, ())) > 1


def _rotate(step: Rotate, state: State) -> None:
    mask, width, top, wrap = step.mask, step.width, step.top, step.wrap

    def moved(vector: int) -> int:
        ours = vector & mask
        if not ours:
            return vector
        return vector ^ ours | (ours & ~top) << width | (ours & top) >> wrap

    _change(state, moved)


def _change(state: State, change: Callable[[int], int]) -> None:
    """Apply a change to every vector of a state."""
    state.engines = [change(vector) for vector in state.engines]
    for queue in state.tokens.values():
        if queue:
            queue[:] = [change(vector) for vector in queue]


def _name(step: Issue) -> str:
    name = step.op.op.data if isinstance(step.op, dsa.IssueOp) else step.op.name
    return f"{step.engine.name} {name}"


def hazards_of(program: Program, target: Target, skip: Collection[Signal] = ()) -> list[Hazard]:
    """The hazards of a program without the signals in `skip`."""
    widest = target.semaphore_max + 1
    wide = min(widest, max(program.credits, default=0) + 3)
    hazards = Interpreter(program, target, skip, wide).run()
    if wide < widest and any(hazard.kind == "overflow" for hazard in hazards):
        hazards = Interpreter(program, target, skip, widest).run()
    return hazards


def find_hazards(module: ModuleOp, target: Target) -> list[Hazard]:
    """Every race, deadlock, overflow and imbalance of a kernel with its semaphores in place."""
    return hazards_of(build(module, target), target)


def _own_error(hazard: Hazard) -> MicrokernelError:
    """The error of a microkernel whose own flags do not do."""
    calls = [dsa.own_call(op) for op in hazard.ops]
    at = next(n for n, call in enumerate(calls) if call is not None)
    name = str(calls[at]).rpartition("/")[0]
    return MicrokernelError(
        f"microkernel {name} is not safe: {hazard.message}",
        hazard.locs[at],
        _HINTS.get(hazard.kind, ""),
    )


_HINTS = {
    "race": "order the two: k.set on the engine that comes first, k.wait on the other one, or leave it to the "
    'compiler with flags="auto"',
    "deadlock": "a k.wait comes after the k.set that it waits for, or its semaphore starts with credits",
    "overflow": "make the engine that sets wait for the one that takes, by a second semaphore",
    "unbalanced": "k.set and k.wait run equally often",
}


def check(module: ModuleOp, target: Target) -> None:
    """Raise InternalError when the kernel can race, deadlock or overflow a semaphore.

    Where the flags are a microkernel's own, that is a MicrokernelError.
    """
    hazards = find_hazards(module, target)
    for hazard in hazards:
        if any(dsa.own_call(op) is not None for op in hazard.ops):
            raise _own_error(hazard)
    if hazards:
        raise InternalError(
            "the compiler made a program that is not safe to run:\n"
            + "\n".join(f"  {hazard.message}" for hazard in hazards)
            + f"\n{print_ir(module)}"
        )
