"""Repeated launches: found again when nothing has changed, and only then."""

from __future__ import annotations

import numpy as np
import pytest

import dsalang as dsa

ADD = 1.0


@dsa.jit
def k(x, out, n, y=2.0, BLOCK: dsa.constexpr = 64):
    offs = dsa.arange(0, BLOCK)
    dsa.store(out + offs, dsa.load(x + offs, mask=offs < n) * y + ADD, mask=offs < n)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_CACHE", "0")
    monkeypatch.setenv("DSA_EMULATOR", "fast")
    k._launches.clear()


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(64, dtype=np.float32), np.zeros(64, np.float32)


def test_an_equal_call_is_remembered() -> None:
    x, out = arrays()
    for _ in range(3):
        k[(1,)](x, out, 64)
    assert len(k._launches) == 1
    assert (out == x * 2 + 1).all()


def test_values_types_and_signs_differ() -> None:
    x, out = arrays()
    for n, y in ((64, 2.0), (63, 2.0), (64, 3), (64, 0.0), (64, -0.0), (1, True), (1, 1)):
        out[:] = -9
        k[(1,)](x, out, n, y)
        assert (out[:n] == x[:n] * y + 1).all() and (out[n:] == -9).all()
    assert len(k._launches) == 7


def test_an_outside_value_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = arrays()
    k[(1,)](x, out, 64)
    monkeypatch.setitem(k.fn.__globals__, "ADD", 5.0)
    k[(1,)](x, out, 64)
    assert (out == x * 2 + 5).all()


def test_an_array_changes_in_place() -> None:
    x, out = arrays()
    k[(1,)](x, out, 64)
    x.dtype = np.int32  # type: ignore[misc]
    k[(1,)](x, out, 64)
    assert (out == (x * 2.0 + 1).astype(np.float32)).all()
    other = np.full(64, 7.0, np.float32)
    k[(1,)](other, out, 64)
    assert (out == 15).all()


def test_writable_or_not() -> None:
    x, out = arrays()
    k[(1,)](x, out, 64)
    out.flags.writeable = False
    with pytest.raises(dsa.DeviceError, match="read-only"):
        k[(1,)](x, out, 64)


def test_knobs_and_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = arrays()
    edge = k[(1,)](x, out, 64)
    with dsa.target("center"):
        assert k[(1,)](x, out, 64).target.name == "center"
    monkeypatch.setenv("DSA_TARGET", "center")
    assert k[(1,)](x, out, 64).target.name == "center"
    monkeypatch.delenv("DSA_TARGET")
    assert k[(1,)](x, out, 64).cycles == edge.cycles
    monkeypatch.setenv("DSA_INTERPRET", "1")
    assert "interpreted" in repr(k[(1,)](x, out, 64))


def test_grid_functions_run_each_time() -> None:
    x, out = arrays()
    seen = []

    def grid(meta):
        seen.append(meta["n"] + meta["BLOCK"])
        return (1,)

    k[grid](x, out, 64)
    k[grid](x, out, 64)
    assert seen == [128, 128]


def test_wrong_grids_stay_wrong() -> None:
    x, out = arrays()
    k[(1,)](x, out, 64)
    with pytest.raises(dsa.LaunchError, match="integers"):
        k[(True,)](x, out, 64)
    with pytest.raises(dsa.LaunchError, match="integers"):
        k[(1.0,)](x, out, 64)


def test_bind_launches_again() -> None:
    x, out = arrays()
    bound = k[(1,)].bind(x, out, 64)
    first = bound()
    x += 1
    assert bound().cycles == first.cycles
    assert (out == x * 2 + 1).all()


def test_a_timeline_is_made_afterwards(tmp_path) -> None:
    x, out = arrays()
    run = k[(1,)](x, out, 64)
    asked = k[(1,)](x, out, 64, timeline=True)
    assert (
        run.timeline(tmp_path / "a.json").read_text()
        == asked.timeline(tmp_path / "b.json").read_text()
    )
    assert not run.cores[0].events and asked.cores[0].events


def test_engines_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = arrays()
    cycles = {}
    for engine in ("fast", "reference", "timing"):
        monkeypatch.setenv("DSA_EMULATOR", engine)
        cycles[engine] = k[(1,)](x, out, 64).cycles
    assert len(set(cycles.values())) == 1
    monkeypatch.setenv("DSA_EMULATOR", "adversarial")
    out[:] = 0
    k[(1,)](x, out, 64)
    assert (out == x * 2 + 1).all()
