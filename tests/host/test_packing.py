"""Numbers of 4 bits on the host, and what kernels take of ml_dtypes' narrow types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import dsalang as dsa
from dsalang._runtime.arrays import view_of


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_there_and_back(kind, axis):
    values = (np.arange(96, dtype=np.uint8) % 16).reshape(8, 12).view(kind)
    pairs = dsa.pack4(values, axis)
    assert pairs.nbytes * 2 == values.nbytes and pairs.dtype == np.uint8
    back = dsa.unpack4(pairs, kind, axis)
    np.testing.assert_array_equal(back.astype(np.float32), values.astype(np.float32))


def test_the_first_number_is_in_the_low_half():
    values = np.array([[1, -2], [3, -4]], ml_dtypes.int4)
    assert dsa.pack4(values).tolist() == [[0xE1], [0xC3]]
    assert dsa.pack4(values, axis=0).tolist() == [[0x31, 0xCE]]


def test_scales_are_bytes():
    assert view_of(np.ones(4, ml_dtypes.float8_e8m0fnu), "s").fmt.name == "uint8"


def test_unpacked_arguments_are_refused():
    with pytest.raises(
        dsa.LaunchError, match="'w' has elements of type int4, one per byte"
    ) as caught:
        view_of(np.zeros(4, ml_dtypes.int4), "w")
    assert "dsa.pack4(w)" in caught.value.hint


@pytest.mark.parametrize(
    ("values", "axis", "match"),
    [
        (np.zeros(4, np.int8), -1, "pack4 takes int4, uint4, float4_e2m1fn of ml_dtypes, not int8"),
        (np.zeros(3, ml_dtypes.int4), -1, "is not of even length"),
    ],
)
def test_mistakes(values, axis, match):
    with pytest.raises(dsa.LaunchError, match=match):
        dsa.pack4(values, axis)


@pytest.mark.parametrize("axis", [2, -3, "x", None, 1.0])
def test_an_axis_that_is_none(axis):
    values = np.zeros((2, 4), ml_dtypes.int4)
    with pytest.raises(dsa.LaunchError, match=r"pack4: \(2, 4\) has no axis"):
        dsa.pack4(values, axis)
    with pytest.raises(dsa.LaunchError, match=r"unpack4: \(2, 2\) has no axis"):
        dsa.unpack4(dsa.pack4(values), ml_dtypes.int4, axis)


@pytest.mark.parametrize("value", [3, None, "x", [1, 2]])
def test_what_is_no_array(value):
    with pytest.raises(dsa.LaunchError, match="pack4 takes int4"):
        dsa.pack4(value)
    with pytest.raises(dsa.LaunchError, match="unpack4 takes bytes"):
        dsa.unpack4(value, ml_dtypes.int4)
    with pytest.raises(dsa.LaunchError, match="unpack4 takes bytes"):
        dsa.unpack4(np.zeros(2, np.uint8), value)
