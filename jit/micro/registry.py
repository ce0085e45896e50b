"""Which microkernels implement which ops, where: `dsa.register_microkernel`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, overload

from dsalang._backend.errors import MicrokernelError
from dsalang._backend.target import Target

from ..builtin import Builtin
from ..depends import dependency_text
from ..source import KernelSource, source_of
from .function import MicrokernelFunction, builtin_op, op_name, op_parameters


@dataclass(frozen=True, eq=False)
class Registration:
    """A microkernel that implements an op on some targets for some operands."""

    op: Any
    micro: MicrokernelFunction
    when: Callable[..., bool] | None
    target: Any

    def serves(self, arguments: Sequence[Any], target: Target) -> bool:
        """Whether it is meant for a call; `arguments` are Specs and compile-time values."""
        if not _is_target(self.target, target):
            return False
        if self.when is None:
            return True
        try:
            return bool(self.when(*arguments))
        except Exception as error:
            raise MicrokernelError(
                f"when= of microkernel {self.micro.name} failed on ({', '.join(map(str, arguments))}): "
                f"{type(error).__name__}: {error}",
                self.micro.loc,
            ) from error


def _is_target(wanted: Any, target: Target) -> bool:
    if wanted is None:
        return True
    if callable(wanted):
        return bool(wanted(target))
    names = (wanted,) if isinstance(wanted, str) else wanted
    return target.name in names


_registered: dict[object, list[Registration]] = {}
_generation = 0
_fingerprints: dict[int, str] = {}


@overload
def register_microkernel(
    micro: MicrokernelFunction,
    /,
    *,
    op: Any = None,
    when: Callable[..., bool] | None = None,
    target: Any = None,
    examples: Sequence[Sequence[Any]] = (),
) -> MicrokernelFunction: ...


@overload
def register_microkernel(
    *,
    op: Any = None,
    when: Callable[..., bool] | None = None,
    target: Any = None,
    examples: Sequence[Sequence[Any]] = (),
) -> Callable[[MicrokernelFunction], MicrokernelFunction]: ...


def register_microkernel(
    micro: MicrokernelFunction | None = None,
    /,
    *,
    op: Any = None,
    when: Callable[..., bool] | None = None,
    target: Any = None,
    examples: Sequence[Sequence[Any]] = (),
) -> Any:
    """Make a microkernel an implementation of an op; calls of the op may then run it instead of generated code.

    The cost model takes whichever is faster, call by call; where generated code is not possible the microkernel
    runs. Also a decorator above `@dsa.microkernel`.

    Args:
        op: the name of a builtin ("dot"), or the jitted function that defines the op; the microkernel's reference
            when absent.
        when: whether a call is one for it, from the operands' Specs (shape, fmt) and compile-time arguments.
        target: a target's name, several of them, or a function from a target; all when absent.
        examples: arguments for `self_test`, run now: a wrong microkernel is not registered.

    Raises:
        MicrokernelError: it does not take what the op takes, or does not compute the op on an example.
    """
    if micro is None:
        return lambda made: register_microkernel(
            made, op=op, when=when, target=target, examples=examples
        )
    if not isinstance(micro, MicrokernelFunction):
        raise MicrokernelError(
            f"{micro!r} is no microkernel", hint="decorate the function with @dsa.microkernel"
        )
    chosen = builtin_op(op) if isinstance(op, str) else micro.reference if op is None else op
    if not micro.is_op(chosen):
        raise MicrokernelError(
            f"{micro.name} is registered for {chosen!r}, which is no op", micro.loc,
            'pass op="dot" or a function decorated with @dsa.jit',
        )  # fmt: skip
    theirs = op_parameters(chosen)
    if len(theirs) != len(micro.params):
        raise MicrokernelError(
            f"{micro.name} takes {len(micro.params)} arguments beside the writer, the op {op_name(chosen)} has "
            f"{len(theirs)}: {', '.join(theirs)}", micro.loc,
        )  # fmt: skip
    if micro.reference is None:
        micro.reference = chosen
    for example in examples:
        micro.self_test(*example)
    _registered.setdefault(_key(chosen), []).append(Registration(chosen, micro, when, target))
    _changed()
    return micro


def unregister_microkernel(micro: MicrokernelFunction) -> None:
    """Take a microkernel out of the table of implementations again."""
    for key, found in list(_registered.items()):
        _registered[key] = [r for r in found if r.micro is not micro]
    _changed()


def candidates(op: Any) -> Sequence[Registration]:
    """The microkernels of an op (a builtin, or the source of a jitted function), the latest first."""
    return _registered.get(_key(op), [])[::-1]


def _key(op: Any) -> object:
    if isinstance(op, Builtin | KernelSource):
        return op
    return source_of(op)


def _changed() -> None:
    global _generation
    _generation += 1
    _fingerprints.clear()


def generation() -> int:
    """A number that changes with the table."""
    return _generation


def fingerprint() -> str:
    """A text that depends on all that is registered, for cache keys; empty when nothing is."""
    if not any(_registered.values()):
        return ""
    if _generation not in _fingerprints:
        parts = [
            f"{op_name(r.op)}\0{r.micro.name}\0{_callable_text(r.target)}\0"
            f"{dependency_text(r.micro)}\0{_callable_text(r.when)}"
            for found in _registered.values()
            for r in found
        ]
        _fingerprints[_generation] = hashlib.sha256("\1".join(parts).encode()).hexdigest()
    return _fingerprints[_generation]


def _callable_text(function: Any) -> str:
    """What a function does as far as its own code says; a plain value as it is."""
    code = getattr(function, "__code__", None)
    return _code_text(code) if isinstance(code, CodeType) else repr(function)


def _code_text(code: CodeType) -> str:
    inner = [_code_text(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()}{inner}{code.co_names}"
