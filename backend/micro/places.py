"""Where in the microkernel's source an instruction is written."""

from __future__ import annotations

import linecache
import os
import sys
from types import FrameType, TracebackType

from ..errors import Loc

_COMPILER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def here(caller: Loc | None) -> Loc | None:
    """The innermost line outside of the compiler that is running, called from `caller`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return None if frame is None else _loc(frame.f_code.co_filename, frame.f_lineno, caller)


def of_traceback(trace: TracebackType | None, caller: Loc | None) -> Loc | None:
    """The innermost line outside of the compiler at which an error came up."""
    found: Loc | None = None
    while trace is not None:
        frame = trace.tb_frame
        if not _is_ours(frame):
            found = _loc(frame.f_code.co_filename, trace.tb_lineno, caller)
        elif found is not None:
            break
        trace = trace.tb_next
    return found


def _is_ours(frame: FrameType) -> bool:
    """Frames of the compiler, and of the standard library in between."""
    file = frame.f_code.co_filename
    return file.startswith(_COMPILER) or file.endswith(("contextlib.py", "dataclasses.py"))


def _loc(file: str, line: int, caller: Loc | None) -> Loc:
    text = linecache.getline(file, line)
    return Loc(file, line, len(text) - len(text.lstrip()) + 1 if text.strip() else 1, caller)
