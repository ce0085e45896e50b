"""Loops: which variables they carry, and their counters."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Region, SSAValue

from .. import semantics
from ..values import (
    Operand,
    Static,
    Undefined,
    fail,
    ir_type,
)
from .context import Context, assigned_names
from .counter import Bounds, Counter
from .expressions import expression
from .merge import (
    Kept,
    Mismatch,
    Plan,
    flatten,
    grow,
    initial_plan,
    leaves,
    node_names,
    rebuild,
)

MAX_ATTEMPTS = 8
"""How often the types of a loop's variables may change before they count as unstable."""

Body = Callable[[], None]


def _invariant_names(body: list[ast.stmt], assigned: list[str]) -> set[str]:
    """Names that the body only assigns expressions of things that the loop does not change."""
    candidates = set(assigned)
    plain: set[ast.Name] = set()
    for statement in body:
        for node in ast.walk(statement):
            if not (isinstance(node, ast.Assign) and len(node.targets) == 1):
                continue
            target = node.targets[0]
            simple = all(
                isinstance(
                    n,
                    ast.Constant | ast.Name | ast.BinOp | ast.UnaryOp | ast.Attribute
                    | ast.operator | ast.unaryop | ast.expr_context,
                )
                for n in ast.walk(node.value)
            )  # fmt: skip
            if (
                isinstance(target, ast.Name)
                and simple
                and not (node_names(node.value) & set(assigned))
            ):
                plain.add(target)
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in plain:
                candidates.discard(node.id)
    return candidates


def _plans(ctx: Context, body: list[ast.stmt], skip: set[str]) -> dict[str, Plan]:
    assigned = [n for n in assigned_names(body) if n not in skip]
    invariant = _invariant_names(body, assigned)
    plans: dict[str, Plan] = {}
    for name in assigned:
        operand = ctx.scope.env.get(name)
        if operand is None or isinstance(operand, Undefined):
            continue
        keep = name in invariant and isinstance(operand, Static)
        plans[name] = Kept(operand) if keep else initial_plan(operand)
    return plans


def _settle(
    ctx: Context,
    plans: dict[str, Plan],
    final: dict[str, Operand],
    arguments: dict[str, list[SSAValue]],
) -> dict[str, Plan] | None:
    """The plans for another attempt, None when they hold. Raises when a type cannot settle."""
    grown: dict[str, Plan] = {}
    for name, plan in plans.items():
        step = grow(plan, final.get(name))
        if not isinstance(step, Mismatch):
            grown[name] = step
            continue
        if arguments[name] and not any(argument.uses for argument in arguments[name]):
            continue  # assigned before it is read in every iteration: nothing is carried
        fail(
            f"the loop changes the type of {name!r}: {step.before} before the loop, "
            f"{step.after} after an iteration",
            f"give {name!r} its final type before the loop, with .to(...), tl.zeros or tl.full",
        )
    return None if grown == plans else grown


def _arguments(
    plans: dict[str, Plan], block: Block, first: int
) -> tuple[dict[str, Operand], dict[str, list[SSAValue]]]:
    """The loop variables inside `block`, whose arguments from `first` on carry them."""
    env: dict[str, Operand] = {}
    by_name: dict[str, list[SSAValue]] = {}
    values: Iterator[SSAValue] = iter(block.args[first:])
    position = first
    for name, plan in plans.items():
        count = len(list(leaves(plan)))
        by_name[name] = list(block.args[position : position + count])
        position += count
        env[name] = rebuild(plan, values)
    return env, by_name


def _leave(
    ctx: Context, plans: dict[str, Plan], results: Iterator[SSAValue], body: list[ast.stmt]
) -> None:
    """Set the variables after the loop."""
    line = ctx.loc().line
    for name in assigned_names(body):
        if name not in plans:
            ctx.write(
                name,
                Undefined(f"is assigned inside the loop at line {line}, which may run zero times"),
            )
    for name, plan in plans.items():
        ctx.write(name, rebuild(plan, results))


def counted_loop(ctx: Context, node: ast.For, target: str, bounds: Bounds, run: Body) -> None:
    """Parse `for target in range(...)` into an `scf.for`."""
    with ctx.at(node.iter):
        loop = Counter(ctx.em, bounds)
    plans = _plans(ctx, node.body, {target})
    messages = len(ctx.em.messages)
    for _ in range(MAX_ATTEMPTS):
        types = [ir_type(leaf.dtype, leaf.shape) for p in plans.values() for leaf in leaves(p)]
        block = Block(arg_types=[ir_type(loop.type, ()), *types])
        inner, arguments = _arguments(plans, block, 1)
        before = ctx.scope.env
        ctx.scope.env = {**before, **inner}
        del ctx.em.messages[messages:]
        try:
            with ctx.em.into(block):
                ctx.write(target, loop.counter(block.args[0]))
                run()
            final = ctx.scope.env
        finally:
            ctx.scope.env = before
        again = _settle(ctx, plans, final, arguments)
        if again is None:
            break
        plans = again
    else:
        fail("the types of the loop's variables do not settle", "convert them before the loop")
    with ctx.em.into(block):
        ctx.em.add(scf.YieldOp(*_flat(ctx, plans, final)))
    init = _flat(ctx, plans, ctx.scope.env)
    op = ctx.em.add(scf.ForOp(loop.lower.ssa, loop.upper.ssa, loop.stride.ssa, init, Region(block)))
    if bounds.num_stages is not None:
        op.attributes["dsa.num_stages"] = IntegerAttr(bounds.num_stages, i32)
    _leave(ctx, plans, iter(op.results), node.body)
    ctx.write(
        target, Undefined(f"is the counter of the loop at line {ctx.loc().line}, which has ended")
    )


def _flat(ctx: Context, plans: dict[str, Plan], env: dict[str, Operand]) -> list[SSAValue]:
    return [ssa for name, plan in plans.items() for ssa in flatten(ctx.em, plan, env[name])]


def while_loop(ctx: Context, node: ast.While, run: Body) -> None:
    """Parse `while test` into an `scf.while`."""
    for part in ast.walk(node.test):
        if isinstance(part, ast.NamedExpr):
            ctx.refuse(
                part, ":= in the condition of a while is not supported", "assign in the body"
            )
    plans = _plans(ctx, node.body, set())
    messages = len(ctx.em.messages)
    for _ in range(MAX_ATTEMPTS):
        types = [ir_type(leaf.dtype, leaf.shape) for p in plans.values() for leaf in leaves(p)]
        test, body = Block(arg_types=types), Block(arg_types=types)
        inner, arguments = _arguments(plans, test, 0)
        after, more = _arguments(plans, body, 0)
        before = ctx.scope.env
        del ctx.em.messages[messages:]
        try:
            ctx.scope.env = {**before, **inner}
            with ctx.em.into(test), ctx.at(node.test):
                condition = semantics.as_condition(
                    ctx.em, expression(ctx, node.test), "the condition of while"
                )
                if isinstance(condition, Static):
                    if not condition.value:
                        return
                    ctx.refuse(
                        node.test,
                        "the condition of this while is always true: the loop never ends",
                        "make the condition depend on a variable that the loop changes",
                    )
                ctx.em.add(scf.ConditionOp(condition.ssa, *test.args))
            ctx.scope.env = {**before, **after}
            with ctx.em.into(body):
                run()
            final = ctx.scope.env
        finally:
            ctx.scope.env = before
        # the hand-over from test to body is a use that says nothing about reading
        used = {
            name: [v for v in more[name] if v.uses] + [v for v in arguments[name] if _read(v)]
            for name in plans
        }
        again = _settle(ctx, plans, final, {n: used[n] or more[n] for n in plans})
        if again is None:
            break
        plans = again
    else:
        fail("the types of the loop's variables do not settle", "convert them before the loop")
    with ctx.em.into(body):
        ctx.em.add(scf.YieldOp(*_flat(ctx, plans, final)))
    init = _flat(ctx, plans, ctx.scope.env)
    op = ctx.em.add(scf.WhileOp(init, types, Region(test), Region(body)))
    _leave(ctx, plans, iter(op.results), node.body)


def _read(argument: SSAValue) -> bool:
    return any(not isinstance(use.operation, scf.ConditionOp) for use in argument.uses)
