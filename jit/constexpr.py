"""`constexpr`: marks a parameter as known at compile time, and wraps a compile-time value."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any


def _unwrap(value: Any) -> Any:
    return value.value if isinstance(value, constexpr) else value


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def forward(self: constexpr, other: Any) -> Any:
        return constexpr(function(self.value, _unwrap(other)))

    return forward


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def backward(self: constexpr, other: Any) -> Any:
        return constexpr(function(_unwrap(other), self.value))

    return backward


class constexpr:  # noqa: N801 (the name users of Triton type)
    """A value known at compile time.

    As an annotation (`BLOCK: dsa.constexpr`) it makes a parameter part of the kernel's identity: each
    value compiles its own image. As a wrapper (`WIDTH = dsa.constexpr(64)`) it behaves like the value.

    >>> constexpr(3) + 1
    constexpr[4]
    """

    def __init__(self, value: Any) -> None:
        self.value: Any = _unwrap(value)

    def __repr__(self) -> str:
        return f"constexpr[{self.value!r}]"

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> Any:
        return constexpr(self.value == _unwrap(other))

    def __ne__(self, other: object) -> Any:
        return constexpr(self.value != _unwrap(other))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __getattr__(self, name: str) -> Any:
        if name == "value":  # not set yet: copying or unpickling
            raise AttributeError(name)
        return getattr(self.value, name)

    def __getitem__(self, key: Any) -> Any:
        return self.value[_unwrap(key)]

    def __len__(self) -> int:
        return len(self.value)

    def __neg__(self) -> constexpr:
        return constexpr(-self.value)

    def __pos__(self) -> constexpr:
        return constexpr(+self.value)

    def __invert__(self) -> constexpr:
        return constexpr(~self.value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped value."""
        return self.value(*args, **kwargs)

    __add__, __radd__ = _binary(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _binary(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _reflected(operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv), _reflected(operator.floordiv)
    __mod__, __rmod__ = _binary(operator.mod), _reflected(operator.mod)
    __pow__, __rpow__ = _binary(operator.pow), _reflected(operator.pow)
    __lshift__, __rlshift__ = _binary(operator.lshift), _reflected(operator.lshift)
    __rshift__, __rrshift__ = _binary(operator.rshift), _reflected(operator.rshift)
    __and__, __rand__ = _binary(operator.and_), _reflected(operator.and_)
    __or__, __ror__ = _binary(operator.or_), _reflected(operator.or_)
    __xor__, __rxor__ = _binary(operator.xor), _reflected(operator.xor)
    __lt__, __le__ = _binary(operator.lt), _binary(operator.le)
    __gt__, __ge__ = _binary(operator.gt), _binary(operator.ge)


class ConstexprFunction:
    """A plain Python function that kernels may call with compile-time arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it with what constexprs hold; the result is a plain value."""
        named = {name: _unwrap(value) for name, value in kwargs.items()}
        return _unwrap(self.function(*map(_unwrap, args), **named))


def constexpr_function(function: Callable[..., Any]) -> ConstexprFunction:
    """Decorator: a Python function that kernels call at compile time."""
    return ConstexprFunction(function)
