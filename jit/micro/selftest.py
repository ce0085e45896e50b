"""Self-test: a microkernel on the reference engine against its reference under the interpreter, on random data."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dsalang._backend import formats
from dsalang._backend.errors import Loc, MicrokernelError, UserError
from dsalang._backend.micro.contract import TileSpec, is_plain
from dsalang._backend.target import Target

from .function import MicrokernelFunction

if TYPE_CHECKING:
    from ..decorator import JITFunction
    from .plan import Call

Array = NDArray[Any]

TOLERANCES = {"fp32": 2e-5, "fp16": 2e-3, "bf16": 1.6e-2, "fp8e4m3": 0.13, "fp8e5m2": 0.26}
"""How far a result may be off by its format, relative to the largest magnitude, when the microkernel does not say."""

_FILE = "<self-test"
_testing: ContextVar[bool] = ContextVar("dsalang_self_test", default=False)
_right: set[tuple[str, str, str]] = set()
_numbers = count()


def require_right(call: Call, target: Target) -> None:
    """Self-test a microkernel for the operands of a call, once per process.

    Where an operand is a pointer there is no telling how far it reaches: that is left to explicit tests.
    """
    key = call.micro.name, repr(call.arguments), target.digest
    pointers = any(isinstance(a, TileSpec) and a.pointer for a in call.arguments)
    if _testing.get() or key in _right or pointers or call.micro.reference is None:
        return
    try:
        self_test(call.micro, call.arguments, target, 0)
    except MicrokernelError as error:
        error.loc = _called_from(error.loc, call.loc)
        raise
    _right.add(key)


def _called_from(loc: Loc | None, caller: Loc | None) -> Loc | None:
    """A place with the call in the user's kernel in place of that in the self-test's."""
    if loc is None or loc.file.startswith(_FILE):
        return caller
    return replace(loc, caller=_called_from(loc.caller, caller))


def self_test(micro: MicrokernelFunction, arguments: Sequence[Any], target: Any, seed: int) -> None:
    """See `MicrokernelFunction.self_test`."""
    from ..machine import resolve

    machine = resolve(target)
    if micro.reference is None:
        raise MicrokernelError(f"{micro.name} has no reference to be tested against", micro.loc)
    if len(arguments) != len(micro.params):
        names = ", ".join(p.name for p in micro.params)
        raise MicrokernelError(
            f"{micro.name} takes ({names}), not {len(arguments)} arguments", micro.loc
        )
    random = np.random.default_rng(seed)
    operands = [_operand(micro, given, random) for given in arguments]
    with _within_test():
        for k, (got, expected) in enumerate(_both_ways(micro, operands, machine)):
            _compare(micro, arguments, k, got, expected)


@contextmanager
def _within_test() -> Iterator[None]:
    token = _testing.set(True)
    try:
        yield
    finally:
        _testing.reset(token)


@dataclass(frozen=True)
class _Operand:
    """An argument of the test: an array for a tile or a pointer, else a compile-time value."""

    array: Array | None
    pointer: bool = False
    value: Any = None


def _operand(micro: MicrokernelFunction, given: Any, random: np.random.Generator) -> _Operand:
    if isinstance(given, str) and (spec := spec_of_text(given)) is not None:
        given = spec
    if isinstance(given, np.ndarray):
        return _Operand(given, pointer=given.ndim == 0)
    if isinstance(given, TileSpec):
        if given.pointer:
            raise MicrokernelError(
                f"nothing says how far {given} reaches", micro.loc, "pass an array for a pointer"
            )
        return _Operand(random_array(given, random))
    if not is_plain(given):
        raise MicrokernelError(f"{given!r} is no argument of a microkernel", micro.loc)
    return _Operand(None, value=given)


_SPEC = re.compile(r"(\w+)\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]$")


def spec_of_text(text: str) -> TileSpec | None:
    """The TileSpec that a text such as "bf16[1, 256]" stands for, None for any other text.

    >>> str(spec_of_text("bf16[1, 256]")), spec_of_text("max")
    ('bf16[1, 256]', None)
    """
    match = _SPEC.match(text)
    if match is None or match[1] not in formats.BY_NAME:
        return None
    return TileSpec(tuple(int(n) for n in match[2].split(",")), formats.by_name(match[1]).name)


def random_array(spec: TileSpec, random: np.random.Generator) -> Array:
    """Random data of a format: all bits of integers (of wide ones what sums do not overflow), normal floats."""
    fmt = formats.by_name(spec.fmt)
    if fmt.is_float:
        return np.asarray(random.standard_normal(spec.shape)).astype(fmt.storage)
    if fmt.kind == "bool":
        return np.asarray(random.integers(0, 2, spec.shape)).astype(fmt.storage)
    low, high = (0, 256) if fmt.kind == "uint" else (-128, 128)
    return np.asarray(random.integers(low, high, spec.shape)).astype(fmt.storage)


def _both_ways(
    micro: MicrokernelFunction, operands: Sequence[_Operand], target: Target
) -> Iterator[tuple[Array, Array]]:
    """Each result as the machine computes it, and as the reference does."""
    from dsalang._runtime.reference.engine import run
    from dsalang._runtime.reference.options import Options

    from ..launch import argument_bits, memory_of

    specs = _results(micro, operands, target)
    outs = [[np.zeros(s.shape, formats.by_name(s.fmt).storage) for s in specs] for _ in range(2)]
    inputs = [op.array for op in operands if op.array is not None]
    kernel = _kernel(micro, operands, specs, interpreted=False)
    arrays = (*inputs, *outs[0])
    try:
        compiled, grid, _ = kernel.prepared(arrays, {"target": target}, (1,))
        bound = kernel._defaults.asked(arrays, {}, (1,)).arguments
        values = tuple(argument_bits(bound, a.name) for a in compiled.image.arguments)
        run(compiled.image, target, values, grid, memory_of(bound), Options(timeline=False))
    except MicrokernelError:
        raise
    except UserError as error:
        raise MicrokernelError(
            f"microkernel {micro.name} fails its self-test on {target.name}: {error.message}",
            error.loc or micro.loc, error.hint,
        ) from None  # fmt: skip
    _kernel(micro, operands, specs, interpreted=True)[(1,)](*inputs, *outs[1])
    yield from zip(*outs)


def _results(
    micro: MicrokernelFunction, operands: Sequence[_Operand], target: Target
) -> Sequence[TileSpec]:
    """The results for these operands, as a call in a kernel would have them."""
    if micro.results is not None:
        given = [
            op.value
            if op.array is None
            else TileSpec(op.array.shape, formats.BY_STORAGE[op.array.dtype].name, op.pointer)
            for op in operands
        ]
        return micro.result_specs(given)
    from xdsl.dialects.func import FuncOp

    from dsalang._backend.dialects import tile
    from dsalang._backend.dialects.types import shape_of
    from dsalang._backend.micro.contract import Contract

    from ..compiled import tile_ir
    from ..specialize import from_signature

    kernel = _kernel(micro, operands, None, interpreted=False)
    names = [
        f"*{formats.BY_STORAGE[op.array.dtype].name}" for op in operands if op.array is not None
    ]
    module = tile_ir(kernel.source, from_signature(kernel.source, ", ".join(names), {}, None))
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    call = next(op for op in function.walk() if isinstance(op, tile.MICROKERNELS))
    fmts = Contract.of(call.contract.data).results
    return [TileSpec(shape_of(r.type), fmt) for r, fmt in zip(call.res, fmts)]


def _kernel(
    micro: MicrokernelFunction,
    operands: Sequence[_Operand],
    results: Sequence[TileSpec] | None,
    interpreted: bool,
) -> JITFunction:
    """A kernel that loads the operands, calls the microkernel and stores its results."""
    from ..decorator import jit
    from ..names import BUILTINS

    names, calls, lines = [], [], []
    for k, op in enumerate(operands):
        if op.array is None:
            calls.append(repr(op.value))
            continue
        names.append(f"x{k}")
        calls.append(f"x{k}" if op.pointer else f"a{k}")
        if not op.pointer:
            lines.append(f"a{k} = {_load(f'x{k}', op.array.shape)}")
    known = results or ()
    lines.append(f"found = micro({', '.join(calls)})")
    for k, spec in enumerate(known):
        value = "found" if len(known) == 1 else f"found[{k}]"
        value = f"dsa.reshape({value}, ({_size(spec.shape)},))"
        lines.append(f"dsa.store(r{k} + dsa.arange(0, {_size(spec.shape)}), {value})")
    head = ", ".join([*names, *(f"r{k}" for k in range(len(known)))])
    text = f"def self_test({head}):\n" + "".join(f"    {line}\n" for line in lines)
    file = f"{_FILE} {next(_numbers)} of {micro.name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"dsa": SimpleNamespace(**BUILTINS), "micro": micro}
    exec(compile(text, file, "exec"), scope)
    made: JITFunction = jit(interpret=interpreted)(scope["self_test"])
    return made


def _load(name: str, shape: tuple[int, ...]) -> str:
    return f"dsa.reshape(dsa.load({name} + dsa.arange(0, {_size(shape)})), {shape!r})"


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _compare(
    micro: MicrokernelFunction, arguments: Sequence[Any], k: int, got: Array, expected: Array
) -> None:
    """Raise MicrokernelError when a result is not that of the reference."""
    fmt = formats.BY_STORAGE[got.dtype]
    wide = np.float64 if fmt.is_float else np.int64
    mine, theirs = got.astype(wide), expected.astype(wide)
    scale = 1.0
    if fmt.is_float:
        finite = np.abs(theirs[np.isfinite(theirs)])
        share = micro.tolerance if micro.tolerance is not None else TOLERANCES.get(fmt.name, 0.0)
        scale = share * float(finite.max(initial=0.0)) + 1e-30
        same = (
            (mine == theirs)
            | (np.isnan(mine) & np.isnan(theirs))
            | (np.abs(mine - theirs) <= scale)
        )
    else:
        same = mine == theirs
    if same.all():
        return
    wrong = np.argwhere(~same)
    at = tuple(int(i) for i in wrong[0])
    what = ", ".join(map(str, arguments))
    raise MicrokernelError(
        f"microkernel {micro.name} does not compute its reference on ({what}): {len(wrong)} of {got.size} elements "
        f"of result {k} differ, the first at {list(at)}: {mine[at]} in place of {theirs[at]}",
        micro.loc,
        "it was not used; fix it, or declare tolerance= where the difference is meant"
        if fmt.is_float
        else "it was not used; fix it",
    )
