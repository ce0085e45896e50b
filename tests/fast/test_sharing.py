"""Slots of a ring that share a place on the host: what is shared, and that nobody can tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsalang as dsa
from dsalang._backend.errors import DeviceError
from dsalang._backend.image.model import Image, RingInfo
from dsalang._backend.llvm.host.sharing import granule, shared_slots
from dsalang._backend.target import Target
from dsalang._runtime.fast.scratchpad import Scratchpad

from .compare import launch

EDGE = Target.by_name("edge")


@dsa.jit
def chunks(x, y, out, n, CHUNK: dsa.constexpr, BLOCK: dsa.constexpr):
    first = dsa.program_id(0) * CHUNK
    for start in range(first, first + CHUNK, BLOCK):
        offs = start + dsa.arange(0, BLOCK)
        keep = offs < n
        value = dsa.load(x + offs, mask=keep) - dsa.load(y + offs, mask=keep)
        dsa.store(out + offs, value, mask=keep)


@dsa.jit
def picked(x, at, out, n, BLOCK: dsa.constexpr):
    for start in range(0, n, BLOCK):
        offs = start + dsa.arange(0, BLOCK)
        dsa.store(out + offs, dsa.load(x + dsa.load(at + offs)))


@dsa.jit
def shown(x, n, BLOCK: dsa.constexpr):
    for start in range(0, n, BLOCK):
        offs = start + dsa.arange(0, BLOCK)
        value = dsa.load(x + offs)
        dsa.device_print("tile", value)
        dsa.store(x + offs, value * 2)


@dsa.jit
def summed(x, out, n, BLOCK: dsa.constexpr):
    """The control core reads what the vector engine has computed."""
    for start in range(0, n, BLOCK):
        total = dsa.sum(dsa.load(x + start + dsa.arange(0, BLOCK)), axis=0)
        if total > 0:
            dsa.store(out + start // BLOCK, total)


def shared(run: Any) -> list[int]:
    """Slots of each ring that shares a place."""
    return [slots for _, slots, _ in run._source.program.outline.shared]


@pytest.mark.parametrize("n", (4096, 3001))
def test_the_same_as_on_the_reference_engine(n: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(4096, np.float32) for _ in range(2))
    out = np.zeros_like(x)
    run = launch(chunks, (x, y, out, n), (2,), EDGE, CHUNK=2048, BLOCK=128)
    assert len(shared(run)) == 3 and min(shared(run)) > 1
    assert (out[:n] == (x - y)[:n]).all() and not out[n:].any()


def test_reads_of_the_control_core_find_their_slot() -> None:
    x = np.random.default_rng(1).integers(-9, 9, 1024).astype(np.int32)
    out = np.zeros(16, np.int32)
    assert shared(launch(summed, (x, out, 1024), (1,), EDGE, BLOCK=64))
    sums = x.reshape(16, 64).sum(1)
    assert (out == np.where(sums > 0, sums, 0)).all()


def test_tiles_are_printed_from_their_slot(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for engine in ("fast", "reference"):
        monkeypatch.setenv("DSA_EMULATOR", engine)
        shown[(1,)](np.arange(64, dtype=np.float32), 64, BLOCK=8)
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and said[0].count("tile") == 8


def test_an_error_names_the_index_that_stands_in_a_later_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = []
    for engine in ("fast", "reference"):
        monkeypatch.setenv("DSA_EMULATOR", engine)
        monkeypatch.setenv("DSA_CACHE", "0")
        x, at, out = np.zeros(64, np.float32), np.arange(64) % 64, np.zeros(64, np.float32)
        at[45] = 77
        with pytest.raises(DeviceError) as error:
            picked[(1,)](x, at, out, 64, BLOCK=8)
        said.append(str(error.value))
    assert said[0] == said[1] and "'x'" in said[0]


def ring(address: int, slots: int, stride: int = 256, **rest: Any) -> RingInfo:
    return RingInfo("r", address, slots, stride, stride, (64,), "fp32", None, **rest)


def image(*rings: RingInfo) -> Image:
    parts: tuple[Any, ...] = ((),) * 4
    return Image("k", "edge", "", *parts, rings, (), (), 8192, b"", 0, 0, "")


def test_which_rings_share() -> None:
    plain = ring(0, 3, turns=1)
    assert [s.address for s in shared_slots(image(plain))] == [0]
    for other in (
        ring(0, 1, turns=1),  # one slot
        ring(0, 3, turns=2),  # somebody looks back
        ring(0, 3),  # not known
        ring(0, 3, turns=1, kept="x"),
        ring(32, 3, turns=1),  # not at a line
    ):
        assert not shared_slots(image(other))
    assert not shared_slots(image(plain, ring(512, 1)))  # memory in common
    assert len(shared_slots(image(plain, ring(768, 2, turns=1)))) == 2


def test_places() -> None:
    rings = [(256, 3, 256), (2048, 2, 1024)]
    assert granule(rings) == 256 and granule([]) == 0
    pad = Scratchpad(4000, rings)
    moved = [int(pad.places[a >> pad.place_bits]) for a in (0, 256, 512, 1000, 1024, 2100, 3999)]
    assert moved == [0, 0, -256, -512, 0, 0, -1024]
    pad.data[:] = np.arange(4000) % 251
    unfolded = pad.unfolded()
    assert (unfolded[512:768] == pad.data[256:512]).all() and unfolded.size == 4000
    assert (unfolded[3072:] == pad.data[2048 : 2048 + 928]).all()
    assert not Scratchpad(4000, []).places.any()


def test_a_static_schedule_shares_nothing() -> None:
    x = np.ones(512, np.float32)
    out = np.zeros_like(x)
    static = dsa.jit(chunks.fn, schedule="static")
    run = static[(1,)](x, x, out, 512, CHUNK=512, BLOCK=64)
    assert not out.any()
    assert all(r.turns == 1 for r in run.image.rings) and not shared_slots(run.image)
