"""What was launched meanwhile: how measurements learn the emulated time of calls they do not look into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_listeners: list[list[Any]] = []


@contextmanager
def launches() -> Iterator[list[Any]]:
    """The reports of the launches within the block, in order; interpreted ones have none.

    The list is complete when the block has ended, which waits for launches on streams.
    """
    found: list[Any] = []
    _listeners.append(found)
    try:
        yield found
    finally:
        _listeners[:] = [each for each in _listeners if each is not found]  # equal ones stay
    found[:] = _reports(found)


def finished(report: Any) -> Any:
    """Tell those who listen about a launch's report, and give it back."""
    if _listeners:
        for listener in _listeners:
            listener.append(report)
    return report


def _reports(launched: list[Any]) -> list[Any]:
    from dsalang._runtime.device_streams import Pending  # loaded when somebody measures
    from dsalang._runtime.report import Run

    done = [item.result() if isinstance(item, Pending) else item for item in launched]
    return [report for report in done if isinstance(report, Run)]
