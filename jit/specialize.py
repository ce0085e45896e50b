"""What a kernel is compiled for: types, constants and facts about its arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from dsalang._backend.errors import LaunchError
from dsalang._backend.resident import AUTOMATIC, Resident
from dsalang._runtime.arrays import ArrayView, extents_of

from .arguments import Arguments, check_constant, constant_text
from .dtypes import from_name, pointer_type
from .source import EMPTY, Facts, KernelSource

ALIGNMENT = 16
"""Divisibility that is worth an image of its own."""


@dataclass(frozen=True, eq=False)
class Specialization:
    """The part of a launch that the code depends on.

    Attributes:
        signature: type of every run-time parameter in order: "*fp16", "int32", …
        constants: values of the others.
        facts: divisibility and aliasing of run-time parameters.
        num_stages: slots of the rings that loads fill; None lets the cost model choose.
        grid: sizes of the grid that a static schedule is for; None for a dynamic one.
        fixed: values of integer run-time parameters that a static schedule is for.
        resident: what stays in SRAM.
    """

    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    facts: Facts = field(default_factory=Facts)
    num_stages: int | None = None
    grid: tuple[int, int, int] | None = None
    fixed: Mapping[str, int] = field(default_factory=dict)
    resident: Resident = AUTOMATIC

    @cached_property
    def key(self) -> str:
        """A text that differs when the code could."""
        types = ",".join(
            f"{name}:{kind}:{self.facts.divisible.get(name, 1)}:{self.facts.alias.get(name, 0)}"
            for name, kind in self.signature.items()
        )
        constants = ",".join(f"{n}={constant_text(n, v)}" for n, v in self.constants.items())
        static = "" if self.grid is None else f"{self.grid}{sorted(self.fixed.items())}"
        return f"{types}|{constants}|{self.num_stages}|{static}|{self.resident}"

    def with_constants(self, arguments: Arguments, names: Collection[str]) -> Specialization:
        """The same with the values that integer arguments have in a launch compiled in."""
        if not names:
            return self
        return replace(self, fixed=whole_numbers(arguments, names)).folded()

    def folded(self) -> Specialization:
        """The same with the fixed values as constants."""
        signature = {name: kind for name, kind in self.signature.items() if name not in self.fixed}
        divisible = {n: value for n, value in self.facts.divisible.items() if n in signature}
        facts = replace(self.facts, divisible=divisible)
        constants = {**self.constants, **self.fixed}
        return replace(self, signature=signature, constants=constants, facts=facts, fixed={})


def whole_numbers(arguments: Arguments, names: Collection[str]) -> dict[str, int]:
    """The values of integer arguments, by name; of names of others nothing."""
    return {
        name: bool(value) if kind.is_bool() else int(value)
        for name, (kind, value) in arguments.scalars.items()
        if kind.is_int() and name in names
    }


def specialize(
    arguments: Arguments,
    order: Collection[str],
    do_not_specialize: Collection[str] = (),
    num_stages: int | None = None,
) -> Specialization:
    """The specialisation that a launch needs, as in Triton: integers equal to 1 are constants, divisibility
    by 16 of integers and addresses is a fact, unless a name is in `do_not_specialize`. An integer of a
    declared type stays one of that type.
    """
    constants = dict(arguments.constants)
    signature: dict[str, str] = {}
    divisible: dict[str, int] = {}
    order = arguments.order or order
    for name in order:
        special = name not in do_not_specialize
        if name in arguments.pointers:
            view = arguments.pointers[name]
            signature[name] = f"*{view.fmt.name}"
            divisible[name] = _address_fact(view, special)
        elif name in arguments.scalars:
            kind, value = arguments.scalars[name]
            whole = kind.is_int() and not kind.is_bool()
            if special and whole and value == 1 and name not in arguments.declared:
                constants[name] = 1
                continue
            signature[name] = kind.format.name
            if special and whole and value % ALIGNMENT == 0:
                divisible[name] = ALIGNMENT
    _, groups = extents_of(list(arguments.pointers.items()))
    alias = dict(zip(arguments.pointers, groups))
    in_order = {name: constants[name] for name in order if name in constants}
    return Specialization(signature, in_order, Facts(divisible, alias), num_stages)


def _address_fact(view: ArrayView, special: bool) -> int:
    if special and view.address % ALIGNMENT == 0:
        return ALIGNMENT
    return view.fmt.bytes if view.address % view.fmt.bytes == 0 else 1


def from_signature(
    source: KernelSource,
    signature: str | Mapping[str, str] | None,
    constants: Mapping[str, Any] | None,
    num_stages: int | None = None,
) -> Specialization:
    """The specialisation that a signature names, for compiling without arguments.

    Args:
        source: the kernel.
        signature: types of the parameters that are not constants, as "*fp16, *fp16:16, i32:16" in order or
            by name; ":16" says that the address or the value is a multiple of 16. Pointers are taken not
            to overlap.
        constants: values of the constexpr parameters (defaults hold), and of others to be compiled in.
        num_stages: as in a launch.

    Raises:
        LaunchError: names, types or their number do not fit the kernel.
    """
    given = dict(constants or {})
    names = {param.name for param in source.params}
    for name in given:
        if name not in names:
            raise LaunchError(
                f"kernel {source.name} has no parameter {name!r}",
                hint=f"its parameters are ({', '.join(param.name for param in source.params)})",
            )
    for param in source.params:
        if param.constexpr and param.name not in given:
            if param.default is EMPTY:
                raise LaunchError(
                    f"no value for constexpr parameter {param.name!r} of {source.name}",
                    hint=f"pass constants={{{param.name!r}: ...}} (--const {param.name}=... on the command line)",
                )
            given[param.name] = param.default
    runtime = [param.name for param in source.params if param.name not in given]
    kinds: dict[str, str] = {}
    divisible: dict[str, int] = {}
    for name, text in _by_name(source, runtime, signature).items():
        kinds[name], divisible[name] = _parse_type(name, text)
    pointers = [name for name, kind in kinds.items() if kind.startswith("*")]
    facts = Facts(divisible, {name: k for k, name in enumerate(pointers)})
    checked = {
        param.name: check_constant(param.name, given[param.name])
        for param in source.params
        if param.name in given
    }
    return Specialization(kinds, checked, facts, num_stages)


def _by_name(
    source: KernelSource, runtime: list[str], signature: str | Mapping[str, str] | None
) -> dict[str, str]:
    if isinstance(signature, Mapping):
        unknown = [name for name in signature if name not in runtime]
        missing = [name for name in runtime if name not in signature]
        if unknown or missing:
            what = (
                f"has no run-time parameter {unknown[0]!r}" if unknown else f"misses {missing[0]!r}"
            )
            raise LaunchError(
                f"the signature for {source.name} {what}", hint=f"it needs {', '.join(runtime)}"
            )
        return {name: signature[name] for name in runtime}
    if not (signature is None or isinstance(signature, str)):
        raise LaunchError(
            f"signature={signature!r} is not a signature",
            hint='pass a string, such as "*fp16, i32", or a dict of types by parameter name',
        )
    types = [part.strip() for part in (signature or "").split(",") if part.strip()]
    if len(types) != len(runtime):
        raise LaunchError(
            f"the signature for {source.name} has {len(types)} types, the kernel {len(runtime)} run-time "
            "parameters",
            hint=f"give a type for each of ({', '.join(runtime)}), such as *fp16 or i32",
        )
    return dict(zip(runtime, types))


def _parse_type(name: str, text: str) -> tuple[str, int]:
    kind, _, multiple = text.partition(":")
    try:
        found = from_name(kind)
        element = found.element_ty if isinstance(found, pointer_type) else found
        stars = "*" if isinstance(found, pointer_type) else ""
        if isinstance(element, pointer_type):
            raise KeyError(kind)
        size = element.format.bytes if stars else 1
        return stars + element.format.name, int(multiple) if multiple else size
    except (KeyError, ValueError):
        raise LaunchError(
            f"{text!r} is not a type (parameter {name!r})",
            hint="types are fp64, fp32, fp16, bf16, fp8e4nv, fp8e5, i1, i8 … i64, u8 … u64, and * before one "
            "of them for a pointer; ':16' after it says that it is a multiple of 16",
        ) from None
