"""Which machine a kernel is compiled for when the launch does not say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from dsalang._backend.errors import TargetError
from dsalang._backend.target import Target

from . import knobs

_default: Target | None = None
_scoped: ContextVar[Target | None] = ContextVar("dsalang_target", default=None)


def resolve(target: str | Path | Target | None) -> Target:
    """The target that a name, a file or an object stands for; None is the current one.

    The current one is the innermost `with dsa.target(...)`, else what `dsa.set_target` set, else DSA_TARGET,
    else `edge`.
    """
    if isinstance(target, Target):
        return target
    if target is None:
        return current() or resolve(knobs.TARGET.get())
    if not isinstance(target, (str, Path)):
        raise TargetError(
            f"{target!r} is not a target", hint="pass a name, a file, or a dsa.Target"
        )
    if str(target).endswith(".toml"):
        return Target.from_file(target)
    return _shipped(str(target))


def current() -> Target | None:
    """The target of the innermost `with dsa.target(...)`, else of `dsa.set_target`; None when neither says."""
    return _scoped.get() or _default


@cache
def _shipped(name: str) -> Target:
    return Target.by_name(name)


def set_target(target: str | Path | Target | None) -> None:
    """Make a target the default of this process; None goes back to DSA_TARGET or `edge`."""
    global _default
    _default = None if target is None else resolve(target)


@contextmanager
def target(target: str | Path | Target) -> Iterator[Target]:
    """Within the block, kernels are compiled for a target."""
    chosen = resolve(target)
    token = _scoped.set(chosen)
    try:
        yield chosen
    finally:
        _scoped.reset(token)
