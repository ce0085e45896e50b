"""One step of attention's online softmax: the op, in the language, and a microkernel with fewer vector passes.

Generated code passes over the scores eight times in fp32: maximum, subtraction, four for the exponential, conversion,
sum. The microkernel takes the exponential in the format in which the weights are multiplied anyway (two bytes wide, so
half the price) and lets the tensor engine, which waits for the vector engine in this loop, add them up: a
product with a column of ones. Five passes are left.
"""

from __future__ import annotations

from typing import Any

import dsalang as dsa


@dsa.jit
def online_softmax_step(scores, values, peak, total, acc):  # type: ignore[no-untyped-def]
    """A block of keys more for the softmax of attention; call it for each block, then divide acc by total.

    Args:
        scores: [M, N] fp32, of this block of N keys.
        values: [N, D], of the block, fp16 or bf16 (the weights are rounded to their type).
        peak: [M] fp32, the highest score so far; -inf at first.
        total: [M] fp32, the sum of weights so far; 0 at first.
        acc: [M, D] fp32, the weighted sum of values so far; 0 at first.

    Returns:
        The new peak, total and acc.
    """
    highest = dsa.maximum(peak, dsa.max(scores, 1))
    weights = dsa.exp(scores - highest[:, None])
    scale = dsa.exp(peak - highest)
    rescaled = acc * scale[:, None]
    return (
        highest,
        total * scale + dsa.sum(weights, 1),
        dsa.dot(weights.to(values.dtype), values, rescaled),
    )


def _serves(scores: Any, values: Any, peak: Any, total: Any, acc: Any) -> bool:
    fp32 = all(spec.fmt == "fp32" for spec in (scores, peak, total, acc))
    return fp32 and values.fmt in ("bf16", "fp16") and scores.ndim == values.ndim == 2


@dsa.register_microkernel(when=_serves)
@dsa.microkernel(reference=online_softmax_step, in_place=("peak", "total", "acc"), tolerance=1e-2)
def softmax_step(k: Any, scores: Any, values: Any, peak: Any, total: Any, acc: Any) -> None:
    """The step with weights, exponential included, in the format of the values."""
    rows, keys = scores.shape
    narrow = values.fmt
    highest = k.scratch((rows,), "fp32", "block peak")
    scale = k.scratch((rows,), "fp32", "scale")
    weights = k.scratch((rows, keys), narrow, "weights")
    ones = k.scratch((keys, 1), narrow, "ones")
    k.fill(ones, 1.0)
    k.reduce(highest, scores, "fmax", 1)

    def advance(v: Any, old: Any, new: Any, sum_: Any) -> Any:
        top = v.fmax(old, new)
        factor = v.fexp(old - top)
        return top, factor, sum_ * factor

    k.vector((peak, scale, total), advance, peak, highest, total)
    k.vector(weights, lambda v, s, top: v.fexp(v.fcvt(s - top, narrow)), scores, peak[:, None])
    # The product of the step before may still be adding to acc while the weights are computed. The sum comes
    # first: the next step's `advance` waits for it.
    k.vector(acc, lambda v, x, s: x * s, acc, scale[:, None])
    k.matmul(total[:, None], weights, ones, accumulate=True)
    k.matmul(acc, weights, values, accumulate=True)
