"""Values of an interpreted kernel: scalars and tiles over numpy arrays, with the language's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import dtypes, habits, libdevice
from ..constexpr import constexpr
from ..dtypes import ElementType, block_type, dtype, pointer_type
from . import numeric, promote
from .errors import fail, none_arguments
from .registry import IMPLEMENTATIONS, METHODS

Array = NDArray[Any]


class InterpTile:
    """A scalar (rank 0) or a tile. `data` is in the numpy dtype of the type; pointers are int64 addresses.

    Methods of the language (`x.sum(0)`, `x.to(…)`) are looked up among the builtins.
    """

    __slots__ = ("data", "dtype")
    __array_ufunc__ = None  # numpy values on the left leave the operation to us
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: Array, dtype: ElementType) -> None:
        self.data = np.asarray(data)
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"{self.type}({np.array2string(self.data, separator=', ')})"

    def __str__(self) -> str:
        return str(self.data)

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape; () for a scalar."""
        return self.data.shape

    @property
    def numel(self) -> int:
        """Number of elements."""
        return int(self.data.size)

    @property
    def type(self) -> Any:
        """The element type of a scalar, a block_type for a tile."""
        return block_type(self.dtype, self.shape) if self.shape else self.dtype

    @property
    def T(self) -> InterpTile:  # noqa: N802 (its name in the language)
        """The tile with its last two dims swapped."""
        if self.data.ndim < 2:
            raise fail(f".T needs a tile of rank 2 or more, not shape {self.shape}")
        return InterpTile(np.swapaxes(self.data, -1, -2), self.dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise fail("a scalar has no length")
        return self.shape[0]

    def _python(self) -> Any:
        if self.data.size != 1:
            raise fail(
                f"a tile of shape {self.shape} is used where one value is needed",
                "reduce it first, e.g. with dsa.max or dsa.sum, or use dsa.where",
            )
        return self.data.item()

    def __bool__(self) -> bool:
        return bool(self._python())

    def __int__(self) -> int:
        return int(self._python())

    def __float__(self) -> float:
        return float(self._python())

    def __index__(self) -> int:
        if not is_integer(self):
            raise fail(f"a value of type {self.dtype} is used as an integer")
        return int(self._python())

    def __setitem__(self, key: Any, value: Any) -> None:
        raise fail(
            "a tile's elements cannot be assigned: tiles are values",
            "make a new tile with tl.where, or write to memory with tl.store",
        )

    def __iter__(self) -> Any:
        raise fail("tiles cannot be iterated over")

    def __getitem__(self, key: Any) -> InterpTile:
        keys = [unwrap(k) for k in (key if isinstance(key, tuple) else (key,))]
        if any(isinstance(k, InterpTile) for k in keys):
            return _at_run_time(self, keys)
        for k in keys:
            whole = isinstance(k, int) and not isinstance(k, bool)
            if not (whole or k is None or k is Ellipsis or isinstance(k, slice)):
                raise fail(
                    "a tile is indexed with integers, compile-time slices, ':' and None",
                    "x[:, None] adds a dim, x[3] picks an element; pick several with dsa.gather",
                )
        if not self.shape:
            keys = [k for k in keys if k != slice(None)]  # as in Triton
        if not self.shape and any(k is not None for k in keys):
            raise fail("a scalar can only be indexed with None")
        try:
            part = self.data[tuple(keys)]
        except (IndexError, TypeError, ValueError) as error:
            raise fail(f"cannot index a tile of shape {self.shape}: {error}") from None
        if part.size == 0:
            raise fail(f"a slice of a tile of shape {self.shape} is empty")
        return InterpTile(part, self.dtype)

    def __neg__(self) -> InterpTile:
        kind = number_type(self)
        if kind.is_bool():  # 0 - x in one bit
            return self
        if kind.is_floating():
            return InterpTile((-self.data).astype(self.data.dtype), kind)
        return InterpTile((0 - self.data).astype(self.data.dtype), kind)

    def __abs__(self) -> InterpTile:
        return IMPLEMENTATIONS["abs"](self)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            names = ("dtype", "type", "shape", "numel", "T", *METHODS)
            hint = habits.of_value(name, names, isinstance(self.dtype, pointer_type))
            raise fail(f"tiles have no attribute {name!r}", hint)
        return partial(IMPLEMENTATIONS[name], self)

    def __pos__(self) -> InterpTile:
        return self

    def __invert__(self) -> InterpTile:
        if number_type(self).is_floating():
            raise fail(f"~ needs integers, not {self.dtype}")
        return InterpTile(~self.data, self.dtype)


def _at_run_time(value: InterpTile, keys: list[Any]) -> InterpTile:
    """Elements at positions that are values of the kernel; 0 outside of a dim."""
    consumed = [k for k in keys if k is not None and k is not Ellipsis]
    plain, outside, dim = [], False, 0
    for key in keys:
        if key is Ellipsis:
            dim += len(value.shape) - len(consumed)
        elif key is not None:
            if isinstance(key, InterpTile):
                if key.shape or not is_integer(key) or number_type(key).is_bool():
                    raise fail(f"a tile is indexed with scalar integers, not {key.type}")
                if dim >= len(value.shape):
                    raise fail(f"too many indices for a tile of shape {value.shape}")
                position = int(key.data)
                outside |= not 0 <= position < value.shape[dim]
                key = min(max(position, 0), value.shape[dim] - 1)
            dim += 1
        plain.append(key)
    picked = value[tuple(plain)]
    number_type(value)
    return InterpTile(np.zeros_like(picked.data), picked.dtype) if outside else picked


def number_type(value: InterpTile) -> dtype:
    """The element type, which must not be a pointer."""
    if isinstance(value.dtype, dtype):
        return value.dtype
    raise fail(f"a pointer ({value.dtype}) is used as a number")


def is_integer(value: InterpTile) -> bool:
    """True for integers and bools, False for floats and pointers."""
    return isinstance(value.dtype, dtype) and value.dtype.is_int()


def unwrap(value: Any) -> Any:
    """The value in a constexpr; others as they are."""
    return value.value if isinstance(value, constexpr) else value


def is_number(value: Any) -> bool:
    """True for Python's numbers, which adapt to the type of the other operand."""
    return isinstance(value, (bool, int, float))


def to_tile(value: Any, kind: dtype | None = None) -> InterpTile:
    """A tile as it is; a Python number as a scalar (of type `kind`, or its own)."""
    value = unwrap(value)
    if isinstance(value, InterpTile):
        return value
    if not is_number(value):
        empty = none_arguments() if value is None else []
        hint = f"{', '.join(map(repr, empty))} got None: pass a value" if empty else ""
        raise fail(f"{type(value).__name__} {value!r} is neither a number nor a tile", hint)
    try:
        own = promote.of_number(value)
    except promote.PromotionError as error:
        raise fail(str(error)) from None
    if own.is_floating():
        return InterpTile(_from_float(float(value), own, kind or own), kind or own)
    data = np.asarray(value, numeric.STORAGE[own.name])
    return cast(InterpTile(data, own), kind or own)


def _from_float(value: float, own: dtype, kind: dtype) -> Array:
    with numeric.quiet():
        if kind.is_floating():
            return numeric.narrow64(np.asarray(value, np.float64), kind)
        return numeric.convert(np.asarray(value, numeric.STORAGE[own.name]), own, kind)


def cast(value: InterpTile, kind: ElementType) -> InterpTile:
    """Convert the elements to a type; pointers and int64 keep their bits."""
    if value.dtype == kind:
        return value
    if isinstance(kind, dtype) and kind.name not in numeric.STORAGE:
        raise fail(f"the machine has no {kind}", "use a type of the machine, such as float32")
    if not isinstance(kind, dtype):  # to a pointer
        if isinstance(value.dtype, dtype) and not value.dtype.is_int():
            raise fail(f"cannot convert {value.dtype} to a pointer")
        return InterpTile(value.data.astype(np.int64), kind)
    source = value.dtype if isinstance(value.dtype, dtype) else dtypes.int64
    with numeric.quiet():
        return InterpTile(np.asarray(numeric.convert(value.data, source, kind)), kind)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape of values, a scalar fitting any; ranks must agree otherwise up to leading dims."""
    try:
        return np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        raise fail(
            "shapes " + " and ".join(str(tuple(s)) for s in shapes) + " do not fit together",
            "dims must be equal or 1",
        ) from None


def broadcast_to(value: InterpTile, shape: Sequence[int]) -> InterpTile:
    """The value repeated up to a shape."""
    if value.shape == tuple(shape):
        return value
    if broadcast_shapes(value.shape, shape) != tuple(shape):
        raise fail(f"cannot broadcast shape {value.shape} to {tuple(shape)}")
    return InterpTile(np.broadcast_to(value.data, tuple(shape)), value.dtype)


def operands(a: Any, b: Any, division: bool = False) -> tuple[InterpTile, InterpTile, dtype]:
    """Two numbers in the type that arithmetic on them happens in, and that type."""
    a, b = unwrap(a), unwrap(b)
    weak_a, weak_b = is_number(a), is_number(b)
    x, y = to_tile(a), to_tile(b)
    try:
        kind = promote.arithmetic(number_type(x), weak_a, number_type(y), weak_b, division)
    except promote.PromotionError as error:
        raise fail(str(error)) from None
    if weak_a != weak_b:
        _check_number(a if weak_a else b, kind)
        x = to_tile(a, kind) if weak_a else x
        y = to_tile(b, kind) if weak_b else y
    broadcast_shapes(x.shape, y.shape)
    return cast(x, kind), cast(y, kind), kind


def _check_number(number: Any, kind: dtype) -> None:
    if not kind.is_int() or isinstance(number, float):
        return
    if not kind.get_int_min_value() <= number <= kind.get_int_max_value():
        raise fail(f"the constant {number} does not fit type {kind} of the other operand")


def bit_operands(a: Any, b: Any) -> tuple[InterpTile, InterpTile, dtype]:
    """Two integers in the type that a bitwise operation on them happens in."""
    kinds = number_type(to_tile(a)), number_type(to_tile(b))
    if any(kind.is_floating() for kind in kinds):
        raise fail(f"bitwise operators need integers, not {kinds[0]} and {kinds[1]}")
    return operands(a, b)


def arithmetic(a: Any, b: Any, function: Callable[[Array, Array], Array]) -> InterpTile:
    """a `function` b for +, -, *."""
    x, y, kind = operands(a, b)
    with numeric.quiet():
        if kind.is_floating():
            return InterpTile(numeric.floats(function, kind, x.data, y.data), kind)
        if kind.is_bool():  # arithmetic of one bit wraps
            value = function(x.data.astype(np.uint8), y.data.astype(np.uint8))
            return InterpTile((value & 1).astype(np.bool_), kind)
        return InterpTile(np.asarray(function(x.data, y.data), x.data.dtype), kind)


def add_pointer(pointer: InterpTile, offset: Any, sign: int) -> InterpTile:
    """A pointer moved by a number of elements."""
    assert isinstance(pointer.dtype, dtypes.pointer_type)
    steps = to_tile(offset)
    if not is_integer(steps):
        raise fail(f"a pointer moves by integers, not by {steps.dtype}")
    broadcast_shapes(pointer.shape, steps.shape)
    element = pointer.dtype.element_ty
    size = element.itemsize if isinstance(element, dtype) else 8
    with numeric.quiet():
        return InterpTile(pointer.data + sign * size * steps.data.astype(np.int64), pointer.dtype)


def add(a: Any, b: Any) -> InterpTile:
    """a + b, of numbers or of a pointer and an integer."""
    x, y = to_tile(a), to_tile(b)
    if x.dtype.is_ptr() and y.dtype.is_ptr():
        raise fail("two pointers cannot be added")
    if x.dtype.is_ptr():
        return add_pointer(x, b, 1)
    if y.dtype.is_ptr():
        return add_pointer(y, a, 1)
    return arithmetic(a, b, np.add)


def subtract(a: Any, b: Any) -> InterpTile:
    """a - b, of numbers or of a pointer and an integer."""
    x = to_tile(a)
    if x.dtype.is_ptr():
        return add_pointer(x, b, -1)
    return arithmetic(a, b, np.subtract)


def multiply(a: Any, b: Any) -> InterpTile:
    """a * b."""
    return arithmetic(a, b, np.multiply)


def true_divide(a: Any, b: Any) -> InterpTile:
    """a / b, always a float."""
    x, y, _ = operands(a, b, division=True)
    kind = promote.widest_float(number_type(x), number_type(y))
    with numeric.quiet():
        x, y = cast(x, kind), cast(y, kind)
        return InterpTile(numeric.floats(np.divide, kind, x.data, y.data), kind)


def _integer_division(x: InterpTile, y: InterpTile, kind: dtype) -> tuple[InterpTile, InterpTile]:
    """Quotient and remainder; of int1 as of the numbers 0 and 1."""
    one_bit = kind.is_bool()
    a, b = (v.data.astype(np.uint8) if one_bit else v.data for v in (x, y))
    with numeric.quiet():
        quotient, rest = numeric.divide(a, b)
    if one_bit:
        quotient, rest = quotient.astype(np.bool_), rest.astype(np.bool_)
    return InterpTile(quotient, kind), InterpTile(rest, kind)


def floor_divide(a: Any, b: Any) -> InterpTile:
    """a // b of integers, towards zero as in C."""
    x, y, kind = operands(a, b, division=True)
    if kind.is_floating():
        raise fail(f"// needs integers, not {kind}", "use / and dsa.floor")
    return _integer_division(x, y, kind)[0]


def remainder(a: Any, b: Any) -> InterpTile:
    """a % b with the sign of a, as in C."""
    x, y, kind = operands(a, b, division=True)
    if kind.is_floating():
        with numeric.quiet():
            return InterpTile(numeric.real(np.fmod, kind, x.data, y.data), kind)
    return _integer_division(x, y, kind)[1]


def bitwise(a: Any, b: Any, function: Callable[[Array, Array], Array]) -> InterpTile:
    """a `function` b for &, |, ^."""
    x, y, kind = bit_operands(a, b)
    return InterpTile(np.asarray(function(x.data, y.data)), kind)


def shift(a: Any, b: Any, left: bool) -> InterpTile:
    """a << b or a >> b; to the right it keeps the sign of signed integers."""
    signed = number_type(to_tile(a)).is_int_signed()
    x, y, kind = bit_operands(a, b)
    if kind.is_bool():  # one bit: any shift but by 0 leaves nothing
        return InterpTile(x.data & ~y.data, kind)
    with numeric.quiet():
        return InterpTile(numeric.shift(x.data, y.data, left, signed), kind)


def compare(a: Any, b: Any, function: Callable[[Array, Array], Array]) -> Any:
    """a `function` b for comparisons, as bools; comparing with None is decided here and now."""
    if a is None or b is None:
        return function is np.not_equal
    x, y = to_tile(a), to_tile(b)
    if x.dtype.is_ptr() and y.dtype.is_ptr():
        return InterpTile(np.asarray(function(x.data, y.data)), dtypes.int1)
    x, y, kind = operands(a, b)
    left, right = (x.data, y.data) if kind.is_int() else map(numeric.widen, (x.data, y.data))
    with numeric.quiet():
        return InterpTile(np.asarray(function(left, right)), dtypes.int1)


def power(a: Any, b: Any) -> Any:
    """a ** b for a literal exponent, by squaring."""
    exponent = unwrap(b)
    whole = isinstance(exponent, int) and (0 <= exponent <= 64 or is_integer(to_tile(a)))
    if isinstance(exponent, float | InterpTile) or (isinstance(exponent, int) and not whole):
        return libdevice.pow(a, b)
    if not isinstance(exponent, int) or not 0 <= exponent <= 64:
        raise fail(f"** takes a literal exponent from 0 to 64, not {exponent}")
    if exponent == 0:
        return cast(to_tile(1), to_tile(a).dtype)
    result = None
    square = a
    while exponent:
        if exponent & 1:
            result = square if result is None else multiply(result, square)
        exponent >>= 1
        if exponent:
            square = multiply(square, square)
    return result


def _compare(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Any:
    return compare(a, b, function)


def _install(name: str, function: Callable[[Any, Any], Any], reflected: bool = True) -> None:
    setattr(InterpTile, f"__{name}__", lambda self, other: function(self, other))
    if reflected:
        setattr(InterpTile, f"__r{name}__", lambda self, other: function(other, self))


def _install_operators() -> None:
    for name, function in (
        ("add", add),
        ("sub", subtract),
        ("mul", multiply),
        ("truediv", true_divide),
        ("floordiv", floor_divide),
        ("mod", remainder),
        ("pow", power),
        ("and", lambda a, b: bitwise(a, b, np.bitwise_and)),
        ("or", lambda a, b: bitwise(a, b, np.bitwise_or)),
        ("xor", lambda a, b: bitwise(a, b, np.bitwise_xor)),
        ("lshift", lambda a, b: shift(a, b, left=True)),
        ("rshift", lambda a, b: shift(a, b, left=False)),
    ):
        _install(name, function)
    for name, ufunc in (
        ("lt", np.less),
        ("le", np.less_equal),
        ("gt", np.greater),
        ("ge", np.greater_equal),
        ("eq", np.equal),
        ("ne", np.not_equal),
    ):
        _install(name, partial(_compare, ufunc), reflected=False)


_install_operators()
