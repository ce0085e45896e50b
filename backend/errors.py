"""Errors: a user's mistake and a bug of ours are different types.

A `UserError` shows `file:line:col`, the user's line with a caret, what is wrong and what to do.
An `InternalError` is a bug: it carries the IR and asks for a report.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Loc:
    """A place in the user's source. `line` and `col` count from 1; `caller` is the call site of an inlined function."""

    file: str
    line: int
    col: int
    caller: Loc | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"

    def excerpt(self) -> str:
        """The user's line with a caret under the column, or '' when the source is not at hand."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text:
            return ""
        return f"    {text}\n    {' ' * (self.col - 1)}^"


_SHOWN_CALLS = 4  # at each end of a long chain


class DsaError(Exception):
    """Base of every error that dsalang raises on purpose."""


class UserError(DsaError):
    """A mistake in a kernel, a launch or a file, with where it is and what to do.

    Args:
        message: what is wrong, one sentence.
        loc: where; None when there is no source place (a launch, a file).
        hint: what to do, one sentence.
    """

    def __init__(self, message: str, loc: Loc | None = None, hint: str = "") -> None:
        self.message = message
        self.loc = loc
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        parts = [f"{self.loc}: {self.message}" if self.loc else self.message]
        if self.loc and (text := self.loc.excerpt()):
            parts.append(text)
        parts.extend(_callers(self.loc))
        if self.hint:
            parts.append(f"  help: {self.hint}")
        return "\n".join(parts)


def _callers(loc: Loc | None) -> list[str]:
    """The calls that led to a place, the innermost first; of many the first and the last ones."""
    calls = []
    while loc and (loc := loc.caller):
        text = loc.excerpt()
        calls.append(f"  called from {loc}" + (f"\n{text}" if text else ""))
    if len(calls) <= 2 * _SHOWN_CALLS:
        return calls
    hidden = f"  ... {len(calls) - 2 * _SHOWN_CALLS} more calls"
    return [*calls[:_SHOWN_CALLS], hidden, *calls[-_SHOWN_CALLS:]]


class CompileError(UserError):
    """The kernel cannot be compiled as written."""


class MicrokernelError(CompileError):
    """A microkernel is wrong: it races, leaves its tiles, breaks its contract or does not compute its op."""


class MicrokernelRefusedError(MicrokernelError):
    """A microkernel says that it does not serve a call."""


class UnknownTripsError(CompileError):
    """How often a loop runs must be known at compile time; `names` are the integer arguments that say so."""

    names: tuple[str, ...] = ()


class SramOverflowError(CompileError):
    """The kernel's live tiles do not fit the SRAM of the target."""


class LaunchError(UserError):
    """The launch's arguments or grid do not fit the kernel."""


class TargetError(UserError):
    """A target file is missing, malformed or out of range."""


class ImageError(UserError):
    """A device image is damaged, foreign or of another version."""


class DeviceError(UserError):
    """The emulated machine stopped: out of bounds, race, deadlock, uninitialised read, failed assertion."""


class InternalError(DsaError):
    """A bug in dsalang. The message says where and carries what is needed to reproduce it."""


def closest(name: str, names: Iterable[str], least: float = 0.6) -> str:
    """The most similar of the names, '' when none is similar; `least` is how similar it has to be, 1 for equal."""
    import difflib  # only when something is wrong

    return next(iter(difflib.get_close_matches(name, sorted(names), 1, least)), "")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The hint of an error about a name that there is not; '' when no other is similar."""
    near = closest(name, names)
    return f"did you mean {near!r}?" if near else ""
