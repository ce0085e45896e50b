"""What a user may have meant: what habits from numpy, torch and lists become."""

from __future__ import annotations

import types
from collections.abc import Collection, Iterable
from typing import Any

from dsalang._backend.errors import did_you_mean

_CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "char": "int8",
    "short": "int16", "int": "int32", "long": "int64", "bool": "int1", "byte": "uint8",
}  # fmt: skip
"""torch's methods that convert, and the language's types."""

_ARRAY_HINTS = {
    **{name: f"use .to(tl.{kind})" for name, kind in _CASTS.items()},
    "astype": "use .to(dtype), e.g. .to(tl.float32)",
    "type_as": "use .to(other.dtype)",
    "copy": "tiles are values: assigning one is enough",
    "clone": "tiles are values: assigning one is enough",
    "item": "a scalar is used as it is",
    "transpose": "use .trans() or .T",
    "unsqueeze": "use tl.expand_dims or x[:, None]",
    "ndim": "use len(x.shape)",
    "mean": "divide tl.sum by the number of elements",
}
"""What attributes of arrays elsewhere become in a kernel."""

POINTER_SIZE = "an array is a pointer in a kernel, without shape; pass the size as an argument"
_SIZES = ("size", "ndim", "strides", "stride", "nbytes", "dim", "__len__")
_GROWTH = ("append", "extend", "insert")
LISTS = "lists cannot grow in a kernel; use a tuple: a = a + (v,)"


def of_value(name: str, names: Iterable[str], pointer: bool) -> str:
    """What to write in place of a scalar's or tile's attribute that there is not."""
    if pointer and name in _SIZES:
        return POINTER_SIZE
    return _ARRAY_HINTS.get(name) or did_you_mean(name, names)


def of_list(name: str) -> str:
    """What to write in place of a list's or tuple's method."""
    return LISTS if name in _GROWTH else ""


def of_module(name: str, names: Iterable[str], methods: Collection[str]) -> str:
    """What to write in place of a module's attribute that there is not; a method of tiles may be meant."""
    if name in methods:
        return f"it is a method: write x.{name}(...)"
    return did_you_mean(name, names)


_FUNCTIONS = {
    "absolute": "abs", "arctan2": "atan2", "concatenate": "cat", "power": "pow", "matmul": "dot", "amax": "max",
    "amin": "min", "add": "x + y", "subtract": "x - y", "multiply": "x * y", "divide": "x / y",
}  # fmt: skip
"""Functions of numpy and torch whose name is another here."""
_OUTSIDE = "compute its value outside and pass it as a constexpr"


def of_function(function: Any, builtins: Collection[str]) -> str:
    """What to write in place of a call of a plain Python function."""
    if isinstance(function, types.FunctionType) and not _of_library(function):
        return f"decorate it with @jit, or {_OUTSIDE}"
    name = getattr(function, "__name__", "")
    ours = _FUNCTIONS.get(name, name)
    if name and ours in builtins:
        return f"use tl.{ours}"
    return f"write {ours}" if ours != name else _OUTSIDE


def _of_library(function: types.FunctionType) -> bool:
    return function.__module__.partition(".")[0] in ("numpy", "torch", "scipy", "jax")
