"""Loops: which variables they carry, and their counters."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence, Set

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Region, SSAValue

from .. import semantics
from ..semantics_operators import binary
from ..syntax import walk
from ..values import (
    NONE,
    Operand,
    Static,
    Undefined,
    Value,
    fail,
    ir_type,
)
from .context import RESULT, Context, assigned_names
from .counter import Bounds, Counter
from .expressions import expression
from .merge import (
    Kept,
    Mismatch,
    Plan,
    choose,
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
        for node in walk(statement):
            if not (isinstance(node, ast.Assign) and len(node.targets) == 1):
                continue
            target = node.targets[0]
            simple = all(
                isinstance(n, ast.Constant | ast.Name | ast.BinOp | ast.UnaryOp | ast.Attribute)
                for n in walk(node.value)
            )
            if (
                isinstance(target, ast.Name)
                and simple
                and not (node_names(node.value) & set(assigned))
            ):
                plain.add(target)
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in plain:
                candidates.discard(node.id)
    return candidates


def _plans(ctx: Context, body: list[ast.stmt], skip: Set[str]) -> dict[str, Plan]:
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
        if name == RESULT and isinstance(plan, Kept):
            grown[name] = initial_plan(final[name])
            continue
        step = grow(plan, final.get(name))
        if not isinstance(step, Mismatch):
            grown[name] = step
            continue
        if arguments[name] and not any(argument.uses for argument in arguments[name]):
            continue  # assigned before it is read in every iteration: nothing is carried
        if name == RESULT:
            fail(f"the function returns different types: {step.before} and {step.after}")
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
        block.drop_all_references()  # else values around the loop keep uses in what is thrown away
    else:
        fail("the types of the loop's variables do not settle", "convert them before the loop")
    with ctx.em.into(block):
        ctx.em.add(scf.YieldOp(*_flat(ctx, plans, final)))
    init = _flat(ctx, plans, ctx.scope.env)
    op = ctx.em.add(scf.ForOp(loop.lower.ssa, loop.upper.ssa, loop.stride.ssa, init, Region(block)))
    if bounds.num_stages is not None:
        op.attributes["dsa.num_stages"] = IntegerAttr(bounds.num_stages, i32)
    _leave(ctx, plans, iter(op.results), node.body)
    ctx.write(target, _ended(ctx))


def _ended(ctx: Context) -> Undefined:
    return Undefined(f"is the counter of the loop at line {ctx.loc().line}, which has ended")


def _flat(ctx: Context, plans: dict[str, Plan], env: dict[str, Operand]) -> list[SSAValue]:
    return [ssa for name, plan in plans.items() for ssa in flatten(ctx.em, plan, env[name])]


def while_loop(ctx: Context, node: ast.While, run: Body, exits: Sequence[str] = ()) -> None:
    """Parse `while test` into an `scf.while`.

    `exits`: when the body has a `break` or `return`, the variable that says the loop goes on, and
    others that the body sets for what follows the loop.
    """
    for part in walk(node.test):
        if isinstance(part, ast.NamedExpr):
            ctx.refuse(
                part, ":= in the condition of a while is not supported", "assign in the body"
            )

    def test() -> Value | Static:
        with ctx.at(node.test):
            value = expression(ctx, node.test)
            return semantics.as_condition(ctx.em, value, "the condition of while")

    if not exits:
        _general_loop(ctx, node, test, run, ())
        return
    go = exits[0]
    _enter(ctx, exits)

    def guarded() -> Value | Static:
        going = ctx.read(go)
        assert isinstance(going, Value)
        if isinstance(node.test, ast.Constant):
            return semantics.as_condition(ctx.em, going if node.test.value else Static(False), "")
        value = choose(ctx, going, test, lambda: Static(False))
        return semantics.as_condition(ctx.em, value, "the condition of while")

    _general_loop(ctx, node, guarded, run, exits)
    del ctx.scope.env[go]


def leaving_loop(
    ctx: Context, node: ast.For, target: str, bounds: Bounds, run: Body, exits: Sequence[str]
) -> None:
    """Parse `for target in range(...)` with `break` or `return` into an `scf.while`."""
    with ctx.at(node.iter):
        counter = Counter(ctx.em, bounds)
    go, position = exits[0], f"position of {exits[0]}"
    _enter(ctx, exits)
    ctx.write(position, counter.lower)

    def test() -> Value | Static:
        more = binary(ctx.em, "<", ctx.read(position), counter.upper)
        return semantics.as_condition(ctx.em, binary(ctx.em, "&", ctx.read(go), more), "")

    def body() -> None:
        at = ctx.read(position)
        assert isinstance(at, Value)
        ctx.write(target, counter.counter(at.ssa))
        run()
        ctx.write(position, binary(ctx.em, "+", at, counter.stride))

    _general_loop(ctx, node, test, body, (*exits, position), {target})
    del ctx.scope.env[go], ctx.scope.env[position]
    ctx.write(target, _ended(ctx))


def _enter(ctx: Context, exits: Sequence[str]) -> None:
    for name in exits:
        ctx.write(name, NONE if name == RESULT else Static(name == exits[0]))


def _general_loop(
    ctx: Context,
    node: ast.For | ast.While,
    test: Callable[[], Value | Static],
    run: Body,
    more_names: Sequence[str],
    skip: Set[str] = frozenset(),
) -> None:
    """An `scf.while` that carries what the body assigns, and `more_names`."""
    plans = _plans(ctx, node.body, skip)
    plans.update((name, initial_plan(ctx.scope.env[name])) for name in more_names)
    messages = len(ctx.em.messages)
    for _ in range(MAX_ATTEMPTS):
        types = [ir_type(leaf.dtype, leaf.shape) for p in plans.values() for leaf in leaves(p)]
        before_block, body = Block(arg_types=types), Block(arg_types=types)
        inner, tested = _arguments(plans, before_block, 0)
        after, carried = _arguments(plans, body, 0)
        before = ctx.scope.env
        del ctx.em.messages[messages:]
        try:
            ctx.scope.env = {**before, **inner}
            with ctx.em.into(before_block):
                condition = test()
                if isinstance(condition, Static):
                    _refuse_endless(ctx, node, condition)
                    return
                ctx.em.add(scf.ConditionOp(condition.ssa, *before_block.args))
            ctx.scope.env = {**before, **after}
            with ctx.em.into(body):
                run()
            final = ctx.scope.env
        finally:
            ctx.scope.env = before
        # the hand-over from test to body is a use that says nothing about reading
        used = {
            name: [v for v in carried[name] if v.uses] + [v for v in tested[name] if _read(v)]
            for name in plans
        }
        again = _settle(ctx, plans, final, {n: used[n] or carried[n] for n in plans})
        if again is None:
            break
        plans = again
        before_block.drop_all_references()
        body.drop_all_references()
    else:
        fail("the types of the loop's variables do not settle", "convert them before the loop")
    with ctx.em.into(body):
        ctx.em.add(scf.YieldOp(*_flat(ctx, plans, final)))
    init = _flat(ctx, plans, ctx.scope.env)
    op = ctx.em.add(scf.WhileOp(init, types, Region(before_block), Region(body)))
    _leave(ctx, plans, iter(op.results), node.body)


def _refuse_endless(ctx: Context, node: ast.For | ast.While, condition: Static) -> None:
    if condition.value:
        ctx.refuse(
            node.test if isinstance(node, ast.While) else node,
            "the condition of this while is always true: the loop never ends",
            "make the condition depend on a variable that the loop changes, or use break",
        )


def _read(argument: SSAValue) -> bool:
    return any(not isinstance(use.operation, scf.ConditionOp) for use in argument.uses)
