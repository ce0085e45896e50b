"""Launches on a device behind a C driver: where arrays lie, and what of them a kernel sees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from suite.cases import CASES

import dsalang as dsa


def test_environment_chooses_the_driver(healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_DRIVER", str(healthy))
    case = CASES["add_odd"]()
    array = dsa.to_device(case.args[0])
    assert array.device.driver is not None
    x, y, out, n = case.args
    report = case.kernel[case.grid](array, y, out, n, **case.meta)
    case.check()
    assert set(report.hbm) == set()  # a driver tells times only
    assert np.array_equal(array.to_host(), x)
    array.device.close()


def test_views_keep_their_strides_and_overlap(device: dsa.Device) -> None:
    """Arrays that overlap in host memory do so on the device, and what is between elements stays."""
    case = CASES["add_odd"]()
    storage = np.arange(3000, dtype=np.float32)
    before = storage.copy()
    x, y, out = storage[:1000], storage[500:1500], storage[1999:2999]
    with device:
        case.kernel[(1,)](x, y, out, 1000, BLOCK=1024)
    assert np.array_equal(out, before[:1000] + before[500:1500])
    assert np.array_equal(storage[:1999], before[:1999]) and storage[2999] == before[2999]


def test_read_only_and_empty_arrays(device: dsa.Device) -> None:
    case = CASES["add_odd"]()
    x = np.ones(8, np.float32)
    x.flags.writeable = False
    out = np.zeros(8, np.float32)
    with device:
        case.kernel[(1,)](x, x, out, 8, BLOCK=8)
        case.kernel[(1,)](np.zeros(0, np.float32), x, out[:0], 0, BLOCK=8)
    assert out.tolist() == [2.0] * 8
