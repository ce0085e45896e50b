"""Pass 1, simplify: folding, common subexpressions, loop-invariant motion, dead code.

One forward walk simplifies each op and looks it up among the equal ops that dominate it; a second walk
follows when code has moved out of loops. Every step is linear in the number of ops.
"""

from __future__ import annotations

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from ..dialects import tile
from .simplify_algebra import rewrite_map
from .simplify_control import rewrite_control
from .simplify_dead import remove_dead
from .simplify_fold import float_constant, int_constant
from .simplify_motion import hoist_invariants
from .simplify_views import rewrite_pointer, rewrite_view

Table = dict[tuple[object, ...], Operation]


def simplify(module: ModuleOp) -> None:
    """Simplify every function of a module in place."""
    for op in module.ops:
        if isinstance(op, func.FuncOp):
            _simplify_function(op)


def _simplify_function(function: func.FuncOp) -> None:
    for block in function.body.blocks:
        _walk(block, [{}])
    remove_dead(function)
    if hoist_invariants(function):
        for block in function.body.blocks:
            _walk(block, [{}])
        remove_dead(function)


def _walk(block: Block, scopes: list[Table]) -> None:
    """Simplify a block; `scopes` holds the pure ops of this block and of those around it."""
    op = block.first_op
    while op is not None:
        previous = op.prev_op
        changed = _rewrite(op) or op.prev_op is not previous
        if changed or _replace_by_equal(op, scopes):
            # continue with what replaced the op or was put before it
            op = block.first_op if previous is None else previous.next_op
            continue
        for region in op.regions:
            for inner in region.blocks:
                _walk(inner, [*scopes, {}])
        op = op.next_op


def _rewrite(op: Operation) -> bool:
    """Simplify one op; True when it is gone."""
    if isinstance(op, (scf.IfOp, scf.ForOp, scf.WhileOp)):
        return rewrite_control(op)
    value: SSAValue | None = None
    if isinstance(op, tile.MapOp):
        value = rewrite_map(op)
    elif isinstance(op, tile.VIEWS):
        value = rewrite_view(op)
    elif isinstance(op, (tile.AddPtrOp, tile.PtrCastOp)):
        value = rewrite_pointer(op)
    elif isinstance(op, tile.DotOp):
        _drop_zero_accumulator(op)
    elif isinstance(op, tile.AssertOp) and int_constant(op.condition) == 1:
        _erase(op)
        return True
    if value is None:
        return False
    op.results[0].replace_all_uses_with(value)
    _erase(op)
    return True


def _drop_zero_accumulator(op: tile.DotOp) -> None:
    if op.acc is not None:
        number = float_constant(op.acc)
        zero = int_constant(op.acc) == 0 if number is None else str(number) == "0.0"
        if zero:
            op.drop_accumulator()


def _replace_by_equal(op: Operation, scopes: list[Table]) -> bool:
    if op.regions or not op.results or not op.has_trait(Pure):
        return False
    properties = tuple(sorted(op.properties.items(), key=lambda item: item[0]))
    types = tuple(r.type for r in op.results)
    key = (type(op), tuple(op.operands), properties, types)
    for table in scopes:
        equal = table.get(key)
        if equal is not None:
            for old, new in zip(op.results, equal.results, strict=True):
                old.replace_all_uses_with(new)
            _erase(op)
            return True
    scopes[-1][key] = op
    return False


def _erase(op: Operation) -> None:
    assert op.parent is not None
    op.parent.erase_op(op)
