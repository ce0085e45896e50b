"""Errors of an interpreted kernel, placed by looking for the kernel's frame on the Python stack."""

from __future__ import annotations

import sys
from types import FrameType

from dsalang._backend.errors import CompileError, DeviceError, DsaError, Loc

from ..places import place, place_of, steps

MARK = "__dsa_interpreted__"
"""A global that functions run by the interpreter have."""

_HERE = __name__.rpartition(".")[0]


def here() -> Loc | None:
    """Where the running kernel is: the innermost of its frames, the callers in the chain."""
    frames = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if MARK in frame.f_globals:
            frames.append(frame)
        frame = frame.f_back
    loc = None
    for frame in reversed(frames):
        loc = place(frame.f_code, frame.f_lineno, frame.f_lasti, loc)
    return loc


def none_arguments() -> list[str]:
    """The parameters of the running kernel, or of the function it is in, that are None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and MARK not in frame.f_globals:
        frame = frame.f_back
    if frame is None:
        return []
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [name for name in names if frame.f_locals.get(name, MARK) is None]


def explained(error: Exception) -> Exception:
    """What Python says of a mistake in a kernel's text, as an error of the kernel with its place.

    Errors of the interpreter itself, and exceptions of others (a debugger that quits), stay what they are.
    """
    if isinstance(error, DsaError) or type(error).__module__ != "builtins":
        return error
    loc, first = None, None
    theirs = False  # whether the exception comes from the kernel, not from the interpreter
    for step in steps(error):
        names = step.tb_frame.f_globals
        inside = MARK in names
        if inside:
            first = first or step
            loc = place_of(step, loc)
        theirs = inside or not names.get("__name__", "").startswith(_HERE)
    if loc is None or not theirs:
        return error
    message, hint = f"{type(error).__name__}: {error}", ""
    if isinstance(error, TypeError) and "__array_ufunc__" in message:  # numpy names our class
        message, hint = "numpy's functions do not take tiles", "use the language's, e.g. tl.exp"
    found = CompileError(message, loc, hint)
    found.__cause__ = error.with_traceback(first)
    return found


def fail(message: str, hint: str = "") -> CompileError:
    """The kernel is not valid: what the compiler would refuse."""
    return CompileError(message, here(), hint)


def stopped(message: str, hint: str = "") -> DeviceError:
    """The kernel is valid and went wrong: what the machine would stop at."""
    return DeviceError(message, here(), hint)
