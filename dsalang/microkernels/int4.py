"""A product with packed int4 weights and group scales: the op, in the language, and a microkernel.

Both multiply the packed bytes as they are and scale the products of groups. Generated code scales the products in one
pass, adds the groups in a second and the sum to the accumulator in a third; the microkernel scales and adds in one, by fma.
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
    groups: dsa.constexpr = scales.shape[0]
    kind: dsa.constexpr = "fp16" if x.dtype == dsa.float16 else "bf16"
    by_group = dsa.permute(dsa.reshape(x, (rows, groups, 2 * half // groups)), (1, 0, 2))
    weights = dsa.reshape(packed, (groups, half // groups, packed.shape[1]))
    parts = dsa.dot_scaled(by_group, None, kind, weights, None, "int4")
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


def _multiplies_int4(target: Any) -> bool:
    """Targets whose tensor engine takes packed int4 beside floats."""
    return bool(target.tensor.block_scales and "int4" in target.tensor.macs_per_cycle)


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


@dsa.register_microkernel(when=_serves, target=_multiplies_int4)
@dsa.microkernel(reference=int4_dot, in_place="acc")
def int4_dot_packed(k: Any, x: Any, packed: Any, scales: Any, acc: Any) -> None:
    """One batch of products, then the groups, three to a vector instruction."""
    (rows, _), columns, groups = x.shape, packed.shape[1], scales.shape[0]
    parts = k.scratch((groups, rows, columns), "fp32", "parts")
    k.matmul(parts, *_split(x, packed, groups), fmt_b="int4")
    _add_scaled(k, acc, parts, scales)
