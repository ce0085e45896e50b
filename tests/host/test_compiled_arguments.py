"""Arguments of all kinds reach the machine as they are, interpreted and compiled."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang._backend.errors import DeviceError


@pytest.fixture(autouse=True, params=["interpreted", "compiled"])
def mode(request, monkeypatch, tmp_path):
    monkeypatch.setenv("DSA_INTERPRET", str(int(request.param == "interpreted")))
    monkeypatch.setenv("DSA_CACHE_DIR", str(tmp_path))


@dsa.jit
def copy2d(x, out, rows, columns, xr, xc, orow, oc, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    keep = (r < rows) & (c < columns)
    tl.store(out + r * orow + c * oc, tl.load(x + r * xr + c * xc, mask=keep), mask=keep)


def copy(x, out):
    steps = [s // a.itemsize for a in (x, out) for s in a.strides]
    copy2d[1](x, out, *x.shape, *steps, ROWS=8, COLUMNS=16)


BASE = np.arange(40 * 40, dtype=np.float32).reshape(40, 40)


@pytest.mark.parametrize(
    "view",
    [
        BASE[:7, :13],
        BASE[::-1, ::-1][:7, :13],
        BASE[3::5, 1::3][:7, :13],
        BASE.T[:7, :13],
        BASE[::-2][:5, ::-3],
        np.broadcast_to(BASE[0, :9], (6, 9)),
        np.broadcast_to(BASE[:5, :1], (5, 11)),
    ],
)
def test_any_strides(view):
    out = np.zeros((40, 40), np.float32)
    copy(view, out[: view.shape[0], : view.shape[1]])
    np.testing.assert_array_equal(out[: view.shape[0], : view.shape[1]], view)
    assert np.count_nonzero(out[view.shape[0] :]) == np.count_nonzero(out[:, view.shape[1] :]) == 0
    backwards = np.zeros((40, 40), np.float32)
    target = backwards[::-1, ::-2][: view.shape[0], : view.shape[1]]
    copy(view, target)
    np.testing.assert_array_equal(target, view)


@pytest.mark.parametrize(
    "dtype",
    [
        np.bool_, np.int8, np.uint16, np.int64, np.uint64, np.float16, ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
    ],
)  # fmt: skip
def test_every_storage(dtype):
    view = (BASE[:7, :13] % 3).astype(dtype)
    out = np.zeros((7, 13), dtype)
    copy(view, out)
    np.testing.assert_array_equal(out, view)


def test_unaligned_fields_of_records():
    records = np.zeros(20, np.dtype([("tag", "u1"), ("value", "<f4")]))
    records["value"] = np.arange(20)
    out = np.zeros((1, 16), np.float32)

    @dsa.jit
    def scan_bytes(x, out, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out + i, tl.load(x + i * 5).to(tl.float32))

    scan_bytes[1](records.view("u1"), out, N=16)
    np.testing.assert_array_equal(out[0], records["tag"][:16])

    @dsa.jit
    def one(x, out):
        tl.store(out, tl.load(x))

    one[1](records["value"][7:8], out)
    assert out[0, 0] == 7


@dsa.jit
def scalars(out, a, b, c, d, e, f: tl.int64, g: tl.float16):
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, (c >> 40).to(tl.float32))
    tl.store(out + 3, (d >> 60).to(tl.float32))
    tl.store(out + 4, 1.0 if e else 2.0)
    tl.store(out + 5, (f * 2147483647 * 4 >> 30).to(tl.float32))
    tl.store(out + 6, g)


def test_scalars():
    out = np.zeros(7, np.float32)
    scalars[1](out, -7, 0.5, 2**41, 2**63 + 5, True, 3, 0.1)
    assert out.tolist() == [-7, 0.5, 2, 8, 1, 23, np.float32(np.float16(0.1))]
    scalars[1](out, np.int64(16), np.float32(-0.0), -(2**41), 2**64 - 1, np.bool_(False), 1, 3)
    assert out.tolist() == [16, 0, -2, 15, 2, 7, 3]


@dsa.jit
def optional(x, bias, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    if bias is not None:
        value += tl.load(bias + i)
    tl.store(out + i, value)


def test_none():
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    optional[1](x, None, out, N=8)
    assert out.tolist() == [1] * 8
    optional[1](x, x, out, N=8)
    assert out.tolist() == [2] * 8


def test_empty_arrays():
    out = np.full(4, 5, np.float32)

    @dsa.jit
    def masked(x, out, n, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out + i, tl.load(x + i, mask=i < n, other=2.0))

    masked[1](np.zeros(0, np.float32), out, 0, N=4)
    assert out.tolist() == [2] * 4


@dsa.jit
def past(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i))


def test_out_of_bounds_is_an_error_and_not_a_crash():
    with pytest.raises(DeviceError, match=r"(out of bounds|outside).*'x'"):
        past[1](np.zeros(100, np.float32), np.zeros(1024, np.float32), N=1024)


def test_grid_axes():
    @dsa.jit
    def ids(out):
        x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
        where = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
        tl.store(out + where, x + 10 * y + 100 * z)

    out = np.zeros((2, 3, 4), np.int32)
    ids[4, 3, 2](out)
    z, y, x = np.mgrid[:2, :3, :4]
    np.testing.assert_array_equal(out, x + 10 * y + 100 * z)
