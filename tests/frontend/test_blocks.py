"""Block pointers and tensor descriptors, parsed and interpreted."""

from __future__ import annotations

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from frontend.evaluate import parse_call, run_kernel


def blocks(x, y, out, M, N, K, B: tl.constexpr):
    a = tl.make_block_ptr(x, (M, K), (K, 1), (tl.program_id(0) * B, 0), (B, B), (1, 0))
    b = tl.make_block_ptr(y, shape=(K, N), strides=(1, K), offsets=(0, 0), block_shape=(B, 8),
                          order=(0, 1))  # fmt: skip
    acc = tl.zeros((B, 8), tl.float32)
    for _ in range(0, K, B):
        acc = tl.dot(tl.load(a, boundary_check=(0, 1)), tl.load(b, boundary_check=(0, 1)), acc)
        a = tl.advance(a, (0, B))
        b = b.advance((B, 0))
    c = tl.make_block_ptr(out, (M, N), (N, 1), (tl.program_id(0) * B, 0), (B, 8), (1, 0))
    tl.store(c, acc.to(c.dtype.element_ty), boundary_check=(0, 1))


def descriptors(x, y, out, M, N, K, B: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [M, K], [K, 1], [B, B])
    b = tl.make_tensor_descriptor(y, [N, K], [K, 1], [8, B])
    c = tl.make_tensor_descriptor(out, [M, N], [N, 1], [B, 8])
    row = tl.program_id(0) * B
    acc = tl.zeros((B, 8), tl.float32)
    for k in range(0, K, B):
        acc = tl.dot(a.load([row, k]), b.load([0, k]).T, acc)
    tl.static_assert(c.block_shape[1] == 8)
    c.store([row, 0], acc.to(c.dtype))


@pytest.mark.parametrize("function", [blocks, descriptors])
def test_matmul(function):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-3, 4, s).astype(np.float32) for s in ((6, 10), (7, 10)))
    for interpreted in (False, True):
        out = np.full((6, 7), 99, np.float32)
        args = {"x": x, "y": y, "out": out, "M": 6, "N": 7, "K": 10, "B": 4}
        if interpreted:
            dsa.jit(function, interpret=True)[(2,)](**args)
        else:
            run_kernel(dsa.jit(function), grid=(2,), **args)
        np.testing.assert_array_equal(out, x @ y.T)


def test_only_offsets_are_carried():
    zeros = np.zeros((4, 4), np.float32)
    args = {"x": zeros, "y": zeros, "out": zeros, "M": 4, "N": 4, "K": 4, "B": 4}
    module, _ = parse_call(dsa.jit(blocks), args)
    (loop,) = (op for op in module.walk() if op.name == "scf.for")
    assert len(loop.results) == 5


@dsa.jit
def edges(x, out, n, MODE: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (2,), (4,), (0,))
    if MODE == "nan":
        v = tl.load(p, boundary_check=(0,), padding_option="nan")
    elif MODE == "mask":
        v = tl.load(p, mask=tl.arange(0, 4) < n)
    elif MODE == "dim":
        v = tl.load(p, boundary_check=(1,))
    else:
        v = tl.load(tl.advance(p, (1, 1)))
    tl.store(out + tl.arange(0, 4), v)


def test_padding():
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    run_kernel(edges, x=x, out=out, n=4, MODE="nan")
    np.testing.assert_array_equal(out, [2, 3, np.nan, np.nan])


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("mask", "load through a block pointer takes no mask"),
        ("dim", "boundary_check names dim 1 of a block of rank 1"),
        ("rank", "the offsets of advance must be 1 integers, one per dim"),
    ],
)
def test_mistakes(mode, message):
    x = np.zeros(4, np.float32)
    with pytest.raises(dsa.CompileError, match=message):
        parse_call(edges, {"x": x, "out": x, "n": 4, "MODE": mode})


@dsa.jit
def descriptor_atomics(out, bits, M, N, BM: tl.constexpr, BN: tl.constexpr):
    desc = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    values = tl.arange(0, BM)[:, None] * 10 + tl.arange(0, BN)[None, :]
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    desc.atomic_add([row, column], values.to(tl.float32))
    desc.atomic_max([row, column], (values * 0 + 7).to(tl.float32))
    desc.atomic_min([row, column], (values * 0 + 25).to(tl.float32))
    whole = tl.make_tensor_descriptor(bits, [M, N], [N, 1], [BM, BN])
    whole.atomic_or([row, column], values)
    whole.atomic_and([row, column], values * 0 + 29)
    whole.atomic_xor([row, column], values * 0 + 2)


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_atomics_of_a_descriptor(interpret, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    out, bits = np.ones((5, 6), np.float32), np.full((5, 6), 3, np.int32)
    descriptor_atomics[(2, 2)](out, bits, 5, 6, BM=4, BN=4)
    i, j = np.indices((5, 6)) % 4
    values = i * 10 + j
    np.testing.assert_array_equal(out, np.clip(values + 1, 7, 25))
    np.testing.assert_array_equal(bits, ((values | 3) & 29) ^ 2)
