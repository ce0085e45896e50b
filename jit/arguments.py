"""What a call passes: arguments bound to parameters and sorted into pointers, scalars and constants."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsalang._backend.errors import LaunchError, did_you_mean
from dsalang._runtime.arrays import ArrayView, is_array, scalar_of, view_of

from .composite import Composite, is_composite, taken_apart
from .constexpr import constexpr
from .depends import dependency_text
from .dtypes import dtype, from_name, pointer_type
from .source import EMPTY, HostFunction, KernelSource, Param

Number = bool | int | float


@dataclass
class Arguments:
    """Arguments of a launch, by parameter name, each in one of the three maps.

    `scalars` maps to (type, value); `constants` holds constexpr parameters and None; `declared` names the
    scalars whose type stands in the kernel (`n: dsa.int64`). `order` has all names: parameters, and the parts
    of an argument that is passed in parts (`composite.py`).
    """

    pointers: dict[str, ArrayView] = field(default_factory=dict)
    scalars: dict[str, tuple[dtype, Number]] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)


def bind(
    source: KernelSource,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Sequence[str] = (),
) -> dict[str, Any]:
    """A value for each parameter, as Python binds them. Raises LaunchError, with the kernel's signature.

    `options` are other keywords that may have been meant.
    """
    names = [param.name for param in source.params]
    if len(args) > len(names):
        raise _misfit(source, f"takes {len(names)} arguments, got {len(args)} positional ones")
    values = dict(zip(names, args))
    for name, value in kwargs.items():
        if name not in names:
            raise _misfit(
                source, f"has no parameter {name!r}", did_you_mean(name, {*names, *options})
            )
        if name in values:
            raise _misfit(source, f"got two values for parameter {name!r}")
        values[name] = value
    for param in source.params:
        if param.name not in values and param.default is not EMPTY:
            values[param.name] = param.default
    missing = [param for param in source.params if param.name not in values]
    if missing:
        kind = "constexpr argument" if missing[0].constexpr else "argument"
        listed = ", ".join(repr(param.name) for param in missing)
        example = f"{missing[0].name}={'128' if missing[0].constexpr else '...'}"
        plural = "" if len(missing) == 1 else "s"
        raise _misfit(source, f"misses {kind}{plural} {listed}", f"pass e.g. {example}")
    return {name: values[name] for name in names}


def _misfit(source: KernelSource, message: str, hint: str = "") -> LaunchError:
    shown = ", ".join(_shown(param) for param in source.params)
    hint = hint and hint + (" " if hint.endswith("?") else "; ")
    return LaunchError(
        f"kernel {source.name} {message}", hint=f"{hint}its parameters are ({shown})"
    )


def _shown(param: Param) -> str:
    kind = ": constexpr" if param.constexpr else ""
    return f"{param.name}{kind}" + ("" if param.default is EMPTY else f"={param.default!r}")


def classify(source: KernelSource, values: Mapping[str, Any]) -> Arguments:
    """Sort bound arguments. Raises LaunchError for what a kernel cannot take."""
    found = Arguments()
    for param in source.params:
        value = values[param.name]
        if isinstance(value, constexpr):
            value = value.value
        found.order.append(param.name)
        if param.constexpr or value is None:
            found.constants[param.name] = check_constant(param.name, value)
        elif is_composite(value):
            leaves: dict[str, Any] = {}
            found.constants[param.name] = taken_apart(param.name, value, leaves)
            for name, leaf in leaves.items():
                found.order.append(name)
                _sort(found, name, leaf, None)
        else:
            _sort(found, param.name, value, declared_type(source, param))
    return found


def _sort(found: Arguments, name: str, value: Any, declared: dtype | None) -> None:
    """Put a value into the map where it belongs."""
    if isinstance(value, constexpr):  # a part of a composite that is to be compiled in
        found.constants[name] = check_constant(name, value.value)
        return
    if value is None or isinstance(value, str | dtype | pointer_type) or _is_function(value):
        if "." not in name:  # a part of a composite may be one
            scalar_of(value, name)
        found.constants[name] = check_constant(name, value)
    elif is_array(value):
        found.pointers[name] = view_of(value, name)
    else:
        number = scalar_of(value, name)
        if declared is not None:
            found.declared.add(name)
            found.scalars[name] = declared, _fit(name, number, declared)
        else:
            found.scalars[name] = number_type(name, number), number


def _is_function(value: Any) -> bool:
    return isinstance(getattr(value, "source", None), KernelSource)


def check_constant(name: str, value: Any) -> Any:
    """A constexpr argument, without numpy's wrapping. Raises LaunchError for values that have no text."""
    if is_array(value):
        raise LaunchError(
            f"argument {name!r} is an array, but parameter {name!r} is a constexpr",
            hint="constexpr arguments are numbers, strings, dtypes and functions; drop the annotation "
            "to pass an array",
        )
    if hasattr(value, "dtype") and hasattr(value, "item"):
        value = value.item()
    constant_text(name, value)
    return value


def constant_text(name: str, value: Any) -> str:
    """A text that differs when the constant does (1, 1.0 and True differ), for cache keys."""
    if isinstance(value, constexpr):
        value = value.value
    if value is None or isinstance(value, (bool, int, str, dtype, pointer_type)):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, float):
        return f"float:{value.hex()}"
    if isinstance(value, Composite):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({','.join(constant_text(name, v) for v in value)})"
    source = getattr(value, "source", None)
    if isinstance(source, KernelSource):
        return f"function:{source.file}:{source.first_line}:{source.text}"
    if isinstance(value, HostFunction):
        return f"microkernel:{dependency_text(value)}"
    raise LaunchError(
        f"constexpr argument {name!r} has type {type(value).__name__}, which cannot be compiled in",
        hint="use numbers, strings, dtypes, tuples of them, or functions decorated with @dsa.jit",
    )


def declared_type(source: KernelSource, param: Param) -> dtype | None:
    """The dtype that a parameter's annotation names (`n: dsa.int64`), None for other annotations."""
    found = param.annotation
    if isinstance(found, str):  # postponed annotations
        name, *path = found.strip("'\"").split(".")
        try:
            found = functools.reduce(getattr, path, source.lookup(name))
        except (KeyError, AttributeError):
            return None
    return found if isinstance(found, dtype) else None


def _fit(name: str, number: Number, kind: dtype) -> Number:
    if kind.is_floating():
        return float(number)
    if isinstance(number, float):
        raise LaunchError(f"argument {name!r} is the float {number}, but declared {kind}")
    low, high = kind.get_int_min_value(), kind.get_int_max_value()
    if not low <= number <= high:
        raise LaunchError(f"argument {name!r} = {number} does not fit its declared type {kind}")
    return number


def number_type(name: str, number: Number) -> dtype:
    """The type of a Python number as an argument: int1, int32, int64, uint64 or fp32."""
    if isinstance(number, bool):
        chosen = "int1"
    elif isinstance(number, float):
        chosen = "fp32"
    elif -(2**31) <= number < 2**31:
        chosen = "int32"
    elif -(2**63) <= number < 2**63:
        chosen = "int64"
    elif 0 <= number < 2**64:
        chosen = "uint64"
    else:
        raise LaunchError(f"argument {name!r} = {number} does not fit 64 bits")
    kind = from_name(chosen)
    assert isinstance(kind, dtype)
    return kind
