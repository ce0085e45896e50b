"""Program ids and new tiles."""

from __future__ import annotations

from collections.abc import Callable

from dsalang._backend.dialects import tile

from .. import dtypes, semantics
from ..parse.emit import Emitter
from ..semantics import constant, converted_to, numeric
from ..values import (
    Operand,
    Static,
    Value,
    fail,
    static,
    static_bool,
    static_dtype,
    static_int,
    static_shape,
)
from ..values import tile as need_tile

MAX_GRID_AXES = 3


def _axis(axis: Operand, name: str) -> int:
    number = static_int(axis, f"the axis of {name}")
    if not 0 <= number < MAX_GRID_AXES:
        fail(f"the axis of {name} is 0, 1 or 2, not {number}")
    return number


def program_id(em: Emitter, axis: Operand) -> Operand:
    """The index of the program."""
    return Value(em.add(tile.ProgramIdOp(_axis(axis, "program_id"))).result, dtypes.int32)


def num_programs(em: Emitter, axis: Operand) -> Operand:
    """The size of the grid."""
    return Value(em.add(tile.NumProgramsOp(_axis(axis, "num_programs"))).result, dtypes.int32)


def arange(em: Emitter, start: Operand, end: Operand) -> Operand:
    """An int32 tile of consecutive numbers."""
    first, last = static_int(start, "the start of arange"), static_int(end, "the end of arange")
    if last <= first:
        fail(f"arange({first}, {last}) is empty", "the end must be greater than the start")
    if first < -(2**31) or last > 2**31:
        fail(f"arange({first}, {last}) does not fit int32")
    shape = static_shape(Static(last - first), "arange")
    return Value(em.add(tile.IotaOp(first, last - first)).result, dtypes.int32, shape)


def zeros(em: Emitter, shape: Operand, dtype: Operand) -> Operand:
    """A tile of zeros."""
    element = static_dtype(dtype, "the dtype of zeros")
    return constant(em, 0, element, static_shape(shape, "the shape of zeros"))


def zeros_like(em: Emitter, input: Operand) -> Operand:
    """Zeros of the type of a tile."""
    value = need_tile(input, "the argument of zeros_like")
    return constant(em, 0, value.dtype, value.shape)


def full(em: Emitter, shape: Operand, value: Operand, dtype: Operand) -> Operand:
    """A tile of one value."""
    element = static_dtype(dtype, "the dtype of full")
    number = numeric(value, "the value of full")
    if isinstance(number, Value) and number.shape:
        fail(f"the value of full must be a scalar, not {number.type}", "use tl.broadcast_to")
    return converted_to(em, number, element, static_shape(shape, "the shape of full"))


def cast(
    em: Emitter, input: Operand, dtype: Operand, fp_downcast_rounding: Operand, bitcast: Operand
) -> Operand:
    """Conversion, or the same bits under another type."""
    element = static_dtype(dtype, "the dtype of a cast")
    rounding = static(fp_downcast_rounding, "fp_downcast_rounding")
    if rounding not in (None, "rtne"):
        fail(
            f"fp_downcast_rounding={rounding!r} is not supported",
            "the machine rounds to nearest even",
        )
    number = numeric(input, "the value of a cast")
    if isinstance(number, Static):
        if static_bool(bitcast, "bitcast"):
            fail("bitcast takes a run-time value, not a number")
        return converted_to(em, number, element, ())
    if static_bool(bitcast, "bitcast"):
        return semantics.bitcast(em, number, element)
    return semantics.cast(em, number, element)


TABLE: dict[str, Callable[..., Operand]] = {
    "program_id": program_id, "num_programs": num_programs, "arange": arange, "zeros": zeros, "empty": zeros,
    "zeros_like": zeros_like, "full": full, "cast": cast,
}  # fmt: skip
