"""Random loops around a load: whatever stays in SRAM, the same comes out, and no more is moved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsalang as dsa

BLOCK = 1024


@dsa.jit
def nest(
    w, y, end, STEPS: dsa.constexpr, A0: dsa.constexpr, A1: dsa.constexpr, AS: dsa.constexpr, B: dsa.constexpr,
    FP: dsa.constexpr, FS: dsa.constexpr, FA: dsa.constexpr, FB: dsa.constexpr, MOVING: dsa.constexpr,
    SIZE: dsa.constexpr,
):  # fmt: skip
    p = dsa.program_id(0)
    offs = dsa.arange(0, SIZE)
    acc = dsa.zeros((SIZE,), dsa.float32)
    for s in range(STEPS):
        moved = w + p * FP
        for a in range(A0, A1, AS):
            for b in range(B):
                at = p * FP + s * FS + a * FA + b * FB + offs
                tile = dsa.load(w + at, mask=at < end, other=1.0)
                acc = acc * 0.5 + tile
            acc += dsa.load(moved + offs)
            moved += 16 if MOVING else 0
    dsa.store(y + p * SIZE + offs, acc)


factor = st.sampled_from([0, 0, 16, 1000])


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    steps=st.integers(1, 3),
    a0=st.integers(-2, 2),
    count=st.integers(1, 3),
    a_step=st.integers(1, 3),
    b=st.integers(1, 3),
    factors=st.tuples(factor, factor, factor, factor),
    moving=st.booleans(),
    programs=st.integers(1, 3),
    target=st.sampled_from(["edge", "center"]),
)
def test_what_stays_changes_nothing(
    steps: int, a0: int, count: int, a_step: int, b: int, factors: tuple[int, ...], moving: bool,
    programs: int, target: str,
) -> None:  # fmt: skip
    a1 = a0 + count * a_step
    lowest = min(0, a0 * factors[2])
    w = (np.arange(BLOCK + 20_000 - lowest, dtype=np.float32) % 977)[-lowest:]
    end = w.size - 7
    outputs, moved = [], []
    for option in (False, None, ("w",), ("w",)):
        y = np.zeros((programs, BLOCK), np.float32)
        try:
            report = nest[programs](
                w, y, end, steps, a0, a1, a_step, b, *factors, moving, BLOCK, target=target,
                resident=option,
            )  # fmt: skip
        except dsa.DeviceError:  # below the array: so it is in each way
            outputs.append(None)
            moved.append(0)
            continue
        outputs.append(y)
        moved.append(report.hbm_bytes)
    for other in outputs[1:]:
        assert (other is None) == (outputs[0] is None)
        assert other is None or np.array_equal(other, outputs[0])
    assert moved[1] <= moved[0] and moved[2] <= moved[0] and moved[3] <= moved[2]
    assert outputs[3] is None or moved[3] == outputs[3].nbytes


@pytest.mark.parametrize("schedule", ["dynamic", "static"])
@pytest.mark.parametrize("resident", [None, False])
def test_predictions_profiles_and_schedules_know_resident_tiles(
    schedule: str, resident: bool | None
) -> None:
    w, y = np.arange(40_000, dtype=np.float32), np.zeros((2, BLOCK), np.float32)
    args = (w, y, w.size, 4, 0, 3, 1, 2, 0, 0, 2000, 1000, True, BLOCK)
    options = {"schedule": schedule, "resident": resident}
    report = nest[2](*args, **options)
    compiled, grid, scalars = nest.prepared(args, dict(options), 2)
    assert compiled.predict(grid, scalars).cycles == report.cycles
    loads = report.hbm["w"].read // (4 * BLOCK)
    profile = nest.profile(*args, grid=2, show=False, **options)
    assert profile.text
    assert (loads < 2 * 4 * 9) is (resident is None)
