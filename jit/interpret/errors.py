"""Errors of an interpreted kernel, placed by looking for the kernel's frame on the Python stack."""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from dsalang._backend.errors import CompileError, DeviceError, Loc

MARK = "__dsa_interpreted__"
"""A global that functions run by the interpreter have."""


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
        loc = _loc(frame, loc)
    return loc


def _loc(frame: FrameType, caller: Loc | None) -> Loc:
    line, column = frame.f_lineno, 0
    positions = getattr(CodeType, "co_positions", None)
    if positions is not None:  # Python 3.11 and newer
        for index, (first, _, start, _) in enumerate(positions(frame.f_code)):
            if index == frame.f_lasti // 2 and first is not None:
                line, column = first, start or 0
                break
    return Loc(frame.f_code.co_filename, line, column + 1, caller)


def fail(message: str, hint: str = "") -> CompileError:
    """The kernel is not valid: what the compiler would refuse."""
    return CompileError(message, here(), hint)


def stopped(message: str, hint: str = "") -> DeviceError:
    """The kernel is valid and went wrong: what the machine would stop at."""
    return DeviceError(message, here(), hint)
