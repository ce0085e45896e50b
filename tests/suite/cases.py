"""Cases of the suite: a kernel, arguments made from a seed, and what numpy in float64 says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import dsalang.language as tl

from . import kernels

Array = NDArray[Any]
F16, F32, BF16 = np.float16, np.float32, ml_dtypes.bfloat16
FP8 = ml_dtypes.float8_e4m3fn

TOLERANCE = {
    np.dtype(F32): 2e-5,
    np.dtype(F16): 2e-3,
    np.dtype(BF16): 1.6e-2,
    np.dtype(np.int32): 0.0,
    np.dtype(np.int64): 0.0,
}
"""Largest error that the output's format allows, relative to the larger of 1 and the expected value."""


@dataclass
class Case:
    """A launch: `kernel[grid](*args, **meta)` fills `outputs`, which should equal `expected()`."""

    name: str
    kernel: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    meta: dict[str, Any]
    outputs: tuple[Array, ...]
    expected: Callable[[], tuple[Array, ...]]
    options: dict[str, Any] = field(default_factory=dict)

    def launch(self, **options: Any) -> Any:
        """Run the kernel and return what the launch returns."""
        return self.kernel[self.grid](*self.args, **self.meta, **self.options, **options)

    def errors(self) -> list[float]:
        """Largest error per output, relative to max(1, |expected|)."""
        found = []
        for got, want in zip(self.outputs, self.expected(), strict=True):
            value, exact = got.astype(np.float64), want.astype(np.float64)
            assert np.isfinite(value).all()
            found.append(float(np.max(np.abs(value - exact) / np.maximum(1.0, np.abs(exact)))))
        return found

    def check(self) -> None:
        """Raise AssertionError when an output is out of its format's tolerance."""
        for got, error in zip(self.outputs, self.errors(), strict=True):
            assert error <= TOLERANCE[got.dtype], f"{self.name}: error {error:.3g} in {got.dtype}"


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """Register a maker of a case under its name."""
    CASES[make.__name__] = make
    return make


def rng(name: str) -> np.random.Generator:
    """A generator seeded by a case's name, so that every case has its own, repeatable data."""
    return np.random.default_rng([ord(c) for c in name])


def normal(name: str, *shape: int, dtype: Any = F32) -> Array:
    """Normally distributed data in a format."""
    return rng(name).standard_normal(shape).astype(dtype)


def f64(array: Array) -> NDArray[np.float64]:
    """The same values in float64."""
    return array.astype(np.float64)


def elements(array: Array) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(s // array.itemsize for s in array.strides)


def add_case(name: str, n: int, block: int, dtype: Any = F32, step: int = 1) -> Case:
    """Vector add of n elements."""
    x, y = normal(name + "x", n, dtype=dtype), normal(name + "y", n, dtype=dtype)
    out = np.zeros(n, dtype)
    return Case(
        name, kernels.vector_add, (math.ceil(n / block),), (x, y, out, n), {"BLOCK": block},
        (out,), lambda: (f64(x) + f64(y),),
    )  # fmt: skip


@case
def add_odd() -> Case:
    return add_case("add_odd", 10_007, 1024)


@case
def add_bf16() -> Case:
    return add_case("add_bf16", 4096, 1000, BF16)


def softmax_case(name: str, x: Array) -> Case:
    """Softmax of the rows of x."""
    rows, columns = x.shape
    out = np.zeros((rows, columns), F32)
    block = 1 << (columns - 1).bit_length()

    def expected() -> tuple[Array, ...]:
        e = np.exp(f64(x) - f64(x).max(1, keepdims=True))
        return (e / e.sum(1, keepdims=True),)

    args = (x, out, elements(x)[0], elements(out)[0], columns)
    return Case(name, kernels.softmax, (rows,), args, {"BLOCK": block}, (out,), expected)


@case
def softmax_odd() -> Case:
    return softmax_case("softmax_odd", normal("softmax_odd", 37, 781))


@case
def softmax_strided() -> Case:
    return softmax_case("softmax_strided", normal("softmax_strided", 40, 300)[::3, :257])


def matmul_case(
    name: str, a: Array, b: Array, out_dtype: Any, blocks: tuple[int, int, int], group: int = 4
) -> Case:
    """a @ b with the grouped tutorial kernel."""
    (m, k), n = a.shape, b.shape[1]
    c = np.zeros((m, n), out_dtype)
    bm, bn, bk = blocks
    grid = (math.ceil(m / bm) * math.ceil(n / bn),)
    args = (a, b, c, m, n, k, *elements(a), *elements(b), *elements(c))
    acc = tl.int32 if a.dtype == np.int8 else tl.float32
    meta = {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": group, "ACC": acc}
    return Case(name, kernels.matmul, grid, args, meta, (c,), lambda: (f64(a) @ f64(b),))


@case
def matmul_fp16() -> Case:
    a = normal("matmul_a", 192, 160, dtype=F16) * F16(0.1)
    b = normal("matmul_b", 160, 128, dtype=F16)
    return matmul_case("matmul_fp16", a, b, F16, (64, 64, 32))


@case
def matmul_odd() -> Case:
    a = normal("matmul_odd_a", 131, 77, dtype=F16) * F16(0.1)
    b = normal("matmul_odd_b", 77, 93, dtype=F16)
    return matmul_case("matmul_odd", a, b, F16, (64, 32, 32))


@case
def matmul_transposed() -> Case:
    a = (normal("matmul_t_a", 80, 100, dtype=F16) * F16(0.1)).T
    b = normal("matmul_t_b", 70, 80, dtype=F16).T
    return matmul_case("matmul_transposed", a, b, F16, (64, 64, 32))


@case
def matmul_fp32() -> Case:
    a, b = normal("matmul32_a", 100, 64), normal("matmul32_b", 64, 72)
    return matmul_case("matmul_fp32", a * F32(0.1), b, F32, (32, 48, 32))


@case
def matmul_int8() -> Case:
    r = rng("matmul_int8")
    a = r.integers(-128, 128, (96, 130)).astype(np.int8)
    b = r.integers(-128, 128, (130, 64)).astype(np.int8)
    return matmul_case("matmul_int8", a, b, np.int32, (32, 64, 64))


@case
def matmul_fp8() -> Case:
    a = normal("matmul_fp8_a", 64, 96).astype(FP8)
    b = normal("matmul_fp8_b", 96, 64).astype(FP8)
    return matmul_case("matmul_fp8", a, b, F32, (32, 32, 32))


def linear_gelu_case(
    name: str, m: int, n: int, k: int, blocks: tuple[int, int, int], parts: int = 0
) -> Case:
    """gelu(x @ w + bias) in fp16; a program with several parts of columns when `parts` is not 0."""
    x = normal(name + "x", m, k, dtype=F16)
    w = (normal(name + "w", k, n) / math.sqrt(k)).astype(F16)
    bias = normal(name + "b", n, dtype=F16)
    y = np.zeros((m, n), F16)
    bm, bn, bk = blocks

    def expected() -> tuple[Array, ...]:
        z = f64(x) @ f64(w) + f64(bias)
        erf = np.vectorize(math.erf)
        return (0.5 * z * (1 + erf(z / math.sqrt(2))),)

    args = (x, w, bias, y, m, n, k, *elements(x), *elements(w), *elements(y))
    meta = {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk}
    grid = (math.ceil(m / bm), math.ceil(n / (bn * max(parts, 1))))
    if parts:
        kernel, meta = kernels.linear_gelu_parts, {**meta, "PARTS": parts}
    else:
        kernel = kernels.linear_gelu
    return Case(name, kernel, grid, args, meta, (y,), expected)


@case
def linear_gelu_odd() -> Case:
    return linear_gelu_case("linear_gelu_odd", 100, 150, 70, (64, 64, 32))


@case
def linear_gelu_parts() -> Case:
    return linear_gelu_case("linear_gelu_parts", 100, 150, 70, (64, 32, 32), parts=3)


def layer_norm_case(name: str, rows: int, columns: int, block: int) -> Case:
    """Layer norm forward with mean and reciprocal deviation."""
    x = normal(name + "x", rows, columns) * F32(2) + F32(1)
    weight, bias = normal(name + "w", columns), normal(name + "b", columns)
    out, mean, rstd = np.zeros_like(x), np.zeros(rows, F32), np.zeros(rows, F32)
    eps = 1e-5

    def expected() -> tuple[Array, ...]:
        z = f64(x)
        mu = z.mean(1)
        r = 1 / np.sqrt(z.var(1) + eps)
        return ((z - mu[:, None]) * r[:, None] * f64(weight) + f64(bias), mu, r)

    args = (x, out, weight, bias, mean, rstd, elements(x)[0], columns, eps)
    outputs = (out, mean, rstd)
    return Case(name, kernels.layer_norm, (rows,), args, {"BLOCK": block}, outputs, expected)


@case
def layer_norm_odd() -> Case:
    return layer_norm_case("layer_norm_odd", 11, 1000, 256)


def attention_case(
    name: str, heads: int, length: int, head: int, causal: bool, blocks: tuple[int, int], dtype: Any
) -> Case:
    """Flash attention forward."""
    q, k, v = (normal(name + part, heads, length, head, dtype=dtype) for part in "qkv")
    out = np.zeros_like(q)
    scale = 1 / math.sqrt(head)

    def expected() -> tuple[Array, ...]:
        s = np.einsum("hmd,hnd->hmn", f64(q), f64(k)) * scale
        if causal:
            s = np.where(np.tri(length, dtype=bool), s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        return (np.einsum("hmn,hnd->hmd", p / p.sum(-1, keepdims=True), f64(v)),)

    bm, bn = blocks
    meta = {"BLOCK_M": bm, "BLOCK_N": bn, "HEAD": head, "CAUSAL": causal}
    args = (q, k, v, out, scale, length, *elements(q))
    grid = (math.ceil(length / bm), heads)
    return Case(name, kernels.attention, grid, args, meta, (out,), expected)


@case
def attention_64() -> Case:
    return attention_case("attention_64", 2, 160, 64, False, (64, 32), F16)


@case
def attention_64_causal() -> Case:
    return attention_case("attention_64_causal", 2, 150, 64, True, (64, 32), F16)


@case
def attention_128() -> Case:
    return attention_case("attention_128", 1, 128, 128, False, (64, 64), BF16)


@case
def attention_128_causal() -> Case:
    return attention_case("attention_128_causal", 1, 100, 128, True, (32, 64), F16)


@case
def embedding() -> Case:
    table = normal("embedding", 500, 96, dtype=F16)
    ids = rng("embedding_ids").integers(0, 500, 77).astype(np.int32)
    out = np.zeros((77, 90), F16)
    args = (table, ids, out, 77, 90, elements(table)[0])
    meta = {"BLOCK": 16, "WIDTH": 128}
    return Case(
        "embedding", kernels.embedding, (5,), args, meta, (out,), lambda: (table[ids, :90],)
    )


@case
def histogram() -> Case:
    x = rng("histogram").integers(0, 64, 3000).astype(np.int32)
    bins = np.zeros(64, np.int32)

    def expected() -> tuple[Array, ...]:
        return (np.bincount(x, minlength=64),)

    return Case(
        "histogram", kernels.histogram, (6,), (x, bins, 3000), {"BLOCK": 512}, (bins,), expected
    )


@case
def running_length() -> Case:
    x = rng("running_length").integers(1, 30, (6, 40)).astype(np.int32)
    x[3] = 0
    out = np.zeros((6, 2), np.int32)
    limit = 200

    def expected() -> tuple[Array, ...]:
        rows = []
        for row in x:
            total = count = 0
            while count < 40 and total < limit:
                total, count = total + int(row[count]), count + 1
            rows.append((total, count))
        return (np.array(rows, np.int32),)

    args = (x, out, limit, 40)
    return Case("running_length", kernels.running_length, (6,), args, {}, (out,), expected)


@case
def blocked_sum() -> Case:
    x = normal("blocked_sum", 5, 6, 300)
    out = np.zeros(300, F32)

    def expected() -> tuple[Array, ...]:
        weights = np.where(np.arange(5) % 2 == 1, 2.0, 1.0)
        return ((f64(x).sum(1) * weights[:, None]).sum(0),)

    args = (x, out, 5, 6, 300)
    return Case("blocked_sum", kernels.blocked_sum, (1,), args, {"BLOCK": 128}, (out,), expected)


def softmax_of(x: Array) -> NDArray[np.float64]:
    """Softmax of the rows in float64."""
    e = np.exp(f64(x) - f64(x).max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


def rows_case(name: str, kernel: Any, rows: int, columns: int, per_program: int) -> Case:
    """A row-wise kernel on [rows, columns] fp32; `kernel` is one of the `…_rows` kernels."""
    x = normal(name + "x", rows, columns) * F32(2) + F32(0.5)
    weight, bias = normal(name + "w", columns), normal(name + "b", columns)
    out = np.zeros_like(x)
    z, eps = f64(x), 1e-5
    if kernel is kernels.softmax_rows:
        args: tuple[Any, ...] = (x, out, rows, columns)
        exact = softmax_of(x)
    elif kernel is kernels.layer_norm_rows:
        args = (x, out, weight, bias, rows, columns, eps)
        centred = z - z.mean(1, keepdims=True)
        exact = centred / np.sqrt(z.var(1, keepdims=True) + eps) * f64(weight) + f64(bias)
    else:
        args = (x, out, weight, rows, columns, eps)
        exact = z / np.sqrt((z * z).mean(1, keepdims=True) + eps) * f64(weight)
    meta = {"ROWS": per_program, "BLOCK": columns}
    grid = (math.ceil(rows / per_program),)
    return Case(name, kernel, grid, args, meta, (out,), lambda: (exact,))


@case
def softmax_rows() -> Case:
    return rows_case("softmax_rows", kernels.softmax_rows, 21, 500, 4)


@case
def layer_norm_rows() -> Case:
    return rows_case("layer_norm_rows", kernels.layer_norm_rows, 10, 768, 4)


@case
def rms_norm_rows() -> Case:
    return rows_case("rms_norm_rows", kernels.rms_norm_rows, 10, 333, 3)


@case
def softmax_long() -> Case:
    x = normal("softmax_long", 3, 2500) * F32(3)
    out = np.zeros_like(x)
    return Case(
        "softmax_long", kernels.softmax_long, (3,), (x, out, 2500), {"BLOCK": 512}, (out,),
        lambda: (softmax_of(x),),
    )  # fmt: skip


@case
def matvec() -> Case:
    x = (normal("matvec_x", 1, 300) * 0.1).astype(BF16)
    w, y = normal("matvec_w", 300, 200, dtype=BF16), np.zeros((1, 200), BF16)
    meta = {"BLOCK_N": 64, "BLOCK_K": 128}
    return Case(
        "matvec", kernels.matvec, (4,), (x, w, y, 200, 300), meta, (y,), lambda: (f64(x) @ f64(w),)
    )
