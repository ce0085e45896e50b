"""Exact algebra on one `tile.map`: folding, identities, canonical operand order.

Canonical forms, which the access pass relies on: a constant operand of a commutative operation stands
on the right; comparisons have their constant on the right; `x - c` is `x + (-c)`; an integer operation
on splats is a splat of a scalar operation. Float identities hold for every number; they may change
the payload of a NaN.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from ..dialects import tile
from ..dialects.attributes import text
from ..dialects.types import element_type, format_of, shape_of
from ..isa.vector_ops import BY_NAME as VECTOR_OPS
from .simplify_emit import Emitter
from .simplify_fold import float_constant, fold, fold_float, int_constant, splatted

_MIRROR = {
    "slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle",
    "ult": "ugt", "ule": "uge", "ugt": "ult", "uge": "ule",
    "flt": "fgt", "fle": "fge", "fgt": "flt", "fge": "fle",
}  # fmt: skip
_ZERO_IS_NEUTRAL = ("iadd", "isub", "ior", "ixor", "shl", "ashr", "lshr")
_ZERO_ABSORBS = ("imul", "iand")
_ONE_IS_NEUTRAL = ("imul", "sdiv", "udiv")
_IDEMPOTENT = ("iand", "ior", "smin", "smax", "umin", "umax", "fminnum", "fmaxnum", "fmin", "fmax")
_SAME_IS_TRUE = ("ieq", "sle", "sge", "ule", "uge")
_SAME_IS_FALSE = ("ine", "slt", "sgt", "ult", "ugt")
_WIDENED = ("fp16", "bf16", "fp8e4m3", "fp8e5m2")


def rewrite_map(op: tile.MapOp) -> SSAValue | None:
    """A value equal to the op's result, or None. May change the op in place to its canonical form."""
    # The last operand tells: a select's condition is an integer, all others have one type.
    if isinstance(element_type(op.args[-1].type), IntegerType):
        return _rewrite_int(op)
    return _rewrite_float(op)


def _width(type_: Attribute) -> int:
    element = element_type(type_)
    assert isinstance(element, IntegerType)
    width: int = element.width.data
    return width


def _rewrite_int(op: tile.MapOp) -> SSAValue | None:
    fn, type_ = op.fn.data, op.result.type
    constants = [int_constant(a) for a in op.args]
    known = [c for c in constants if c is not None]
    if len(known) == len(constants):
        value = _fold(op, known)
        if value is not None:
            return Emitter.at(op).filled(value, type_)
    if not isinstance(element_type(type_), IntegerType):
        return None
    if shape_of(type_) and all(isinstance(a.owner, tile.SplatOp) for a in op.args):
        emit = Emitter.at(op)
        scalar = emit.map(fn, *map(splatted, op.args), element=element_type(type_))
        return emit.splat(scalar, shape_of(type_))
    if len(op.args) == 1:
        return _rewrite_cast(op)
    if fn == "select":
        return _rewrite_select(op, constants[0])
    if constants[0] is not None and constants[1] is None:
        if not _mirror(op):
            return None
        constants.reverse()
        fn = op.fn.data
    if op.args[0] is op.args[1]:
        return _same_operands(op)
    return None if constants[1] is None else _right_constant(op, constants[1])


def _fold(op: tile.MapOp, known: list[int]) -> int | float | None:
    fn, type_ = op.fn.data, op.result.type
    if isinstance(element_type(type_), IntegerType):
        return fold(fn, known, _width(op.args[-1].type), _width(type_))
    return fold_float(fn, known, [format_of(a.type) for a in op.args], format_of(type_))


def _mirror(op: tile.MapOp) -> bool:
    """Swap the operands; False when the operation has no mirror image."""
    fn = op.fn.data
    if not (VECTOR_OPS[fn].commutative or fn in _MIRROR):
        return False
    op.operands = tuple(reversed(op.args))
    op.properties["fn"] = text(_MIRROR.get(fn, fn))
    return True


def _same_operands(op: tile.MapOp) -> SSAValue | None:
    fn, type_ = op.fn.data, op.result.type
    if fn in _IDEMPOTENT:
        return op.args[0]
    if fn in _SAME_IS_TRUE:
        return Emitter.at(op).filled(1, type_)
    if fn in ("isub", "ixor", *_SAME_IS_FALSE):
        return Emitter.at(op).filled(0, type_)
    return None


def _rewrite_select(op: tile.MapOp, condition: int | None) -> SSAValue | None:
    _, yes, no = op.args
    if condition is not None:
        return yes if condition else no
    return yes if yes is no else None


def _rewrite_cast(op: tile.MapOp) -> SSAValue | None:
    """sext(sext x), zext(zext x), trunc(trunc x), and trunc back to the format before an extension."""
    fn, inner = op.fn.data, op.args[0].owner
    if op.args[0].type == op.result.type and fn in ("sext", "zext", "trunc", "bitcast"):
        return op.args[0]
    if not isinstance(inner, tile.MapOp) or len(inner.args) != 1:
        return None
    source = inner.args[0]
    if fn in ("sext", "zext", "trunc") and inner.fn.data == fn:
        op.operands = (source,)
    elif fn == "trunc" and inner.fn.data in ("sext", "zext") and source.type == op.result.type:
        return source
    return None


def _right_constant(op: tile.MapOp, c: int) -> SSAValue | None:
    fn, x, type_ = op.fn.data, op.args[0], op.result.type
    emit = Emitter.at(op)
    width = _width(x.type)
    if (c == 0 and fn in _ZERO_IS_NEUTRAL) or (c == 1 and width > 1 and fn in _ONE_IS_NEUTRAL):
        return x
    if c == 0 and fn in _ZERO_ABSORBS:
        return emit.filled(0, type_)
    if c == 1 and width > 1 and fn in ("srem", "urem"):
        return emit.filled(0, type_)
    ones = c == (1 if width == 1 else -1)
    if ones and fn == "iand":
        return x
    if ones and fn == "ior":
        return emit.filled(c, type_)
    if width == 1 and (fn, c) in (("ieq", 1), ("ine", 0)):
        return x
    if fn == "isub" and width > 1:
        op.properties["fn"] = text("iadd")
        op.operands = (x, emit.filled(-c, x.type))
        fn, c = "iadd", -c
    inner = x.owner
    if fn in ("iadd", "imul") and isinstance(inner, tile.MapOp) and inner.fn.data == fn:
        other = int_constant(inner.args[1])
        if other is not None:
            merged = other + c if fn == "iadd" else other * c
            op.operands = (inner.args[0], emit.filled(merged, x.type))
    return None


def _rewrite_float(op: tile.MapOp) -> SSAValue | None:
    fn = op.fn.data
    if fn == "select":
        return _rewrite_select(op, int_constant(op.args[0]))
    constants = [float_constant(a) for a in op.args]
    known = [c for c in constants if c is not None]
    if len(known) == len(constants):
        formats = [format_of(a.type) for a in op.args]
        value = fold_float(fn, known, formats, format_of(op.result.type))
        return None if value is None else Emitter.at(op).filled(value, op.result.type)
    if len(op.args) == 1:
        return _rewrite_unary(op)
    if len(op.args) != 2:
        return None
    if constants[0] is not None and constants[1] is None:
        if not _mirror(op):
            return None
        constants.reverse()
    if op.args[0] is op.args[1] and fn in _IDEMPOTENT:
        return op.args[0]
    c = constants[1]
    if c is None:
        return None
    negative_zero = c == 0 and math.copysign(1, c) < 0
    neutral = (
        (c == 1 and fn in ("fmul", "fdiv"))
        or (fn == "fadd" and negative_zero)
        or (fn == "fsub" and c == 0 and not negative_zero)
    )
    return op.args[0] if neutral else None


def _rewrite_unary(op: tile.MapOp) -> SSAValue | None:
    fn, x, type_ = op.fn.data, op.args[0], op.result.type
    inner = x.owner
    if fn in ("fcvt", "bitcast") and x.type == type_:
        return x
    if not isinstance(inner, tile.MapOp):
        return None
    source = inner.args[0]
    if fn == "fneg" and inner.fn.data == "fneg":
        return source
    widened = fn == "fcvt" == inner.fn.data and format_of(x.type).name == "fp32"
    if widened and source.type == type_ and format_of(type_).name in _WIDENED:
        return source
    return None
