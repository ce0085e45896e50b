"""A kernel with a grid, and a launch with all its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dsalang._backend.errors import UserError

from .clock import finished

if TYPE_CHECKING:
    from dsalang._runtime.profile import Profile

    from .compiled import CompiledKernel
    from .decorator import JITFunction


class Launcher:
    """A kernel with a grid: call it, or bind arguments to it."""

    __slots__ = ("_grid", "_kernel")

    def __init__(self, kernel: JITFunction, grid: Any) -> None:
        self._kernel, self._grid = kernel, grid

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launch; see `JITFunction.run`."""
        try:
            report = self._kernel.ready(args, kwargs, self._grid)()
            return told(report, (self._kernel, args, kwargs, self._grid))
        except UserError as error:
            raise error.with_traceback(None) from error.__cause__

    def bind(self, *args: Any, **kwargs: Any) -> Bound:
        """The launch with these arguments: a function without arguments, for the tightest loops.

        Arrays are passed as they are now: their memory, type and shape. Values of knobs, the target and outside
        values of the kernel are those of now, too.
        """
        try:
            return Bound(self._kernel.ready(args, kwargs, self._grid), (args, kwargs))
        except UserError as error:
            raise error.with_traceback(None) from error.__cause__

    def warmup(self, *args: Any, **kwargs: Any) -> CompiledKernel:
        """Compile what the launch would run; see `JITFunction.warmup`."""
        return self._kernel.warmup(*args, grid=self._grid, **kwargs)

    def profile(self, *args: Any, show: bool = True, **kwargs: Any) -> Profile:
        """Launch, and tell where the time went; see `JITFunction.profile`."""
        return self._kernel.profile(*args, grid=self._grid, show=show, **kwargs)


class Bound:
    """A launch that is made by calling it. It keeps its arguments alive."""

    __slots__ = ("_alive", "_run")

    def __init__(self, run: Callable[[], Any], alive: object) -> None:
        self._run, self._alive = run, alive

    def __call__(self) -> Any:
        """Launch; returns the report, as `kernel[grid](...)` does."""
        try:
            return finished(self._run())
        except UserError as error:
            raise error.with_traceback(None) from error.__cause__


def told(report: Any, launched: tuple[Any, ...]) -> Any:
    """Tell those who listen about a launch's report; the report learns what was launched."""
    report.launched = launched
    return finished(report)
