"""Parts of tiles, tiles of parts, functions of the kernel's over tiles: the machine against the interpreter."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

SETUP = """\
import dsalang as dsa
import dsalang.language as tl

@dsa.jit
def keep_right(a, b):
    return b

@dsa.jit
def affine(a, b, c, d):
    return a * c, b * c + d

@dsa.jit
def best(v, i, w, j):
    first = (v > w) | ((v == w) & (i < j))
    return tl.where(first, v, w), tl.where(first, i, j)

@dsa.jit
def kernel(source, out):
    x = tl.load(source + tl.arange(0, {n}))
    i = tl.arange(0, {n})
    result = {body}
    tl.store(out + tl.arange(0, {count}), result.to(tl.float32).reshape({count}))
"""
CASES = {
    "x[3]": (7, 1),
    "x[-1] + x[0]": (5, 1),
    "x[1:4]": (7, 3),
    "x[::-1]": (6, 6),
    "x[5:1:-2]": (7, 2),
    "x[::3] * 2": (8, 3),
    "x.reshape(3, 4)[1]": (12, 4),
    "x.reshape(3, 4)[:, 2]": (12, 3),
    "x.reshape(3, 4)[1:, ::2]": (12, 4),
    "x.reshape(2, 3, 2)[..., 1]": (12, 6),
    "x.reshape(2, 3, 2)[1, None, :, 0]": (12, 3),
    "x.reshape(3, 4)[:, 1:3].T": (12, 6),
    "x.reshape(3, 4)[2, 3].to(tl.int32)": (12, 1),
    "tl.sum(x[2:4], 0, keep_dims=True).item()": (8, 1),
    "tl.max(x.reshape(4, 3)[::-1, 1:], 1)": (12, 4),
    "tl.cumsum(x.reshape(4, 3)[:, ::-1], 0)": (12, 12),
    "tl.load(source + (i * 2)[1:4])": (8, 3),
    "tl.load((source + i)[5:2:-1])": (8, 3),
    "tl.load(source + i[1:4], mask=(i < 3)[1:4], other=9.0)": (8, 3),
    "x[tl.sum((x > 0).to(tl.int32), 0)]": (7, 1),
    "x.reshape(3, 4)[tl.program_id(0) + 2]": (12, 4),
    "x.reshape(3, 4)[1:, tl.program_id(0) + 3]": (12, 2),
    "x.reshape(2, 3, 2)[..., None, tl.num_programs(0)]": (12, 6),
    "x[tl.program_id(0) + 9] + x[tl.program_id(0) - 1] + 2": (9, 1),
    "tl.join(x, x + 1)": (5, 10),
    "tl.join(x[1], 4.0)": (5, 2),
    "tl.split(x.reshape(4, 2))[1]": (8, 4),
    "tl.split(tl.join(x, x + 1))[0]": (6, 6),
    "tl.interleave(x, -x)": (5, 10),
    "tl.cat(x, x[:2])": (5, 7),
    "tl.cat(x.reshape(2, 3), x.reshape(2, 3)[:, 1:], dim=1)": (6, 10),
    "tl.flip(x)": (5, 5),
    "tl.flip(x.reshape(3, 4), 0)": (12, 12),
    "tl.dot(x.reshape(4, 4)[::-1], x.reshape(4, 4)[:, 1:3])": (16, 8),
    "tl.reduce(x, 0, lambda a, b: a * 2 + b)": (11, 1),
    "tl.reduce(x.reshape(3, 5), 1, keep_right)": (15, 3),
    "tl.reduce(x.reshape(3, 5), 0, keep_right, keep_dims=True)": (15, 5),
    "tl.reduce(x.reshape(3, 5), None, tl.maximum)": (15, 1),
    "tl.reduce((x, i), 0, best)[1]": (13, 1),
    "tl.reduce((x.reshape(2, 6), i.reshape(2, 6)), 1, best)[0]": (12, 2),
    "x.reduce(0, lambda a, b: a - b)": (6, 1),
    "tl.associative_scan(x, 0, keep_right)": (7, 7),
    "tl.associative_scan(x, 0, lambda a, b: a * 0.5 + b)": (11, 11),
    "tl.associative_scan(x.reshape(3, 4), 1, lambda a, b: a + b, reverse=True)": (12, 12),
    "tl.associative_scan((x, x), 0, affine)[1]": (9, 9),
    "x.reshape(4, 3).associative_scan(0, tl.minimum)": (12, 12),
    "tl.map_elementwise(lambda a, b: a * b + 1, x, i)": (5, 5),
    "tl.empty((4,), tl.float32) * 0 + x[:4]": (5, 4),
    "tl.cat(i, i[::-1]) * 2": (5, 10),
    "tl.load(source + tl.cat(i[1:3], i[:1]))": (5, 3),
}


def kernel_of(body: str, n: int, count: int, setup: str = SETUP):
    text = setup.format(body=body, n=n, count=count)
    name = f"/interpreter_agrees_shapes/{body}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, object] = {}
    exec(compile(text, name, "exec"), scope)
    return scope["kernel"]


def run(kernel, source, count, monkeypatch, interpret):
    monkeypatch.setenv("DSA_INTERPRET", str(int(interpret)))
    monkeypatch.setenv("DSA_CACHE", "0")
    out = np.full(count, 77, np.float32)
    kernel[1](source, out)
    return out


@pytest.mark.parametrize("body", CASES)
def test_agrees(body, monkeypatch):
    n, count = CASES[body]
    source = np.random.default_rng(n).integers(-9, 10, n).astype(np.float32)
    kernel = kernel_of(body, n, count)
    expected = run(kernel, source, count, monkeypatch, True)
    found = run(kernel, source, count, monkeypatch, False)
    np.testing.assert_array_equal(found, expected)
