"""What a microkernel is to the compiler, and the table by which IR names them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InternalError


@dataclass(frozen=True)
class TileSpec:
    """A run-time operand of a call: a tile, a scalar (shape ()), or with `pointer` an address of such elements.

    `fmt` is the name of a number format (`backend/formats.py`).
    """

    shape: tuple[int, ...]
    fmt: str
    pointer: bool = False

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    def __str__(self) -> str:
        fmt = f"*{self.fmt}" if self.pointer else self.fmt
        return f"{fmt}[{', '.join(map(str, self.shape))}]" if self.shape else fmt


@dataclass(frozen=True, eq=False)
class Microkernel:
    """A microkernel as the place pass needs it.

    Attributes:
        name: what IR and reports call it.
        function: writes the instructions: (writer, *arguments).
        own_flags: its engines are ordered by the flags that it writes, not by the sync pass.
    """

    name: str
    function: Callable[..., None]
    own_flags: bool = False


_TABLE: dict[str, Microkernel] = {}


def enter(name: str, function: Callable[..., None], own_flags: bool) -> Microkernel:
    """Put a microkernel into the table; a name that another function has gets a number."""
    unique, number = name, 1
    while unique in _TABLE:
        number += 1
        unique = f"{name}#{number}"
    found = _TABLE[unique] = Microkernel(unique, function, own_flags)
    return found


def lookup(name: str) -> Microkernel:
    """The microkernel that IR calls `name`."""
    if name not in _TABLE:
        raise InternalError(f"there is no microkernel {name!r} in this process")
    return _TABLE[name]


@dataclass(frozen=True)
class Contract:
    """The `contract` of a call in IR: arguments in order, formats of operands and results.

    An argument is the number of an operand, or a `Constant`.
    """

    arguments: Mapping[str, int | Constant]
    operands: Sequence[str]
    results: Sequence[str]

    def text(self) -> str:
        """As IR holds it."""
        arguments = {
            name: {"value": _plain(given.value)}
            if isinstance(given, Constant)
            else {"operand": given}
            for name, given in self.arguments.items()
        }
        return json.dumps(
            {
                "arguments": arguments,
                "operands": list(self.operands),
                "results": list(self.results),
            },
            separators=(",", ":"),
        )

    @classmethod
    def of(cls, text: str) -> Contract:
        """From what `text` gives."""
        data = json.loads(text)
        arguments: dict[str, int | Constant] = {}
        for name, given in data["arguments"].items():
            arguments[name] = (
                given["operand"] if "operand" in given else Constant(_value(given["value"]))
            )
        return cls(arguments, data["operands"], data["results"])


@dataclass(frozen=True)
class Constant:
    """A compile-time argument: None, a bool, a number, a text, or a tuple of such."""

    value: Any


def is_plain(value: object) -> bool:
    """Whether a value can be the compile-time argument of a microkernel."""
    if isinstance(value, tuple | list):
        return all(map(is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _plain(value: Any) -> Any:
    return [_plain(entry) for entry in value] if isinstance(value, tuple | list) else value


def _value(data: Any) -> Any:
    return tuple(map(_value, data)) if isinstance(data, list) else data
