"""What builtins of the language do in an interpreted kernel, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

IMPLEMENTATIONS: dict[str, Callable[..., Any]] = {}
METHODS: set[str] = set()
"""Builtins that tiles have as methods."""


def implements(*names: str, method: bool = False) -> Callable[[F], F]:
    """Register a function as the implementation of builtins; its parameters are those of the language."""

    def register(function: F) -> F:
        for name in names:
            IMPLEMENTATIONS[name] = function
            if method:
                METHODS.add(name)
        return function

    return register
