"""Tables of pointers: kernels that reach arrays by addresses that they load."""

from __future__ import annotations

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl


def _sums(tables, lengths, out, BLOCK: tl.constexpr):
    array = tl.load(tables + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    length = tl.load(lengths + tl.program_id(0))
    total = 0.0
    for start in range(0, length, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(array + at, mask=at < length, other=0.0))
        tl.store(array + at, at.to(tl.float32), mask=at < length)
    tl.store(out + tl.program_id(0), total)


def _pick(pointers, out, N: tl.constexpr):
    addresses = tl.load(pointers + tl.arange(0, N))
    values = tl.load(addresses.to(tl.pointer_type(tl.int32), bitcast=True))
    tl.store(out + tl.arange(0, N), values)


def _twice(table, out):
    inner = tl.load(table).to(tl.pointer_type(tl.int64))
    tl.store(out, tl.load(tl.load(inner).to(tl.pointer_type(tl.float32))))


def _back(table, x, out):
    """A store through a pointer from memory is seen by a load through an argument."""
    other = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(other, tl.load(x) + 1.0)
    tl.store(out, tl.load(x))


both = pytest.mark.parametrize("interpret", [False, True])


def table_of(arrays):
    return np.array([a.ctypes.data for a in arrays], np.uint64)


@both
def test_a_table_of_arrays(interpret):
    arrays = [np.arange(n, dtype=np.float32) * 0.5 for n in (3, 70, 128)]
    expected = [a.sum() for a in arrays]
    lengths = np.array([a.size for a in arrays], np.int32)
    out = np.zeros(3, np.float32)
    dsa.jit(interpret=interpret)(_sums)[3](table_of(arrays), lengths, out, BLOCK=32)
    np.testing.assert_allclose(out, expected)
    for a in arrays:
        np.testing.assert_array_equal(a, np.arange(a.size))


@both
def test_a_tile_of_pointers(interpret):
    values, order = np.arange(64, dtype=np.int32) * 7, np.array([9, 3, 60, 3, 0, 63, 2, 5])
    out = np.zeros(8, np.int32)
    table = np.uint64(values.ctypes.data) + (4 * order).astype(np.uint64)
    dsa.jit(interpret=interpret)(_pick)[1](table, out, N=8)
    np.testing.assert_array_equal(out, 7 * order)


@both
def test_tables_of_tables(interpret):
    value = np.array([2.5], np.float32)
    inner = table_of([value])
    out = np.zeros(1, np.float32)
    dsa.jit(interpret=interpret)(_twice)[1](table_of([inner]), out)
    assert out[0] == 2.5


@both
def test_it_may_be_an_argument_too(interpret):
    x, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    dsa.jit(interpret=interpret)(_back)[1](table_of([x]), x, out)
    assert (x[0], out[0]) == (2, 2)


def test_other_arrays_the_next_time():
    kernel = dsa.jit(_twice)
    out, table = np.zeros(1, np.float32), np.zeros(1, np.uint64)
    for number in (1.5, 2.5):
        value = np.array([number], np.float32)
        inner = table_of([value])
        table[0] = inner.ctypes.data
        kernel[1](table, out)
        assert out[0] == number


@both
def test_a_pointer_past_the_end(interpret):
    array = np.zeros(4, np.float32)
    out = np.zeros(1, np.float32)
    with pytest.raises(dsa.UserError, match=r"outside of array|out of bounds"):
        dsa.jit(interpret=interpret)(_sums)[1](
            table_of([array]), np.array([1 << 24], np.int32), out, BLOCK=32
        )
