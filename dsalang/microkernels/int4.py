"""A product with packed int4 weights and group scales: the op, in the language, and microkernels.

Generated code turns every weight into a float on the vector engine: up to two shifts on bytes, and a conversion that
is two bytes wide. The tensor engine needs no floats: it takes integers beside floats, on some targets two to a byte.
"""

from __future__ import annotations

from typing import Any

import dsalang as dsa


@dsa.jit
def int4_dot(x, packed, scales, acc):  # type: ignore[no-untyped-def]
    """acc + x · w for weights w[k, n] = int4[k, n] * scales[k // G, n], G = K / (rows of scales).

    Args:
        x: [M, K], fp16 or bf16.
        packed: [K / 2, N] uint8: a byte holds the two's complement weights of k (low half, k even) and k + 1.
        scales: [K / G, N] fp32, fp16 or bf16; G is even.
        acc: [M, N] fp32.

    Returns:
        [M, N] fp32.
    """
    rows: dsa.constexpr = x.shape[0]
    half: dsa.constexpr = packed.shape[0]
    columns: dsa.constexpr = packed.shape[1]
    groups: dsa.constexpr = scales.shape[0]
    signed = packed.to(dsa.int8, bitcast=True)
    low = dsa.reshape(((signed << 4) >> 4).to(x.dtype), (groups, half // groups, columns))
    high = dsa.reshape((signed >> 4).to(x.dtype), (groups, half // groups, columns))
    pairs = dsa.permute(dsa.reshape(x, (rows, groups, half // groups, 2)), (1, 0, 2, 3))
    even, odd = dsa.split(pairs)
    parts = dsa.dot(odd, high, dsa.dot(even, low))
    return acc + dsa.sum(parts * scales.to(dsa.float32)[:, None, :], 0)


MOST_PAIRS = 3
"""Groups that one vector instruction adds: a part and its scale are two of eight inputs, the sum one."""


def _serves(x: Any, packed: Any, scales: Any, acc: Any) -> bool:
    ranks = all(spec.ndim == 2 for spec in (x, packed, scales, acc))
    return (
        ranks
        and x.fmt in ("bf16", "fp16")
        and packed.fmt == "uint8"
        and scales.fmt in ("fp32", "fp16", "bf16")
        and acc.fmt == "fp32"
        and packed.shape[0] % scales.shape[0] == 0
    )


def _multiplies(fmt: str) -> Any:
    """Targets whose tensor engine takes integers of a format beside floats."""
    return lambda target: target.tensor.block_scales and fmt in target.tensor.macs_per_cycle


def _split(x: Any, packed: Any, groups: int) -> tuple[Any, Any]:
    """Both operands with a leading dim of groups."""
    (rows, depth), (stored, columns) = x.shape, packed.shape
    by_group = x.reshape(rows, groups, depth // groups).permute(1, 0, 2)
    return by_group, packed.reshape(groups, stored // groups, columns)


def _add_scaled(k: Any, acc: Any, parts: Any, scales: Any) -> None:
    """acc += Σ parts[g] * scales[g]."""
    groups = parts.shape[0]
    for first in range(0, groups, MOST_PAIRS):
        here = range(first, min(groups, first + MOST_PAIRS))
        inputs = [t for g in here for t in (parts[g], scales[g][None, :])]

        def chain(v: Any, total: Any, *pairs: Any) -> Any:
            for part, scale in zip(pairs[::2], pairs[1::2]):
                wide = scale if scale.fmt == "fp32" else v.fcvt(scale, "fp32")
                total = v.ffma(part, wide, total)
            return total

        k.vector(acc, chain, acc, *inputs)


@dsa.register_microkernel(when=_serves, target=_multiplies("int8"))
@dsa.microkernel(reference=int4_dot, in_place="acc")
def int4_dot_bytes(k: Any, x: Any, packed: Any, scales: Any, acc: Any) -> None:
    """Weights unpacked to bytes, in one pass over the packed ones; the tensor engine multiplies x by int8."""
    (rows, depth), columns, groups = x.shape, packed.shape[1], scales.shape[0]
    weights = k.scratch((depth, columns), "int8", "weights")
    parts = k.scratch((groups, rows, columns), "fp32", "parts")
    k.vector(
        (weights[0::2], weights[1::2]),
        lambda v, pair: (v.ashr(pair << 4, 4), v.ashr(pair, 4)),
        packed,
    )
    k.matmul(parts, *_split(x, weights, groups))
    _add_scaled(k, acc, parts, scales)


@dsa.register_microkernel(when=_serves, target=_multiplies("int4"))
@dsa.microkernel(reference=int4_dot, in_place="acc")
def int4_dot_packed(k: Any, x: Any, packed: Any, scales: Any, acc: Any) -> None:
    """For tensor engines that take packed int4: the weights are multiplied as they are."""
    (rows, _), columns, groups = x.shape, packed.shape[1], scales.shape[0]
    parts = k.scratch((groups, rows, columns), "fp32", "parts")
    k.matmul(parts, *_split(x, packed, groups), fmt_b="int4")
    _add_scaled(k, acc, parts, scales)
