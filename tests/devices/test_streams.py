"""Streams and events: order, results, errors, and the machine's time."""

from __future__ import annotations

import gc
import itertools
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from suite import kernels
from suite.cases import CASES

import dsalang as dsa

N, BLOCK = 4096, 1024
GRID = (N // BLOCK,)


@pytest.fixture
def device() -> dsa.Device:
    return dsa.Device()


def chunk(stream: dsa.Stream, k: int) -> tuple[Any, Any]:
    """Copy in, compute, copy out: what a stream does for chunk k."""
    device = stream.device
    x = device.to_device(np.full(N, k, np.float32), stream)
    out = device.empty(N)
    launch = kernels.vector_add[GRID](x, x, out, N, BLOCK=BLOCK, stream=stream)
    return launch, out.to_host_async(stream)


def test_results_and_overlap_of_two_streams(device: dsa.Device, tmp_path: Path) -> None:
    streams = [dsa.Stream(device, "a"), dsa.Stream(device, "b")]
    work = [chunk(streams[k % 2], k) for k in range(6)]
    for k, (launch, copy) in enumerate(work):
        assert copy.result().tolist() == [2.0 * k] * N
        assert launch.result().cycles > 0
    kernel_spans = [launch.span for launch, _ in work]
    copies = [s for s in device.clock.spans if s.resource != "cores"]
    assert len(copies) == 12
    overlap = sum(
        max(0.0, min(k.end, c.end) - max(k.start, c.start))
        for k in kernel_spans
        for c in copies
        if c.stream != k.stream
    )
    # in the steady state each copy of one stream hides behind the other stream's kernel
    assert overlap > 0.7 * sum(c.end - c.start for c in copies[2:-1])
    for one, two in itertools.pairwise(kernel_spans):
        assert two.start >= one.end  # the cores do one kernel at a time
    serial = dsa.Device()
    alone = dsa.Stream(serial)
    for k in range(6):
        chunk(alone, k)
    assert max(s.time for s in streams) < 0.8 * alone.record().microseconds

    trace = json.loads(device.timeline(tmp_path / "t" / "streams.json").read_text())
    rows = {e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert rows == {f"{s}: {r}" for s in "ab" for r in ("cores", "copy in", "copy out")}
    done = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(done) == 18 and {e["name"] for e in done} >= {"vector_add"}


def test_times_do_not_depend_on_the_host(device: dsa.Device) -> None:
    def spans() -> list[Any]:
        device = dsa.Device()
        streams = [dsa.Stream(device, "a"), dsa.Stream(device, "b")]
        for k in range(4):
            chunk(streams[k % 2], k)
        device.synchronize()
        return device.clock.spans

    assert spans() == spans()


def test_launches_return_before_they_are_done(device: dsa.Device) -> None:
    stream, gate = dsa.Stream(device), threading.Event()
    stream.launch(lambda: gate.wait() and None, "blocked")
    launch, copy = chunk(stream, 3)
    event = stream.record()
    assert not launch.done and not copy.done
    gate.set()
    event.wait()
    assert launch.done and copy.done and copy.result()[0] == 6


def test_values_are_those_of_the_call(device: dsa.Device) -> None:
    stream, gate = dsa.Stream(device), threading.Event()
    stream.launch(lambda: gate.wait() and None, "blocked")
    host = np.ones(4, np.float32)
    array = device.to_device(host, stream)
    host[:] = 9
    gate.set()
    assert array.to_host().tolist() == [1.0] * 4


def test_arrays_live_until_their_work_is_done(device: dsa.Device) -> None:
    stream, gate = dsa.Stream(device), threading.Event()
    stream.launch(lambda: gate.wait() and None, "blocked")
    out = device.empty(N)
    x = device.to_device(np.ones(N, np.float32), stream)
    launch = kernels.vector_add[GRID](x, x, out, N, BLOCK=BLOCK, stream=stream)
    del x
    gate.set()
    launch.result()
    assert out.to_host().tolist() == [2.0] * N


def test_launch_without_a_stream_comes_after_all_streams(device: dsa.Device) -> None:
    stream = dsa.Stream(device)
    x = device.to_device(np.ones(N, np.float32), stream)
    y = device.empty(N)
    kernels.vector_add[GRID](x, x, y, N, BLOCK=BLOCK, stream=stream)
    kernels.vector_add[GRID](y, x, y, N, BLOCK=BLOCK)
    assert y.to_host().tolist() == [3.0] * N


def test_events_order_streams_and_tell_time(device: dsa.Device) -> None:
    a, b = dsa.Stream(device), dsa.Stream(device)
    start = a.record()
    launch, _ = chunk(a, 1)
    end = a.record()
    b.wait(end)
    later, _ = chunk(b, 2)
    report = launch.result()
    assert start.microseconds == 0
    assert end.elapsed(end) == 0
    assert start.elapsed(end) > report.microseconds
    later.result()
    first = min(s.start for s in device.clock.spans if s.stream == b.name)
    assert first >= end.microseconds
    with pytest.raises(dsa.LaunchError, match="own device"):
        dsa.Stream(dsa.Device()).wait(end)


def test_an_error_stops_its_stream_until_it_is_told(device: dsa.Device) -> None:
    a, b = dsa.Stream(device), dsa.Stream(device)
    small = device.empty(16)
    bad = kernels.vector_add[(1,)](small, small, small, 100_000, BLOCK=65536, stream=a)
    behind, copy = chunk(a, 1)
    other, good = chunk(b, 2)
    assert good.result()[0] == 4 and other.result().cycles
    with pytest.raises(dsa.DeviceError, match="outside"):
        a.synchronize()
    a.synchronize()  # told once
    for pending in (bad, behind, copy):
        with pytest.raises(dsa.DeviceError, match="outside"):
            pending.result()
    again, copy = chunk(a, 5)
    assert copy.result()[0] == 10 and again.span is not None and bad.span is None
    a.synchronize()


def test_waiting_for_a_failed_event_fails_the_waiter(device: dsa.Device) -> None:
    a, b = dsa.Stream(device), dsa.Stream(device)
    small = device.empty(16)
    kernels.vector_add[(1,)](small, small, small, 100_000, BLOCK=65536, stream=a)
    b.wait(a.record())
    launch, _ = chunk(b, 1)
    with pytest.raises(dsa.DeviceError, match="outside"):
        launch.result()


def test_work_cannot_wait_for_its_own_device(device: dsa.Device) -> None:
    stream = dsa.Stream(device)
    event = stream.record()
    event.wait()
    inner = stream.launch(lambda: event.wait(), "waits")
    with pytest.raises(dsa.DeviceError, match="cannot wait for the device that runs it"):
        inner.result()


def test_threads_share_a_stream_and_a_device(device: dsa.Device) -> None:
    shared = dsa.Stream(device)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            own = dsa.Stream(device)
            for k in range(4):
                stream = shared if k % 2 else own
                _, copy = chunk(stream, seed * 10 + k)
                assert copy.result().tolist() == [2.0 * (seed * 10 + k)] * N
                case = CASES["softmax_rows"]()
                case.launch()
                case.check()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    shared.synchronize()
    assert len(device.clock.spans) == 6 * 4 * 3


def test_interpreted_kernels_take_streams(
    device: dsa.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSA_INTERPRET", "1")
    launch, copy = chunk(dsa.Stream(device), 7)
    assert "interpreted" in repr(launch.result()) and copy.result()[0] == 14


@dsa.jit(schedule="static")
def scale(x, out, BLOCK: dsa.constexpr, N: dsa.constexpr):  # type: ignore[no-untyped-def]
    for start in range(dsa.program_id(0) * BLOCK, N, BLOCK * dsa.num_programs(0)):
        at = start + dsa.arange(0, BLOCK)
        dsa.store(out + at, dsa.load(x + at) * 2)


def realtime_spans(background: bool) -> list[Any]:
    device = dsa.Device(target="center")
    busy = dsa.Stream(device, "background")
    if background:
        chunk(busy, 1)
    stream = dsa.Stream(device, "control", cores=2, realtime=True)
    x = device.to_device(np.arange(N, dtype=np.float32))
    out = device.empty(N)
    launches = []
    for k in range(4):
        if background:
            work = chunk(busy, k)
        launches.append(scale[(2,)](x, out, BLOCK=512, N=N, stream=stream))
    for launch in launches:
        report = launch.result()
        assert report.target.cores == 2 and report.target.name == "center, 2 of 32 cores"
    if background:
        assert work[0].result().target.cores == 30
    assert out.to_host().tolist() == [2.0 * k for k in range(N)]
    return [launch.span for launch in launches]


def test_real_time_streams_do_not_notice_others() -> None:
    alone, beside = realtime_spans(False), realtime_spans(True)
    assert len({round(span.end - span.start, 9) for span in alone + beside}) == 1
    for spans in (alone, beside):
        for one, two in itertools.pairwise(spans):
            assert two.start == one.end
    assert alone[0].start == 0 < beside[0].start  # it preempts nothing


def test_real_time_streams_take_only_static_schedules() -> None:
    device = dsa.Device(target="center")
    stream = dsa.Stream(device, cores=1, realtime=True)
    x = device.empty(N)
    with pytest.raises(dsa.LaunchError, match="has no static schedule"):
        kernels.vector_add[GRID](x, x, x, N, BLOCK=BLOCK, stream=stream)
    with pytest.raises(dsa.LaunchError, match="leave target= out"):
        scale[(1,)](x, x, BLOCK=512, N=N, stream=stream, target="center")


def test_cores_are_reserved_and_given_back() -> None:
    with pytest.raises(dsa.LaunchError, match="0 can be reserved"):
        dsa.Stream(dsa.Device(), cores=1)  # edge has one core
    with pytest.raises(dsa.LaunchError, match="without cores of its own"):
        dsa.Stream(dsa.Device(), realtime=True)
    device = dsa.Device(target="center")
    cores = device.target.cores
    stream, other = dsa.Stream(device, cores=cores - 2), dsa.Stream(device, cores=1)
    assert (stream.target.cores, device.shared_target.cores) == (cores - 2, 1)
    for wrong in (1, 0, -1, 1.5):
        with pytest.raises(dsa.LaunchError, match="can be reserved"):
            dsa.Stream(device, cores=wrong)  # type: ignore[arg-type]
    stream.close()
    device.synchronize()
    del other
    gc.collect()
    assert device.shared_target is device.target
