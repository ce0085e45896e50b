"""Pass 1, simplify: folding, common subexpressions, loop-invariant motion, dead code.

One forward walk simplifies each op and looks it up among the equal ops that dominate it; a second walk
follows when code has moved out of loops. Every step is linear in the number of ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import tile
from ..dialects.definition import is_pure
from .simplify_algebra import rewrite_map
from .simplify_control import rewrite_control
from .simplify_dead import remove_dead
from .simplify_equal import Known
from .simplify_fold import float_constant, int_constant
from .simplify_motion import hoist_invariants
from .simplify_regions import erase
from .simplify_views import rewrite_pointer, rewrite_view


def simplify(module: ModuleOp) -> None:
    """Simplify every function of a module in place."""
    for op in module.ops:
        if isinstance(op, func.FuncOp):
            _simplify_function(op)


def _simplify_function(function: func.FuncOp) -> None:
    for block in function.body.blocks:
        _walk(block, Known())
    remove_dead(function)
    if hoist_invariants(function):
        for block in function.body.blocks:
            _walk(block, Known())
        remove_dead(function)


def _walk(block: Block, known: Known) -> None:
    """Simplify a block; `known` has the pure ops of this block and of those around it."""
    op = block.first_op
    while op is not None:
        previous = op.prev_op
        rewrite = _REWRITES.get(type(op))
        changed = rewrite is not None and (rewrite(op) or op.prev_op is not previous)
        if changed or _replace_by_equal(op, known):
            # continue with what replaced the op or was put before it
            op = block.first_op if previous is None else previous.next_op
            continue
        for region in op.regions:
            for inner in region.blocks:
                _walk(inner, known.inside())
        op = op.next_op


def _replace(rewrite: Callable[[Any], SSAValue | None]) -> Callable[[Any], bool]:
    """From a function that finds a value equal to the result of an op to one that puts it in place of the op."""

    def replaced(op: Operation) -> bool:
        value = rewrite(op)
        if value is None:
            return False
        op.results[0].replace_all_uses_with(value)
        erase(op)
        return True

    return replaced


def _rewrite_assert(op: tile.AssertOp) -> bool:
    if int_constant(op.condition) != 1:
        return False
    erase(op)
    return True


def _drop_zero_accumulator(op: tile.DotOp) -> bool:
    if op.acc is not None:
        number = float_constant(op.acc)
        zero = int_constant(op.acc) == 0 if number is None else str(number) == "0.0"
        if zero:
            op.drop_accumulator()
    return False


def _replace_by_equal(op: Operation, known: Known) -> bool:
    if op.regions or not op.results or not is_pure(op):
        return False
    equal = known.equal(op)
    if equal is None:
        return False
    for old, new in zip(op.results, equal.results, strict=True):
        old.replace_all_uses_with(new)
    erase(op)
    return True


_REWRITES: dict[type[Operation], Callable[[Any], bool]] = {
    **dict.fromkeys((scf.IfOp, scf.ForOp, scf.WhileOp), rewrite_control),
    **dict.fromkeys(tile.VIEWS, _replace(rewrite_view)),
    **dict.fromkeys((tile.AddPtrOp, tile.PtrCastOp), _replace(rewrite_pointer)),
    tile.MapOp: _replace(rewrite_map),
    tile.DotOp: _drop_zero_accumulator,
    tile.AssertOp: _rewrite_assert,
}
"""How ops are simplified; each gives True when the op is gone."""
