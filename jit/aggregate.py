"""Aggregates: classes of kernel values with fields and methods, as `triton.language.core._aggregate` makes them.

An aggregate is a named tuple of its fields, so it passes through loops, branches, calls and arguments as tuples do;
its methods are functions of the class, and an `__init__` of its own makes the fields from what it is called with.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from dsalang._backend.errors import LaunchError

from .annotations import fields_of
from .constexpr import ConstexprFunction

_PLAIN = (
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__annotate__",
    "__annotate_func__",
)  # fmt: skip


class _Bound:
    """A member that is called with the instance first."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: type) -> Any:
        return self.function if instance is None else partial(self.function, instance)


def aggregate(cls: type) -> Any:
    """Turn an annotated class into an aggregate; other aggregates may be its bases.

    >>> @aggregate
    ... class Pair:
    ...     first: int
    ...     second: int = 2
    >>> Pair(1), Pair(1)._replace(second=3).second
    (Pair(first=1, second=2), 3)
    """
    fields: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    methods: dict[str, Any] = {}
    init: Callable[..., None] | None = None
    for base in reversed(cls.__mro__[:-1]):
        if known := getattr(base, "__aggregate__", None) if base is not cls else None:
            fields.update(dict.fromkeys(known.fields))
            defaults.update(known.defaults)
            methods.update(known.methods)
        elif base is cls:
            fields.update(dict.fromkeys(fields_of(base)))
            init = base.__dict__.get("__init__")
            for name, value in base.__dict__.items():
                if name in fields:
                    defaults[name] = value
                elif name not in _PLAIN and name != "__init__" and callable(value):
                    methods[name] = value
    if any(name.startswith("_") for name in fields):
        raise LaunchError(f"a field of the aggregate {cls.__name__} starts with an underscore")
    return _make(cls, tuple(fields), defaults, methods, init)


def _make(
    cls: type,
    fields: tuple[str, ...],
    defaults: Mapping[str, Any],
    methods: Mapping[str, Any],
    init: Callable[..., None] | None,
) -> Any:
    ordered = fields
    base: Any = namedtuple(cls.__name__, ordered)  # type: ignore[misc]

    def new(kind: Any, *args: Any, **kwargs: Any) -> Any:
        if init is not None:
            made = SimpleNamespace()
            init(made, *args, **kwargs)
            missing = [name for name in ordered if not hasattr(made, name)]
            if missing:
                raise TypeError(f"__init__() does not set the field {missing[0]!r}")
            return kind._make(getattr(made, name) for name in ordered)
        given = dict(zip(ordered, args))
        return base.__new__(kind, *args, **{**_absent(defaults, given, kwargs), **kwargs})

    space: dict[str, Any] = dict.fromkeys(("__add__", "__radd__", "__mul__", "__rmul__"), _no_tuple)
    space |= {name: _Bound(function) for name, function in methods.items()}
    space |= {
        "__slots__": (),
        "__new__": new,
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__aggregate__": SimpleNamespace(
            fields=ordered, defaults=defaults, methods=methods, init=init
        ),
    }
    return type(cls.__name__, (base,), space)


def _no_tuple(instance: Any, other: Any) -> Any:
    """Aggregates are tuples inside only."""
    raise TypeError(f"the aggregate {type(instance).__name__} has no + and no *; use its fields")


def _absent(
    defaults: Mapping[str, Any], given: Mapping[str, Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    return {n: v for n, v in defaults.items() if n not in given and n not in named}


def members_of(cls: Any) -> Iterator[tuple[str, Any]]:
    """What the meaning of an aggregate depends on: its fields, their defaults, its functions."""
    known = cls.__aggregate__
    yield "fields", known.fields
    yield from known.defaults.items()
    yield from known.methods.items()
    if known.init is not None:
        yield "__init__", ConstexprFunction(known.init)


def method_of(instance: object, name: str) -> Any:
    """The function behind a method of an aggregate, None when it has no such method."""
    known = getattr(type(instance), "__aggregate__", None)
    return None if known is None else known.methods.get(name)


def aggregate_replace(instance: Any, **changes: Any) -> Any:
    """The aggregate with some fields changed; its `__init__` runs again."""
    fields = {name: getattr(instance, name) for name in instance._fields}
    unknown = next((name for name in changes if name not in fields), None)
    if unknown is not None:
        raise TypeError(f"{type(instance).__name__} has no field {unknown!r}")
    return type(instance)(**{**fields, **changes})
