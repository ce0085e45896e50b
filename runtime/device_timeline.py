"""The streams of a device as Chrome trace JSON: a row per stream and resource."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .device_streams import Span
from .files import write_for_user


def trace(spans: Sequence[Span]) -> dict[str, Any]:
    """The trace as plain data; times are in microseconds of the machine."""
    rows: dict[tuple[str, str, str], int] = {}
    events: list[dict[str, Any]] = []
    for span in spans:
        key = (span.stream, span.part, span.resource)
        if key not in rows:
            rows[key] = len(rows)
            name = {"name": f"{span.stream}: {span.resource}"}
            events.append(
                {"ph": "M", "name": "thread_name", "pid": 0, "tid": rows[key], "args": name}
            )
        events.append(
            {
                "ph": "X",
                "name": span.label,
                "pid": 0,
                "tid": rows[key],
                "cat": span.resource,
                "ts": span.start,
                "dur": span.end - span.start,
            }
        )
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def write(spans: Sequence[Span], path: Path) -> Path:
    """Write the trace to `path`, which appears whole or not at all."""
    return write_for_user(path, json.dumps(trace(spans)).encode(), "the timeline")
