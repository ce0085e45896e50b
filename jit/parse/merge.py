"""Joining the values of variables where control flow meets."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Block, Region, SSAValue

from .. import dtypes, semantics
from ..dtypes import KINDS, ElementType, dtype
from ..syntax import walk
from ..values import (
    NONE,
    Operand,
    Record,
    Static,
    Undefined,
    Value,
    describe,
    fail,
    ir_type,
    is_number,
    like,
)
from .context import RESULT, Context
from .emit import Emitter


@dataclass(frozen=True)
class Leaf:
    """A run-time value of this type. `weak`: it comes from Python numbers and may still adapt."""

    dtype: ElementType
    shape: tuple[int, ...]
    weak: bool = False


@dataclass(frozen=True)
class Group:
    """A tuple of plans; `like` is the Record or the tuple that it stands for."""

    items: tuple[Plan, ...]
    like: Record | tuple[Any, ...] = ()


@dataclass(frozen=True)
class Kept:
    """The same compile-time value on every path."""

    operand: Operand


Plan = Leaf | Group | Kept
"""How a variable passes a point where control flow meets."""


def parts(operand: Operand) -> tuple[Operand, ...] | None:
    """The components of a tuple or record."""
    if isinstance(operand, tuple):
        return operand
    return tuple(operand.fields.values()) if isinstance(operand, Record) else None


def same_static(a: Operand | None, b: Operand | None) -> bool:
    """True when both are the same compile-time value."""
    if a is b:
        return True
    if not (isinstance(a, Static) and isinstance(b, Static)):
        return False
    if a.value is b.value:
        return True
    try:
        return type(a.value) is type(b.value) and bool(a.value == b.value)
    except Exception:  # a stranger's __eq__
        return False


def leaves(plan: Plan) -> Iterator[Leaf]:
    """The run-time values of a plan, in order."""
    if isinstance(plan, Leaf):
        yield plan
    elif isinstance(plan, Group):
        for item in plan.items:
            yield from leaves(item)


def flatten(em: Emitter, plan: Plan, operand: Operand) -> list[SSAValue]:
    """The run-time values of an operand, converted to the plan's types.

    None stands for a result that is not there yet: any value will do.
    """
    if isinstance(plan, Leaf):
        if same_static(operand, NONE):
            return [_anything(em, plan).ssa]
        assert isinstance(operand, Value | Static)
        value = semantics.to_dtype_and_shape(em, operand, plan.dtype, plan.shape)
        return [value.ssa]
    if isinstance(plan, Group):
        items = (NONE,) * len(plan.items) if same_static(operand, NONE) else parts(operand)
        assert items is not None
        return [ssa for sub, item in zip(plan.items, items) for ssa in flatten(em, sub, item)]
    return []


def _anything(em: Emitter, leaf: Leaf) -> Value:
    if isinstance(leaf.dtype, dtype):
        return em.constant(0, leaf.dtype, leaf.shape)
    address = em.constant(0, dtypes.int64, leaf.shape)
    return semantics.cast(em, address, leaf.dtype)


def rebuild(plan: Plan, values: Iterator[SSAValue]) -> Operand:
    """The operand of a plan from its run-time values."""
    if isinstance(plan, Leaf):
        return Value(next(values), plan.dtype, plan.shape)
    if isinstance(plan, Group):
        items = tuple(rebuild(sub, values) for sub in plan.items)
        if not isinstance(plan.like, Record):
            return like(plan.like, items)
        return Record(plan.like.kind, dict(zip(plan.like.fields, items)), plan.like.meta)
    return plan.operand


def join(a: Operand | None, b: Operand | None, line: int) -> Plan:
    """How a variable leaves an `if` (at `line`) whose branches give it a and b."""
    if a is None or b is None:
        return Kept(Undefined(f"is assigned in only one branch of the if at line {line}"))
    if isinstance(a, Undefined) or isinstance(b, Undefined):
        return Kept(a if isinstance(a, Undefined) else b)
    if same_static(a, b):
        return Kept(a)
    if isinstance(a, Value) and isinstance(b, Value) and a.ssa is b.ssa and a.type == b.type:
        return Kept(a)
    items_a, items_b = parts(a), parts(b)
    if items_a is not None and items_b is not None and _alike(a, b):
        assert isinstance(a, Record | tuple)
        return Group(tuple(join(x, y, line) for x, y in zip(items_a, items_b)), a)
    leaf = _common_leaf(a, b)
    if leaf is not None:
        return leaf
    return Kept(
        Undefined(
            f"has different types in the branches of the if at line {line}: "
            f"{describe(a)} and {describe(b)}"
        )
    )


def _alike(a: Operand, b: Operand) -> bool:
    if isinstance(a, Record) or isinstance(b, Record):
        return (
            isinstance(a, Record)
            and isinstance(b, Record)
            and (a.kind, a.meta, list(a.fields)) == (b.kind, b.meta, list(b.fields))
        )
    return type(a) is type(b) and len(parts(a) or ()) == len(parts(b) or ())


def _common_leaf(a: Operand, b: Operand) -> Leaf | None:
    if is_number(a) and is_number(b):
        assert isinstance(a, Static) and isinstance(b, Static)
        return Leaf(_literal_join(a, b), (), weak=True)
    if is_number(a) and isinstance(b, Value):
        a, b = b, a
    if isinstance(a, Value) and is_number(b):
        assert isinstance(b, Static)
        return Leaf(a.dtype, a.shape) if _literal_fits(b, a.dtype) else None
    if isinstance(a, Value) and isinstance(b, Value) and (a.dtype, a.shape) == (b.dtype, b.shape):
        return Leaf(a.dtype, a.shape)
    return None


def _literal_join(a: Static, b: Static) -> dtype:
    first, second = semantics.literal_dtype(a.value), semantics.literal_dtype(b.value)
    if first.kind == second.kind == "int" and first != second:
        return dtypes.int64
    return max(first, second, key=lambda t: KINDS.index(t.kind))


def _literal_fits(literal: Static, element: ElementType) -> bool:
    return isinstance(element, dtype) and (
        KINDS.index(semantics.literal_dtype(literal.value).kind) <= KINDS.index(element.kind)
    )


def branch(
    ctx: Context, condition: Value, then: Callable[[], None], orelse: Callable[[], None]
) -> None:
    """Parse both sides of a run-time `if`; variables that differ become its results."""
    before, line = ctx.scope.env, ctx.loc().line
    envs: list[dict[str, Operand]] = []
    blocks: list[Block] = []
    for side in (then, orelse):
        ctx.scope.env = dict(before)
        block = Block()
        try:
            with ctx.em.into(block):
                side()
            envs.append(ctx.scope.env)
        finally:
            ctx.scope.env = before
        blocks.append(block)
    names = dict.fromkeys([*envs[0], *envs[1]])
    plans = {name: join(envs[0].get(name), envs[1].get(name), line) for name in names}
    if ctx.loops:  # a result is read only where `RETURNED` says that it is there
        plans[RESULT] = _join_result(envs[0][RESULT], envs[1][RESULT], line)
    for env, block in zip(envs, blocks):
        with ctx.em.into(block):
            results = [
                ssa
                for name, plan in plans.items()
                if not isinstance(plan, Kept)
                for ssa in flatten(ctx.em, plan, env[name])
            ]
            ctx.em.add(scf.YieldOp(*results))
    types = [ir_type(leaf.dtype, leaf.shape) for plan in plans.values() for leaf in leaves(plan)]
    op = ctx.em.add(scf.IfOp(condition.ssa, types, Region(blocks[0]), Region(blocks[1])))
    values = iter(op.results)
    ctx.scope.env = {name: rebuild(plan, values) for name, plan in plans.items()}


def _join_result(a: Operand, b: Operand, line: int) -> Plan:
    if same_static(a, NONE) or same_static(b, NONE):
        return initial_plan(b if same_static(a, NONE) else a)
    return join(a, b, line)


def choose(
    ctx: Context, condition: Value, then: Callable[[], Operand], orelse: Callable[[], Operand]
) -> Operand:
    """The value of `then() if condition else orelse()` for a run-time condition."""
    key = "if"  # a keyword: no user variable has this name
    branch(ctx, condition, lambda: ctx.write(key, then()), lambda: ctx.write(key, orelse()))
    value = ctx.scope.env.pop(key)
    if isinstance(value, Undefined):
        fail(f"the conditional expression {value.reason}")
    return value


@dataclass(frozen=True)
class Mismatch:
    """A loop variable whose type after an iteration cannot be reconciled with its type before."""

    before: str
    after: str


def initial_plan(operand: Operand) -> Plan:
    """How a variable enters a loop that changes it."""
    if isinstance(operand, Value):
        return Leaf(operand.dtype, operand.shape)
    if is_number(operand):
        assert isinstance(operand, Static)
        return Leaf(semantics.literal_dtype(operand.value), (), weak=True)
    if isinstance(operand, Record):  # what moves is the offsets
        fields = operand.fields.items()
        return Group(
            tuple(initial_plan(v) if k == "offsets" else Kept(v) for k, v in fields), operand
        )
    if isinstance(operand, tuple):
        return Group(tuple(initial_plan(item) for item in operand), operand)
    return Kept(operand)


def grow(plan: Plan, final: Operand | None) -> Plan | Mismatch:
    """The plan of a loop variable that is `final` after an iteration; the same plan when it holds."""
    if final is None:
        return Mismatch(_plan_text(plan), "a deleted variable")
    if isinstance(final, Undefined):
        return Mismatch(_plan_text(plan), f"a variable that {final.reason}")
    if isinstance(plan, Kept):
        if same_static(plan.operand, final) or plan.operand is final:
            return plan
        carried = initial_plan(plan.operand)
        if isinstance(carried, Kept):
            return Mismatch(describe(plan.operand), describe(final))
        return carried
    if isinstance(plan, Group):
        items = parts(final)
        if items is None or len(items) != len(plan.items) or type(plan.like) is not type(final):
            return Mismatch(_plan_text(plan), describe(final))
        grown: list[Plan] = []
        for sub, item in zip(plan.items, items):
            step = grow(sub, item)
            if isinstance(step, Mismatch):
                return step
            grown.append(step)
        return Group(tuple(grown), plan.like)
    return _grow_leaf(plan, final)


def _grow_leaf(leaf: Leaf, final: Operand) -> Leaf | Mismatch:
    if is_number(final):
        assert isinstance(final, Static)
        if _literal_fits(final, leaf.dtype):
            if not isinstance(leaf.dtype, dtype) or leaf.dtype.kind != "int":
                return leaf
            wanted = semantics.literal_dtype(final.value)
            return leaf if wanted.primitive_bitwidth <= 32 else Leaf(dtypes.int64, leaf.shape, True)
        if leaf.weak:
            return Leaf(semantics.literal_dtype(final.value), leaf.shape, True)
    elif isinstance(final, Value):
        if (final.dtype, final.shape) == (leaf.dtype, leaf.shape):
            return leaf
        before, after = leaf.dtype, final.dtype
        if isinstance(before, dtype) and isinstance(after, dtype):
            kinds = KINDS.index(before.kind), KINDS.index(after.kind)
            if leaf.weak and kinds[0] <= kinds[1] and leaf.shape in ((), final.shape):
                return Leaf(after, final.shape, True)
            same_kind = kinds[0] == kinds[1] and before.signed == after.signed
            if (
                same_kind
                and leaf.shape == final.shape
                and (before.primitive_bitwidth < after.primitive_bitwidth)
            ):
                return Leaf(after, final.shape)
    return Mismatch(_plan_text(leaf), describe(final))


def _plan_text(plan: Plan) -> str:
    if isinstance(plan, Leaf):
        return str(dtypes.block_type(plan.dtype, plan.shape)) if plan.shape else str(plan.dtype)
    if isinstance(plan, Group):
        return f"({', '.join(_plan_text(item) for item in plan.items)})"
    return describe(plan.operand)


def node_names(node: ast.AST) -> set[str]:
    """All names that occur in a syntax tree."""
    return {n.id for n in walk(node) if isinstance(n, ast.Name)}
