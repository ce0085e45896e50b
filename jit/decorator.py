"""`@dsa.jit`: a Python function becomes a kernel."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, overload

from dsalang._backend.errors import LaunchError, UnknownTripsError, UserError

from . import devices, knobs
from . import resident as residency
from .annotations import signature_of
from .arguments import Arguments, bind, classify
from .clock import finished
from .depends import dependencies
from .interpret import session
from .interpret.errors import fail
from .launch import Grid, grid_of, run_interpreted
from .machine import resolve
from .mock_tensor import MockTensor
from .repeat import Guard, call_key, kept
from .schedule import Request, check_deadline, compiled_grid, fixed
from .source import EMPTY, KernelSource
from .specialize import Specialization, from_signature, specialize

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image
    from dsalang._backend.target import Target
    from dsalang._runtime.device import Device
    from dsalang._runtime.profile import Profile
    from dsalang._runtime.residency import Sram

    from .compiled import CompiledKernel

GPU_OPTIONS = (
    "num_warps", "num_ctas", "maxnreg", "enable_fp_fusion", "waves_per_eu", "matrix_instr_nonkdim", "kpack",
    "launch_cooperative_grid", "launch_pdl", "extern_libs", "sanitize_overflow",
)  # fmt: skip
"""Keyword arguments of launches that Triton takes and that change nothing here."""

LAUNCH_OPTIONS = (
    "target", "num_stages", "timeline", "schedule", "deadline_us", "stream", "resident",
    *GPU_OPTIONS,
)  # fmt: skip
"""Keyword arguments of a launch that are not the kernel's."""

_REMEMBERED = 512
"""Launches of a kernel that are kept ready."""

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
    known = ("interpret", "num_stages", "do_not_specialize", "do_not_specialize_on_alignment",
             "schedule", "deadline_us", "resident", *_IGNORED)  # fmt: skip
    for name in options:
        if name not in known:
            raise LaunchError(
                f"dsa.jit has no option {name!r}", hint=f"options are {', '.join(known)}"
            )
    try:
        return JITFunction(function, options)
    except UserError as error:
        raise error.with_traceback(None) from error.__cause__


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
        self._schedule = Request.of(options.get("schedule"), options.get("deadline_us"))
        self._options = options
        self._images: dict[str, Image] = {}
        self._launches: dict[Hashable, Prepared] = {}
        self._guard: Guard | None = None
        self._settling: dict[str, tuple[str, ...]] = {}
        functools.update_wrapper(self, fn)
        self.__globals__ = fn.__globals__  # libraries look a kernel's module up in it
        _ = self.source  # errors of the definition come at the definition
        self._wish = residency.Wish.of(options.get("resident"), self.source) or residency.Wish()

    def __repr__(self) -> str:
        return f"<dsa.jit kernel {self.source.name} of {self.source.file}:{self.source.first_line}>"

    def __reduce__(self) -> str:
        """Kernels are pickled as functions are, by name: for processes that get one as an argument."""
        return self.fn.__qualname__

    @cached_property
    def source(self) -> KernelSource:
        """The function as the compiler sees it."""
        return KernelSource.of(self.fn)

    @cached_property
    def arg_names(self) -> list[str]:
        """The names of the parameters."""
        return [param.name for param in self.source.params]

    @cached_property
    def src(self) -> str:
        """The text of the function from `def` on, without its decorators, as Triton keeps it."""
        text = self.source.text
        found = re.search(r"^(async )?def ", text, re.MULTILINE)
        return text[found.start() :] if found else text

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of the Python function."""
        return signature_of(self.fn)

    @property
    def cache_key(self) -> str:
        """A text that changes with the function and with what it refers to."""
        outside = dependencies(self.source)
        parts = [self.source.text, *(f"{way}={outside[way]!r}" for way in sorted(outside))]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @cached_property
    def params(self) -> list[Any]:
        """The parameters with the attributes that Triton gives them."""
        return [
            SimpleNamespace(
                name=param.name,
                num=number,
                is_constexpr=param.constexpr,
                annotation="" if param.annotation is EMPTY else param.annotation,
                default=param.default,
                has_default=param.default is not EMPTY,
                do_not_specialize=param.name in self._unspecialized,
                do_not_specialize_on_alignment=param.name in self._unspecialized,
            )
            for number, param in enumerate(self.source.params)
        ]

    @cached_property
    def _unspecialized(self) -> frozenset[str]:
        names = [param.name for param in self.source.params]
        found = set()
        for key in ("do_not_specialize", "do_not_specialize_on_alignment"):
            for entry in self._options.get(key) or ():
                if isinstance(entry, int) and 0 <= entry < len(names):
                    entry = names[entry]
                if entry in names:  # other names are ignored, as by Triton
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
            return _told(self.ready(args, kwargs, grid)(), (self, args, kwargs, grid))
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
            spec, arguments, _, options = self._prepare(args, dict(kwargs), grid)
            spec, target, _ = self._placed(spec, arguments, options)
            image = self._image(spec, target)
            check_deadline(image, target, self._wanted(options).deadline_us, self.source)
            if not (self.interpreted or knobs.INTERPRET.get()):
                from .engines import prepare_host

                prepare_host(image, target, self._key(spec, target))
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

        spec, arguments, sizes, options = self._prepare(args, dict(kwargs), grid)
        spec, target, _ = self._placed(spec, arguments, options)
        compiled = CompiledKernel(self.source, spec, target, self._image(spec, target))
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
            found = self._launches.get(key)
            if found is not None:
                if self._guard is not None and self._guard.holds():
                    return found.run
                self._launches.clear()
        run, lasting = self._look_up(args, dict(kwargs), grid if sizes is None else sizes)
        if key is not None and lasting:
            if not self._launches:
                self._guard = Guard(self.source)
            if self._guard is not None:
                self._guard.follow_arguments(args, kwargs)
            if self._guard is not None and self._guard.usable and self._guard.holds():
                if len(self._launches) >= _REMEMBERED:
                    self._launches.clear()
                self._launches[key] = Prepared(run, kept(args, kwargs))
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
        spec, arguments, sizes, options = self._prepare(args, kwargs, grid)
        if self.interpreted or knobs.INTERPRET.get():
            plain = partial(run_interpreted, self.source, spec, arguments, sizes)
            return devices.submitted(None, plain, options, self.source.name, arguments), False
        from .engines import launcher  # images and engines are loaded when something runs

        spec, target, device = self._placed(spec, arguments, options)
        key = self._key(spec, target)
        find = partial(self._image_of, key, spec, target)
        deadline = self._wanted(options).deadline_us
        if deadline is not None:
            check_deadline(find(), target, deadline, self.source)
        if device is not None:
            return devices.launcher(device, find, target, key, arguments, sizes, options), False
        timeline = bool(options.get("timeline", False))
        sram = devices.sram_of(None, options, target)
        keeps = bool(spec.resident.arrays)
        run = launcher(find, target, key, arguments, sizes, timeline, sram, keeps)
        return run, resolve(options.get("target")) is target

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
        wanted = self._wanted(options)
        spec = specialize(arguments, bound, self._unspecialized, stages)
        if wanted.static:
            spec = fixed(spec, arguments, sizes)
        wish = residency.Wish.of(options.get("resident"), self.source) or self._wish
        spec = replace(spec, resident=residency.requested(wish, arguments, sizes, wanted.static))
        return spec, arguments, sizes, options

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
            spec = self._settled(spec, arguments, target, sram)
        return spec, target, device

    def _settled(
        self, spec: Specialization, arguments: Arguments, target: Target, sram: Sram
    ) -> Specialization:
        """A specialisation with its place in SRAM; integers that say which tiles there are become constants."""
        name, key = f"{self.source.file}:{self.source.first_line}", f"{target.digest}{spec.key}"
        while True:
            whole = spec.with_constants(arguments, self._settling.get(key, ()))
            try:
                return residency.placed(whole, name, target, sram, lambda s: self._image(s, target))
            except UnknownTripsError as error:
                names = [n for n in error.names if n in whole.signature and n in arguments.scalars]
                if not names:
                    raise
                self._settling[key] = (*self._settling.get(key, ()), *names)

    def _wanted(self, options: Mapping[str, Any]) -> Request:
        """Schedule and deadline of a launch."""
        wanted = Request.of(options.get("schedule"), options.get("deadline_us"))
        return wanted.over(self._schedule)

    def _key(self, spec: Specialization, target: Target) -> str:
        from . import key  # loaded when something runs on the machine

        return key.digest(self.source, spec, target)

    def _image(self, spec: Specialization, target: Target) -> Image:
        return self._image_of(self._key(spec, target), spec, target)

    def _image_of(self, key: str, spec: Specialization, target: Target) -> Image:
        image = self._images.get(key)
        if image is None:
            from . import store

            image = self._images[key] = store.image_for(self.source, spec, target, key)
        return image

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
            stages = _stages(num_stages) or self.num_stages
            spec = from_signature(self.source, signature, constants, stages)
            wanted = Request.of(schedule, deadline_us).over(self._schedule)
            wish = residency.Wish.of(resident, self.source) or self._wish
            spec = replace(
                spec,
                grid=compiled_grid(wanted, grid, spec.constants),
                resident=residency.compiled(wish, spec, grid, wanted.static),
            )
            chosen = resolve(target)
            image = self._image(spec, chosen)
            check_deadline(image, chosen, wanted.deadline_us, self.source)
            return CompiledKernel(self.source, spec, chosen, image, self)
        except UserError as error:
            raise error.with_traceback(None) from error.__cause__


class Launcher:
    """A kernel with a grid: call it, or bind arguments to it."""

    __slots__ = ("_grid", "_kernel")

    def __init__(self, kernel: JITFunction, grid: Any) -> None:
        self._kernel, self._grid = kernel, grid

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launch; see `JITFunction.run`."""
        try:
            report = self._kernel.ready(args, kwargs, self._grid)()
            return _told(report, (self._kernel, args, kwargs, self._grid))
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


def _told(report: Any, launched: tuple[Any, ...]) -> Any:
    """Tell those who listen about a launch's report; the report learns what was launched."""
    report.launched = launched
    return finished(report)


@dataclass(frozen=True)
class Prepared:
    """A launch that can be made again, and what must live as long as it is remembered."""

    run: Callable[[], Any]
    alive: object


def _stages(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise LaunchError(f"num_stages={value!r} is not allowed", hint="it is an integer from 1")
    return value
