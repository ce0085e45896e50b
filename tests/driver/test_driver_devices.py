"""Device arrays, streams and threads on a device behind a driver."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from suite import kernels

import dsalang as dsa

N, BLOCK = 2048, 512
GRID = (N // BLOCK,)


def test_two_streams_overlap(device: dsa.Device) -> None:
    streams = [dsa.Stream(device, "a"), dsa.Stream(device, "b")]
    before = len(device.clock.spans)
    copies, launches = [], []
    for k in range(4):
        stream = streams[k % 2]
        x = device.to_device(np.full(N, k, np.float32), stream)
        out = device.empty(N)
        launches.append(kernels.vector_add[GRID](x, x, out, N, BLOCK=BLOCK, stream=stream))
        copies.append(out.to_host_async(stream))
    for k, copy in enumerate(copies):
        assert copy.result().tolist() == [2.0 * k] * N
    spans = device.clock.spans[before:]
    one, two = launches[0].span, launches[1].span
    incoming = next(s for s in spans if s.resource == "copy in" and s.stream == "b")
    assert one.start < incoming.end and incoming.start < one.end and two.start >= one.end


def test_threads(device: dsa.Device) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            with device:
                x = dsa.to_device(np.full(N, seed, np.float32))
                for _ in range(3):
                    out = np.zeros(N, np.float32)
                    kernels.vector_add[GRID](x, x, out, N, BLOCK=BLOCK)
                    assert out.tolist() == [2.0 * seed] * N
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_only_the_device_reaches_its_memory(
    device: dsa.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = device.empty(16)
    monkeypatch.setenv("DSA_INTERPRET", "1")
    with pytest.raises(dsa.LaunchError, match="only its device can reach"):
        kernels.vector_add[(1,)](array, array, array, 16, BLOCK=16)
