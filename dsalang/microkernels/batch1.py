"""Products with one row on the vector engine: the tensor engine would use one of its native rows.

A product of a row with a matrix in SRAM reads every weight once. The tensor engine takes in native_k · native_n
weights a cycle whatever the number of rows; for fp32 that is less than the vector engine reads. It multiplies four
weights of a column per point in one chain of fma and keeps a partial sum per group of four, which one reduction
adds up. Where both engines are of use the columns are shared between them, and they run at the same time.
"""

from __future__ import annotations

from typing import Any

import dsalang as dsa

GROUP = 4
"""Rows of weights per partial sum: as many pairs as a vector program has inputs for."""


def _serves(a: Any, b: Any, acc: Any) -> bool:
    shapes = a.ndim == 2 and b.ndim == 2 and a.shape[0] == 1 and a.shape[1] % GROUP == 0
    return (
        shapes and a.fmt == b.fmt and a.fmt in ("fp32", "bf16", "fp16") and a.shape[1] >= 16 * GROUP
    )


def _vector_share(target: Any, fmt: str, k: int, n: int) -> int:
    """Columns for the vector engine, so that both engines are done at about the same time."""
    passes = GROUP if fmt == "fp32" else 3 * GROUP  # converting both operands costs two more
    vector = (passes + 1) / GROUP * k * 4 / target.vector.bytes_per_cycle
    tensor = target.tensor
    matrix = -(-k // tensor.native_k(fmt)) / tensor.native_n
    share = int(n * matrix / (vector + matrix)) if tensor.model == "cube" else n
    unit = tensor.native_n
    return min(n, max(unit, share // unit * unit)) if n > unit else n


@dsa.register_microkernel(op="dot", when=_serves)
@dsa.microkernel(reference=dsa.dot, in_place="acc")
def batch1_matmul(k: Any, a: Any, b: Any, acc: Any) -> None:
    """acc + a·b for an `a` of one row."""
    (depth, n), out = b.shape, k.result
    if out.fmt != "fp32":
        k.refuse(f"it sums in fp32, not {out.fmt}")
    columns = _vector_share(k.target, a.fmt, depth, n)
    if columns < n:
        k.matmul(out[:, columns:], a, b[:, columns:], accumulate=acc is not None)
    groups = depth // GROUP
    partial = k.scratch((groups, columns), "fp32", "partial sums")
    rows = [b[j::GROUP, :columns] for j in range(GROUP)]
    weights = [a[0, j::GROUP][:, None] for j in range(GROUP)]

    def chain(v: Any, *operands: Any) -> Any:
        wide = [v.fcvt(x, "fp32") if x.fmt != "fp32" else x for x in operands]
        total = wide[0] * wide[GROUP]
        for row, weight in zip(wide[1:GROUP], wide[GROUP + 1 :]):
            total = v.ffma(row, weight, total)
        return total

    k.vector(partial, chain, *rows, *weights)
    if acc is None:
        k.reduce(out[0, :columns], partial, "fsum", 0)
        return
    total = k.scratch((columns,), "fp32", "sum")
    k.reduce(total, partial, "fsum", 0)
    k.vector(out[0, :columns], lambda v, old, new: old + new, out[0, :columns], total)
