"""What was launched meanwhile: how measurements learn the emulated time of calls they do not look into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_listeners: list[list[Any]] = []


@contextmanager
def launches() -> Iterator[list[Any]]:
    """The reports of the launches that finish within the block, in order; interpreted ones have none."""
    found: list[Any] = []
    _listeners.append(found)
    try:
        yield found
    finally:
        _listeners.remove(found)


def finished(report: Any) -> Any:
    """Tell those who listen about a launch's report, and give it back."""
    if _listeners and not _is_interpreted(report):
        for listener in _listeners:
            listener.append(report)
    return report


def _is_interpreted(report: Any) -> bool:
    from .interpret.report import Interpreted  # loaded when somebody measures

    return isinstance(report, Interpreted)
