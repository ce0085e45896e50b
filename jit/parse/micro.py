"""Calls that microkernels serve: by their name, or as calls of the op that they implement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Block, SSAValue

from dsalang._backend import formats
from dsalang._backend.dialects import tile
from dsalang._backend.dialects.types import shape_of
from dsalang._backend.errors import CompileError, MicrokernelError
from dsalang._backend.micro.contract import Constant, Contract, TileSpec, is_plain

from .. import dtypes, semantics
from ..dtypes import dtype, pointer_type
from ..micro.function import MicrokernelFunction, op_name
from ..micro.plan import Call
from ..micro.registry import candidates
from ..values import Operand, Value, describe, fail, ir_type, to_python
from .context import Context

Generate = Callable[[], Operand]


def served(ctx: Context, op: Any, operands: Sequence[Operand], generate: Generate) -> Operand:
    """A call of an op: by the microkernel that the plan has chosen for it, else generated."""
    plan = ctx.plan
    found = candidates(op) if plan is not None and plan.on else ()
    if plan is None or not found:
        return generate()
    try:
        arguments = [_argument(ctx, operand) for operand in operands]
    except CompileError:
        return generate()  # an operand that no microkernel takes
    micro = plan.meet(ctx.loc(), op_name(op), found, arguments)
    if micro is None:
        return generate()
    return _emit(ctx, micro, operands, generate)


def call_microkernel(
    ctx: Context, micro: MicrokernelFunction, operands: Sequence[Operand], generate: Generate | None
) -> Operand:
    """A call of a microkernel by its name."""
    arguments = tuple(_argument(ctx, operand) for operand in operands)
    if ctx.plan is not None:
        call = Call(micro, arguments, ctx.loc())
        if call not in ctx.plan.direct:
            ctx.plan.direct.append(call)
    return _emit(ctx, micro, operands, generate)


def _argument(ctx: Context, operand: Operand) -> Any:
    """An argument as a contract states it: a TileSpec, or a compile-time value."""
    if isinstance(operand, Value):
        element = operand.dtype
        if isinstance(element, pointer_type):
            if operand.shape or not isinstance(element.element_ty, dtype):
                fail("a microkernel takes scalar pointers, not tiles of pointers")
            return TileSpec((), element.element_ty.format.name, pointer=True)
        return TileSpec(operand.shape, element.format.name)
    known, value = to_python(operand)
    if known and isinstance(value, dtype):
        return value.format.name
    if not known or not is_plain(value):
        fail(
            f"a microkernel does not take {describe(operand)}",
            "pass tiles, scalars, pointers, numbers, texts or None",
        )
    return value


@dataclass
class _Parts:
    """Arguments taken apart: operands of the IR op with their formats, and who is what."""

    ssa: list[SSAValue] = field(default_factory=list)
    fmts: list[str] = field(default_factory=list)
    arguments: dict[str, int | Constant] = field(default_factory=dict)
    pointers: bool = False


def _emit(
    ctx: Context, micro: MicrokernelFunction, operands: Sequence[Operand], generate: Generate | None
) -> Operand:
    parts = _Parts()
    specs = [_argument(ctx, operand) for operand in operands]
    for param, operand, spec in zip(micro.params, operands, specs, strict=True):
        if not isinstance(operand, Value):
            parts.arguments[param.name] = Constant(spec)
            continue
        parts.arguments[param.name] = len(parts.ssa)
        if spec.pointer:
            parts.pointers = True
            operand = semantics.cast(ctx.em, operand, dtypes.int64)
            assert isinstance(operand, Value)
        parts.ssa.append(operand.ssa)
        parts.fmts.append(f"*{spec.fmt}" if spec.pointer else spec.fmt)
    results, is_tuple = _results(ctx, micro, specs, generate)
    places = _in_place(micro, parts, results)
    contract = Contract(parts.arguments, parts.fmts, [spec.fmt for spec in results])
    elements = [dtypes.of_format(formats.by_name(spec.fmt)) for spec in results]
    types = [ir_type(element, spec.shape) for element, spec in zip(elements, results)]
    kind = tile.MicrokernelHbmOp if parts.pointers else tile.MicrokernelOp
    op = ctx.em.add(kind(micro.name, contract.text(), parts.ssa, places, types))
    values = tuple(
        Value(ssa, element, spec.shape) for ssa, element, spec in zip(op.res, elements, results)
    )
    return values if is_tuple else values[0]


def _in_place(micro: MicrokernelFunction, parts: _Parts, results: Sequence[TileSpec]) -> list[int]:
    places = []
    for k, spec in enumerate(results):
        name = micro.in_place[k] if k < len(micro.in_place) else None
        number = None if name is None else parts.arguments[name]
        if not isinstance(number, int):  # none, or None was passed
            places.append(-1)
            continue
        given = TileSpec(tuple(_shape(parts.ssa[number])), parts.fmts[number])
        if given != spec:
            raise MicrokernelError(
                f"microkernel {micro.name} updates {name} in place, but {name} is {given} and result {k} is {spec}",
                hint="convert or broadcast it before the call",
            )
        places.append(number)
    if len(micro.in_place) > len(results):
        raise MicrokernelError(
            f"microkernel {micro.name} names {len(micro.in_place)} in_place parameters for {len(results)} results"
        )
    return places


def _shape(value: SSAValue) -> tuple[int, ...]:
    return shape_of(value.type)


def _results(
    ctx: Context, micro: MicrokernelFunction, specs: Sequence[Any], generate: Generate | None
) -> tuple[list[TileSpec], bool]:
    """The results of a call, and whether it gives them as a tuple; from its op where it does not say."""
    if micro.results is not None:
        found = micro.result_specs(specs)
        return list(found), len(found) != 1
    assert generate is not None
    value = _tried(ctx, generate)
    parts = value if isinstance(value, tuple) else (value,)
    results = []
    for part in parts:
        if not isinstance(part, Value) or not isinstance(part.dtype, dtype):
            fail(f"microkernel {micro.name} cannot give {describe(part)}")
        results.append(TileSpec(part.shape, part.dtype.format.name))
    return results, isinstance(value, tuple)


def _tried(ctx: Context, generate: Generate) -> Operand:
    """What generated code would give; the code is thrown away."""
    plan, ctx.plan = ctx.plan, None
    block, messages = Block(), len(ctx.em.messages)
    try:
        with ctx.em.into(block):
            value = generate()
    finally:
        ctx.plan = plan
        del ctx.em.messages[messages:]
        for op in list(block.walk()):
            op.drop_all_references()
    return value
