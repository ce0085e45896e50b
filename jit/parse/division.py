"""Warnings where run-time `//` and `%`, which are C's, may differ from Python's: on negative operands.

The parser notes each division that the user wrote; when the kernel is complete, what its operands are made of says
whether one may be negative.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path

from xdsl.dialects import scf
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from dsalang._backend.dialects import locations, tile

_OWN = str(Path(__file__).resolve().parents[1])
_SIGNED = {"sdiv": "//", "srem": "%", "frem": "%"}
_ALL = (
    "iadd", "imul", "sdiv", "smin", "sext", "fadd", "fmul", "fdiv", "fmin", "fminnum", "ffloor", "fceil", "fround",
    "ftrunc", "fcvt", "fptosi", "sitofp",
)  # fmt: skip
"""Operations that give no negative number when no operand is negative."""
_ANY = ("smax", "iand", "fmax")
"""The same when at least one operand is not negative."""
_FIRST = ("srem", "frem", "shl", "ashr", "lshr")
"""The same when the first operand is not negative."""
_NEVER = ("zext", "udiv", "urem", "iabs", "fabs", "fexp", "fexp2", "fsqrt", "uitofp", "fptoui")
_VIEWS = (
    tile.SplatOp, tile.ExpandDimsOp, tile.BroadcastOp, tile.ReshapeOp, tile.PermuteOp, tile.SliceOp,
)  # fmt: skip
_DEPTH = 24


class DivisionWarning(UserWarning):
    """A run-time `//` or `%` whose result may differ from Python's."""


def warn(divisions: Iterable[Operation]) -> None:
    """A warning, with its place, for each of these divisions that may have a negative operand."""
    for op in divisions:
        loc = locations.from_ir(op.location)
        assert isinstance(op, tile.MapOp)
        symbol = _SIGNED.get(op.fn.data)
        if symbol is None or loc is None or str(Path(loc.file).resolve()).startswith(_OWN):
            continue
        sides = [
            name
            for name, operand in zip(("left", "right"), op.args)
            if _maybe_negative(operand, _DEPTH, frozenset())
        ]
        if not sides:
            continue
        rule = (
            "rounds towards zero (-7 // 2 is -3), Python rounds down (-4)"
            if symbol == "//"
            else "takes the sign of its left operand (-7 % 4 is -3), Python that of the right one (1)"
        )
        which = f"{sides[0]} operand" if len(sides) == 1 else "operands"
        text = f"column {loc.col}: {symbol} at run time {rule}; the {which} here may be negative"
        warnings.warn_explicit(text, DivisionWarning, loc.file, loc.line)


def _maybe_negative(value: SSAValue, depth: int, assumed: frozenset[SSAValue]) -> bool:
    """False when no element of a value can be below zero, as long as integers do not overflow.

    `assumed` are variables of loops that are taken not to be negative while their next values are looked at.
    """
    if value in assumed:
        return False
    op = value.owner
    if depth == 0:
        return True
    if isinstance(op, Block):
        return _argument_maybe_negative(value, op, depth, assumed)
    if isinstance(op, tile.ProgramIdOp | tile.NumProgramsOp):
        return False
    if isinstance(op, ConstantOp):
        return isinstance(op.value, IntegerAttr | FloatAttr) and op.value.value.data < 0
    if isinstance(op, tile.IotaOp):
        return op.start.value.data < 0
    if isinstance(op, _VIEWS):
        return _maybe_negative(op.operands[0], depth - 1, assumed)
    if isinstance(op, tile.MapOp):
        return _map_maybe_negative(op, depth, assumed)
    if isinstance(op, scf.IfOp):
        k = op.results.index(value)
        ends = [region.block.last_op for region in op.regions if region.blocks]
        return any(
            end is None or _maybe_negative(end.operands[k], depth - 1, assumed) for end in ends
        )
    if isinstance(op, scf.ForOp):
        return _argument_maybe_negative(
            op.body.block.args[op.results.index(value) + 1], op.body.block, depth, assumed
        )
    return True


def _map_maybe_negative(op: tile.MapOp, depth: int, assumed: frozenset[SSAValue]) -> bool:
    name = op.fn.data

    def may(k: int) -> bool:
        return _maybe_negative(op.args[k], depth - 1, assumed)

    if name in _NEVER:
        return False
    if name in _ALL:
        return any(may(k) for k in range(len(op.args)))
    if name in _ANY:
        return all(may(k) for k in range(len(op.args)))
    if name in _FIRST:
        return may(0)
    return may(1) or may(2) if name == "select" else True


def _argument_maybe_negative(
    value: SSAValue, block: Block, depth: int, assumed: frozenset[SSAValue]
) -> bool:
    """Of a loop's counter its start decides, of a variable that it carries the first and the next value."""
    loop = block.parent_op()
    if not isinstance(loop, scf.ForOp):
        return True
    k = block.args.index(value)
    if k == 0:
        return _maybe_negative(loop.lb, depth - 1, assumed)
    last = block.last_op
    known = assumed | {value}
    return (
        last is None
        or _maybe_negative(loop.iter_args[k - 1], depth - 1, assumed)
        or _maybe_negative(last.operands[k - 1], depth - 1, known)
    )
