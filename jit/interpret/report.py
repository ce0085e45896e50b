"""What a launch of an interpreted kernel gives in place of a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from dsalang._backend.errors import LaunchError
from dsalang._runtime.report import Run

HINT = "unset DSA_INTERPRET, or use dsa.jit without interpret=True"


@dataclass
class Interpreted:
    """A run as plain Python: it is finished, but took no time on a machine. Asking for figures is a LaunchError."""

    name: str
    launched: Any = field(default=None, repr=False, compare=False)
    """As `Run.launched`."""

    def __repr__(self) -> str:
        return f"<interpreted run of {self.name}: no machine, no figures>"

    def summary(self, color: bool = False) -> str:
        """One line that says that there is nothing to report, so that scripts which print it go on."""
        return f"{self.name} was interpreted: there are no figures\n"

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The kernel, to be launched again: what a launch gives in Triton is the compiled kernel."""
        if self.launched is None:
            raise LaunchError(f"the function of {self.name} is not known to its report")
        function, args, kwargs, before = self.launched
        launcher: Callable[..., Any] = function.warmup(*args, grid=before, **kwargs)[grid]
        return launcher

    def __getattr__(self, name: str) -> NoReturn:
        if hasattr(Run, name) or name in Run.__annotations__:
            raise LaunchError(f"{self.name} is interpreted, which has no {name}", hint=HINT)
        raise AttributeError(name)
