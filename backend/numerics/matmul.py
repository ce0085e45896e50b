"""The tensor engine's matrix multiply-accumulate.

A float element is a chain of fp32 (of fp64 operands: fp64) fused multiply-adds over ascending k, so it does not
depend on how K is split into instructions; an integer element is exact and wraps into int32 at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..formats import Format
from .convert import narrow, widen
from .fma import fma32, round_sum32
from .fma64 import fma64

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

INT_OPERANDS = ("int8", "uint8")

_TILE_ELEMENTS = 1 << 14
"""Elements of D worked on at a time: products and accumulator stay in the host's cache."""


@np.errstate(all="ignore")
def mma(
    a: Array,
    b: Array,
    acc: Array | None,
    fmt_a: Format,
    fmt_b: Format,
    fmt_d: Format,
    accumulate: bool,
) -> tuple[Array, bool]:
    """D = A·B, or D += A·B, and whether an integer result left int32's range (it wraps).

    Args:
        a: [M, K] of fmt_a; any float format, or int8/uint8; fp64 only by fp64.
        b: [K, N] of fmt_b; of the same class as A, not necessarily the same format.
        acc: [M, N] of fmt_d; read only when `accumulate`.
        fmt_d: fp32 or bf16 for floats, fp64 for fp64, int32 for integers.
        accumulate: start from `acc` instead of +0.

    Raises:
        ValueError: for a combination of formats that the machine does not have.
    """
    if not accumulate:
        acc = np.zeros((a.shape[0], b.shape[1]), fmt_d.storage)
    assert acc is not None, "accumulating needs the accumulator"
    if fmt_d.name not in _accumulators(fmt_a, fmt_b):
        raise ValueError(f"mma of {fmt_a} by {fmt_b} into {fmt_d} does not exist")
    if fmt_d.name == "fp64":
        return narrow(_chain64(a, b, acc), fmt_d), False
    if fmt_d.is_float:
        return narrow(_float_chain(widen(a), widen(b), widen(acc)), fmt_d), False
    # every partial sum is below 2^16 * K, far within fp64's 53 bits, so any order is exact
    exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64) + acc
    wrapped = exact.astype(np.int32)
    return wrapped, bool((wrapped != exact).any())


def _accumulators(fmt_a: Format, fmt_b: Format) -> tuple[str, ...]:
    """The formats that a product of these can be accumulated in; none if it does not exist."""
    if fmt_a.name == fmt_b.name == "fp64":
        return ("fp64",)
    if fmt_a.is_float and fmt_b.is_float and "fp64" not in (fmt_a.name, fmt_b.name):
        return ("fp32", "bf16")
    return ("int32",) if fmt_a.name in INT_OPERANDS and fmt_b.name in INT_OPERANDS else ()


def _float_chain(a: F32, b: F32, start: F32) -> F32:
    """For k ascending: d = fma(a[:, k], b[k, :], d)."""
    columns = np.ascontiguousarray(a.T)
    result = np.array(start, np.float32)
    step = _choose_step(a, b)
    wide = np.float32 if step is _exact_product_chain else np.float64
    columns, rows = columns.astype(wide), np.ascontiguousarray(b, wide)
    n_step = min(b.shape[1], 1024) or 1
    m_step = max(1, _TILE_ELEMENTS // n_step)
    for m in range(0, a.shape[0], m_step):
        for n in range(0, b.shape[1], n_step):
            tile = (slice(m, m + m_step), slice(n, n + n_step))
            result[tile] = step(columns[:, tile[0]], rows[:, tile[1]], result[tile])
    return result


def _chain64(a: F64, b: F64, acc: F64) -> F64:
    for column, row in zip(a.T, b):
        acc = fma64(column[:, None], row, acc)
    return acc


def _exact_product_chain(columns: F32, rows: F32, acc: F32) -> F32:
    """The chain where every product is exact in fp32: then fma is a multiplication and an addition."""
    acc = np.ascontiguousarray(acc)
    product = np.empty_like(acc)
    for column, row in zip(columns, rows):
        np.multiply(column[:, None], row, out=product)
        np.add(acc, product, out=acc)
    return acc


def _normal_chain(columns: F64, rows: F64, acc: F32) -> F32:
    """The chain where fp64 sums that are subnormal in fp32 are exact: only midpoints need care."""
    result = np.ascontiguousarray(acc)
    wide = result.astype(np.float64)
    total, low = np.empty_like(wide), np.empty(wide.shape, np.int64)
    product = np.empty_like(wide)
    for column, row in zip(columns, rows):
        np.multiply(column[:, None], row, out=product)
        np.add(product, wide, out=total)
        np.copyto(result, total, casting="same_kind")
        np.bitwise_and(total.view(np.int64), (1 << 29) - 1, out=low)
        if (low == 1 << 28).any():
            result[...] = round_sum32(product, wide, total)
        np.copyto(wide, result)
    return result


def _general_chain(columns: F64, rows: F64, acc: F32) -> F32:
    for column, row in zip(columns, rows):
        acc = fma32(column[:, None], row, acc)
    return acc


def _choose_step(a: F32, b: F32) -> Callable[[Array, Array, F32], F32]:
    """The cheapest chain that is right for these values.

    With every finite operand as an integer times a power of two, the significant bits and the range of
    all products are known from those of A and of B.
    """
    bits_a, low_a, high_a = _extent(a)
    bits_b, low_b, high_b = _extent(b)
    if bits_a + bits_b <= 24 and low_a + low_b >= -149 and high_a + high_b <= 128:
        return _exact_product_chain
    if low_a + low_b >= -178:  # 53 bits below the largest fp32 subnormal
        return _normal_chain
    return _general_chain


def _extent(values: F32) -> tuple[int, int, int]:
    """(p, l, h): every finite non-zero value is an integer of at most p bits times at least 2^l, and below 2^h."""
    pattern = values.view(np.uint32) & np.uint32(0x7FFF_FFFF)
    pattern = pattern[(pattern != 0) & (pattern < 0x7F80_0000)]
    if not pattern.size:
        return 0, 0, 0
    exponent = np.maximum(pattern >> np.uint32(23), 1).astype(np.int32)
    normal = np.where(pattern >> np.uint32(23) != 0, np.uint32(1 << 23), np.uint32(0))
    significand = (pattern & np.uint32(0x7F_FFFF)) | normal
    lowest_bit = significand & (np.uint32(0) - significand)
    trailing = np.frexp(lowest_bit.astype(np.float32))[1] - 1
    length = np.frexp(significand.astype(np.float32))[1]
    low = (exponent - 150 + trailing).min()
    return int((length - trailing).max()), int(low), int((exponent - 150 + length).max())
