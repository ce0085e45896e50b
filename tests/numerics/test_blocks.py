"""Packed formats and block scales against ml_dtypes, every code."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from dsalang._backend.formats import OPERANDS, by_name
from dsalang._backend.numerics import blocks
from dsalang._backend.numerics.matmul import mma

TYPES = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4, "fp4e2m1": ml_dtypes.float4_e2m1fn}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("axis", (0, 1))
def test_every_byte(name: str, axis: int) -> None:
    stored = np.arange(256, dtype=np.uint8).reshape(16, 16)
    got = blocks.unpacked(stored, OPERANDS[name], axis, 32)
    low, high = ((stored >> shift & 15).view(TYPES[name]).astype(np.float32) for shift in (0, 4))
    first = [slice(None)] * 2
    for offset, want in enumerate((low, high)):
        first[axis] = slice(offset, None, 2)
        np.testing.assert_array_equal(got[tuple(first)], want)
    zeros = got[got == 0]
    if name == "fp4e2m1":
        assert np.signbit(zeros).sum() * 2 == zeros.size


def test_an_odd_count_leaves_the_last_half_out() -> None:
    got = blocks.unpacked(np.array([[0x21], [0x43]], np.uint8), OPERANDS["uint4"], 0, 3)
    assert got.tolist() == [[1], [2], [3]]


def test_every_scale() -> None:
    codes = np.arange(256, dtype=np.uint8)
    got = blocks.scale_values(codes)
    assert np.isnan(got[255]) and got[0] == 2.0**-127
    np.testing.assert_array_equal(got[:255], [2.0 ** (int(c) - 127) for c in codes[:255]])


@pytest.mark.parametrize("name", ("fp8e4m3", "fp8e5m2", "bf16", "fp16", "fp32", "int8", "uint8"))
@pytest.mark.parametrize("axis", (0, 1))
def test_scaled_is_one_rounding_to_fp32(name: str, axis: int) -> None:
    rng = np.random.default_rng(1)
    fmt = by_name(name)
    values = rng.integers(0, 256, (70, 70 * fmt.bytes), np.uint8).view(fmt.storage)
    shape = (3, 70) if axis == 0 else (70, 3)
    codes = rng.integers(0, 256, shape, np.uint8)
    got = blocks.scaled(values, codes, axis)
    powers = np.where(codes == 255, np.nan, 2.0 ** (codes.astype(float) - 127))
    wide = np.repeat(powers, 32, axis)[:70, :70]
    with np.errstate(all="ignore"):
        exact = (values.astype(np.float64) * wide).astype(np.float32)
    np.testing.assert_array_equal(got, exact)


def test_a_product_with_scales_is_the_plain_one_of_the_scaled_numbers() -> None:
    rng = np.random.default_rng(2)
    a = blocks.unpacked(rng.integers(0, 256, (3, 32), np.uint8), OPERANDS["fp4e2m1"], 1, 64)
    b = rng.standard_normal((64, 5)).astype(ml_dtypes.float8_e4m3fn)
    scales = rng.integers(100, 150, (3, 2), np.uint8), rng.integers(100, 150, (2, 5), np.uint8)
    x, y = blocks.scaled(a, scales[0], 1), blocks.scaled(b, scales[1], 0)
    fp32 = by_name("fp32")
    got, _ = mma(x, y, None, fp32, fp32, fp32, False)
    want = np.zeros((3, 5), np.float32)
    for k in range(64):  # every product is exact in fp32: the chain is multiply, round the sum
        want = (want + x[:, k, None].astype(np.float64) * y[k].astype(np.float64)).astype(
            np.float32
        )
    np.testing.assert_array_equal(got, want)
