"""What a builtin of the language is: a name, a signature and a doc string.

What it does stands elsewhere: `jit/lowering/` for the compiler, `jit/interpret/` for interpreted
runs. So importing the language needs neither.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dsalang._backend.errors import UserError

Handler = Callable[["Builtin", tuple[Any, ...], dict[str, Any]], Any]
"""Runs a builtin that plain Python calls: (builtin, positional arguments, keyword arguments) → result."""

_handler: ContextVar[Handler | None] = ContextVar("dsalang_builtin_handler", default=None)


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """Within the block, calling a builtin from Python calls `handler` (interpreted kernels)."""
    token = _handler.set(handler)
    try:
        yield
    finally:
        _handler.reset(token)


@dataclass(frozen=True, eq=False)
class Builtin:
    """A function of the language.

    `signature` says how arguments bind; `method` that tiles have it as a method (`x.sum(0)`); `host` is
    what it does outside kernels, None for functions that only mean something inside one. `body` is its
    definition where that is written in the language itself (the compiler inlines it); `refused` says why a
    name of Triton's has no meaning here.
    """

    name: str
    signature: inspect.Signature
    doc: str
    method: bool = False
    host: Callable[..., Any] | None = field(default=None, repr=False)
    body: Callable[..., Any] | None = field(default=None, repr=False)
    refused: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.doc)
        object.__setattr__(self, "__name__", self.name)
        object.__setattr__(self, "__signature__", self.signature)

    @cached_property
    def plain(self) -> dict[str, Any] | None:
        """The defaults of the parameters (`Parameter.empty`: it has none); None where there are `*args` or the like."""
        params = self.signature.parameters.values()
        if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in params):
            return None
        return {p.name: p.default for p in params}

    @property
    def usage(self) -> str:
        """The call as messages show it: name, parameters and defaults."""
        bare = [
            p.replace(annotation=inspect.Parameter.empty)
            for p in self.signature.parameters.values()
        ]
        return f"{self.name}{inspect.Signature(bare)}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run under the interpreter or on the host; a `UserError` elsewhere."""
        handler = _handler.get()
        if handler is not None:
            return handler(self, args, kwargs)
        if self.host is not None:
            return self.host(*args, **kwargs)
        if self.refused:
            raise UserError(f"{self.name} is not available on this machine", hint=self.refused)
        raise UserError(
            f"{self.name}() was called outside a kernel",
            hint="use it in a function decorated with @dsalang.jit and launch that with kernel[grid](...)",
        )


def builtin(
    *, method: bool = False, host: Callable[..., Any] | None = None, name: str = ""
) -> Callable[[Callable[..., Any]], Builtin]:
    """Turn a documented function signature into a `Builtin`."""

    def wrap(function: Callable[..., Any]) -> Builtin:
        doc = inspect.getdoc(function) or ""
        label = name or function.__name__
        return Builtin(label, inspect.signature(function), doc, method, host)

    return wrap


def defined(*, method: bool = False) -> Callable[[Callable[..., Any]], Builtin]:
    """Turn a function written in the language into a `Builtin`."""

    def wrap(function: Callable[..., Any]) -> Builtin:
        doc = inspect.getdoc(function) or ""
        return Builtin(function.__name__, inspect.signature(function), doc, method, body=function)

    return wrap
