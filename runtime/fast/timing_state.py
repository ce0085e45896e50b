"""The state of machine time of one core, as `timing.py` and `repeats.py` work on it."""

from __future__ import annotations


class State:
    """One core. Engines are numbered as in the instruction table; a queue of engine e has `ring` entries."""

    time: int  # when the control core is free
    charged: int  # 1: the control core has paid for the record at hand
    core_busy: int
    core_issued: int
    port_free: int
    port_busy: int
    burst_bytes: int
    at: int  # first record that is not consumed
    records: int  # of how many
    depth: int  # entries that a queue may hold
    ring: int  # a power of two, at least `depth`
    tokens: int  # entries of a semaphore's ring, a power of two
    semaphores: int
    most: int  # the most that a semaphore can hold
    reasons: int  # number of reasons
    latency: int
    jitter: int  # the most cycles by which a transfer completes later than that
    noise: int  # from which the next one's lateness is made
    read_cycles: int
    cycles_num: int  # cycles per byte of a transfer, a fraction
    cycles_den: int
    dirty: int  # bit e: a token arrived that engine e may be waiting for
    timeline: int
    event_count: int
    stand_count: int
    over_time: int  # when the first semaphore overflowed; -1
    over_sem: int
    over_template: int
    trace: list[int]
    kind: list[int]  # per template: COMPUTE, DMA, SET or TAKE
    engine: list[int]
    sem: list[int]
    issue: list[int]  # cycles of the control core
    cycles: list[int]
    work: list[int]  # operations
    address: list[int]  # SRAM address for the timeline where it is static
    issued: list[int]  # per engine: instructions that entered the queue
    started: list[int]  # and left it
    free: list[int]
    completed: list[int]
    busy: list[int]
    count: list[int]  # instructions, set and wait left out
    operations: list[int]
    computed: list[int]  # 1: the engine has executed something that has operations
    moving: list[int]  # 1: a transfer waits for the port
    move_template: list[int]
    move_start: list[int]
    move_ready: list[int]
    move_bytes: list[int]
    move_address: list[int]
    q_template: list[int]
    q_time: list[int]
    q_first: list[int]
    q_second: list[int]
    q_address: list[int]
    left: list[int]  # when the instruction left the queue
    taker: list[int]  # per semaphore: the engine that waits for it
    initial: list[int]  # credits
    sets: list[int]  # tokens so far, initial credits included
    takes: list[int]
    token_time: list[int]
    token_reason: list[int]
    take_time: list[int]
    stalls: list[int]  # per engine and reason
    events: list[int]
    stands: list[int]
    # Of `repeats.py`:
    stop: int  # the record at which to look whether the machine repeats itself; -1
    skipped: int  # records that were not simulated
    gap: int  # after how many records to look for a period again
    period: int  # records that repeat; 0: look for some
    shot_at: int  # the record at which the first image was made; -1: there is none
    turns: int  # periods since then
    lap: int  # and after how many to make another one
    pulse: int  # a short form of the image
    words: int  # of an image
    room: int  # words that an image may have
    engines: int  # bit e: the period has instructions for engine e
    near: int  # semaphores of the period
    stamp: int
    seen: list[int]  # per semaphore: the stamp of the last period that it is in
    sems: list[int]
    images: list[int]
    marks: list[int]
    spare: list[int]
