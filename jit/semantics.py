"""Types of operations: promotion, conversion, broadcasting. Rules as in Triton.

Kinds are ordered bool < int < float. A Python number is weak: it takes the other operand's type when
its kind is not higher, else int32 (or the first of uint32, int64, uint64 that holds it) or fp32 (fp64 outside of
the normal numbers of fp32).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dsalang._backend.dialects import tile

from . import dtypes
from .dtypes import KINDS, ElementType, dtype, pointer_type
from .values import Operand, Static, Value, describe, fail, ir_scalar, is_number, shape_text

if TYPE_CHECKING:
    from .parse.emit import Emitter


MIN_FP32, MAX_FP32 = 2.0**-126, (2 - 2.0**-23) * 2.0**127


def literal_dtype(number: bool | int | float) -> dtype:
    """The type that a Python number has on its own.

    >>> literal_dtype(True), literal_dtype(7), literal_dtype(3_000_000_000), literal_dtype(0.5)
    (int1, int32, uint32, fp32)
    """
    if isinstance(number, bool):
        return dtypes.int1
    if isinstance(number, float):
        ordinary = number == 0 or not math.isfinite(number)
        ordinary = ordinary or MIN_FP32 <= abs(number) <= MAX_FP32
        return dtypes.float32 if ordinary else dtypes.float64
    for candidate in (dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64):
        if candidate.get_int_min_value() <= number <= candidate.get_int_max_value():
            return candidate
    fail(f"{number} does not fit any integer type")


def promote_ints(a: dtype, b: dtype) -> dtype:
    """The common type of two integer types: the wider; of equal width the unsigned one."""
    if a.signed == b.signed:
        return a if a.primitive_bitwidth > b.primitive_bitwidth else b
    unsigned, other = (b, a) if a.signed else (a, b)
    return unsigned if unsigned.primitive_bitwidth >= other.primitive_bitwidth else other


def promote(
    a: dtype, b: dtype, weak_a: bool = False, weak_b: bool = False, division: bool = False
) -> dtype:
    """The type in which an operation of operands of types a and b is computed.

    >>> promote(dtypes.float16, dtypes.bfloat16), promote(dtypes.int8, dtypes.float32, weak_b=True)
    (fp16, fp32)
    """
    half = (dtypes.float16, dtypes.bfloat16)
    if weak_a != weak_b:
        weak, strong = (a, b) if weak_a else (b, a)
        if KINDS.index(weak.kind) <= KINDS.index(strong.kind):
            return dtypes.float32 if division and strong in half else strong
    for wide in (dtypes.float64, dtypes.float32):
        if wide in (a, b):
            return wide
    if dtypes.float16 in (a, b):
        return dtypes.float32 if division else dtypes.float16
    if dtypes.bfloat16 in (a, b):
        return dtypes.bfloat16 if a == b and not division else dtypes.float32
    if a.is_floating() and b.is_floating():
        return a if a == b else dtypes.float16
    if a.is_floating() or b.is_floating():  # an fp8 and an integer
        fail(f"cannot combine {a} and {b}", f"convert one of them, for example with .to(tl.{a})")
    if division and a.signed != b.signed:
        fail(
            f"Cannot use / // or % of {a} and {b} because they have different signedness",
            "convert one of them with .to(...)",
        )
    return promote_ints(a, b)


def numeric(operand: Operand, what: str) -> Value | Static:
    """A run-time value or a compile-time number; anything else is refused."""
    if isinstance(operand, Value) or is_number(operand):
        assert isinstance(operand, Value | Static)
        return operand
    fail(f"{what} must be a number or a tile, not {describe(operand)}")


def operand_dtype(operand: Value | Static) -> ElementType:
    """The type of an operand, that of a literal for a Python number."""
    return operand.dtype if isinstance(operand, Value) else literal_dtype(operand.value)


def constant(
    em: Emitter, number: bool | int | float, element: ElementType, shape: tuple[int, ...] = ()
) -> Value:
    """A Python number as a value of a type, converted as Python would; refused when out of range."""
    if isinstance(element, pointer_type):
        fail(f"a number cannot become a pointer ({element})")
    if element.kind == "bool":
        number = int(bool(number))
    elif element.is_int():
        if isinstance(number, float) and not math.isfinite(number):
            fail(f"{number} is not representable in {element}")
        number = int(number)
        if not element.get_int_min_value() <= number <= element.get_int_max_value():
            fail(
                f"{number} is out of range of {element}",
                "convert the other operand to a wider type with .to(...)",
            )
    else:
        try:
            number = float(number)
        except OverflowError:
            number = math.copysign(math.inf, number)
    return em.constant(number, element, shape)


def materialise(
    em: Emitter, operand: Operand, what: str, element: ElementType | None = None
) -> Value:
    """An operand as a run-time value, converted to `element` if given."""
    operand = numeric(operand, what)
    if isinstance(operand, Static):
        return constant(em, operand.value, element or literal_dtype(operand.value))
    return operand if element is None else cast(em, operand, element)


def cast(em: Emitter, value: Value, target: ElementType) -> Value:
    """Convert: floats round to nearest even, float to integer truncates, to bool is != 0."""
    source = value.dtype
    if source == target:
        return value
    ir_scalar(target)  # refuses types that the machine lacks
    if isinstance(source, pointer_type) or isinstance(target, pointer_type):
        return _cast_pointer(em, value, target)
    if target.is_bool():
        zero = em.constant(0.0 if source.is_floating() else 0, source, value.shape)
        fn = "fne" if source.is_floating() else "ine"
        return em.map(fn, [value, zero], target)
    if source.is_floating():
        if target.is_floating():
            return em.map("fcvt", [value], target)
        return em.map("fptosi" if target.signed else "fptoui", [value], target)
    if target.is_floating():
        return em.map("sitofp" if source.signed else "uitofp", [value], target)
    if source.primitive_bitwidth == target.primitive_bitwidth:
        return Value(value.ssa, target, value.shape)  # the IR's integers are signless
    if source.primitive_bitwidth > target.primitive_bitwidth:
        return em.map("trunc", [value], target)
    return em.map("sext" if source.signed else "zext", [value], target)


def _cast_pointer(em: Emitter, value: Value, target: ElementType) -> Value:
    source = value.dtype
    if not isinstance(source, pointer_type):
        assert isinstance(source, dtype)
        if not source.is_int():
            fail(f"cannot convert {source} to {target}")
        value = cast(em, value, dtypes.int64)
        op = em.add(tile.PtrCastOp(value.ssa, ir_scalar(target)))
        return Value(op.result, target, value.shape)
    if isinstance(target, pointer_type):
        op = em.add(tile.PtrCastOp(value.ssa, ir_scalar(target)))
        return Value(op.result, target, value.shape)
    if target not in (dtypes.int64, dtypes.uint64, dtypes.int1):
        fail(f"cannot convert {source} to {target}", "an address has 64 bits: use tl.int64")
    op = em.add(tile.PtrCastOp(value.ssa, ir_scalar(dtypes.int64)))
    address = Value(op.result, dtypes.int64, value.shape)
    return cast(em, address, target)


def bitcast(em: Emitter, value: Value, target: ElementType) -> Value:
    """The same bits under another type of the same width."""
    if value.is_pointer or isinstance(target, pointer_type):
        return cast(em, value, target)
    assert isinstance(value.dtype, dtype)
    if value.dtype.primitive_bitwidth != target.primitive_bitwidth:
        fail(f"cannot bitcast {value.dtype} to {target}: their widths differ")
    if ir_scalar(value.dtype) == ir_scalar(target):
        return Value(value.ssa, target, value.shape)
    return em.map("bitcast", [value], target)


def common_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to; missing leading dims count as 1.

    >>> common_shape((4, 1), (8,))
    (4, 8)
    """
    rank = max(len(a), len(b))
    wide_a, wide_b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for x, y in zip(wide_a, wide_b):
        if x != y and 1 not in (x, y):
            fail(
                f"shapes {shape_text(a)} and {shape_text(b)} do not broadcast: {x} against {y}",
                "insert dims of size 1 with [:, None] or [None, :]",
            )
    return tuple(y if x == 1 else x for x, y in zip(wide_a, wide_b))


def broadcast(em: Emitter, value: Value, shape: tuple[int, ...]) -> Value:
    """Repeat a value up to `shape`."""
    if value.shape == shape:
        return value
    if not value.shape:
        return Value(em.add(tile.SplatOp(value.ssa, shape)).result, value.dtype, shape)
    if common_shape(value.shape, shape) != shape:
        fail(f"cannot broadcast {shape_text(value.shape)} to {shape_text(shape)}")
    ssa = value.ssa
    current = value.shape
    while len(current) < len(shape):
        current = (1, *current)
        ssa = em.add(tile.ExpandDimsOp(ssa, 0)).result
    if current != shape:
        ssa = em.add(tile.BroadcastOp(ssa, shape)).result
    return Value(ssa, value.dtype, shape)


def to_dtype_and_shape(
    em: Emitter, operand: Value | Static, element: ElementType, shape: tuple[int, ...]
) -> Value:
    """Convert and broadcast in one go (a number becomes one constant)."""
    if isinstance(operand, Static):
        return constant(em, operand.value, element, shape)
    return broadcast(em, cast(em, operand, element), shape)


def converted(number: bool | int | float, element: ElementType) -> bool | int | float:
    """A Python number as an explicit conversion makes it: what a run-time value of its type would become.

    Integers wrap, floats saturate, NaN is 0.

    >>> converted(300, dtypes.int8), converted(-1, dtypes.uint8), converted(1e10, dtypes.int32)
    (44, 255, 2147483647)
    """
    own = literal_dtype(number)
    if isinstance(element, pointer_type) or element.kind != "int":
        return number
    low, high = element.get_int_min_value(), element.get_int_max_value()
    if isinstance(number, float):
        number = float(np.float32(number)) if own == dtypes.float32 else number
        if math.isnan(number):
            return 0
        return low if number <= low else high if number >= high else int(number)
    return (number - low) % (1 << element.primitive_bitwidth) + low


def converted_to(
    em: Emitter, operand: Value | Static, element: ElementType, shape: tuple[int, ...]
) -> Value:
    """As `to_dtype_and_shape`, where the program asks for the conversion."""
    if isinstance(operand, Static):
        operand = Static(converted(operand.value, element))
    return to_dtype_and_shape(em, operand, element, shape)


def shape_of_operand(operand: Value | Static) -> tuple[int, ...]:
    """The shape; a number is a scalar."""
    return operand.shape if isinstance(operand, Value) else ()


def unify(
    em: Emitter, operands: list[Value | Static], division: bool = False, what: str = "operands"
) -> list[Value]:
    """Bring operands to one type and one shape, by promotion and broadcasting."""
    shape: tuple[int, ...] = ()
    for operand in operands:
        shape = common_shape(shape, shape_of_operand(operand))
    pointers = {o.dtype for o in operands if isinstance(o, Value) and o.is_pointer}
    element: ElementType
    if pointers:
        element = next(iter(pointers))
        for operand in operands:
            if operand_dtype(operand) != element:
                fail(f"cannot combine {element} and {describe(operand)}")
    else:
        element = _promoted(operands, division)
        _refuse_negative_for_unsigned(operands, element)
    return [to_dtype_and_shape(em, operand, element, shape) for operand in operands]


def _promoted(operands: list[Value | Static], division: bool) -> dtype:
    # run-time operands first: a literal adapts to their common type
    ordered = sorted(operands, key=lambda o: isinstance(o, Static))
    result = operand_dtype(ordered[0])
    weak = isinstance(ordered[0], Static)
    assert isinstance(result, dtype)
    if len(ordered) == 1:
        return result
    for operand in ordered[1:]:
        other = operand_dtype(operand)
        assert isinstance(other, dtype)
        result = promote(result, other, weak, isinstance(operand, Static), division)
        weak = weak and isinstance(operand, Static)
    return result


def _refuse_negative_for_unsigned(operands: list[Value | Static], element: dtype) -> None:
    for operand in operands:
        if (
            isinstance(operand, Static)
            and operand.value < 0
            and element.kind == "int"
            and not element.signed
        ):
            fail(
                f"cannot combine {element} with the negative number {operand.value}",
                "convert the other operand to a signed type with .to(...)",
            )


def as_condition(em: Emitter, operand: Operand, what: str) -> Value | Static:
    """A truth value: a compile-time bool, or a run-time scalar (or tile of one element) as a scalar int1."""
    if isinstance(operand, Value):
        if math.prod(operand.shape) != 1:
            fail(
                f"{what} is a tile of type {operand.type}, not a scalar",
                "reduce it (tl.max, tl.sum), or choose element by element with tl.where",
            )
        value = cast(em, operand, dtypes.int1)
        if not value.shape:
            return value
        return Value(em.add(tile.ReshapeOp(value.ssa, ())).result, value.dtype)
    known = not isinstance(operand, tuple) and isinstance(operand, Static)
    if known:
        assert isinstance(operand, Static)
        try:
            return Static(bool(operand.value))
        except Exception:
            fail(f"{what} has no truth value: {describe(operand)}")
    if isinstance(operand, tuple):
        return Static(bool(operand))
    fail(f"{what} has no truth value: {describe(operand)}")
