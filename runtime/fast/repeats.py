"""Periods of the trace that cost the same as the one before: their time is added, not simulated.

What `timing.py` does depends on times only through maxima, sums and comparisons. So when the machine is in a state
that it was in one period ago, all times later by the same step, and the next records are those of that period
again, then it takes the same step again. "The state" is all that can matter later, relative to the control
core's time (`image`); counters of rings count on, and their entries move along.

Plain Python over integers, compiled together with `timing.py`.
"""

from __future__ import annotations

from .timing_state import State


def seek(s: State) -> int:
    """Find the period in which the records from the one at hand on repeat, and when to look at the machine.

    Where there is none, look again further on: after 64 records, then after 128, …
    """
    most = min((s.records - s.at) // 4, 512)
    s.period = 0
    s.stop = -1
    if most <= 0 or s.timeline != 0 or s.over_time >= 0 or s.jitter != 0:
        return 0
    code = s.trace[s.at * 4]
    for p in range(1, most + 1):
        if s.trace[(s.at + p) * 4] == code and alike(s, s.at, p, p) == p:
            s.period = p
            s.stop = s.at + p
            s.shot_at = -1
            s.lap = 1
            scope(s)
            return 0
    s.stop = s.at + s.gap
    s.gap *= 2
    return 0


def alike(s: State, at: int, p: int, most: int) -> int:
    """How many of the `most` records from `at` on are equal to those `p` records later, addresses apart."""
    for i in range(most):
        w = (at + i) * 4
        v = w + p * 4
        different = (
            (s.trace[w] ^ s.trace[v])
            | (s.trace[w + 1] ^ s.trace[v + 1])
            | (s.trace[w + 2] ^ s.trace[v + 2])
        )
        if different != 0:
            return i
    return most


def scope(s: State) -> int:
    """Find the engines and semaphores of the period that begins at the record at hand."""
    s.engines = 0
    s.near = 0
    s.stamp += 1
    for i in range(s.at, s.at + s.period):
        code = s.trace[i * 4]
        sem = -1
        if code == -1:
            sem = s.trace[i * 4 + 1]
        if code >= 0:
            s.engines |= 1 << s.engine[code]
            if s.kind[code] >= 2:
                sem = s.sem[code]
        if sem >= 0 and s.seen[sem] != s.stamp:
            s.seen[sem] = s.stamp
            s.sems[s.near] = sem
            s.near += 1
    return 0


def boundary(s: State) -> int:
    """A period has been simulated: go over those that follow, if the machine is where it was some periods ago.

    States are compared with one that was kept, and after 1, 2, 4, … periods another one is kept (Brent's way to
    find a cycle): transfers and the control core round differently in each of some periods.
    """
    p = s.period
    left = s.records - s.at
    if p == 0 or left < p or alike(s, s.at - p, p, p) < p:
        seek(s)
        return 0
    s.stop = s.at + p
    here = pulse(s)
    known = s.shot_at >= 0 and here == s.pulse and image(s, s.room) == s.words
    if known and compare(s, s.words) == s.words:
        whole = s.at - s.shot_at
        same = alike(s, s.at - p, p, left)
        skip(s, same // whole, whole)
        s.period = 0
        s.stop = s.at + same % whole
        if same % whole == 0:
            seek(s)
        return 0
    s.turns += 1
    if s.shot_at < 0 or s.turns == s.lap:
        s.words = image(s, 0)
        s.shot_at = -1
        if s.words > 0:
            s.shot_at = s.at
            s.pulse = here
            s.turns = 0
            s.lap *= 2
            mark(s)
    return 0


def pulse(s: State) -> int:
    """A number that is the same in equal states, and mostly not in others."""
    found = 0
    for e in range(4):
        found = found * 31 + s.issued[e] - s.started[e]
        if s.engines & (1 << e) != 0:
            found = found * 31 + s.free[e] - s.time
    return found


def compare(s: State, count: int) -> int:
    """How many words of the two images are equal from the start on."""
    for i in range(count):
        if s.images[i] != s.images[s.room + i]:
            return i
    return count


def image(s: State, start: int) -> int:
    """Write what can matter later of the engines and semaphores of the period; the number of words.

    None when counters have not come so far that all comparisons with constants are settled, or when others have
    work left.
    """
    now = s.time
    n = start
    for e in range(4):
        pending = s.issued[e] - s.started[e]
        if s.engines & (1 << e) == 0:
            if pending > 0 or s.moving[e] != 0:
                return 0
        elif s.issued[e] < s.depth or n + 8 + 5 * s.depth > start + s.room:
            return 0
        else:
            s.images[n] = pending
            s.images[n + 1] = s.free[e] - now
            s.images[n + 2] = max(0, s.completed[e] - s.free[e])
            s.images[n + 3] = s.moving[e]
            n += 4
            if s.moving[e] != 0:
                s.images[n] = s.move_template[e]
                s.images[n + 1] = s.move_start[e] - now
                s.images[n + 2] = s.move_ready[e] - now
                s.images[n + 3] = s.move_bytes[e]
                n += 4
            for k in range(s.issued[e] - s.depth, s.started[e]):
                s.images[n] = s.left[e * s.ring + (k & (s.ring - 1))] - now
                n += 1
            for k in range(s.started[e], s.issued[e]):
                i = e * s.ring + (k & (s.ring - 1))
                s.images[n] = s.q_template[i]
                s.images[n + 1] = s.q_time[i] - now
                s.images[n + 2] = s.q_first[i]
                s.images[n + 3] = s.q_second[i]
                n += 4
    for k in range(s.near):
        sem = s.sems[k]
        sets = s.sets[sem]
        takes = s.takes[sem]
        late = takes < s.initial[sem] or sets < s.most or sets - takes > s.most
        if late or n + 2 + 3 * s.most > start + s.room:
            return 0
        s.images[n] = sets - takes
        n += 1
        for j in range(sets - s.most, takes):
            s.images[n] = s.take_time[sem * s.tokens + (j & (s.tokens - 1))] - now
            n += 1
        for j in range(takes, sets):
            i = sem * s.tokens + (j & (s.tokens - 1))
            s.images[n] = s.token_time[i] - now
            s.images[n + 1] = s.token_reason[i]
            n += 2
    s.images[n] = s.port_free - now if s.engines & 3 != 0 else 0
    return n + 1 - start


def mark(s: State) -> int:
    """Keep the counters as they are with the first image."""
    s.marks[0] = s.time
    s.marks[1] = s.core_busy
    s.marks[2] = s.core_issued
    s.marks[3] = s.port_busy
    s.marks[4] = s.burst_bytes
    for e in range(4):
        s.marks[5 + e] = s.issued[e]
        s.marks[9 + e] = s.busy[e]
        s.marks[13 + e] = s.count[e]
        s.marks[17 + e] = s.operations[e]
    for k in range(5 * s.reasons):
        s.marks[21 + k] = s.stalls[k]
    for k in range(s.near):
        s.marks[21 + 5 * s.reasons + k] = s.sets[s.sems[k]]
    return 0


def skip(s: State, m: int, records: int) -> int:
    """Go over m times so many records, each time adding to the counters what has been added since `mark`."""
    step = m * (s.time - s.marks[0])
    s.at += m * records
    s.skipped += m * records
    s.time += step
    s.core_busy += m * (s.core_busy - s.marks[1])
    s.core_issued += m * (s.core_issued - s.marks[2])
    s.port_busy += m * (s.port_busy - s.marks[3])
    s.burst_bytes += m * (s.burst_bytes - s.marks[4])
    if s.engines & 3 != 0:
        s.port_free += step
    for e in range(4):
        if s.engines & (1 << e) != 0:
            rotate(s, e, m * (s.issued[e] - s.marks[5 + e]), step)
            s.busy[e] += m * (s.busy[e] - s.marks[9 + e])
            s.count[e] += m * (s.count[e] - s.marks[13 + e])
            s.operations[e] += m * (s.operations[e] - s.marks[17 + e])
    for k in range(5 * s.reasons):
        s.stalls[k] += m * (s.stalls[k] - s.marks[21 + k])
    for k in range(s.near):
        sem = s.sems[k]
        rotate_tokens(s, sem, m * (s.sets[sem] - s.marks[21 + 5 * s.reasons + k]), step)
    return 0


def rotate(s: State, e: int, by: int, step: int) -> int:
    """Move the entries of a queue `by` numbers on, and the engine's times by `step`."""
    s.free[e] += step
    s.completed[e] += step
    if s.moving[e] != 0:
        s.move_start[e] += step
        s.move_ready[e] += step
    first = s.issued[e] - s.depth
    for k in range(s.depth):
        i = e * s.ring + ((first + k) & (s.ring - 1))
        s.spare[5 * k] = s.q_template[i]
        s.spare[5 * k + 1] = s.q_time[i]
        s.spare[5 * k + 2] = s.q_first[i]
        s.spare[5 * k + 3] = s.q_second[i]
        s.spare[5 * k + 4] = s.left[i]
    for k in range(s.depth):
        i = e * s.ring + ((first + by + k) & (s.ring - 1))
        s.q_template[i] = s.spare[5 * k]
        s.q_time[i] = s.spare[5 * k + 1] + step
        s.q_first[i] = s.spare[5 * k + 2]
        s.q_second[i] = s.spare[5 * k + 3]
        s.left[i] = s.spare[5 * k + 4] + step
    s.issued[e] += by
    s.started[e] += by
    return 0


def rotate_tokens(s: State, sem: int, by: int, step: int) -> int:
    """Move the entries of a semaphore `by` numbers on, and their times by `step`."""
    first = s.sets[sem] - s.most
    for k in range(s.most):
        i = sem * s.tokens + ((first + k) & (s.tokens - 1))
        s.spare[3 * k] = s.token_time[i]
        s.spare[3 * k + 1] = s.token_reason[i]
        s.spare[3 * k + 2] = s.take_time[i]
    for k in range(s.most):
        i = sem * s.tokens + ((first + by + k) & (s.tokens - 1))
        s.token_time[i] = s.spare[3 * k] + step
        s.token_reason[i] = s.spare[3 * k + 1]
        s.take_time[i] = s.spare[3 * k + 2] + step
    s.sets[sem] += by
    s.takes[sem] += by
    return 0
