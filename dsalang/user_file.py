"""What goes wrong while a user's file is run for its kernels, as an error with its place."""

from __future__ import annotations

from pathlib import Path

from dsalang._backend.errors import Loc, UserError
from dsalang._jit.places import place_of, steps


def failure(file: str | Path, error: BaseException) -> UserError:
    """The error of a file whose code raised `error`: its place is the innermost one in the file's folder."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        loc = Loc(error.filename, error.lineno, max(error.offset or 1, 1))
        return UserError(f"running {file} failed: {type(error).__name__}: {error.msg}", loc)
    return UserError(f"running {file} failed: {type(error).__name__}: {error}", _place(file, error))


def _place(file: str | Path, error: BaseException) -> Loc | None:
    folder = Path(file).resolve().parent
    found = None
    for step in steps(error):
        path = Path(step.tb_frame.f_code.co_filename)
        theirs = "site-packages" not in path.parts and folder in path.resolve().parents
        if theirs and path.is_file():
            found = place_of(step)
    return found
