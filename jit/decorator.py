"""`@dsa.jit`: a Python function becomes a kernel."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from dsalang._backend.errors import LaunchError, UserError

from . import devices, knobs
from . import resident as residency
from .arguments import Arguments
from .asked import Defaults
from .clock import finished
from .described import Described
from .images import Images
from .interpret import session
from .interpret.errors import fail
from .launch import Grid, run_interpreted
from .launcher import Launcher, told
from .machine import resolve
from .mock_tensor import MockTensor
from .repeat import Remembered, call_key
from .schedule import Request, check_deadline
from .source import EMPTY, KernelSource
from .specialize import Specialization

if TYPE_CHECKING:
    from dsalang._backend.target import Target
    from dsalang._runtime.device import Device
    from dsalang._runtime.profile import Profile

    from .compiled import CompiledKernel


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
        schedule: "dynamic": instructions start as soon as flags allow; "static": at cycles that are fixed when
            the kernel is compiled, for one grid and for the values of all integer arguments.
        deadline_us: with a static schedule, the most microseconds that the kernel may take; compiling one that
            takes longer is an error.
        resident: names of array parameters whose tiles stay in SRAM from launch to launch, as in a `dsa.resident`
            block, as long as no other kernel needs the memory; False: not even loads that loops repeat are kept.
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
    try:
        return JITFunction(function, options)
    except UserError as error:
        raise error.with_traceback(None) from error.__cause__


class JITFunction(Described):
    """A kernel. `kernel[grid](*args, **kwargs)` runs it; `kernel.compile(...)` shows what it becomes.

    Attributes:
        fn: the Python function.
        source: its source and what it refers to.
    """

    def __init__(self, fn: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.fn = fn
        self.interpreted = bool(options.get("interpret", False))
        if not isinstance(fn, types.FunctionType):
            KernelSource.of(fn)  # says what it takes
        functools.update_wrapper(self, fn)
        self.__globals__ = fn.__globals__  # libraries look a kernel's module up in it
        self._defaults = Defaults.of(self.source, options)
        self._images = Images(self.source)
        self._launches = Remembered(self.source)

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
        return Launcher(self, grid)

    def run(self, *args: Any, grid: Any = None, **kwargs: Any) -> Any:
        """Launch on a grid; the same as `kernel[grid](*args, **kwargs)`.

        Arrays are written in place. Beside the kernel's arguments it takes `target`, `num_stages`, `timeline`
        (True keeps every instruction's times also of a run with many), `schedule` and `deadline_us` as in
        `jit`, `warmup` (True: compile only), and Triton's num_warps and num_ctas, which change nothing. With `stream` the launch comes after
        what is on that stream, and the call returns a `Pending` at once.

        Returns:
            The engine's report: cycles, microseconds, utilisation, HBM bytes, `timeline(path)`; all zero for
            a grid with no programs. An interpreted run has no figures: asking is an error.
        """
        if kwargs.pop("warmup", False):
            return self.warmup(*args, grid=grid, **kwargs)
        try:
            return told(self.ready(args, kwargs, grid)(), (self, args, kwargs, grid))
        except UserError as error:
            # The place is in the message; frames of ours say nothing to the user.
            raise error.with_traceback(None) from error.__cause__

    def warmup(self, *args: Any, grid: Any = None, **kwargs: Any) -> CompiledKernel:
        """Compile what a launch with these arguments would run, also for this host, without running it.

        In place of an array stands, where there is none yet, the type of its elements: `tl.float32` or torch's.
        """
        from .compiled import CompiledKernel

        constants = {param.name for param in self.source.params if param.constexpr}
        wrap = MockTensor.wrap_dtype
        args = (
            tuple(a if p.name in constants else wrap(a) for p, a in zip(self.source.params, args))
            + args[len(self.source.params) :]
        )
        kwargs = {n: a if n in constants else wrap(a) for n, a in kwargs.items()}
        try:
            spec, arguments, _, options = self._defaults.asked(args, dict(kwargs), grid)
            spec, target, _ = self._placed(spec, arguments, options)
            image = self._images.of(spec, target)
            check_deadline(image, target, self._defaults.wanted(options).deadline_us, self.source)
            if not (self.interpreted or knobs.INTERPRET.get()):
                from .engines import prepare_host

                prepare_host(image, target, self._images.key(spec, target))
            return CompiledKernel(self.source, spec, target, image, self)
        except UserError as error:
            raise error.with_traceback(None) from error.__cause__

    def profile(self, *args: Any, grid: Any = None, show: bool = True, **kwargs: Any) -> Profile:
        """Launch, and tell where the time went.

        Args:
            args, grid, kwargs: as for `run`.
            show: print the profile as text.

        Returns:
            Busy and stall cycles by engine with their reasons, HBM bytes by array, SRAM in use over time, the roofline
            point; `.json(path)`, `.html(path)` (one file, with pictures), shown by notebooks.

        Raises:
            LaunchError: the kernel is interpreted, which has no times, or the grid has no programs.
        """
        from dsalang._backend.image.uses import ring_uses
        from dsalang._runtime.profile import Profile
        from dsalang._runtime.report import Run

        from .interpret.report import HINT

        try:
            compiled, sizes, _ = self.prepared(args, kwargs, grid)
            report = finished(self.ready(args, {**kwargs, "timeline": True}, sizes)())
        except UserError as error:
            raise error.with_traceback(None) from error.__cause__
        if not isinstance(report, Run):
            raise LaunchError(f"{self.source.name} is interpreted, which has no times", hint=HINT)
        if not report.cores:
            raise LaunchError(f"grid {sizes} has no programs, so there is nothing to profile")
        static = compiled.latency_cycles is not None
        uses = None if static else ring_uses(compiled.module, compiled.image)
        found = Profile(report, uses)
        if show:
            print(found.text)
        return found

    def prepared(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any
    ) -> tuple[CompiledKernel, Grid, dict[str, Any]]:
        """What a launch would run, on which grid, with which scalar arguments; nothing runs."""
        from .compiled import CompiledKernel

        spec, arguments, sizes, options = self._defaults.asked(args, dict(kwargs), grid)
        spec, target, _ = self._placed(spec, arguments, options)
        compiled = CompiledKernel(self.source, spec, target, self._images.of(spec, target))
        scalars = {name: value for name, (_, value) in arguments.scalars.items()}
        return compiled, sizes, scalars

    def ready(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> Callable[[], Any]:
        """What makes a launch, found from an equal one made before where that is possible."""
        if session.active():
            raise fail("a kernel cannot launch kernels", f"call it: {self.source.name}(...)")
        sizes = grid
        if callable(grid):
            try:
                sizes = grid(self._meta(args, kwargs))
            except Exception:
                sizes = None  # the long way has the error
        # In a block, where a kernel stands depends on those launched before.
        blocks = residency.active()
        key = None if blocks else call_key(args, kwargs, sizes, self.interpreted)
        if key is not None:
            found = self._launches.find(key)
            if found is not None:
                return found
        run, lasting = self._look_up(args, dict(kwargs), grid if sizes is None else sizes)
        if key is not None and lasting:
            self._launches.keep(key, run, args, kwargs)
        return run

    def _meta(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by name, for grid functions; as `bind` has them when nothing is wrong."""
        params = self.source.params
        meta = {param.name: value for param, value in zip(params, args)}
        for param in params[len(args) :]:
            if param.default is not EMPTY:
                meta[param.name] = param.default
        meta.update(kwargs)
        return meta

    def _look_up(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any
    ) -> tuple[Callable[[], Any], bool]:
        """A launch made ready from the beginning, and whether an equal call may get it again."""
        knobs.warn_of_misspelt()
        spec, arguments, sizes, options = self._defaults.asked(args, kwargs, grid)
        if self.interpreted or knobs.INTERPRET.get():
            plain = partial(run_interpreted, self.source, spec, arguments, sizes)
            return devices.submitted(None, plain, options, self.source.name, arguments), False
        from .engines import launcher  # images and engines are loaded when something runs

        spec, target, device = self._placed(spec, arguments, options)
        key = self._images.key(spec, target)
        find = partial(self._images.of_key, key, spec, target)
        deadline = self._defaults.wanted(options).deadline_us
        if deadline is not None:
            check_deadline(find(), target, deadline, self.source)
        if device is not None:
            return devices.launcher(device, find, target, key, arguments, sizes, options), False
        timeline = bool(options.get("timeline", False))
        sram = devices.sram_of(None, options, target)
        keeps = bool(spec.resident.arrays)
        run = launcher(find, target, key, arguments, sizes, timeline, sram, keeps)
        return run, resolve(options.get("target")) is target

    def _placed(
        self, spec: Specialization, arguments: Arguments, options: Mapping[str, Any]
    ) -> tuple[Specialization, Target, Device | None]:
        """The specialisation with the place of what it keeps in SRAM, and where it runs."""
        chosen = options.get("target")
        device = devices.device_of(arguments, options)
        if device is not None and chosen is None:
            chosen = devices.target_of(device, options)
        target = resolve(chosen)
        if residency.active() or spec.resident.arrays:
            sram = devices.sram_of(device, options, target)
            spec = self._images.settled(spec, arguments, target, sram)
        return spec, target, device

    def compile(
        self,
        signature: str | Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
        target: str | Path | Target | None = None,
        num_stages: int | None = None,
        schedule: str | None = None,
        grid: Any = None,
        deadline_us: float | None = None,
        resident: Any = None,
    ) -> CompiledKernel:
        """Compile without running.

        Args:
            signature: types of the run-time parameters in order or by name: "*fp16, *fp16:16, i32"; ":16"
                says that an address or integer is a multiple of 16. Pointers are taken not to overlap.
            constants: values of the constexpr parameters.
            target: as in a launch.
            num_stages: as in a launch.
            schedule: as in a launch; a static one needs the grid, and constants for the integers that bounds,
                masks and strides depend on.
            grid: how many programs; for a static schedule, and for arrays that stay in SRAM.
            deadline_us: as in a launch.
            resident: as in `jit`.

        Raises:
            CompileError: the kernel cannot be compiled, or misses its deadline; the message shows the line.
            LaunchError: signature or constants do not fit the kernel.
        """
        from .compiled import CompiledKernel

        try:
            wanted = Request.of(schedule, deadline_us).over(self._defaults.schedule)
            spec = self._defaults.compiled_for(
                signature, constants, num_stages, wanted, grid, resident
            )
            chosen = resolve(target)
            image = self._images.of(spec, chosen)
            check_deadline(image, chosen, wanted.deadline_us, self.source)
            return CompiledKernel(self.source, spec, chosen, image, self)
        except UserError as error:
            raise error.with_traceback(None) from error.__cause__
