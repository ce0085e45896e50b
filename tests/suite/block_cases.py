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


@case
def matmul_int8_channels() -> Case:
    size = m, n, k = 37, 90, 192
    x, w = (
        rng(name).integers(-99, 99, s, np.int8) for name, s in (("icx", (m, k)), ("icw", (n, k)))
    )
    scales = [
        np.abs(normal(name, s)) * F32(1e-3) + F32(1e-3) for name, s in (("ics", m), ("ict", n))
    ]
    exact = f64(x) @ f64(w).T * f64(scales[0])[:, None] * f64(scales[1])
    meta = {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64}
    args = (x, scales[0], w, scales[1])
    return launched(
        "matmul_int8_channels",
        kernels.matmul_channels,
        args,
        size,
        meta,
        np.zeros((m, n), F32),
        exact,
    )


def grouped(name: str, n: int, k: int, group: int, dtype: Any) -> tuple[Array, Array]:
    """4-bit weights and the scale of each group."""
    low = 0 if dtype == UINT4 else -8
    codes = rng(name).integers(low, low + 16, (n, k)).astype(dtype)
    scales = (np.abs(normal(name + "scale", n, k // group)) * F32(0.02) + F32(0.01)).astype(BF16)
    return codes, scales


@case
def matmul_int4_groups() -> Case:
    size = m, n, k = 20, 70, 256
    x = normal("int4x", m, k).astype(BF16)
    codes, scales = grouped("int4w", n, k, 128, UINT4)
    weights = ((codes.astype(F32) - 8).astype(BF16) * np.repeat(scales, 128, 1)).astype(BF16)
    meta = {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 256, "GROUP": 128}
    args, out = (x, packed(codes), scales), np.zeros((m, n), F32)
    return launched(
        "matmul_int4_groups", kernels.matmul_int4, args, size, meta, out, f64(x) @ f64(weights).T
    )


@case
def matmul_int4_sums() -> Case:
    size = m, n, k = 1, 100, 512
    x = normal("sumsx", m, k).astype(BF16)
    codes, scales = grouped("sumsw", n, k, 128, INT4)
    weights = codes.astype(np.float64) * np.repeat(f64(scales), 128, 1)
    meta = {"BLOCK_M": 1, "BLOCK_N": 64, "BLOCK_K": 256, "GROUP": 128}
    args, out = (x, packed(codes), scales), np.zeros((m, n), F32)
    return launched(
        "matmul_int4_sums", kernels.matmul_int4_sums, args, size, meta, out, f64(x) @ weights.T
    )


def mx_case(name: str, size: tuple[int, int, int], x: tuple[str, Any], w: tuple[str, Any]) -> Case:
    """A product of microscaling formats."""
    m, n, k = size
    left, left_scale, a = blocks_of(name + "x", (m, k), x[1])
    right, right_scale, b = blocks_of(name + "w", (n, k), w[1])
    meta = {
        "BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 128, "X": x[0], "W": w[0],
        "PER_BYTE_X": 1 + (x[1] == E2M1), "PER_BYTE_W": 1 + (w[1] == E2M1),
    }  # fmt: skip
    args = (left, left_scale, right, right_scale)
    return launched(name, kernels.matmul_mx, args, size, meta, np.zeros((m, n), F32), a @ b.T)


@case
def matmul_mxfp8() -> Case:
    return mx_case("matmul_mxfp8", (40, 80, 256), ("e4m3", FP8), ("e5m2", ml_dtypes.float8_e5m2))


@case
def matmul_mxfp4() -> Case:
    return mx_case("matmul_mxfp4", (33, 70, 256), ("e2m1", E2M1), ("e2m1", E2M1))


@case
def matmul_fp8_bf16() -> Case:
    size = m, n, k = 24, 50, 96
    x = (normal("f8x", m, k) * F32(0.1)).astype(FP8)  # small sums: bf16 rounds each step's
    w = normal("f8w", n, k).astype(FP8)
    meta = {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "ACC": tl.bfloat16}
    out = np.zeros((m, n), BF16)
    return launched(
        "matmul_fp8_bf16", kernels.matmul_rows, (x, w), size, meta, out, f64(x) @ f64(w).T
    )
