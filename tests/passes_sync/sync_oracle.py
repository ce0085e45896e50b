"""A dynamic oracle: run a kernel's control flow with chosen branches and trip counts, then look at what happened.

It shares no code with the passes. `record` walks the IR and writes down the instructions in issue order with
concrete addresses; `races` finds conflicting instructions that happens-before leaves unordered (vector
clocks over exact token matching); `simulate` executes the queues in random order with bounded depth and
says when semaphores overflow or nothing can move.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from dsalang._backend.dialects import dsa
from dsalang._backend.isa.table import BY_NAME

CORE = 4


@dataclass(eq=False)
class Event:
    """An instruction, set, wait or read; `spans` are (start, end, reads, writes) in SRAM."""

    kind: str
    engine: int
    op: Operation
    sem: int = -1
    spans: list[tuple[int, int, bool, bool]] = field(default_factory=list)
    hbm: tuple[int, bool, bool] | None = None
    program: int = -1


class Recorder:
    """Walks a kernel once with random decisions."""

    def __init__(
        self, module: ModuleOp, rng: random.Random, align: int, skip: frozenset[int]
    ) -> None:
        self.rng = rng
        self.align = align
        self.skip = skip
        self.trace: list[Event] = []
        self.turn: dict[Operation, int] = defaultdict(int)
        self.slot: dict[SSAValue, tuple[int, int]] = {}
        self.program = -1
        self.budget = 100
        function = next(op for op in module.ops if isinstance(op, func.FuncOp))
        self.top = function.body.block
        self.block(self.top)

    def trips(self) -> int:
        return self.rng.choice([0, 1, 1, 2, 3, 5]) if self.budget > 0 else 0

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.step(op, block is self.top)

    def step(self, op: Operation, top: bool) -> None:
        if isinstance(op, scf.ForOp):
            for _ in range(self.rng.choice([2, 3, 5]) if top else self.trips()):
                if top:
                    self.program += 1
                    self.budget = 100
                self.block(op.body.block)
        elif isinstance(op, scf.IfOp):
            regions = list(op.regions)
            region = self.rng.choice(regions)
            if region.blocks:
                self.block(region.block)
        elif isinstance(op, scf.WhileOp):
            for _ in range(self.trips()):
                self.block(op.before_region.block)
                self.block(op.after_region.block)
            self.block(op.before_region.block)
        elif isinstance(op, dsa.AcquireOp):
            ring = op.ring.owner
            assert isinstance(ring, dsa.RingOp)
            size = ring.bytes.value.data
            stride = -(-size // self.align) * self.align
            number = self.turn[ring] % ring.slots.value.data
            self.turn[ring] += 1
            start = ring.address.value.data + number * stride
            self.slot[op.result] = (start, start + size)
        elif isinstance(op, dsa.PartOp):
            self.slot[op.result] = self.slot[op.whole]
        elif isinstance(op, dsa.HeldOp):
            acquire = op.current.owner
            assert isinstance(acquire, dsa.AcquireOp) and isinstance(acquire.ring.owner, dsa.RingOp)
            ring = acquire.ring.owner
            size = ring.bytes.value.data
            number = (self.turn[ring] - 1 - op.age.value.data) % ring.slots.value.data
            start = ring.address.value.data + number * (-(-size // self.align) * self.align)
            self.slot[op.result] = (start, start + size)
        elif isinstance(op, (dsa.SetOp, dsa.WaitOp)):
            if id(op) not in self.skip:
                kind = "set" if isinstance(op, dsa.SetOp) else "wait"
                self.add(Event(kind, op.engine.value.data, op, op.sem.value.data))
        elif isinstance(op, dsa.ReadOp):
            self.add(Event("issue", CORE, op, spans=[(*self.slot[op.slot], True, False)]))
        elif isinstance(op, dsa.IssueOp):
            self.add(self.issue(op))

    def issue(self, op: dsa.IssueOp) -> Event:
        row = BY_NAME[op.op.data]
        event = Event("issue", int(row.engines[0]), op, program=self.program)
        for name, value in zip(op.bind, op.args):
            role = row.by_name[name.data.split(".")[0]].role  # type: ignore[attr-defined]
            if role and role.startswith("sram"):
                kind = role.split("_")[1]
                event.spans.append((*self.slot[value], "r" in kind, "w" in kind))
        for f in row.fields:
            if f.role and f.role.startswith("hbm"):
                kind = f.role.split("_")[1]
                arg = -1 if op.hbm_arg is None else op.hbm_arg.value.data
                event.hbm = (arg, "r" in kind, "w" in kind)
        return event

    def add(self, event: Event) -> None:
        self.budget -= 1
        self.trace.append(event)


def record(
    module: ModuleOp, seed: int, align: int = 64, skip: frozenset[int] = frozenset()
) -> list[Event]:
    """One run's instructions in issue order."""
    return Recorder(module, random.Random(seed), align, skip).trace


def credits_of(module: ModuleOp) -> list[int]:
    function = next(op for op in module.ops if isinstance(op, func.FuncOp))
    attribute = function.attributes.get("dsa.credits")
    return [] if attribute is None else list(attribute.get_values())  # type: ignore[attr-defined]


def _conflict(a: Event, b: Event, alias: list[int]) -> bool:
    """Whether a's work must be complete when b starts, and the queue alone does not see to it."""
    same = a.engine == b.engine

    def bad(ar: bool, aw: bool, br: bool, bw: bool) -> bool:
        return (a.engine in (0, 1) and aw and br) if same else (aw or bw)

    for s0, e0, r0, w0 in a.spans:
        for s1, e1, r1, w1 in b.spans:
            if s0 < e1 and s1 < e0 and bad(r0, w0, r1, w1):
                return True
    if a.hbm is None or b.hbm is None or a.program != b.program:
        return False
    if same and all(a.hbm[1:] + b.hbm[1:]):
        return False  # atomics
    x, y = a.hbm[0], b.hbm[0]
    return (x < 0 or y < 0 or alias[x] == alias[y]) and bad(*a.hbm[1:], *b.hbm[1:])


def races(trace: list[Event], credits: list[int], alias: list[int]) -> list[tuple[Event, Event]]:
    """Conflicting pairs that nothing orders, one for each two ops.

    Semaphores must have one setting and one waiting engine, or be drains.
    """
    known = [
        [0] * 5 for _ in range(5)
    ]  # known[E][F]: how many events of F are complete as E sees it
    count = [0] * 5
    tokens: dict[int, list[list[int]]] = defaultdict(list)
    for sem, n in enumerate(credits):
        tokens[sem] = [[0] * 5 for _ in range(n)]
    done: list[tuple[Event, int]] = []
    found: dict[tuple[int, int], tuple[Event, Event]] = {}
    for event in trace:
        e = event.engine
        mine = known[e] = [max(x, y) for x, y in zip(known[e], known[CORE])]
        if event.kind == "wait":
            if not tokens[event.sem]:
                found[id(event.op), id(event.op)] = event, event
                continue
            token = tokens[event.sem].pop(0)
            known[e] = [max(x, y) for x, y in zip(mine, token)]
        elif event.kind == "set":
            clock = list(mine)
            clock[e] = count[e]
            tokens[event.sem].append(clock)
        else:
            for other, number in done:
                key = id(other.op), id(event.op)
                if mine[other.engine] >= number or key in found:
                    continue
                if _conflict(other, event, alias):
                    found[key] = other, event
        count[e] += 1
        done.append((event, count[e]))
        if e == CORE:
            known[CORE][CORE] = count[CORE]
        if e in (2, 3):
            known[e][e] = count[e]
    return list(found.values())


def simulate(trace: list[Event], credits: list[int], most: int, depth: int, seed: int) -> str:
    """Execute the queues in random order: '', or what went wrong ("overflow", "deadlock")."""
    rng = random.Random(seed)
    value: dict[int, int] = defaultdict(int, enumerate(credits))
    queues: list[list[Event]] = [[] for _ in range(4)]
    bias = [rng.random() ** 3 + 0.01 for _ in range(5)]
    at = 0
    while at < len(trace) or any(queues):
        able = []
        if at < len(trace):
            event = trace[at]
            if event.engine != CORE:
                if len(queues[event.engine]) < depth:
                    able.append(CORE)
            elif event.kind != "wait" or value[event.sem] > 0:
                able.append(CORE)
        for e, queue in enumerate(queues):
            if queue and (queue[0].kind != "wait" or value[queue[0].sem] > 0):
                able.append(e)
        if not able:
            return "deadlock"
        who = rng.choices(able, [bias[e] for e in able])[0]
        if who == CORE:
            event = trace[at]
            at += 1
            if event.engine != CORE:
                queues[event.engine].append(event)
                continue
        else:
            event = queues[who].pop(0)
        if event.kind == "wait":
            value[event.sem] -= 1
        elif event.kind == "set":
            value[event.sem] += 1
            if value[event.sem] > most:
                return "overflow"
    return ""
