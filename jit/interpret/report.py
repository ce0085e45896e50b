"""What a launch of an interpreted kernel gives in place of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from dsalang._backend.errors import LaunchError
from dsalang._runtime.report import Run

HINT = "unset DSA_INTERPRET, or use dsa.jit without interpret=True"


@dataclass(frozen=True)
class Interpreted:
    """A run as plain Python: it is finished, but took no time on a machine. Asking for figures is a LaunchError."""

    kernel: str

    def __repr__(self) -> str:
        return f"<interpreted run of {self.kernel}: no machine, no figures>"

    def summary(self, color: bool = False) -> str:
        """One line that says that there is nothing to report, so that scripts which print it go on."""
        return f"{self.kernel} was interpreted: there are no figures\n"

    def __getattr__(self, name: str) -> NoReturn:
        if hasattr(Run, name) or name in Run.__annotations__:
            raise LaunchError(f"{self.kernel} is interpreted, which has no {name}", hint=HINT)
        raise AttributeError(name)
