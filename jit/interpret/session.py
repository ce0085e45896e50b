"""The state of an interpreted launch: memory, grid, and the program that runs."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from .memory import InterpMemory


@dataclass
class Session:
    """One launch. `functions` holds the rewritten functions by their source, `calls` those that run now."""

    memory: InterpMemory
    grid: tuple[int, int, int]
    program: tuple[int, int, int] = (0, 0, 0)
    calls: list[Any] = field(default_factory=list)
    functions: dict[Any, Callable[..., Any]] = field(default_factory=dict)


_current: ContextVar[Session | None] = ContextVar("dsalang_interpreter", default=None)


def active() -> bool:
    """True while a kernel is interpreted in this context."""
    return _current.get() is not None


def current() -> Session:
    """The running session."""
    session = _current.get()
    assert session is not None
    return session


def enter(session: Session | None) -> Any:
    """Make a session the current one; returns what `leave` needs."""
    return _current.set(session)


def leave(token: Any) -> None:
    """Undo `enter`."""
    _current.reset(token)
