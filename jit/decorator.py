"""`@dsa.jit`: a Python function becomes a kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from dsalang._backend.errors import LaunchError, UserError

from . import knobs
from .arguments import Arguments, bind, classify
from .interpret import session
from .interpret.errors import fail
from .launch import Grid, grid_of, run_image, run_interpreted
from .machine import resolve
from .source import KernelSource
from .specialize import Specialization, from_signature, specialize

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image
    from dsalang._backend.target import Target

    from .compiled import CompiledKernel

LAUNCH_OPTIONS = ("target", "num_stages", "num_warps", "num_ctas")
"""Keyword arguments of a launch that are not the kernel's; the last two are Triton's and change nothing."""

_IGNORED = ("noinline", "debug", "version", "repr", "launch_metadata")


@overload
def jit(function: Callable[..., Any], /) -> JITFunction: ...


@overload
def jit(**options: Any) -> Callable[[Callable[..., Any]], JITFunction]: ...


def jit(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a kernel, or a function that kernels call, of a Python function.

    Args:
        function: the function, when the decorator is used without parentheses.
        interpret: run as plain Python, as DSA_INTERPRET=1 does for all kernels.
        num_stages: slots of the rings that loads fill; None lets the cost model choose.
        do_not_specialize: names or positions of parameters whose values and addresses must not make an
            image of their own.
        schedule: "dynamic", the only one so far.
        noinline, debug, version, repr, launch_metadata: accepted for Triton's sake.

    Raises:
        LaunchError: an option is unknown, or a value not allowed.
        CompileError: the function's source is not available.
    """
    if function is None:
        return functools.partial(_make, options=options)
    return _make(function, options)


def _make(function: Callable[..., Any], options: Mapping[str, Any]) -> JITFunction:
    if isinstance(function, JITFunction):
        function = function.fn
    known = ("interpret", "num_stages", "do_not_specialize", "do_not_specialize_on_alignment",
             "schedule", *_IGNORED)  # fmt: skip
    for name in options:
        if name not in known:
            raise LaunchError(
                f"dsa.jit has no option {name!r}", hint=f"options are {', '.join(known)}"
            )
    if options.get("schedule", "dynamic") != "dynamic":
        raise LaunchError(
            f"schedule={options['schedule']!r} is not allowed", hint='schedule must be "dynamic"'
        )
    return JITFunction(function, options)


class JITFunction:
    """A kernel. `kernel[grid](*args, **kwargs)` runs it; `kernel.compile(...)` shows what it becomes.

    Attributes:
        fn: the Python function.
        source: its source and what it refers to.
    """

    def __init__(self, fn: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.fn = fn
        self.interpreted = bool(options.get("interpret", False))
        self.num_stages = _stages(options.get("num_stages"))
        self._options = options
        self._images: dict[str, Image] = {}
        functools.update_wrapper(self, fn)
        _ = self.source  # errors of the definition come at the definition

    def __repr__(self) -> str:
        return f"<dsa.jit kernel {self.source.name} of {self.source.file}:{self.source.first_line}>"

    @cached_property
    def source(self) -> KernelSource:
        """The function as the compiler sees it."""
        return KernelSource.of(self.fn)

    @cached_property
    def _unspecialized(self) -> frozenset[str]:
        names = [param.name for param in self.source.params]
        found = set()
        for key in ("do_not_specialize", "do_not_specialize_on_alignment"):
            for entry in self._options.get(key) or ():
                if isinstance(entry, int) and 0 <= entry < len(names):
                    entry = names[entry]
                if entry not in names:
                    raise LaunchError(
                        f"{key} names {entry!r}, which {self.source.name} does not have"
                    )
                found.add(entry)
        return frozenset(found)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Called by another kernel (interpreted runs). Elsewhere an error: a launch needs a grid."""
        if session.active():
            from .interpret.run import call

            return call(self.source, args, kwargs)
        raise LaunchError(
            f"kernel {self.source.name} was called without a grid",
            hint=f"launch it with {self.source.name}[grid](...), e.g. "
            f"{self.source.name}[(dsa.cdiv(n, BLOCK),)](...)",
        )

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The kernel ready to be called with its arguments.

        Args:
            grid: how many programs: an int, a tuple of one to three ints, or a function from the arguments
                by name to such a tuple.
        """
        return functools.partial(self.run, grid=grid)

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Launch on a grid; the same as `kernel[grid](*args, **kwargs)`.

        Arrays are written in place. Beside the kernel's arguments it takes `target`, `num_stages`, and
        Triton's num_warps and num_ctas, which change nothing.

        Returns:
            The engine's report: cycles, microseconds, utilisation, HBM bytes, `timeline(path)`; all zero for
            a grid with no programs. None for interpreted runs, which have no times.
        """
        try:
            return self._launch(args, kwargs, grid)
        except UserError as error:
            # The place is in the message; frames of ours say nothing to the user.
            raise error.with_traceback(None) from None

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> CompiledKernel:
        """Compile what a launch with these arguments would run, without running it."""
        try:
            spec, _, _, options = self._prepare(args, kwargs, grid)
            target = resolve(options.get("target"))
            return CompiledKernel(self.source, spec, target, self._image(spec, target))
        except UserError as error:
            raise error.with_traceback(None) from None

    def _launch(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> Any:
        if session.active():
            raise fail("a kernel cannot launch kernels", f"call it: {self.source.name}(...)")
        spec, arguments, sizes, options = self._prepare(args, kwargs, grid)
        if self.interpreted or knobs.INTERPRET.get():
            return run_interpreted(self.source, spec, arguments, sizes)
        target = resolve(options.get("target"))
        return run_image(self._image(spec, target), target, arguments, sizes)

    def _prepare(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any
    ) -> tuple[Specialization, Arguments, Grid, dict[str, Any]]:
        """What a launch asks for: specialisation, arguments, grid sizes and launch options."""
        own = {param.name for param in self.source.params}
        options = {n: kwargs.pop(n) for n in LAUNCH_OPTIONS if n in kwargs and n not in own}
        bound = bind(self.source, args, kwargs)
        sizes: Grid = grid_of(grid, {**bound, **options})
        arguments = classify(self.source, bound)
        stages = _stages(options.get("num_stages")) or self.num_stages
        return specialize(arguments, bound, self._unspecialized, stages), arguments, sizes, options

    def _image(self, spec: Specialization, target: Target) -> Image:
        from . import store  # images and their cache are loaded when something runs on the machine

        key = store.digest(self.source, spec, target)
        image = self._images.get(key)
        if image is None:
            image = self._images[key] = store.image_for(self.source, spec, target, key)
        return image

    def compile(
        self,
        signature: str | Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
        target: str | Path | Target | None = None,
        num_stages: int | None = None,
    ) -> CompiledKernel:
        """Compile without running.

        Args:
            signature: types of the run-time parameters in order or by name: "*fp16, *fp16:16, i32"; ":16"
                says that an address or integer is a multiple of 16. Pointers are taken not to overlap.
            constants: values of the constexpr parameters.
            target: as in a launch.
            num_stages: as in a launch.

        Raises:
            CompileError: the kernel cannot be compiled; the message shows the line.
            LaunchError: signature or constants do not fit the kernel.
        """
        from .compiled import CompiledKernel

        try:
            stages = _stages(num_stages) or self.num_stages
            spec = from_signature(self.source, signature, constants, stages)
            chosen = resolve(target)
            return CompiledKernel(self.source, spec, chosen, self._image(spec, chosen))
        except UserError as error:
            raise error.with_traceback(None) from None


def _stages(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise LaunchError(f"num_stages={value!r} is not allowed", hint="it is an integer from 1")
    return value
