"""`@dsa.microkernel`: a Python function becomes a microkernel (docs/microkernels.md)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from dsalang._backend import formats
from dsalang._backend.errors import CompileError, Loc, MicrokernelError, UserError
from dsalang._backend.formats import BY_STORAGE
from dsalang._backend.micro.contract import Microkernel, TileSpec, enter

from ..builtin import Builtin
from ..source import HostFunction, KernelSource, Param, source_of

FLAGS = ("auto", "own")


class MicrokernelFunction(HostFunction):
    """A microkernel: call it in kernels like any function, or register it as the implementation of an op.

    Attributes:
        fn: the Python function, whose first parameter is the writer.
        params: its other parameters.
        reference: what defines its meaning: an op (a builtin or a jitted function), or a numpy function.
    """

    def __init__(
        self,
        fn: Callable[..., None],
        reference: Any,
        results: Callable[..., Any] | None,
        in_place: str | Sequence[str | None] | None,
        flags: str,
        tolerance: float | None,
    ) -> None:
        self.fn = fn
        self.code = KernelSource.of(fn)
        if not self.code.params:
            raise self._error(
                f"{fn.__name__}() has no parameters", "the first one is the writer: def f(k, a, b)"
            )
        self.params: tuple[Param, ...] = self.code.params[1:]
        self.reference, self.results, self.tolerance = reference, results, tolerance
        self.in_place = _places(in_place)
        for name in self.in_place:
            if name is not None and name not in (p.name for p in self.params):
                raise self._error(
                    f"in_place names {name!r}, which is no parameter of {fn.__name__}()"
                )
        if tolerance is not None and not (isinstance(tolerance, int | float) and tolerance >= 0):
            raise self._error(f"tolerance={tolerance!r} is no number from 0")
        if flags not in FLAGS:
            raise self._error(f"flags={flags!r} is not allowed", 'flags is "auto" or "own"')
        if self.is_op(reference):
            self._check_parameters(reference)
        elif reference is not None and not callable(reference):
            raise self._error(f"reference={reference!r} is no function")
        elif results is None:
            raise self._error(
                f"nothing says what {fn.__name__}() gives",
                "pass reference= an op of the language, or results= a function from its operands to their TileSpec",
            )
        name = f"{fn.__module__}:{fn.__qualname__}"
        self.kernel: Microkernel = enter(name, fn, flags == "own")
        functools.update_wrapper(self, fn)

    def __repr__(self) -> str:
        return f"<dsa.microkernel {self.kernel.name}>"

    def __reduce__(self) -> str:
        return self.fn.__qualname__

    @property
    def name(self) -> str:
        """What messages and reports call it."""
        return self.kernel.name

    @staticmethod
    def is_op(value: Any) -> bool:
        """Whether a value is an op of the language: a builtin, or a jitted function."""
        return isinstance(value, Builtin) or source_of(value) is not None

    def options_text(self) -> str:
        """The options of the declaration."""
        return f"{self.in_place}{self.kernel.own_flags}"

    def companions(self) -> Mapping[str, object]:
        """What says what a call gives and means."""
        return {"results": self.results, "reference": self.reference}

    def _error(self, message: str, hint: str = "") -> MicrokernelError:
        return MicrokernelError(message, self.loc, hint)

    @property
    def loc(self) -> Loc:
        """Where it is defined."""
        return Loc(self.code.file, self.code.first_line, self.code.indent + 1)

    def _check_parameters(self, op: Any) -> None:
        theirs = op_parameters(op)
        if len(theirs) != len(self.params):
            raise self._error(
                f"{self.fn.__name__}() takes {len(self.params)} arguments beside the writer, the op "
                f"{op_name(op)} has {len(theirs)}: {', '.join(theirs)}",
                "a microkernel takes the writer and then what its op takes, in the same order",
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Called by an interpreted kernel: the reference runs. Elsewhere an error."""
        from ..interpret import session

        if not session.active():
            raise UserError(
                f"microkernel {self.fn.__name__}() was called outside a kernel",
                hint="call it in a function decorated with @dsalang.jit, or check it with .self_test(...)",
            )
        from ..interpret.errors import fail

        signature = inspect.Signature(
            [
                p.replace(annotation=p.empty)
                for p in list(inspect.signature(self.fn).parameters.values())[1:]
            ]
        )
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise fail(
                f"{self.fn.__name__}(): {error}", f"its parameters are {signature}"
            ) from None
        bound.apply_defaults()
        values = tuple(bound.arguments.values())
        if self.reference is None:
            raise fail(
                f"microkernel {self.fn.__name__}() has no reference that an interpreted kernel could run",
                "pass reference= to dsa.microkernel",
            )
        if self.is_op(self.reference):
            return self.reference(*values)
        return self._run_numpy(values)

    def _run_numpy(self, values: tuple[Any, ...]) -> Any:
        """The numpy reference, on the arrays of tiles; its results get the formats that `results` says."""
        from .. import dtypes
        from ..interpret.tile import InterpTile, unwrap

        plain = [v.data if isinstance(v, InterpTile) else unwrap(v) for v in values]
        try:
            found = self.reference(*plain)
        except UserError:
            raise
        except Exception as error:
            raise self._error(f"reference= failed: {type(error).__name__}: {error}") from error
        specs = self.result_specs([_spec_of(v) for v in values])
        parts = found if isinstance(found, tuple) else (found,)
        if len(parts) != len(specs):
            raise self._error(
                f"the reference gives {len(parts)} results, results= says {len(specs)}"
            )
        tiles = []
        for k, (part, spec) in enumerate(zip(parts, specs)):
            data = np.asarray(part)
            if data.shape != spec.shape:
                raise self._error(
                    f"result {k} of the reference has shape {data.shape}, results= says {spec}"
                )
            fmt = formats.by_name(spec.fmt)
            tiles.append(InterpTile(data.astype(fmt.storage), dtypes.of_format(fmt)))
        return tuple(tiles) if isinstance(found, tuple) else tiles[0]

    def result_specs(self, arguments: Sequence[Any]) -> tuple[TileSpec, ...]:
        """What `results` says for arguments: Specs, and compile-time values."""
        assert self.results is not None
        try:
            found = self.results(*arguments)
        except Exception as error:
            raise self._error(f"results= failed: {type(error).__name__}: {error}") from error
        specs = found if isinstance(found, tuple | list) else (found,)
        for spec in specs:
            if not isinstance(spec, TileSpec):
                raise self._error(f"results= gives {spec!r}, which is no dsa.TileSpec")
            if spec.fmt not in formats.BY_NAME:
                raise self._error(f"results= gives {spec}: there is no format {spec.fmt!r}")
            if not all(isinstance(size, int) and size > 0 for size in spec.shape):
                raise self._error(f"results= gives {spec}; a tile has positive sizes")
        return tuple(specs)

    def self_test(self, *arguments: Any, target: Any = None, seed: int = 0) -> None:
        """Compare it with its reference on random data; raise MicrokernelError when they differ.

        Args:
            arguments: per parameter a `dsa.TileSpec` or its text ("bf16[1, 256]"), an array, or a compile-time value.
            target: the machine; the current one when absent.
            seed: of the random data.
        """
        from .selftest import self_test

        self_test(self, arguments, target, seed)


def _spec_of(value: Any) -> Any:
    from ..interpret.tile import InterpTile, unwrap

    if isinstance(value, InterpTile):
        return TileSpec(value.shape, BY_STORAGE[value.data.dtype].name)
    return unwrap(value)


def _places(in_place: str | Sequence[str | None] | None) -> tuple[str | None, ...]:
    if in_place is None:
        return ()
    return (in_place,) if isinstance(in_place, str) else tuple(in_place)


def op_name(op: Any) -> str:
    """What messages call an op."""
    if isinstance(op, Builtin):
        return op.name
    source = op if isinstance(op, KernelSource) else source_of(op)
    return source.name if source is not None else repr(op)


SERVED: dict[str, tuple[str, ...]] = {"dot": ("input", "other", "acc")}
"""Builtins of which a microkernel gets some parameters only; the others say nothing about the result."""


def op_parameters(op: Any) -> tuple[str, ...]:
    """The parameters of an op that a microkernel gets, in order."""
    if isinstance(op, Builtin):
        return SERVED.get(op.name, tuple(op.signature.parameters))
    source = op if isinstance(op, KernelSource) else source_of(op)
    assert source is not None
    return tuple(param.name for param in source.params)


@overload
def microkernel(function: Callable[..., None], /) -> MicrokernelFunction: ...


@overload
def microkernel(
    *,
    reference: Any = None,
    results: Callable[..., Any] | None = None,
    in_place: str | Sequence[str | None] | None = None,
    flags: str = "auto",
    tolerance: float | None = None,
) -> Callable[[Callable[..., None]], MicrokernelFunction]: ...


def microkernel(
    function: Callable[..., None] | None = None,
    /,
    *,
    reference: Any = None,
    results: Callable[..., Any] | None = None,
    in_place: str | Sequence[str | None] | None = None,
    flags: str = "auto",
    tolerance: float | None = None,
) -> Any:
    """Make a microkernel of a function that writes instructions: `def f(k, a, b)`.

    Args:
        function: the function, when the decorator is used without parentheses.
        reference: its meaning: an op of the language (`dsa.dot`, or a function decorated with `dsa.jit`) with the
            same parameters in the same order, or a function of numpy arrays. Interpreted kernels and self-tests run it.
        results: from the operands to the `dsa.TileSpec` of each result; may be absent where the reference is an op.
        in_place: the parameter that result k is written over, for each k (None: over none). The compiler copies
            only where the old value is needed afterwards.
        flags: "auto": the compiler orders the engines; "own": `k.set` and `k.wait` do, and the compiler checks it.
        tolerance: how far results may be off the reference, relative to its largest magnitude.

    Raises:
        MicrokernelError: the declaration does not fit the function or the reference.
    """

    def make(fn: Callable[..., None]) -> MicrokernelFunction:
        op = reference
        if isinstance(op, str):
            op = builtin_op(op)
        try:
            return MicrokernelFunction(fn, op, results, in_place, flags, tolerance)
        except CompileError as error:
            raise error.with_traceback(None) from error.__cause__

    return make if function is None else make(function)


def builtin_op(name: str) -> Builtin:
    """The builtin called `name`. Raises MicrokernelError when there is none."""
    from .. import names

    found = names.BUILTINS.get(name)
    if found is None:
        raise MicrokernelError(f"the language has no op {name!r}", hint="see docs/language.md")
    return found
