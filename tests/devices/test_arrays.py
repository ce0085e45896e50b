"""Arrays in a device's memory."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from suite import kernels
from suite.cases import CASES

import dsalang as dsa


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.bool_])
def test_round_trip(dtype: Any) -> None:
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    array = dsa.to_device(values)
    assert array.shape == (2, 3, 4) and array.dtype == values.dtype and len(array) == 2
    assert array.nbytes == values.nbytes
    back = array.to_host()
    assert back.tobytes() == values.tobytes() and back.shape == values.shape
    back[...] = 0
    assert array.to_host().tobytes() == values.tobytes()  # copies, not views
    assert np.asarray(array).tobytes() == values.tobytes()


def test_what_is_not_contiguous_is_copied_row_by_row() -> None:
    values = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert np.array_equal(dsa.to_device(values.T[::-1]).to_host(), values.T[::-1])


@pytest.mark.parametrize("dtype", [dsa.float16, "fp16", "float16", np.float16, np.dtype("f2")])
def test_dtypes_by_any_name(dtype: Any) -> None:
    array = dsa.empty(5, dtype)
    assert array.dtype == np.float16 and array.shape == (5,) and array.nbytes == 10


def test_empty_in_a_kernel_is_still_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    @dsa.jit(interpret=True)
    def fill(out, N: dsa.constexpr):  # type: ignore[no-untyped-def]
        dsa.store(out + dsa.arange(0, N), dsa.empty((N,), dsa.float32) * 0 + 3)

    out = dsa.empty(4, np.float32)
    fill[(1,)](out, N=4)
    assert out.to_host().tolist() == [3.0] * 4


def test_kernels_take_them_beside_host_arrays() -> None:
    case = CASES["add_odd"]()
    x, y, _, n = case.args
    out = dsa.empty(n, np.float32)
    report = case.kernel[case.grid](dsa.to_device(x), y, out, n, **case.meta)
    assert report.cycles > 0
    assert np.array_equal(out.to_host(), x + y)


def test_errors() -> None:
    array = dsa.to_device(np.zeros(4, np.float32))
    for wrong in (np.zeros(5, np.float32), np.zeros(4, np.int32), np.zeros((4, 1), np.float32)):
        with pytest.raises(dsa.LaunchError, match="cannot copy"):
            array.copy_from(wrong)
    for shape in (-1, (3, -2), (), (2.5,)):
        with pytest.raises(dsa.LaunchError, match="shape"):
            dsa.empty(shape, np.float32)
    for dtype in (np.complex64, "float99", object):
        with pytest.raises(dsa.LaunchError, match="dtype"):
            dsa.empty(4, dtype)
    array.free()
    with pytest.raises(dsa.LaunchError, match="has been freed"):
        kernels.vector_add[(1,)](array, array, array, 4, BLOCK=4)
    with pytest.raises(dsa.LaunchError, match="has been freed"):
        array.to_host()


def test_arrays_of_two_devices_do_not_mix() -> None:
    first, second = dsa.Device(), dsa.Device()
    x, y = first.empty(4), second.empty(4)
    with pytest.raises(dsa.LaunchError, match="several devices"):
        kernels.vector_add[(1,)](x, x, y, 4, BLOCK=4)
    stream = dsa.Stream(second)
    with pytest.raises(dsa.LaunchError, match="another device"):
        kernels.vector_add[(1,)](x, x, x, 4, BLOCK=4, stream=stream)
    with pytest.raises(dsa.LaunchError, match="another device"):
        x.copy_from(np.zeros(4, np.float32), stream)
    with pytest.raises(dsa.LaunchError, match="not a stream"):
        kernels.vector_add[(1,)](x, x, x, 4, BLOCK=4, stream=1)


def test_memory_comes_back() -> None:
    device = dsa.Device()
    array = device.empty(1000)
    assert len(device._buffers) == 1
    del array
    gc.collect()
    assert not device._buffers


def test_device_has_a_target_that_kernels_are_compiled_for() -> None:
    device = dsa.Device(target="center")
    case = CASES["add_odd"]()
    x, y, _, n = case.args
    out = device.empty(n)
    assert case.kernel[case.grid](x, y, out, n, **case.meta).target.name == "center"
    with device:
        assert case.launch().target.name == "center"
        with dsa.Device():
            assert case.launch().target.name == "edge"
        assert case.launch().target.name == "center"
    assert case.launch(target="edge").target.name == "edge"


def test_device_that_was_not_told_is_the_current_target() -> None:
    x = dsa.to_device(np.ones(8, np.float32))
    stream = dsa.Stream()
    for target in ("center", "edge"):
        with dsa.target(target):
            assert kernels.vector_add[(1,)](x, x, x, 8, BLOCK=8).target.name == target
            launch = kernels.vector_add[(1,)](x, x, x, 8, BLOCK=8, stream=stream)
            assert launch.result().target.name == target
    assert x.to_host().tolist() == [16.0] * 8
