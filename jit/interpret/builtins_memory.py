"""Interpreted builtins: programs, making tiles, memory, prints and checks."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import dtypes
from ..constexpr import constexpr
from ..dtypes import ElementType, dtype, pointer_type
from . import numeric
from .errors import fail, stopped
from .registry import implements
from .session import current
from .tile import (
    InterpTile,
    broadcast_shapes,
    broadcast_to,
    cast,
    is_integer,
    number_type,
    to_tile,
    unwrap,
)  # fmt: skip

Array = NDArray[Any]


def static_int(value: Any, what: str) -> int:
    """A compile-time integer."""
    value = unwrap(value)
    if not isinstance(value, int):
        raise fail(
            f"{what} must be a compile-time integer, not {_kind(value)}",
            "make it a parameter annotated with dsa.constexpr, or a literal",
        )
    return int(value)


def _kind(value: object) -> str:
    return "a run-time value" if isinstance(value, InterpTile) else type(value).__name__


def static_shape(shape: Any, what: str) -> tuple[int, ...]:
    """A compile-time shape; one integer stands for a shape of rank 1."""
    shape = unwrap(shape)
    if isinstance(shape, (int, InterpTile)):
        shape = (shape,)
    sizes = tuple(static_int(s, f"{what}: a shape") for s in shape)
    if any(s < 1 for s in sizes):
        raise fail(f"{what}: a shape holds positive integers, not {sizes}")
    return sizes


def element_type(kind: Any, what: str) -> ElementType:
    """A dtype argument."""
    kind = unwrap(kind)
    if isinstance(kind, str):
        with suppress(ValueError):
            kind = dtype(kind)
    if not isinstance(kind, (dtype, pointer_type)):
        raise fail(f"{what}: {kind!r} is not a dtype", "write e.g. dtype=dsa.float32")
    return kind


def _axis3(axis: Any, what: str) -> int:
    number = static_int(axis, f"{what}: axis")
    if number not in (0, 1, 2):
        raise fail(f"{what}: axis must be 0, 1 or 2, not {number}")
    return number


@implements("program_id")
def program_id(axis: Any) -> InterpTile:
    """See the language."""
    return InterpTile(
        np.asarray(current().program[_axis3(axis, "program_id")], np.int32), dtypes.int32
    )


@implements("num_programs")
def num_programs(axis: Any) -> InterpTile:
    """See the language."""
    return InterpTile(
        np.asarray(current().grid[_axis3(axis, "num_programs")], np.int32), dtypes.int32
    )


@implements("arange")
def arange(start: Any, end: Any) -> InterpTile:
    """See the language."""
    first, last = static_int(start, "arange: start"), static_int(end, "arange: end")
    if last <= first:
        raise fail(f"arange({first}, {last}) is empty", "the end must be above the start")
    return InterpTile(np.arange(first, last, dtype=np.int32), dtypes.int32)


@implements("full")
def full(shape: Any, value: Any, dtype: Any) -> InterpTile:
    """See the language."""
    kind = element_type(dtype, "full")
    scalar = _scalar_of(value, kind, "full")
    return broadcast_to(scalar, static_shape(shape, "full"))


def _scalar_of(value: Any, kind: ElementType, what: str) -> InterpTile:
    value = unwrap(value)
    if isinstance(value, InterpTile):
        if value.shape:
            raise fail(f"{what}: the value must be a scalar, not a tile of shape {value.shape}")
        return cast(value, kind)
    return to_tile(value, kind) if isinstance(kind, dtype) else cast(to_tile(value), kind)


@implements("zeros", "empty")
def zeros(shape: Any, dtype: Any) -> InterpTile:
    """See the language."""
    return full(shape, 0, dtype)


@implements("zeros_like")
def zeros_like(input: Any) -> InterpTile:
    """See the language."""
    value = to_tile(input)
    return InterpTile(np.zeros(value.shape, value.data.dtype), value.dtype)


@implements("cast", "to", method=True)
def cast_builtin(
    input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False
) -> InterpTile:
    """See the language."""
    kind = element_type(dtype, "cast")
    if not unwrap(bitcast):
        if isinstance(kind, pointer_type):
            return cast(to_tile(input), kind)
        return _cast_value(input, kind)
    value = to_tile(input)
    if value.dtype.is_ptr() or kind.is_ptr():
        return cast(value, kind)
    storage = numeric.STORAGE[number_type(InterpTile(value.data, kind)).name]
    if kind.primitive_bitwidth != value.dtype.primitive_bitwidth:
        raise fail(f"cannot bitcast {value.dtype} to {kind}: the widths differ")
    flat = np.ascontiguousarray(value.data).reshape(-1).view(storage)
    return InterpTile(flat.reshape(value.shape), kind)


def _pointers(pointer: Any, what: str) -> tuple[InterpTile, dtype]:
    value = unwrap(pointer)
    if not isinstance(value, InterpTile) or not isinstance(value.dtype, pointer_type):
        found = value.dtype if isinstance(value, InterpTile) else type(value).__name__
        raise fail(
            f"{what} needs a pointer, not {found}",
            "pass an array to the launch; inside a kernel x + offsets makes pointers from a pointer x",
        )
    element = value.dtype.element_ty
    if not isinstance(element, dtype):
        raise fail(f"{what} through a pointer to pointers")
    return value, element


def _mask(mask: Any, shape: Sequence[int], what: str) -> NDArray[np.bool_]:
    mask = unwrap(mask)
    if mask is None:
        return np.ones(tuple(shape), np.bool_)
    value = to_tile(mask)
    number_type(value)  # numbers that are not 0 are as good as bools, pointers are not
    return np.asarray(broadcast_to(cast(value, dtypes.int1), shape).data)


@implements("load", method=True)
def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> InterpTile:
    """See the language."""
    where, kind = _pointers(pointer, "load")
    other = unwrap(other)
    if other is not None and unwrap(mask) is None:
        raise fail("load: 'other' without a mask", "pass mask=…, or drop other")
    shape = where.shape
    for extra in (mask, other):
        if isinstance(extra, InterpTile) and where.shape:
            shape = broadcast_shapes(shape, extra.shape)
    where = broadcast_to(where, shape)
    keep = _mask(mask, shape, "load")
    data = current().memory.load(where.data, keep, numeric.STORAGE[kind.name])
    if other is None:
        return InterpTile(data, kind)
    fill = broadcast_to(_cast_value(other, kind), shape)
    return InterpTile(np.where(keep, data, fill.data), kind)


def _cast_value(value: Any, kind: dtype) -> InterpTile:
    value = unwrap(value)
    return cast(value, kind) if isinstance(value, InterpTile) else to_tile(value, kind)


@implements("store", method=True)
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """See the language."""
    where, kind = _pointers(pointer, "store")
    data = broadcast_to(_cast_value(value, kind), where.shape)
    current().memory.store(where.data, _mask(mask, where.shape, "store"), data.data)


def _atomic(
    what: str, pointer: Any, value: Any, mask: Any, step: Callable[[Array, Array], Array]
) -> InterpTile:
    """Element by element in row-major order; the old values."""
    where, kind = _pointers(pointer, what)
    if kind.is_bool():
        raise fail(f"{what} does not apply to int1", "use a pointer to int8 or wider integers")
    storage = numeric.STORAGE[kind.name]
    values = broadcast_to(_cast_value(value, kind), where.shape).data.reshape(-1)
    keep = _mask(mask, where.shape, what).reshape(-1)
    old = np.zeros(values.size, storage)
    memory, addresses, one = current().memory, where.data.reshape(-1), np.ones(1, np.bool_)
    for k in np.flatnonzero(keep):
        at = addresses[k : k + 1]
        before = memory.load(at, one, storage)
        old[k] = before[0]
        memory.store(at, one, np.asarray(step(before, values[k : k + 1]), storage))
    return InterpTile(old.reshape(where.shape), kind)


def _add_step(kind: dtype) -> Callable[[Array, Array], Array]:
    def step(a: Array, b: Array) -> Array:
        with numeric.quiet():
            return numeric.floats(np.add, kind, a, b) if kind.is_floating() else a + b

    return step


@implements("atomic_add", method=True)
def atomic_add(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """See the language."""
    _, kind = _pointers(pointer, "atomic_add")
    return _atomic("atomic_add", pointer, val, mask, _add_step(kind))


@implements("atomic_max", method=True)
def atomic_max(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """See the language."""
    return _atomic("atomic_max", pointer, val, mask, lambda a, b: numeric.minimum(a, b, True, True))


@implements("atomic_min", method=True)
def atomic_min(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """See the language."""
    return _atomic(
        "atomic_min", pointer, val, mask, lambda a, b: numeric.minimum(a, b, True, False)
    )


def _bit_atomic(what: str, pointer: Any, value: Any, mask: Any, function: Any) -> InterpTile:
    _, kind = _pointers(pointer, what)
    if not kind.is_int():
        raise fail(f"{what} needs integers in memory, not {kind}")
    return _atomic(what, pointer, value, mask, function)


@implements("atomic_and", method=True)
def atomic_and(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """See the language."""
    return _bit_atomic("atomic_and", pointer, val, mask, np.bitwise_and)


@implements("atomic_or", method=True)
def atomic_or(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """See the language."""
    return _bit_atomic("atomic_or", pointer, val, mask, np.bitwise_or)


@implements("atomic_xor", method=True)
def atomic_xor(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """See the language."""
    return _bit_atomic("atomic_xor", pointer, val, mask, np.bitwise_xor)


@implements("atomic_xchg", method=True)
def atomic_xchg(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> Any:
    """See the language."""
    return _atomic("atomic_xchg", pointer, val, mask, lambda a, b: b)


@implements("atomic_cas", method=True)
def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Any:
    """See the language."""
    where, kind = _pointers(pointer, "atomic_cas")
    expected = iter(broadcast_to(_cast_value(cmp, kind), where.shape).data.reshape(-1))
    bits = np.dtype(f"u{numeric.STORAGE[kind.name].itemsize}")

    def step(a: Array, b: Array) -> Array:
        want = np.asarray([next(expected)], a.dtype)
        return np.where(a.view(bits) == want.view(bits), b, a)

    return _atomic("atomic_cas", pointer, val, None, step)


@implements("range")
def range_builtin(
    arg1: Any, arg2: Any = None, step: Any = None, **hints: Any
) -> Iterator[InterpTile]:
    """A loop at run time: its counter is an int32 (int64 when a bound is)."""
    given = [unwrap(x) for x in (arg1, arg2, step)]
    for bound in given:
        if bound is not None and not is_integer(to_tile(bound)):
            raise fail(f"range needs integers, not {to_tile(bound).dtype}")
    kinds = [to_tile(x).dtype for x in given if x is not None]
    wide = any(kind.primitive_bitwidth == 64 for kind in kinds)
    kind = dtypes.int64 if wide else dtypes.int32
    low, high = (0, int(given[0])) if given[1] is None else (int(given[0]), int(given[1]))
    stride = 1 if given[2] is None else int(given[2])
    if stride == 0:
        raise fail("range with a step of 0")
    return (
        InterpTile(np.asarray(k, numeric.STORAGE[kind.name]), kind)
        for k in builtins.range(low, high, stride)
    )


@implements("static_range")
def static_range(arg1: Any, arg2: Any = None, step: Any = None) -> range:
    """A loop unrolled by the compiler: its counter is a compile-time integer."""
    bounds = [static_int(x, "static_range") for x in (arg1, arg2, step) if unwrap(x) is not None]
    return builtins.range(*bounds)


@implements("static_assert")
def static_assert(cond: Any, msg: Any = "") -> None:
    """See the language."""
    if isinstance(unwrap(cond), InterpTile):
        raise fail("static_assert needs a compile-time condition", "use device_assert")
    if not unwrap(cond):
        raise fail(f"static_assert failed: {msg}" if msg else "static_assert failed")


@implements("static_print")
def static_print(
    *values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False
) -> None:
    """Compile-time prints happen once, so only the first program prints."""
    if current().program == (0, 0, 0):
        shown = (v.type if isinstance(v, InterpTile) else unwrap(v) for v in values)
        print(*shown, sep=sep, end=end, file=file, flush=flush)


@implements("device_print")
def device_print(prefix: Any, *args: Any, hex: Any = False) -> None:
    """Print at once, with the program's ids."""
    pid = ", ".join(map(str, current().program))
    shown = [str(unwrap(prefix)).rstrip(": ")]
    with np.printoptions(formatter={"int": builtins.hex} if unwrap(hex) else None, threshold=64):
        shown += [str(to_tile(a)) if not isinstance(a, constexpr) else str(a.value) for a in args]
    print(f"pid ({pid})", *shown)


@implements("device_assert")
def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """See the language; the error names the program."""
    value = to_tile(cond)
    holds = value.data != 0
    if unwrap(mask) is not None:
        shape = broadcast_shapes(value.shape, to_tile(mask).shape)
        holds = holds | ~_mask(mask, shape, "device_assert")
    if not np.all(holds):
        message = f": {unwrap(msg)}" if unwrap(msg) else ""
        raise stopped(f"device_assert failed in program {current().program}{message}")


@implements("assume")
def assume(cond: Any) -> None:
    """A false assumption is the kernel's mistake; the interpreter finds it."""
    if not np.all(to_tile(cond).data):
        raise stopped(f"assume() of something false in program {current().program}")


@implements("multiple_of", "max_contiguous", "max_constancy")
def hint(input: Any, values: Any) -> Any:
    """A hint changes nothing."""
    return input


@implements("debug_barrier")
def debug_barrier() -> None:
    """Nothing to wait for."""
