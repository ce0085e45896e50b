"""Versions of installed packages, without importing them or `importlib.metadata`, which takes long to import."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path


@cache
def version_of(name: str) -> str:
    """A text that changes with the installed version of a package; its folder's when there is no metadata."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return f"{name} missing"
    folder = Path(spec.origin).parent
    found = sorted(entry.name for entry in folder.parent.glob(f"{name}-*.dist-info"))
    return " ".join(found) if found else str(folder)
