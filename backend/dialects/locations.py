"""Between IR locations and `errors.Loc`."""

from __future__ import annotations

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, IntAttr, LocationAttr, StringAttr
from xdsl.ir import Attribute

from ..errors import Loc


def to_ir(loc: Loc) -> LocationAttr:
    """The IR location of a source place, call chain included."""
    here = FileLineColLoc(StringAttr(loc.file), IntAttr(loc.line), IntAttr(loc.col))
    return here if loc.caller is None else CallSiteLoc(here, to_ir(loc.caller))


def from_ir(location: Attribute) -> Loc | None:
    """The source place of an IR location, None when unknown."""
    if isinstance(location, CallSiteLoc):
        callee = from_ir(location.callee)
        if callee is None:
            return None
        return Loc(callee.file, callee.line, callee.col, from_ir(location.caller))
    if isinstance(location, FileLineColLoc):
        return Loc(location.filename.data, location.line.data, location.column.data)
    return None
