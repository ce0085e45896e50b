"""Kernels around kernels: what `autotune` and `heuristics` make, and `heuristics`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dsalang._backend.errors import LaunchError, UserError

from .decorator import JITFunction
from .source import KernelSource

if TYPE_CHECKING:
    from dsalang._runtime.profile import Profile

    from .compiled import CompiledKernel


class Tuned:
    """A kernel around a kernel: `tuned[grid](*args)` launches the inner one with more keyword arguments."""

    def __init__(self, fn: JITFunction | Tuned) -> None:
        if not isinstance(fn, JITFunction | Tuned):
            raise LaunchError(
                f"{type(self).__name__.lower()} takes a kernel, not {fn!r}",
                hint="put @dsa.jit below it",
            )
        self.fn = fn
        self.kernel: JITFunction = fn if isinstance(fn, JITFunction) else fn.kernel
        self.arg_names = self.kernel.arg_names
        functools.update_wrapper(self, self.kernel.fn)

    def __reduce__(self) -> str:
        """Kernels are pickled as functions are, by name: for processes that get one as an argument."""
        return self.kernel.fn.__qualname__

    @property
    def source(self) -> KernelSource:
        """The kernel's source."""
        return self.kernel.source

    @property
    def base_fn(self) -> Callable[..., Any]:
        """The Python function."""
        return self.kernel.fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Called by another kernel; elsewhere an error, as for kernels."""
        return self.kernel(*args, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return TunedLauncher(self, grid)

    def run(self, *args: Any, grid: Any = None, **kwargs: Any) -> Any:
        """Launch on a grid; see `JITFunction.run`."""
        if kwargs.pop("warmup", False):
            return self.warmup(*args, grid=grid, **kwargs)
        try:
            return self.fn.run(*args, grid=grid, **self.chosen(args, kwargs, grid))
        except UserError as error:
            raise error.with_traceback(None) from error.__cause__

    def warmup(self, *args: Any, grid: Any = None, **kwargs: Any) -> CompiledKernel:
        """Compile what a launch would run; see `JITFunction.warmup`."""
        return self.fn.warmup(*args, grid=grid, **self.chosen(args, kwargs, grid))

    def profile(self, *args: Any, grid: Any = None, show: bool = True, **kwargs: Any) -> Profile:
        """Launch, and tell where the time went; see `JITFunction.profile`."""
        try:
            chosen = self.chosen(args, kwargs, grid)
        except UserError as error:
            raise error.with_traceback(None) from error.__cause__
        return self.fn.profile(*args, grid=grid, show=show, **chosen)

    def chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> dict[str, Any]:
        """The keyword arguments that the inner kernel gets."""
        raise NotImplementedError

    def named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name, without defaults."""
        return {**dict(zip(self.arg_names, args)), **kwargs}


class TunedLauncher:
    """A tuned kernel with a grid: call it."""

    __slots__ = ("_grid", "_tuned")

    def __init__(self, tuned: Tuned, grid: Any) -> None:
        self._tuned, self._grid = tuned, grid

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launch; see `JITFunction.run`."""
        return self._tuned.run(*args, grid=self._grid, **kwargs)

    def warmup(self, *args: Any, **kwargs: Any) -> CompiledKernel:
        """Compile what the launch would run; see `JITFunction.warmup`."""
        return self._tuned.warmup(*args, grid=self._grid, **kwargs)

    def profile(self, *args: Any, show: bool = True, **kwargs: Any) -> Profile:
        """Launch, and tell where the time went; see `JITFunction.profile`."""
        return self._tuned.profile(*args, grid=self._grid, show=show, **kwargs)


class Heuristics(Tuned):
    """A kernel some of whose compile-time arguments are computed from the others."""

    def __init__(
        self,
        fn: JITFunction | Tuned,
        arg_names: Sequence[str],
        values: Mapping[str, Callable[[dict[str, Any]], Any]],
    ) -> None:
        super().__init__(fn)
        self.values = dict(values)

    def chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> dict[str, Any]:
        """All keyword arguments; a heuristic sees those before it."""
        found = dict(kwargs)
        for name, heuristic in self.values.items():
            found[name] = heuristic(self.named(args, found))
        return found


def names_of(fn: Any) -> Sequence[str]:
    """The names of a kernel's parameters."""
    names: Sequence[str] = getattr(fn, "arg_names", ())
    return names


def heuristics(
    values: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> Callable[[JITFunction | Tuned], Heuristics]:
    """Compute compile-time arguments from the others: `{"EVEN": lambda args: args["n"] % args["BLOCK"] == 0}`."""
    return lambda fn: Heuristics(fn, names_of(fn), values)
