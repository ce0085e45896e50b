"""Cases of the suite with weights in block formats; the answers come from ml_dtypes' values of the same bits."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import dsalang.language as tl

from . import block_kernels as kernels
from .cases import BF16, F32, FP8, Array, Case, case, f64, normal, rng

E2M1, E8M0, INT4, UINT4 = (
    ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu, ml_dtypes.int4, ml_dtypes.uint4,
)  # fmt: skip


def packed(values: Array) -> NDArray[np.uint8]:
    """Numbers of 4 bits as bytes of two neighbours along the last dim."""
    codes = values.view(np.uint8) & 15
    return codes[..., 0::2] | codes[..., 1::2] << 4


def blocks_of(
    name: str, shape: tuple[int, int], dtype: Any
) -> tuple[Array, Array, NDArray[np.float64]]:
    """Random numbers with a scale per 32 of a row: what is stored, the scales, and what it means."""
    rows, k = shape
    values = normal(name, rows, k).astype(dtype)
    scales = rng(name + "scale").integers(124, 130, (rows, k // 32), np.uint8)
    exact = f64(values) * np.repeat(f64(scales.view(E8M0)), 32, 1)
    stored = packed(values) if dtype == E2M1 else values.view(np.uint8)
    return stored, scales, exact


def launched(
    name: str, kernel: Any, args: tuple[Any, ...], size: tuple[int, int, int], meta: dict[str, Any],
    out: Array, exact: NDArray[np.float64],
) -> Case:  # fmt: skip
    """A case of a kernel with a program per block of the output."""
    m, n, _ = size
    grid = (math.ceil(m / meta["BLOCK_M"]), math.ceil(n / meta["BLOCK_N"]))
    return Case(name, kernel, grid, (*args, out, *size), meta, (out,), lambda: (exact,))


def channels_case(name: str, size: tuple[int, int, int], meta: dict[str, Any], out: Any) -> Case:
    """int8 with a scale per row of x and of w; `out` is the output's type."""
    m, n, k = size
    x, w = (
        rng(name + which).integers(-99, 99, shape, np.int8)
        for which, shape in (("x", (m, k)), ("w", (n, k)))
    )
    scales = [np.abs(normal(name + str(s), s)) * F32(1e-3) + F32(1e-3) for s in (m, n)]
    exact = f64(x) @ f64(w).T * f64(scales[0])[:, None] * f64(scales[1])
    args = (x, scales[0], w, scales[1])
    return launched(name, kernels.matmul_channels, args, size, meta, np.zeros((m, n), out), exact)


def groups_case(
    name: str, kernel: Any, size: tuple[int, int, int], meta: dict[str, Any], out: Any
) -> Case:
    """4-bit weights in groups: with a zero point for the kernel that dequantises, signed for the one that does not."""
    m, n, k = size
    group, dequantises = meta["GROUP"], kernel is kernels.matmul_int4
    x = normal(name + "x", m, k).astype(BF16)
    low = 0 if dequantises else -8
    codes = rng(name).integers(low, low + 16, (n, k)).astype(UINT4 if dequantises else INT4)
    scales = (np.abs(normal(name + "w", n, k // group)) * F32(0.02) + F32(0.01)).astype(BF16)
    weights = (f64(codes) - 8 * dequantises) * np.repeat(f64(scales), group, 1)
    if dequantises:
        weights = f64(weights.astype(BF16))
    args = (x, packed(codes), scales)
    return launched(name, kernel, args, size, meta, np.zeros((m, n), out), f64(x) @ weights.T)


def mx_case(
    name: str, size: tuple[int, int, int], formats: tuple[str, str], meta: dict[str, Any], out: Any
) -> Case:
    """A product of microscaling formats, named as `dot_scaled` names them."""
    m, n, k = size
    types = [{"e2m1": E2M1, "e4m3": FP8, "e5m2": ml_dtypes.float8_e5m2}[f] for f in formats]
    left, left_scale, a = blocks_of(name + "x", (m, k), types[0])
    right, right_scale, b = blocks_of(name + "w", (n, k), types[1])
    per_byte = [1 + (t == E2M1) for t in types]
    meta = {
        **meta, "X": formats[0], "W": formats[1], "PER_BYTE_X": per_byte[0], "PER_BYTE_W": per_byte[1],
    }  # fmt: skip
    args = (left, left_scale, right, right_scale)
    return launched(name, kernels.matmul_mx, args, size, meta, np.zeros((m, n), out), a @ b.T)


def plain_case(
    name: str, size: tuple[int, int, int], dtype: Any, meta: dict[str, Any], out: Any
) -> Case:
    """A product in a format that needs no scales; a bf16 accumulator is rounded after each BLOCK_K of it."""
    m, n, k = size
    x = (normal(name + "x", m, k) * F32(0.1)).astype(dtype)
    w = normal(name + "w", n, k).astype(dtype)
    exact = f64(x) @ f64(w).T
    if meta["ACC"] is tl.bfloat16:
        exact = np.zeros((m, n))
        for start in range(0, k, meta["BLOCK_K"]):
            inner = slice(start, start + meta["BLOCK_K"])
            exact = f64((exact + f64(x[:, inner]) @ f64(w[:, inner]).T).astype(BF16))
    return launched(name, kernels.matmul_rows, (x, w), size, meta, np.zeros((m, n), out), exact)


def tiles(m: int, n: int, k: int, **others: Any) -> dict[str, Any]:
    """The block sizes of a launch."""
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, **others}


@case
def matmul_int8_channels() -> Case:
    return channels_case("matmul_int8_channels", (37, 90, 192), tiles(32, 64, 64), F32)


@case
def matmul_int4_groups() -> Case:
    meta = tiles(16, 64, 256, GROUP=128)
    return groups_case("matmul_int4_groups", kernels.matmul_int4, (20, 70, 256), meta, F32)


@case
def matmul_int4_sums() -> Case:
    meta = tiles(1, 64, 256, GROUP=128)
    return groups_case("matmul_int4_sums", kernels.matmul_int4_sums, (1, 100, 512), meta, F32)


@case
def matmul_mxfp8() -> Case:
    return mx_case("matmul_mxfp8", (40, 80, 256), ("e4m3", "e5m2"), tiles(32, 64, 128), F32)


@case
def matmul_mxfp4() -> Case:
    return mx_case("matmul_mxfp4", (33, 70, 256), ("e2m1", "e2m1"), tiles(32, 64, 128), F32)


@case
def matmul_fp8_bf16() -> Case:
    meta = tiles(16, 64, 32, ACC=tl.bfloat16)
    return plain_case("matmul_fp8_bf16", (24, 50, 96), FP8, meta, BF16)
