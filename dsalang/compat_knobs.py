"""Settings of Triton's compiler that libraries read or set; they change nothing here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

GROUPS = (
    "autotuning", "build", "cache", "compilation", "redis", "runtime", "language", "nvidia", "amd", "proton",
)  # fmt: skip


def knobs() -> dict[str, Any]:
    """What the module `triton.knobs` holds."""
    found: dict[str, Any] = {name: Knobs() for name in GROUPS}
    return {**found, "base_knobs": Knobs, "propagate_env": True}


class Knobs(SimpleNamespace):
    """A group of Triton's settings: any may be set, those that were not are None."""

    knob_descriptors: Mapping[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

    def copy(self) -> Knobs:
        """Another group of the same settings."""
        return Knobs(**vars(self))

    def reset(self) -> Knobs:
        """Forget all settings."""
        vars(self).clear()
        return self

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Settings made inside are undone at the end."""
        before = dict(vars(self))
        yield
        vars(self).clear()
        vars(self).update(before)
