"""Statements: one function per kind of syntax node. Early exits are structured away.

`run` parses a list of statements and says whether it ended in an exit (`return`, `continue`). Where an
`if` on a run-time condition contains an exit, the statements after it move into its branches, so that
nothing follows it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

from .. import semantics
from ..builtin import Builtin
from ..lowering.control import check, device_assert
from ..syntax import children
from ..values import (
    NONE,
    Operand,
    Static,
    Undefined,
    Value,
    describe,
    fail,
    items_of,
    static_int,
    to_python,
)
from .calls import bind_builtin
from .context import RESULT, RETURNED, Context, Unrolled
from .counter import range_bounds
from .expressions import closure, expression, operate
from .loops import counted_loop, leaving_loop, while_loop
from .merge import branch

MAX_UNROLL = 10_000


def run(ctx: Context, statements: list[ast.stmt]) -> bool:
    """Parse statements in order; True when they end in an exit."""
    for position, node in enumerate(statements):
        with ctx.at(node):
            rest = statements[position + 1 :]
            if isinstance(node, ast.If):
                condition = _condition(ctx, node)
                if isinstance(condition, Static):
                    chosen = node.body if condition.value else node.orelse
                    if not has_exit(chosen):
                        run(ctx, chosen)
                        continue
                    return run(ctx, [*chosen, *rest])
                if has_exit([node]):
                    _run_branches(ctx, condition, [*node.body, *rest], [*node.orelse, *rest])
                    return True
                _run_branches(ctx, condition, node.body, node.orelse)
                continue
            if isinstance(node, ast.For | ast.While) and contains_return(node):
                unrolled = _unrolled_with_exits(ctx, node)
                if unrolled is not None:
                    return run(ctx, [*unrolled, *rest])
                _statement(ctx, node)
                return _after_returning_loop(ctx, rest)
            if isinstance(node, ast.Return):
                _return(ctx, node)
                return True
            if isinstance(node, ast.Continue):
                return True
            if isinstance(node, ast.Break):
                _stop_loop(ctx, "break")
                return True
            _statement(ctx, node)
    return False


def _run_branches(
    ctx: Context, condition: Value, then: list[ast.stmt], orelse: list[ast.stmt]
) -> None:
    branch(ctx, condition, lambda: _discard(run(ctx, then)), lambda: _discard(run(ctx, orelse)))


def _discard(_: bool) -> None:
    return None


def _after_returning_loop(ctx: Context, rest: list[ast.stmt]) -> bool:
    """What follows a loop with a `return` runs when the loop ended without one."""
    returned = ctx.scope.env.get(RETURNED)
    if isinstance(returned, Static) and returned.value:  # at compile time, from an unrolled loop
        if ctx.loops:
            _stop_loop(ctx, "return")
        return True
    if not isinstance(returned, Value):
        return run(ctx, rest)
    branch(
        ctx,
        returned,
        lambda: _stop_loop(ctx, "return") if ctx.loops else None,
        lambda: _not_returned(ctx, rest),
    )
    return True


def _not_returned(ctx: Context, rest: list[ast.stmt]) -> None:
    ctx.write(RESULT, NONE)
    run(ctx, rest)


def _stop_loop(ctx: Context, what: str) -> None:
    loop = ctx.loops[-1]
    if isinstance(loop, str):
        ctx.write(loop, Static(False))
    elif loop.block is ctx.em.block:
        loop.stopped = True
    else:
        fail(
            f"{what} in a loop that is unrolled depends on a run-time condition",
            "use range, or an if around the rest of the body",
        )


def contains_return(node: ast.stmt) -> bool:
    """True when a `return` stands anywhere in a statement."""
    work: list[ast.AST] = [node]
    while work:
        inner = work.pop()
        if isinstance(inner, ast.Return):
            return True
        if not isinstance(inner, ast.FunctionDef | ast.Lambda):
            work += children(inner)
    return False


def has_exit(statements: list[ast.stmt]) -> bool:
    """True when statements contain a `return`, or a `break` or `continue` of the loop they are in."""
    for node in statements:
        if isinstance(node, ast.Return | ast.Continue | ast.Break):
            return True
        if isinstance(node, ast.If) and (has_exit(node.body) or has_exit(node.orelse)):
            return True
        if isinstance(node, ast.For | ast.While) and contains_return(node):
            return True
    return False


def _condition(ctx: Context, node: ast.If) -> Value | Static:
    with ctx.at(node.test):
        return semantics.as_condition(ctx.em, expression(ctx, node.test), "the condition of if")


def _return(ctx: Context, node: ast.Return) -> None:
    value = NONE if node.value is None else expression(ctx, node.value)
    if ctx.loops:
        _stop_loop(ctx, "return")
        ctx.write(RETURNED, Static(True))
    if len(ctx.stack) == 1 and to_python(value) != (True, None):
        fail(
            f"a kernel returns nothing, but this returns {describe(value)}",
            "write results with tl.store",
        )
    ctx.write(RESULT, value)


def _statement(ctx: Context, node: ast.stmt) -> None:
    handler = HANDLERS.get(type(node))
    if handler is None:
        what, hint = UNSUPPORTED.get(type(node), (type(node).__name__, ""))
        fail(f"{what} is not supported in kernels", hint)
    handler(ctx, node)


def _expression(ctx: Context, node: ast.Expr) -> None:
    expression(ctx, node.value)


def _assign(ctx: Context, node: ast.Assign) -> None:
    value = expression(ctx, node.value)
    for target in node.targets:
        assign(ctx, target, value)


def assign(ctx: Context, target: ast.expr, value: Operand) -> None:
    """`target = value` for names and tuples of targets."""
    if isinstance(target, ast.Name):
        ctx.write(target.id, value)
        return
    if isinstance(target, ast.Tuple | ast.List):
        items = items_of(value)
        if items is None:
            ctx.refuse(target, f"cannot unpack {describe(value)}")
        targets = target.elts
        if any(isinstance(t, ast.Starred) for t in targets):
            ctx.refuse(target, "* in an assignment is not supported in kernels", "index the tuple")
        if len(items) != len(targets):
            ctx.refuse(target, f"cannot unpack {len(items)} values into {len(targets)} names")
        for sub, item in zip(targets, items):
            assign(ctx, sub, item)
        return
    if isinstance(target, ast.Subscript):
        ctx.refuse(
            target,
            "a tile's elements cannot be assigned: tiles are values",
            "make a new tile with tl.where, or write to memory with tl.store",
        )
    ctx.refuse(target, "an attribute cannot be assigned in a kernel", "use a variable")


def _annotated(ctx: Context, node: ast.AnnAssign) -> None:
    if node.value is None:
        return
    # as in Triton, `x: constexpr = …` may hold a run-time value: it fails where a constant is needed
    assign(ctx, node.target, expression(ctx, node.value))


def _augmented(ctx: Context, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        assign(ctx, node.target, NONE)
        return
    with ctx.at(node.target):
        left = ctx.read(node.target.id)
    right = expression(ctx, node.value)
    ctx.write(node.target.id, operate(ctx, node.op, left, right))


def _delete(ctx: Context, node: ast.Delete) -> None:
    for target in node.targets:
        if not isinstance(target, ast.Name):
            ctx.refuse(target, "only names can be deleted")
        ctx.read(target.id)
        ctx.write(target.id, Undefined("has been deleted"))


def _assert(ctx: Context, node: ast.Assert) -> None:
    condition = expression(ctx, node.test)
    message = NONE if node.msg is None else expression(ctx, node.msg)
    text = Static("") if message is NONE else message
    if isinstance(condition, Value):
        device_assert(ctx.em, cond=condition, msg=text, mask=NONE)
    else:
        check(condition, text)


def _for(ctx: Context, node: ast.For) -> None:
    if node.orelse:
        ctx.refuse(
            node.orelse[0], "else on a loop is not supported in kernels", "use an if after it"
        )
    iterator = _iterator(ctx, node.iter)
    if isinstance(iterator, tuple):
        loop = Unrolled(ctx.em.block)
        for item in iterator:
            assign(ctx, node.target, item)
            _loop_body(ctx, node.body, loop)
            if loop.stopped:
                break
        return
    if not isinstance(node.target, ast.Name):
        ctx.refuse(node.target, "the counter of a loop must be a name")
    name = node.target.id
    exits = _exits(ctx, node)
    if exits:
        leaving_loop(ctx, node, name, iterator, lambda: _loop_body(ctx, node.body, exits[0]), exits)
    else:
        counted_loop(ctx, node, name, iterator, lambda: _loop_body(ctx, node.body, ""))


def _exits(ctx: Context, node: ast.For | ast.While) -> tuple[str, ...]:
    """The variables with which a loop ends early: whether it goes on, and whether it returned."""
    go = f"loop {len(ctx.loops)} goes on"
    if contains_return(node):
        return (go, RETURNED, RESULT)
    return (go,) if _leaves(node.body, ast.Break) else ()


def _leaves(body: list[ast.stmt], *kinds: type[ast.stmt]) -> bool:
    """True when statements contain a `break` or `continue` of the loop they are in."""
    return any(
        isinstance(node, kinds)
        or (
            isinstance(node, ast.If)
            and (_leaves(node.body, *kinds) or _leaves(node.orelse, *kinds))
        )
        for node in body
    )


def _loop_body(ctx: Context, body: list[ast.stmt], go: str | Unrolled) -> None:
    ctx.loops.append(go)
    try:
        run(ctx, body)
    finally:
        ctx.loops.pop()


def _unrolled_with_exits(ctx: Context, node: ast.For | ast.While) -> list[ast.stmt] | None:
    """The iterations of a compile-time loop that returns, one after the other; None for other loops."""
    if isinstance(node, ast.While) or _leaves(node.body, ast.Break, ast.Continue) or node.orelse:
        return None
    if not isinstance(node.target, ast.Name) or not _is_static_range(ctx, node.iter):
        return None
    iterator = _iterator(ctx, node.iter)
    assert isinstance(iterator, tuple)
    statements: list[ast.stmt] = []
    for item in iterator:
        known, number = to_python(item)
        assert known
        target = ast.Name(node.target.id, ast.Store())
        step = ast.Assign([target], ast.Constant(number))
        for made in (target, step, step.value):
            ast.copy_location(made, node)
        statements += [step, *node.body]
    return statements


def _is_static_range(ctx: Context, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = expression(ctx, node.func)
    return (
        isinstance(function, Static)
        and isinstance(function.value, Builtin)
        and function.value.name == "static_range"
    )


def _iterator(ctx: Context, node: ast.expr) -> Any:
    """Bounds of a loop at run time, or the items of one that is unrolled."""
    if isinstance(node, ast.Call):
        function = expression(ctx, node.func)
        target = function.value if isinstance(function, Static) else None
        named = isinstance(target, Builtin) and target.name in ("range", "static_range")
        if target is builtins.range or named:
            with ctx.at(node):
                return _range(ctx, node, target)
    value = expression(ctx, node)
    items = items_of(value)
    if items is None and isinstance(value, Static) and isinstance(value.value, range):
        items = tuple(Static(i) for i in value.value[: MAX_UNROLL + 1])
    if items is None:
        ctx.refuse(
            node,
            f"cannot loop over {describe(value)}",
            "loop over range(...), tl.range(...), tl.static_range(...) or a tuple",
        )
    return items


def _range(ctx: Context, node: ast.Call, target: Any) -> Any:
    args: list[Operand] = []
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            args.extend(items_of(expression(ctx, arg.value)) or fail("* takes a tuple"))
        else:
            args.append(expression(ctx, arg))
    kwargs: dict[str, Operand] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            fail("** in a call is not supported in kernels")
        kwargs[keyword.arg] = expression(ctx, keyword.value)
    if target is builtins.range:
        if kwargs:
            fail("range takes no keyword arguments", "use tl.range for num_stages and the like")
        return range_bounds(tuple(args))
    bound = bind_builtin(target, tuple(args), kwargs)
    given = [bound["arg1"], bound["arg2"], bound["step"]]
    while len(given) > 1 and to_python(given[-1]) == (True, None):
        given.pop()
    if len(given) == 3 and to_python(given[1]) == (True, None):
        given = [Static(0), given[0], given[2]]
    if target.name == "range":
        return range_bounds(tuple(given), bound["num_stages"])
    numbers = [static_int(arg, "an argument of static_range") for arg in given]
    if len(numbers) == 3 and numbers[2] == 0:
        fail("the step of static_range must not be zero")
    steps = range(*numbers)
    if len(steps) > MAX_UNROLL:
        fail(f"static_range unrolls {len(steps)} iterations", f"at most {MAX_UNROLL}: use tl.range")
    return tuple(Static(i) for i in steps)


def _while(ctx: Context, node: ast.While) -> None:
    if node.orelse:
        ctx.refuse(
            node.orelse[0], "else on a loop is not supported in kernels", "use an if after it"
        )
    exits = _exits(ctx, node)
    go = exits[0] if exits else ""
    while_loop(ctx, node, lambda: _loop_body(ctx, node.body, go), exits)


def _function(ctx: Context, node: ast.FunctionDef) -> None:
    ctx.write(node.name, closure(ctx, node))


def _pass(ctx: Context, node: ast.Pass) -> None:
    pass


HANDLERS: dict[type[ast.stmt], Callable[[Context, Any], None]] = {
    ast.Expr: _expression, ast.Assign: _assign, ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented, ast.Delete: _delete, ast.Assert: _assert, ast.For: _for,
    ast.While: _while, ast.Pass: _pass, ast.FunctionDef: _function,
}  # fmt: skip

UNSUPPORTED: dict[type[ast.stmt], tuple[str, str]] = {
    ast.Try: ("try", "kernels have no exceptions: check with if or tl.device_assert"),
    ast.Raise: ("raise", "use assert or tl.device_assert"),
    ast.With: ("with", ""),
    ast.AsyncFunctionDef: ("an async function", ""),
    ast.AsyncFor: ("async for", "use for"),
    ast.AsyncWith: ("async with", ""),
    ast.ClassDef: ("a class", "define it outside the kernel"),
    ast.Global: ("global", "kernels cannot change variables outside: use tl.store"),
    ast.Nonlocal: ("nonlocal", "kernels cannot change variables outside: use tl.store"),
    ast.Import: ("import", "import at the top of the file"),
    ast.ImportFrom: ("import", "import at the top of the file"),
    ast.Match: ("match", "use if and elif"),
}
"""What messages call the statements that kernels cannot use, and what to do instead."""
