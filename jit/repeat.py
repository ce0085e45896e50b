"""Launches that have been made before: found again by what they depend on, without looking into anything.

A launch depends on the types and values of its arguments (of arrays: address, type, shape, strides, whether
it may be written), the grid, the knobs, the current target, and the outside values that the
kernel reads. `call_key` makes a key of all that can be had in a microsecond or two; `Guard` watches the outside
values. Whatever has no cheap key (`None`) goes the long way, every time.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Hashable, Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from dsalang._runtime.arrays import is_array
from dsalang._runtime.device import scoped

from . import knobs
from .constexpr import ConstexprFunction, constexpr
from .depends import followed
from .dtypes import dtype, pointer_type
from .machine import current
from .micro import registry
from .source import HostFunction, KernelSource, is_code, source_of

MOST = 512
"""Launches of a kernel that are kept ready."""

_DATA_OFFSET = object.__basicsize__
"""Where an ndarray keeps the address of its data: first after the object header, by numpy's C ABI."""
_word = ctypes.c_size_t.from_address


def _direct(array: Any) -> int:
    return _word(id(array) + _DATA_OFFSET).value


def _asked(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _choose() -> Callable[[Any], int]:
    """Read addresses directly where that is proven to work: `__array_interface__` takes ten times as long."""
    samples: list[Any] = [np.zeros(4, np.int8)[start:] for start in range(4)]
    samples += [np.zeros((3, 3), np.float32)[::-1, ::2], np.ones(1, np.int64)]
    return _direct if all(_direct(a) == _asked(a) for a in samples) else _asked


address_of = _choose()


class NoKeyError(Exception):
    """There is no cheap key."""


def part(value: Any) -> Hashable:
    """A key of an argument: equal keys, equal effect. Raises NoKeyError."""
    kind = type(value)
    if kind is np.ndarray:
        if value.ndim == 0:
            raise NoKeyError
        return (
            address_of(value), value.dtype, value.shape, value.strides, value.flags.writeable,
        )  # fmt: skip
    if kind is int or kind is bool or kind is str or value is None:
        return (kind, value)
    if kind is float:
        # 0.0 equals -0.0, and NaN nothing
        return (kind, value, math.copysign(1.0, value)) if value == value else (kind, value.hex())
    if kind is dtype or kind is pointer_type:
        return (kind, value)
    if kind is tuple:
        return (kind, *map(part, value))
    if kind is constexpr:
        return part(value.value)
    if source_of(value) is not None:
        return (kind, id(value))  # the entry of the memo keeps it alive
    if kind.__module__ == "torch" and hasattr(kind, "data_ptr"):
        return (
            value.data_ptr(), value.dtype, value.shape, value.stride(), value.device, value.layout,
        )  # fmt: skip
    raise NoKeyError


def call_key(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], grid: Any, interpreted: bool
) -> Hashable:
    """The key of a call; None when it has none. `grid` is what a grid function gave."""
    if scoped.get() is not None:
        return None
    try:
        whole = type(grid) is int or all(type(size) is int for size in grid)
        key = (
            grid,
            tuple([part(value) for value in args]),
            tuple([(name, part(value)) for name, value in kwargs.items()]) if kwargs else None,
            id(current()),
            interpreted,
            knobs.raw(),
            registry.generation(),
        )
        hash(key)
    except (NoKeyError, TypeError, RuntimeError):
        return None
    return key if whole else None


def kept(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
    """What must live as long as the key of a call is used, which holds its identity."""
    return (current(), *(value for value in (*args, *kwargs.values()) if not is_array(value)))


class Guard:
    """What a kernel reads outside of itself; `holds` while all of it is still the same.

    `usable` is False when some of it may change without becoming another object, as a list may.
    """

    def __init__(self, source: KernelSource) -> None:
        self.usable = True
        self._roots: list[tuple[Mapping[str, Any], str, Any]] = []
        self._attributes: list[tuple[Any, tuple[str, ...], Any]] = []
        self._seen: dict[int, object] = {}
        self._follow(source)

    def follow_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Watch what functions among the arguments read as well; `part` has a key of no other container."""
        pending = [*args, *kwargs.values()]
        while pending:
            value = pending.pop()
            if isinstance(value, constexpr):
                value = value.value
            if type(value) is tuple:
                pending += value
            elif not is_array(value) and (callee := source_of(value)) is not None:
                self._follow(callee)

    def _follow(self, source: KernelSource) -> None:
        pending = [(source, False)]
        self._seen.setdefault(id(source), source)
        while pending:
            one, host = pending.pop()
            for path, value in one.references():
                python = isinstance(value, ConstexprFunction) or (
                    host and isinstance(value, FunctionType)
                )
                callee = followed(value, host)
                if isinstance(value, HostFunction):
                    self.usable = False
                elif callee is not None:
                    known = value.function if isinstance(value, ConstexprFunction) else value
                    if id(known) not in self._seen:
                        self._seen[id(known)] = known
                        pending.append((callee, python))
                elif python or not (is_code(value) or _lasting(value)):
                    self.usable = False
                self._watch(one, path, value)

    def _watch(self, source: KernelSource, path: tuple[str, ...], value: Any) -> None:
        name, *attributes = path
        # a builtin is one for as long as the module does not have the name
        mapping = source.closure if name in source.closure else source.globals
        watched = (mapping, name, mapping.get(name))
        if not any(r[0] is mapping and r[1] == name for r in self._roots):
            self._roots.append(watched)
        root = source.lookup(name)
        ours = isinstance(root, ModuleType) and root.__name__.partition(".")[0] == "dsalang"
        if attributes and not ours:
            self._attributes.append((root, tuple(attributes), value))

    def holds(self) -> bool:
        """Whether every outside value is the object that it was."""
        for mapping, name, value in self._roots:
            if mapping.get(name) is not value:
                return False
        for found, attributes, value in self._attributes:
            for attribute in attributes:
                found = getattr(found, attribute, None)
            if found is not value:
                return False
        return True


class Remembered:
    """Launches of a kernel that are kept ready, by the keys of their calls."""

    def __init__(self, source: KernelSource) -> None:
        self._source = source
        self._ready: dict[Hashable, tuple[Callable[[], Any], object]] = {}
        self._guard: Guard | None = None

    def __len__(self) -> int:
        return len(self._ready)

    def clear(self) -> None:
        """Forget all."""
        self._ready.clear()

    def find(self, key: Hashable) -> Callable[[], Any] | None:
        """The launch of an equal call, None when there was none or the kernel has changed since then."""
        found = self._ready.get(key)
        if found is None:
            return None
        if self._guard is not None and self._guard.holds():
            return found[0]
        self._ready.clear()
        return None

    def keep(
        self,
        key: Hashable,
        run: Callable[[], Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        """Remember a launch, if what the kernel and its arguments read can be watched."""
        if not self._ready or self._guard is None:
            self._guard = Guard(self._source)
        self._guard.follow_arguments(args, kwargs)
        if self._guard.usable and self._guard.holds():
            if len(self._ready) >= MOST:
                self._ready.clear()
            self._ready[key] = run, kept(args, kwargs)


def _lasting(value: Any) -> bool:
    """Whether an object can only change by becoming another one, as far as kernels are concerned."""
    if isinstance(value, tuple):
        return all(map(_lasting, value))
    return value is None or isinstance(value, bool | int | float | str | dtype | pointer_type)
