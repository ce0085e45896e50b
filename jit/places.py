"""Where running Python code is, as places in the user's files."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, TracebackType

from dsalang._backend.errors import Loc


def place(code: CodeType, line: int, instruction: int, caller: Loc | None = None) -> Loc:
    """Where an instruction of running code is in its file."""
    column = 0
    positions = getattr(CodeType, "co_positions", None)
    if positions is not None:  # Python 3.11 and newer
        for index, (first, _, start, _) in enumerate(positions(code)):
            if index == instruction // 2 and first is not None:
                line, column = first, start or 0
                break
    return Loc(code.co_filename, line, column + 1, caller)


def steps(error: BaseException) -> Iterator[TracebackType]:
    """The frames that an error went through, from the outermost one inwards."""
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def place_of(step: TracebackType, caller: Loc | None = None) -> Loc:
    """Where a frame was when an error went through it."""
    return place(step.tb_frame.f_code, step.tb_lineno, step.tb_lasti, caller)
