"""Calls that make named tuples and aggregates of the user's."""

from __future__ import annotations

from typing import Any

from dsalang._backend.errors import UserError

from ..values import Bound, Method, Operand, Record, Static, Value, fail, like, wrap


def named_tuple(
    target: Any, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> tuple[Operand, ...]:
    """A NamedTuple or aggregate of the user's, whose fields hold operands."""
    if hasattr(target, "__aggregate__"):
        return _aggregate(target, args, kwargs)
    try:
        made: tuple[Any, ...] = target(*args, **kwargs)
    except TypeError as error:
        fail(f"{target.__name__}(): {error}", f"its fields are ({', '.join(target._fields)})")
    given = {id(value) for value in (*args, *kwargs.values())}
    return like(made, [v if id(v) in given else wrap(v) for v in made])  # defaults are wrapped


def _aggregate(
    target: Any, args: tuple[Operand, ...], kwargs: dict[str, Operand]
) -> tuple[Operand, ...]:
    """An aggregate; an `__init__` of its own gets compile-time arguments as plain values."""
    named = {name: _plain(value) for name, value in kwargs.items()}
    try:
        made = target(*map(_plain, args), **named)
    except UserError:
        raise
    except Exception as error:
        fail(f"{target.__name__}(): {error}", f"its fields are ({', '.join(target._fields)})")
    return like(made, map(_operand, made))


def _plain(operand: Operand) -> Any:
    return operand.value if isinstance(operand, Static) else operand


def _operand(value: Any) -> Operand:
    """What an `__init__` leaves in a field: an operand, or a plain value."""
    if isinstance(value, Value | Static | Method | Bound | Record):
        return value
    return like(value, map(_operand, value)) if isinstance(value, tuple) else wrap(value)


def replaced(args: tuple[Operand, ...], changes: dict[str, Operand]) -> Operand:
    """`aggregate_replace(instance, field=value)`."""
    if len(args) != 1 or not hasattr(type(args[0]), "__aggregate__"):
        fail("aggregate_replace() takes an aggregate, and its new fields by name")
    instance: Any = args[0]
    unknown = next((name for name in changes if name not in instance._fields), None)
    if unknown is not None:
        fail(f"{type(instance).__name__} has no field {unknown!r}")
    return _aggregate(type(instance), (), {**instance._asdict(), **changes})
