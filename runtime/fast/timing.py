"""Machine time over a stream of issued instructions, as plain Python that `llvm/subset.py` compiles.

The rules are those of `reference/core.py`; the order of work is another one. The reference engine follows
the clock. Here every queue runs ahead as far as what it waits for is known, which needs no clock: times are
maxima of earlier times. Only the HBM port needs care, because LD and ST share it first come first served:
a transfer is decided when nothing else can move. An engine that has not yet shown its next transfer by then
waits, directly or not, for one that has; so its own will be ready later, and the earliest one shown goes first.

This is right when each semaphore has one setter and one taker, whose tokens are then first in, first out
in any order of work (`plan.py` checks that), and when tokens flow from earlier-issued to later-issued
instructions, as in all that the compiler emits. Anything else ends as a deadlock.

Loops that have come into a steady state are not gone through: see `repeats.py`.
"""

from __future__ import annotations

from .repeats import (
    alike,
    boundary,
    compare,
    image,
    mark,
    pulse,
    rotate,
    rotate_tokens,
    scope,
    seek,
    skip,
)
from .timing_state import State as State

RECORD = 4
"""Words of a record of the trace: template (or WAIT, READ), two numbers, an SRAM address.

The numbers are burst bytes of a DMA instruction; cycles and operations of others (negative: the template's
own); the semaphore of a WAIT.
"""
WAIT, READ = -1, -2

COMPUTE, DMA, SET, TAKE = range(4)
NOT_ISSUED, PORT_BUSY, QUEUE_FULL, BY_TEMPLATE = 0, 1, 2, 6
"""Reasons for standing still: QUEUE_FULL + engine, BY_TEMPLATE + the template that set the semaphore."""

RUNNING, STUCK = 0, 1
EVENT, STAND = 6, 4
"""Words of a row of `events` (engine, template, start, end, complete, address) and of `stands`
(engine, reason, start, end)."""


def simulate(s: State, count: int, final: int) -> int:
    """Consume `count` records; `final` is 1 when no more will come. Returns RUNNING or STUCK."""
    s.at = 0
    s.records = count
    s.gap = 64
    seek(s)
    moved = 1
    while moved != 0:
        while s.at < count and advance(s) != 0:
            moved = 1
            if s.at == s.stop:
                boundary(s)
        if s.at >= count and final == 0:
            return 0
        moved = transfer(s)
    leftover(s)
    for e in range(4):
        if s.issued[e] - s.started[e] > 0 or s.at < count:
            return 1
    return 0


def advance(s: State) -> int:
    """Let the control core do the record at hand; 0 when it has to wait."""
    w = s.at * 4
    code = s.trace[w]
    if code == -2:
        s.core_busy += s.read_cycles
        s.time += s.read_cycles
        s.at += 1
        return 1
    if code == -1:
        sem = s.trace[w + 1]
        if s.takes[sem] == s.sets[sem]:
            return 0
        s.time = take(s, sem, 4, s.time)
        s.at += 1
        return 1
    e = s.engine[code]
    if s.charged == 0:
        s.charged = 1
        s.time += s.issue[code]
        s.core_busy += s.issue[code]
    n = s.issued[e]
    if n - s.started[e] >= s.depth:
        return 0
    if n >= s.depth:
        room = s.left[e * s.ring + ((n - s.depth) & (s.ring - 1))]
        if room > s.time:
            stall(s, 4, 2 + e, s.time, room)
            s.time = room
    i = e * s.ring + (n & (s.ring - 1))
    s.q_template[i] = code
    s.q_time[i] = s.time
    s.q_first[i] = s.trace[w + 1]
    s.q_second[i] = s.trace[w + 2]
    s.q_address[i] = s.trace[w + 3]
    s.issued[e] = n + 1
    s.core_issued += 1
    s.charged = 0
    s.at += 1
    drain(s, e)
    settle(s)
    return 1


def settle(s: State) -> int:
    """Run the engines that tokens have reached."""
    while s.dirty != 0:
        for e in range(4):
            if s.dirty & (1 << e) != 0:
                s.dirty ^= 1 << e
                drain(s, e)
    return 0


def drain(s: State, e: int) -> int:
    """Start what can start on an engine."""
    while s.started[e] < s.issued[e] and s.moving[e] == 0:
        i = e * s.ring + (s.started[e] & (s.ring - 1))
        t = s.q_template[i]
        kind = s.kind[t]
        sem = s.sem[t]
        if kind == 3 and s.takes[sem] == s.sets[sem]:
            return 0
        time = s.free[e]
        if s.q_time[i] > time:
            stall(s, e, 0, time, s.q_time[i])
            time = s.q_time[i]
        if kind == 3:
            time = take(s, sem, e, time)
        s.free[e] = time
        s.left[i] = time
        s.started[e] += 1
        if kind == 2:
            put(s, sem, t, max(time, s.completed[e]))
        elif kind == 1:
            begin(s, e, i, time)
        elif kind == 0:
            compute(s, e, i, time)
    return 0


def compute(s: State, e: int, i: int, time: int) -> int:
    """An instruction of MM or VE: the engine is busy until its end."""
    t = s.q_template[i]
    cycles = s.cycles[t]
    work = s.work[t]
    if s.q_first[i] >= 0:
        cycles = s.q_first[i]
        work = s.q_second[i]
    end = time + cycles
    s.free[e] = end
    s.completed[e] = end
    s.busy[e] += cycles
    s.count[e] += 1
    s.operations[e] += work
    s.computed[e] = 1
    if s.timeline != 0:
        record(s, e, t, time, end, end, s.q_address[i])
    return 0


def begin(s: State, e: int, i: int, time: int) -> int:
    """An instruction of LD or ST: set up, then a transfer that waits for the port."""
    t = s.q_template[i]
    s.count[e] += 1
    s.moving[e] = 1
    s.move_template[e] = t
    s.move_start[e] = time
    s.move_ready[e] = time + s.cycles[t]
    s.move_bytes[e] = s.q_first[i]
    s.move_address[e] = s.q_address[i]
    return 0


def transfer(s: State) -> int:
    """Give the port to the transfer that was ready first, LD before ST; 0 when none waits."""
    e = 0
    if s.moving[0] == 0:
        if s.moving[1] == 0:
            return 0
        e = 1
    elif s.moving[1] != 0 and s.move_ready[1] < s.move_ready[0]:
        e = 1
    moved = s.move_bytes[e]
    rest = moved % s.cycles_den
    cycles = moved // s.cycles_den * s.cycles_num
    cycles += (rest * s.cycles_num + s.cycles_den - 1) // s.cycles_den
    ready = s.move_ready[e]
    start = max(ready, s.port_free)
    end = start + cycles
    stall(s, e, 1, ready, start)
    s.moving[e] = 0
    s.free[e] = end
    s.port_free = end
    late = 0
    if s.jitter != 0:  # as in `jitter.py`
        s.noise = s.noise * 48271 % 2147483647
        late = s.noise % (s.jitter + 1)
    s.completed[e] = max(s.completed[e], end + s.latency + late)
    s.busy[e] += ready - s.move_start[e] + cycles
    s.port_busy += cycles
    s.burst_bytes += moved
    if s.timeline != 0:
        record(s, e, s.move_template[e], s.move_start[e], end, s.completed[e], s.move_address[e])
    drain(s, e)
    settle(s)
    return 1


def put(s: State, sem: int, template: int, time: int) -> int:
    """A set takes effect at `time`. The semaphore holds too many when a token as old as `most` stays."""
    k = s.sets[sem]
    s.sets[sem] = k + 1
    i = sem * s.tokens + (k & (s.tokens - 1))
    s.token_time[i] = time
    s.token_reason[i] = 6 + template
    j = k - s.most
    late = sem * s.tokens + (j & (s.tokens - 1))
    if j >= 0 and j < s.takes[sem] and s.take_time[late] > time:
        overflow(s, sem, template, time)
    if k + 1 - s.takes[sem] >= s.tokens:
        overflow(s, sem, template, time)
    if s.taker[sem] < 4 and k == s.takes[sem]:
        s.dirty |= 1 << s.taker[sem]
    return 0


def take(s: State, sem: int, e: int, time: int) -> int:
    """Take the oldest token for engine `e`, which has waited since `time`. Returns when."""
    j = s.takes[sem]
    s.takes[sem] = j + 1
    i = sem * s.tokens + (j & (s.tokens - 1))
    if j >= s.initial[sem] and s.token_time[i] > time:
        stall(s, e, s.token_reason[i], time, s.token_time[i])
        time = s.token_time[i]
    s.take_time[i] = time
    k = j + s.most
    if k < s.sets[sem] and k >= s.initial[sem]:
        i = sem * s.tokens + (k & (s.tokens - 1))
        if s.token_time[i] < time:
            overflow(s, sem, s.token_reason[i] - 6, s.token_time[i])
    return time


def leftover(s: State) -> int:
    """At the end: semaphores that were left with more than they can hold."""
    for sem in range(s.semaphores):
        k = s.takes[sem] + s.most
        if k < s.sets[sem] and k >= s.initial[sem]:
            i = sem * s.tokens + (k & (s.tokens - 1))
            overflow(s, sem, s.token_reason[i] - 6, s.token_time[i])
    return 0


def overflow(s: State, sem: int, template: int, time: int) -> int:
    """Remember the earliest overflow of a semaphore."""
    if s.over_time < 0 or time < s.over_time:
        s.over_time = time
        s.over_sem = sem
        s.over_template = template
    return 0


def stall(s: State, e: int, reason: int, start: int, end: int) -> int:
    """Count the cycles for which an engine stood still."""
    if end > start:
        s.stalls[e * s.reasons + reason] += end - start
        if s.timeline != 0:
            w = s.stand_count * 4
            s.stands[w] = e
            s.stands[w + 1] = reason
            s.stands[w + 2] = start
            s.stands[w + 3] = end
            s.stand_count += 1
    return 0


def record(
    s: State, e: int, template: int, start: int, end: int, complete: int, address: int
) -> int:
    """Keep an instruction's times for the timeline."""
    w = s.event_count * 6
    s.events[w] = e
    s.events[w + 1] = template
    s.events[w + 2] = start
    s.events[w + 3] = end
    s.events[w + 4] = complete
    s.events[w + 5] = address if address >= 0 else s.address[template]
    s.event_count += 1
    return 0


FUNCTIONS = (
    simulate, advance, settle, drain, compute, begin, transfer, put, take, leftover, overflow, stall, record,
    seek, boundary, alike, scope, image, compare, pulse, mark, skip, rotate, rotate_tokens,
)  # fmt: skip
INLINED = (compute, begin, put, take)
