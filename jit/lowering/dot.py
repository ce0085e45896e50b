"""The matrix product."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from dsalang._backend.dialects import tile

from .. import dtypes
from ..dtypes import ElementType, dtype
from ..parse.emit import Emitter
from ..semantics import cast, converted_to, numeric
from ..values import (
    Operand,
    Static,
    Value,
    describe,
    fail,
    ir_type,
    shape_text,
    static,
    static_dtype,
)
from ..values import tile as need_tile

OPERANDS = (
    dtypes.int8, dtypes.float8e4nv, dtypes.float8e5, dtypes.float16, dtypes.bfloat16, dtypes.float32,
    dtypes.float64,
)  # fmt: skip
PRECISIONS = (None, "tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


def dot(
    em: Emitter,
    input: Operand,
    other: Operand,
    acc: Operand,
    input_precision: Operand,
    out_dtype: Operand,
    **hints: Operand,
) -> Operand:
    """acc + input · other."""
    a, b = (
        need_tile(input, "the first argument of dot"),
        need_tile(other, "the second argument of dot"),
    )
    if static(input_precision, "input_precision of dot") not in PRECISIONS:
        fail(f"input_precision of dot is one of {PRECISIONS[1:]}, not {describe(input_precision)}")
    _check_types(a, b)
    shape = _result_shape(a, b)
    assert isinstance(a.dtype, dtype)
    result, inner = result_types(a.dtype, acc, out_dtype, "dot")
    start = accumulator(em, acc, inner, shape)
    op = em.add(tile.DotOp(a.ssa, b.ssa, start, ir_type(inner, shape)))
    return cast(em, Value(op.result, inner, shape), result)


def accumulator(
    em: Emitter, acc: Operand, inner: ElementType, shape: tuple[int, ...]
) -> SSAValue | None:
    """What a product of a shape is added to; None for zeros."""
    if isinstance(acc, Static) and acc.value is None:
        return None
    given = numeric(acc, "acc of dot")
    if isinstance(given, Value) and given.shape not in ((), shape):
        fail(f"acc of dot has shape {shape_text(given.shape)}, the product {shape_text(shape)}")
    if isinstance(given, Static) and given.value == 0:
        return None
    return converted_to(em, given, inner, shape).ssa


def _check_types(a: Value, b: Value) -> None:
    for value in (a, b):
        if value.dtype not in OPERANDS:
            fail(
                f"dot takes int8, fp8, fp16, bf16, fp32 or fp64, not {value.dtype}",
                "convert with .to(...)",
            )
    both_fp8 = all(isinstance(v.dtype, dtype) and v.dtype.is_fp8() for v in (a, b))
    if a.dtype != b.dtype and not both_fp8:
        fail(
            f"the operands of dot have different types: {a.dtype} and {b.dtype}",
            f"convert one, for example with .to({'b' if a.dtype == dtypes.float32 else 'a'}.dtype)",
        )


def _result_shape(a: Value, b: Value) -> tuple[int, ...]:
    rank = len(a.shape)
    if rank != len(b.shape) or rank not in (2, 3):
        fail(
            f"dot takes two tiles of rank 2 (or 3), not {a.type} and {b.type}",
            "a row is x[None, :], a column x[:, None]" if 1 in (rank, len(b.shape)) else "",
        )
    if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        what = "inner sizes" if a.shape[-1] != b.shape[-2] else "batch sizes"
        fail(
            f"the {what} of dot differ: {shape_text(a.shape)} times {shape_text(b.shape)}",
            "transpose an operand with tl.trans" if what == "inner sizes" else "",
        )
    return (*a.shape[:-1], b.shape[-1])


def result_types(
    kind: dtype, acc: Operand, out_dtype: Operand, name: str
) -> tuple[ElementType, ElementType]:
    """The result's type of a product of a kind, and the one in which the machine accumulates."""
    wanted = static_dtype(out_dtype, f"out_dtype of {name}")
    if isinstance(acc, Value):
        wanted = acc.dtype
    if kind == dtypes.int8:  # the result is int32 whatever out_dtype says, as in Triton
        if isinstance(acc, Value) and wanted != dtypes.int32:
            hint = "make acc with dtype=tl.int32"
            fail(f"{name} of integers accumulates in int32, not {wanted}", hint)
        return dtypes.int32, dtypes.int32
    if kind == dtypes.float64:
        if isinstance(acc, Value) and wanted != dtypes.float64:
            fail(
                f"{name} of fp64 accumulates in fp64, not {wanted}",
                "make acc with dtype=tl.float64",
            )
        return dtypes.float64, dtypes.float64
    if wanted not in (dtypes.float32, dtypes.bfloat16, dtypes.float16):
        fail(f"{name} of floats accumulates in fp32, bf16 or fp16, not {wanted}")
    return wanted, dtypes.float32 if wanted == dtypes.float16 else wanted


TABLE: dict[str, Callable[..., Operand]] = {"dot": dot}
