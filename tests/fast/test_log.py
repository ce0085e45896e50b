"""What a report needs of its run is there when the memory has been used again."""

from __future__ import annotations

import numpy as np

import dsalang as dsa


@dsa.jit
def double(x, n, BLOCK: dsa.constexpr):
    offs = dsa.program_id(0) * BLOCK + dsa.arange(0, BLOCK)
    keep = offs < n
    dsa.store(x + offs, dsa.load(x + offs, mask=keep) * 2, mask=keep)


def test_timelines_of_earlier_runs() -> None:
    x = np.ones(4096, np.float32)
    launches = [(double[(64 // k,)], 64 * k) for k in (1, 2, 4)]
    runs = [kernel(x, 4096, BLOCK=block, target="edge") for kernel, block in launches]
    again = launches[0][0](x, 4096, BLOCK=64, target="edge")
    events = [len(run.detailed().cores[0].events) for run in runs]
    assert events[0] > events[1] > events[2] > 0
    assert runs[0].detailed().cores == again.detailed().cores
    assert len(runs[1].detailed().cores[0].events) == events[1]


def test_a_bound_launch_keeps_the_report_before() -> None:
    x = np.ones(4096, np.float32)
    bound = double[(64,)].bind(x, 4096, BLOCK=64, target="edge")
    first = bound()
    bound()
    third = bound()
    assert first.detailed().cores == third.detailed().cores
