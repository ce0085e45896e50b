"""Boxes of bytes and the access log, against sets of byte addresses and brute force."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dsalang._backend.isa.table import Engine
from dsalang._runtime.reference.races import (
    Access,
    AccessLog,
    Box,
    Clocks,
    list_box,
    make_box,
    overlap,
)

dims = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([-12, -4, -2, 0, 2, 4, 8, 16])), max_size=3
)
boxes = st.one_of(
    st.builds(
        lambda base, walk, width: make_box(base, [n for n, _ in walk], [s for _, s in walk], width),
        st.integers(100, 160),
        dims,
        st.sampled_from([1, 2, 4]),
    ),
    st.builds(
        lambda addresses, width: list_box(np.array(addresses, np.int64), width),
        st.lists(st.integers(80, 180), min_size=1, max_size=5),
        st.sampled_from([1, 2, 4]),
    ),
)


def bytes_of(box: Box) -> set[int]:
    if box.addresses is not None:
        starts = {int(a) for a in box.addresses}
    else:
        starts = {
            box.base + sum(i * s for i, s in zip(at, box.strides))
            for at in itertools.product(*(range(n) for n in box.shape))
        }
    return {start + byte for start in starts for byte in range(box.elem_bytes)}


@settings(derandomize=True, deadline=None, max_examples=300)
@given(boxes, boxes)
def test_boxes_are_sets_of_bytes(a: Box, b: Box) -> None:
    ours, theirs = bytes_of(a), bytes_of(b)
    assert (a.low, a.high) == (min(ours), max(ours) + 1)
    assert overlap(a, b) == overlap(b, a) == bool(ours & theirs)
    if a.dense:
        assert len(ours) == a.high - a.low


def test_contiguous_boxes_are_dense_in_any_order_of_dims() -> None:
    assert make_box(0, (4, 8), (32, 4), 4).dense
    assert make_box(0, (8, 4), (4, 32), 4).dense
    assert make_box(0, (4, 3, 8), (32, 0, 4), 4).dense
    assert not make_box(0, (4, 7), (32, 4), 4).dense


steps = st.lists(
    st.tuples(
        st.sampled_from([Engine.MM, Engine.VE, Engine.LD, Engine.ST]),
        st.booleans(),
        boxes,
        st.sampled_from([None, Engine.MM, Engine.VE, Engine.LD, Engine.ST]),
    ),
    max_size=30,
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(steps, st.integers(0, 4))
def test_forgetting_never_loses_a_race(
    program: list[tuple[Engine, bool, Box, Engine | None]], limit: int
) -> None:
    """The log finds a race exactly where a log that keeps everything does."""
    clocks = Clocks()
    log = AccessLog(clocks, tuple(Engine), own_queue=True)
    log._limit = log._PRUNE_AT = limit  # type: ignore[misc]
    history: list[Access] = []
    for engine, writes, box, learn_from in program:
        if learn_from is not None:
            clocks.join(engine, clocks.token(learn_from))
        number = clocks.start(engine)
        access = Access(engine, number, writes, box, 0)
        expected = False
        for old in history:
            same_queue = old.engine == engine
            in_order = same_queue and (
                engine in (Engine.MM, Engine.VE) or not (old.writes and not writes)
            )
            known = old.number <= clocks.known[engine][old.engine]
            if (old.writes or writes) and not (in_order or known):
                expected |= bool(bytes_of(old.box) & bytes_of(box))
        assert (log.add(access) is not None) == expected
        if expected:
            return
        history.append(access)
