"""Loops: which variables they carry, and their counters."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntAttr, IntegerAttr, i32
from xdsl.ir import Block, Region, SSAValue

from dsalang._backend.dialects.tile import MapOp, NumProgramsOp

from .. import dtypes, semantics
from ..dtypes import dtype
from ..semantics_operators import binary
from ..values import (
    Operand,
    Static,
    Undefined,
    Value,
    describe,
    fail,
    ir_type,
    is_number,
    static_int,
)
from .context import Context, assigned_names
from .expressions import expression
from .merge import (
    Kept,
    Leaf,
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


@dataclass
class Bounds:
    """A counted loop. `start`, `stop`, `step` are of one integer type."""

    start: Operand
    stop: Operand
    step: Operand
    num_stages: int | None = None


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
        before = ctx.scope.env[name]
        if isinstance(plan, Kept) and is_number(before):
            step = grow(plan, final.get(name))
            grown[name] = initial_plan(before) if isinstance(step, Mismatch) else step
            continue
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
        loop = _Counter(ctx, bounds)
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


class _Counter:
    """The counter of an `scf.for`, which counts upwards in a signed type."""

    def __init__(self, ctx: Context, bounds: Bounds) -> None:
        self.em = ctx.em
        operands = [
            self._integer(o, what)
            for o, what in ((bounds.start, "start"), (bounds.stop, "stop"), (bounds.step, "step"))
        ]
        self.dtype = self._common(operands)
        self.type = dtypes.int64 if self.dtype in (dtypes.uint32, dtypes.uint64) else self.dtype
        start, stop, step = (self._materialise(o) for o in operands)
        self._affine: tuple[Value, Value] | None = None
        raw = operands[2]
        if isinstance(raw, Static) and raw.value == 0:
            fail("the step of range must not be zero")
        if (isinstance(raw, Static) and raw.value > 0) or _is_positive(step.ssa):
            self.lower, self.upper, self.stride = start, stop, step
            return
        self._affine = (start, step)
        self.lower, self.stride = self._number(0), self._number(1)
        self.upper = self._trips(start, stop, step, raw)

    def _integer(self, operand: Operand, what: str) -> Value | Static:
        value = semantics.numeric(operand, f"the {what} of range")
        element = semantics.operand_dtype(value)
        if not (isinstance(element, dtype) and element.is_int()) or (
            isinstance(value, Value) and value.shape
        ):
            fail(f"the {what} of range must be an integer scalar, not {describe(operand)}")
        return value

    def _common(self, operands: list[Value | Static]) -> dtype:
        result = dtypes.int32
        for operand in operands:
            element = semantics.operand_dtype(operand)
            assert isinstance(element, dtype)
            if element.primitive_bitwidth >= 32:
                result = semantics.promote_ints(result, element)
        return result

    def _materialise(self, operand: Value | Static) -> Value:
        return semantics.materialise(self.em, operand, "a bound of range", self.type)

    def _number(self, number: int) -> Value:
        return self.em.constant(number, self.type)

    def _trips(self, start: Value, stop: Value, step: Value, raw: Value | Static) -> Value:
        """How often a loop with a negative or unknown step runs; may be negative, which means never."""
        one = Static(1)
        down = binary(self.em, "-", start, stop)
        if isinstance(raw, Static):
            size = Static(-raw.value)
            return self._ceil(down, size)
        up = binary(self.em, "-", stop, start)
        positive = binary(self.em, ">", step, Static(0))
        distance = self._select(positive, up, down)
        size_value = self.em.map("iabs", [step])
        rounded = binary(self.em, "+", distance, binary(self.em, "-", size_value, one))
        trips = binary(self.em, "//", rounded, size_value)
        assert isinstance(trips, Value)
        return trips

    def _ceil(self, distance: Operand, size: Static) -> Value:
        rounded = binary(self.em, "+", distance, Static(size.value - 1))
        trips = binary(self.em, "//", rounded, size)
        assert isinstance(trips, Value)
        return trips

    def _select(self, condition: Operand, a: Operand, b: Operand) -> Value:
        assert isinstance(condition, Value) and isinstance(a, Value) and isinstance(b, Value)
        return self.em.map("select", [condition, a, b])

    def counter(self, argument: SSAValue) -> Value:
        """The loop's variable from the block argument (emitted inside the body)."""
        value = Value(argument, self.type)
        if self._affine is not None:
            start, step = self._affine
            moved = binary(self.em, "+", start, binary(self.em, "*", value, step))
            assert isinstance(moved, Value)
            value = moved
        return semantics.cast(self.em, value, self.dtype)


def _is_positive(value: SSAValue, depth: int = 8) -> bool:
    """True for integers that cannot be zero or negative: constants, grid sizes and products of them."""
    op = value.owner
    if depth == 0 or isinstance(op, Block):
        return False
    if isinstance(op, NumProgramsOp):
        return True
    if isinstance(op, ConstantOp):
        return isinstance(op.value, IntegerAttr) and _value_of(op.value) > 0
    if isinstance(op, MapOp) and op.fn.data in ("imul", "iadd", "smin", "smax", "sext", "zext"):
        return all(_is_positive(arg, depth - 1) for arg in op.args)
    return False


def _value_of(attribute: IntegerAttr) -> int:
    assert isinstance(attribute.value, IntAttr)
    return attribute.value.data


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


def range_bounds(args: tuple[Operand, ...], num_stages: Operand | None = None) -> Bounds:
    """The bounds of Python's `range(...)`."""
    if not 1 <= len(args) <= 3:
        fail(f"range takes 1 to 3 arguments, not {len(args)}")
    start: Operand = Static(0)
    stop: Operand
    step: Operand = Static(1)
    if len(args) == 1:
        stop = args[0]
    else:
        start, stop = args[0], args[1]
    if len(args) == 3:
        step = args[2]
    stages = None
    if num_stages is not None and not (isinstance(num_stages, Static) and num_stages.value is None):
        stages = static_int(num_stages, "num_stages")
    return Bounds(start, stop, step, stages)


__all__ = ["Bounds", "Leaf", "counted_loop", "range_bounds", "while_loop"]
