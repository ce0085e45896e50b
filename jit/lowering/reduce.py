"""Reductions and scans."""

from __future__ import annotations

import math
from collections.abc import Callable

from dsalang._backend.dialects import tile

from .. import dtypes
from ..dtypes import ElementType, dtype
from ..parse.emit import Emitter
from ..semantics import cast
from ..values import (
    NONE,
    Operand,
    Static,
    Value,
    fail,
    static_axis,
    static_bool,
    static_dtype,
)
from ..values import tile as need_tile
from . import shape as shapes
from .math import maximum, minimum


def _is_none(operand: Operand) -> bool:
    return isinstance(operand, Static) and operand.value is None


def _number_tile(operand: Operand, name: str) -> Value:
    value = need_tile(operand, f"the argument of {name}")
    if not isinstance(value.dtype, dtype):
        fail(f"{name} takes numbers, not {value.type}")
    return value


def _flat(em: Emitter, value: Value, axis: Operand, name: str) -> tuple[Value, int]:
    """The tile and axis to reduce; without an axis the tile is flattened."""
    if not _is_none(axis):
        return value, static_axis(axis, len(value.shape), f"the axis of {name}")
    if len(value.shape) == 1:
        return value, 0
    return shapes.reshaped(em, value, (math.prod(value.shape),)), 0


def _kept(
    em: Emitter, result: Value, source: Value, axis: Operand, keep_dims: Operand, name: str
) -> Value:
    """Give the reduced dims back as size 1."""
    if not static_bool(keep_dims, f"keep_dims of {name}"):
        return result
    shape = list(source.shape)
    if _is_none(axis):
        shape = [1] * len(shape)
    else:
        shape[static_axis(axis, len(shape), f"the axis of {name}")] = 1
    return shapes.reshaped(em, result, tuple(shape))


def _reduce(em: Emitter, kind: str, value: Value, axis: int) -> Value:
    op = em.add(tile.ReduceOp(kind, value.ssa, axis))
    shape = value.shape[:axis] + value.shape[axis + 1 :]
    return Value(op.result, value.dtype, shape)


def _sum_dtype(element: ElementType, wanted: Operand) -> ElementType:
    if not _is_none(wanted):
        return static_dtype(wanted, "the dtype of sum")
    assert isinstance(element, dtype)
    if element.is_int() and element.primitive_bitwidth < 32:
        return dtypes.int32 if element.signed else dtypes.uint32
    return _not_bf16(element)


def _not_bf16(element: ElementType) -> ElementType:
    return dtypes.float32 if element == dtypes.bfloat16 else element


def _letter(element: ElementType) -> str:
    assert isinstance(element, dtype)
    return "f" if element.is_floating() else ("s" if element.signed else "u")


def total(
    em: Emitter, input: Operand, axis: Operand, keep_dims: Operand, dtype: Operand
) -> Operand:
    """Sum."""
    source = _number_tile(input, "sum")
    value, position = _flat(em, source, axis, "sum")
    value = cast(em, value, _sum_dtype(value.dtype, dtype))
    kind = "fsum" if _letter(value.dtype) == "f" else "isum"
    return _kept(em, _reduce(em, kind, value, position), source, axis, keep_dims, "sum")


def _extreme(name: str, pick: Callable[..., Operand]) -> Callable[..., Operand]:
    def lower(
        em: Emitter,
        input: Operand,
        axis: Operand,
        return_indices: Operand,
        return_indices_tie_break_left: Operand,
        keep_dims: Operand,
    ) -> Operand:
        if isinstance(axis, Value) and isinstance(input, Value) and not input.shape + axis.shape:
            return pick(em, input, axis, NONE)  # strangers write tl.max(a, b) of two scalars
        source = _number_tile(input, name)
        value, position = _flat(em, source, axis, name)
        if static_bool(return_indices, f"return_indices of {name}"):
            best, where = _arg_reduce(em, name, value, position)
            best = _promoted(em, best, halves=False)
            return (
                _kept(em, best, source, axis, keep_dims, name),
                _kept(em, where, source, axis, keep_dims, name),
            )
        result = _promoted(em, _reduce(em, _kind(name, value), value, position), halves=True)
        return _kept(em, result, source, axis, keep_dims, name)

    return lower


def _promoted(em: Emitter, value: Value, halves: bool) -> Value:
    """The result types of Triton's max and min: bf16 (and fp16, small integers) widen to 32 bits."""
    element = value.dtype
    assert isinstance(element, dtype)
    if element == dtypes.bfloat16:
        return cast(em, value, dtypes.float32)
    if not halves or element.primitive_bitwidth >= 32:
        return value
    return cast(em, value, dtypes.float32 if element.is_floating() else dtypes.int32)


def _kind(name: str, value: Value) -> str:
    """The machine's name of `max` or `min` of values of this type; a NaN loses."""
    letter = _letter(value.dtype)
    return f"f{name}num" if letter == "f" else letter + name


def _arg_reduce(em: Emitter, name: str, value: Value, axis: int) -> tuple[Value, Value]:
    op = em.add(tile.ArgReduceOp(_kind(name, value), value.ssa, axis))
    shape = value.shape[:axis] + value.shape[axis + 1 :]
    return Value(op.result, value.dtype, shape), Value(op.position, dtypes.int32, shape)


def _arg(name: str) -> Callable[..., Operand]:
    def lower(
        em: Emitter, input: Operand, axis: Operand, tie_break_left: Operand, keep_dims: Operand
    ) -> Operand:
        source = _number_tile(input, f"arg{name}")
        value, position = _flat(em, source, axis, f"arg{name}")
        _, where = _arg_reduce(em, name, value, position)
        return _kept(em, where, source, axis, keep_dims, f"arg{name}")

    return lower


def _bitwise(name: str, kind: str) -> Callable[..., Operand]:
    def lower(em: Emitter, input: Operand, axis: Operand, keep_dims: Operand) -> Operand:
        source = _number_tile(input, name)
        if _letter(source.dtype) == "f":
            fail(f"{name} takes integers, not {source.type}")
        value, position = _flat(em, source, axis, name)
        return _kept(em, _reduce(em, kind, value, position), source, axis, keep_dims, name)

    return lower


def softmax(
    em: Emitter, x: Operand, dim: Operand, keep_dims: Operand, ieee_rounding: Operand
) -> Operand:
    """exp(x - max) / sum along one axis, in fp32 or fp64 (in Triton the maximum and all after it is fp32, too)."""
    source = _number_tile(x, "softmax")
    if _letter(source.dtype) != "f":
        fail(f"softmax takes floats, not {source.type}", "convert with .to(tl.float32)")
    axis = static_axis(Static(0) if _is_none(dim) else dim, len(source.shape), "the dim of softmax")
    value = source if source.dtype == dtypes.float64 else cast(em, source, dtypes.float32)
    top = shapes.spread(em, _reduce(em, "fmaxnum", value, axis), axis, value.shape)
    power = em.map("fexp", [em.map("fsub", [value, top])])
    below = shapes.spread(em, _reduce(em, "fsum", power, axis), axis, value.shape)
    return em.map("fdiv", [power, below])


def _scan(name: str, word: str) -> Callable[..., Operand]:
    def lower(
        em: Emitter, input: Operand, axis: Operand, reverse: Operand, dtype: Operand = NONE
    ) -> Operand:
        value = _number_tile(input, name)
        position = static_axis(axis, len(value.shape), f"the axis of {name}")
        inner = _sum_dtype(value.dtype, dtype) if word == "sum" else _not_bf16(value.dtype)
        value = cast(em, value, inner)
        kind = ("f" if _letter(value.dtype) == "f" else "i") + word
        backwards = static_bool(reverse, f"reverse of {name}")
        op = em.add(tile.ScanOp(kind, value.ssa, position, backwards))
        return Value(op.result, value.dtype, value.shape)

    return lower


TABLE: dict[str, Callable[..., Operand]] = {
    "sum": total,
    "max": _extreme("max", maximum),
    "min": _extreme("min", minimum),
    "argmax": _arg("max"),
    "argmin": _arg("min"),
    "xor_sum": _bitwise("xor_sum", "xor"),
    "reduce_or": _bitwise("reduce_or", "or"),
    "softmax": softmax,
    "cumsum": _scan("cumsum", "sum"),
    "cumprod": _scan("cumprod", "prod"),
}
