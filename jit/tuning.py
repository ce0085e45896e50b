"""`autotune`: compile-time arguments that are chosen when a kernel is launched.

The fastest configuration is the one with the fewest cycles of the machine. They are predicted without running
where the kernel's course does not depend on data, else measured on the user's arrays, which get their contents
back afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from dsalang._backend.errors import LaunchError, SramOverflowError, UserError
from dsalang._runtime.arrays import extents_of, is_array, view_of

from . import knobs
from . import resident as residency
from .composite import taken_apart
from .configs import Config, Hook, check_configs
from .decorator import JITFunction
from .machine import resolve
from .repeat import call_key, kept
from .tuned import Tuned, names_of


class _Known(NamedTuple):
    """What a launch that was made before gets: its key in the tuner's cache, and the configuration.

    `alive` must live as long as the launch is remembered.
    """

    key: Hashable
    config: Config
    alive: object


_REMEMBERED = 512
"""Launches of a tuner that are remembered."""


class Autotuner(Tuned):
    """A kernel that is launched with the fastest of several configurations. Arguments are as in `autotune`;
    `arg_names` and others are there so that libraries may derive from it.

    Attributes:
        cache: the configuration chosen, by the values of the key.
        best_config: that of the last launch.
        configs_timings: cycles of each configuration of the last search; infinite where it did not compile.
        nargs: the positional arguments by name, while a launch looks for a configuration; None otherwise.

    `pre_hook`, `post_hook`, `prune_configs` and `_bench` are what classes derived from Triton's `Autotuner` call in a `run`
    of their own.
    """

    def __init__(
        self,
        fn: JITFunction | Tuned,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Hook | None = None,
        post_hook: Hook | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: int | None = None,
        rep: int | None = None,
        use_cuda_graph: bool = False,
        do_bench: Any = None,
        cache_results: bool = False,
    ) -> None:
        super().__init__(fn)
        self.configs = list(configs) or [Config({})]
        self.keys = list(key)
        pruning = prune_configs_by or {}
        self.perf_model = pruning.get("perf_model")
        self.configs_top_k = pruning.get("top_k", 1.0)
        self.early_config_prune = pruning.get("early_config_prune")
        self.reset_to_zero, self.restore_value = (
            list(reset_to_zero or ()),
            list(restore_value or ()),
        )
        self._user_pre_hook, self._user_post_hook = pre_hook, post_hook
        self.nargs: dict[str, Any] | None = None
        self.cache: dict[Hashable, Config] = {}
        self._known: dict[Hashable, _Known] = {}
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, float] = {}
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None

    def chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> dict[str, Any]:
        """The arguments of the launch with those of the fastest configuration."""
        quick = call_key(args, kwargs, 0, self.kernel.interpreted)
        known = None if quick is None else self._known.get(quick)
        if known is not None and self.cache.get(known.key) is known.config:
            best = known.config
            final = {**kwargs, **best.all_kwargs()}
        else:
            key = self._key(args, kwargs)
            best = self.cache.get(key) or self._searched(args, kwargs, grid)
            self.cache[key] = best
            final = self._with(best, args, kwargs)
            if quick is not None:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[quick] = _Known(key, best, kept(args, kwargs))
        self.best_config = best
        if best.pre_hook is not None:
            best.pre_hook(self.named(args, final))
        return final

    def _key(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        values = self.named(args, kwargs)
        parts = [_hashable(values[name]) for name in self.keys if name in values]
        leaves: dict[str, Any] = {}
        for name, value in values.items():
            taken_apart(name, value, leaves)
        kinds = [(name, str(v.dtype)) for name, v in leaves.items() if hasattr(v, "dtype")]
        return (*parts, *kinds, resolve(kwargs.get("target")).digest)

    def _with(
        self, config: Config, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        given = self.named(args, kwargs)
        twice = [name for name in config.kwargs if name in given]
        if twice:
            raise LaunchError(
                f"{', '.join(twice)} of {self.source.name} is given by the launch and by its configurations",
                hint="leave it out of the launch, or out of the configurations",
            )
        return {**kwargs, **config.all_kwargs()}

    def pre_hook(self, kwargs: Mapping[str, Any], reset_only: bool = False) -> None:
        """What comes before a trial: arrays of `reset_to_zero` are zeroed, and the user's hook is called."""
        for name in self.reset_to_zero:
            _fill_with_zeros(kwargs[name])
        if self._user_pre_hook is not None:
            self._user_pre_hook(kwargs, **({"reset_only": True} if reset_only else {}))

    def post_hook(self, kwargs: Mapping[str, Any], exception: Exception | None = None) -> None:
        """What comes after a trial: the user's hook."""
        if self._user_post_hook is not None:
            self._user_post_hook(kwargs, exception=exception)

    def prune_configs(self, kwargs: dict[str, Any]) -> list[Config]:
        """The configurations that are worth a trial with the arguments in `nargs` and these."""
        return self._pruned(self.nargs or {}, kwargs)

    def _bench(self, *args: Any, config: Config, **meta: Any) -> list[float]:
        """Milliseconds of a launch with a configuration, as median and quantiles; infinite where it does not compile."""
        grid, target = meta.pop("grid", None), resolve(meta.get("target"))
        meta.pop("warmup", None)
        try:
            milliseconds = target.microseconds(1) * self._measured(config, args, meta, grid) / 1e3
        except SramOverflowError:
            milliseconds = float("inf")
        return [milliseconds] * 3

    def _searched(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> Config:
        self.nargs = self.named(args, {})
        try:
            return self._search(args, kwargs, grid)
        finally:
            self.nargs = None

    def _search(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> Config:
        candidates = self.prune_configs(kwargs)
        if len(candidates) == 1 or self.kernel.interpreted or knobs.INTERPRET.get():
            return candidates[0]
        timings: dict[Config, float] = {}
        failure: UserError | None = None
        for config in candidates:
            try:
                timings[config] = self._measured(config, args, kwargs, grid)
            except UserError as error:
                timings[config], failure = float("inf"), error
        self.configs_timings = timings
        best = min(timings, key=lambda c: timings[c])
        if failure is not None and timings[best] == float("inf"):
            raise failure
        return best

    def _pruned(self, given: dict[str, Any], kwargs: dict[str, Any]) -> list[Config]:
        candidates = self.configs
        if self.early_config_prune is not None:
            candidates = list(self.early_config_prune(candidates, given, **kwargs))
            if not candidates:
                raise LaunchError(f"early_config_prune leaves {self.source.name} no configuration")
        if self.perf_model is not None:
            top = self.configs_top_k
            count = (
                int(len(self.configs) * top) if isinstance(top, float) and top <= 1 else int(top)
            )
            named = {**given, **kwargs}
            estimates = {c: self.perf_model(**{**named, **c.all_kwargs()}) for c in candidates}
            candidates = sorted(candidates, key=lambda c: estimates[c])[: max(count, 1)]
        return candidates

    def _measured(
        self, config: Config, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any
    ) -> float:
        final = self._with(config, args, kwargs)
        values = self.named(args, final)
        hooks = (config.pre_hook, self._user_pre_hook, self._user_post_hook)
        writes = bool(self.reset_to_zero) or any(hook is not None for hook in hooks)
        with _contents_kept(values.values() if writes else ()):
            if config.pre_hook is not None:
                config.pre_hook(values)
            self.pre_hook(values)
            error: Exception | None = None
            try:
                inner, function = final, self.fn
                while isinstance(function, Tuned):
                    inner, function = function.chosen(args, inner, grid), function.fn
                return _cycles(function, args, inner, grid)
            except Exception as caught:
                error = caught
                raise
            finally:
                self.post_hook(values, exception=error)


def _cycles(kernel: JITFunction, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> float:
    """Cycles of a launch: predicted, or measured where they depend on data."""
    with residency.trial():
        compiled, sizes, scalars = kernel.prepared(args, kwargs, grid)
        try:
            return compiled.predict(sizes, scalars, warm=True).cycles
        except UserError:
            with _contents_kept((*args, *kwargs.values())):
                return float(kernel.run(*args, grid=grid, **kwargs).cycles)


@contextmanager
def _contents_kept(values: Any) -> Iterator[None]:
    """Give arrays their contents back afterwards."""
    leaves: dict[str, Any] = {}
    for k, value in enumerate(values):
        taken_apart(f"array {k}", value, leaves)
    arrays = [(name, view_of(v, name)) for name, v in leaves.items() if is_array(v)]
    extents, _ = extents_of(arrays)
    places = [extent.bytes() for extent in extents if extent.writable]
    copies = [place.copy() for place in places]
    try:
        yield
    finally:
        for place, copy in zip(places, copies):
            place[...] = copy


def _fill_with_zeros(array: Any) -> None:
    if hasattr(array, "zero_"):
        array.zero_()
    else:
        array[...] = 0


def _hashable(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return (type(value).__name__, value) if not is_array(value) else repr(value)


def _check(fn: Any, names: Mapping[str, Sequence[str]]) -> None:
    """Raise LaunchError for a tuner that would not do what its words say."""
    known = names_of(fn)
    for option, listed in names.items():
        if isinstance(listed, str) or not isinstance(listed, Sequence):
            raise LaunchError(f"{option} of autotune is a list of names, not {listed!r}")
        for name in listed:
            if known and name not in known:
                raise LaunchError(
                    f"{option} of autotune names {name!r}, which is no parameter of "
                    f"{getattr(fn, '__name__', fn)}",
                    hint=f"parameters are {', '.join(known)}",
                )


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | int | None = None,
    pre_hook: Hook | int | None = None,
    post_hook: Hook | None = None,
    warmup: int | None = None,
    rep: int | None = None,
    use_cuda_graph: bool = False,
    do_bench: Any = None,
    cache_results: bool = False,
) -> Callable[[JITFunction | Tuned], Autotuner]:
    """Launch a kernel with the configuration that takes the fewest cycles, found anew when the key changes.

    Args:
        configs: the configurations to try; those that cannot be compiled do not count. None is one that sets nothing.
        key: names of parameters; a new combination of their values starts a new search. Other names are ignored, as by
            Triton: libraries share lists of keys between kernels.
        prune_configs_by: `early_config_prune(configs, named_args, **kwargs)` gives the configurations to try;
            `perf_model(**args)` estimates a time, the `top_k` (a share or a number) best are tried.
        reset_to_zero: arrays that are zeroed before each trial.
        restore_value: accepted; all arrays have their contents back after each trial.
        pre_hook: called with the arguments by name before each trial.
        post_hook: called with the arguments by name and `exception` after each trial.
        warmup, rep, use_cuda_graph, do_bench, cache_results: accepted for Triton's sake.

    Raises:
        LaunchError: a name of `reset_to_zero` or `restore_value` is not that of a parameter, or something in `configs` is
            no Config.
    """

    restored: Sequence[str] = ()
    before: Hook | None = None
    if not isinstance(restore_value, int):  # Triton 2 had warmup and rep in the places of these two
        restored = restore_value or ()
    if not isinstance(pre_hook, int):
        before = pre_hook

    def tuner(fn: JITFunction | Tuned) -> Autotuner:
        zeroed = reset_to_zero or ()
        try:
            _check(fn, {"reset_to_zero": zeroed, "restore_value": restored})
            check_configs(configs)
            return Autotuner(
                fn,
                names_of(fn),
                configs or [Config({})],
                key or (),
                zeroed,
                restored,
                before,
                post_hook,
                prune_configs_by,
            )
        except UserError as error:
            raise error.with_traceback(None) from error.__cause__

    return tuner
