"""Integer arithmetic of the control core: `tile.map` on scalars as `arith` operations, and helpers on addresses.

`arith` operations in the glue have the results of `isa/vector_ops.py` also where LLVM's are undefined
(division by zero, shifts by the width or more): lowering guards them.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import arithmetic, tile
from .emit import Operand, Placement, core_type

_DIRECT: dict[str, type[Operation]] = {
    "iadd": arith.AddiOp, "isub": arith.SubiOp, "imul": arith.MuliOp, "iand": arith.AndIOp,
    "ior": arith.OrIOp, "ixor": arith.XOrIOp, "smin": arith.MinSIOp, "smax": arith.MaxSIOp,
    "umin": arith.MinUIOp, "umax": arith.MaxUIOp, "sdiv": arith.DivSIOp,
    "udiv": arith.DivUIOp, "srem": arith.RemSIOp, "urem": arith.RemUIOp, "shl": arith.ShLIOp,
    "ashr": arith.ShRSIOp, "lshr": arith.ShRUIOp,
}  # fmt: skip
_COMPARE = {
    "ieq": "eq", "ine": "ne", "slt": "slt", "sle": "sle", "sgt": "sgt", "sge": "sge",
    "ult": "ult", "ule": "ule", "ugt": "ugt", "uge": "uge",
}  # fmt: skip
_CAST: dict[str, type[Operation]] = {
    "sext": arith.ExtSIOp,
    "zext": arith.ExtUIOp,
    "trunc": arith.TruncIOp,
}


def core_map(p: Placement, op: tile.MapOp) -> SSAValue:
    """The result of an integer `tile.map` on scalars, computed by the control core."""
    fn, args = op.fn.data, [p.core(v) for v in op.args]
    if fn in _DIRECT:
        return p.result(arithmetic.binary(_DIRECT[fn], *args))
    if fn in _COMPARE:
        return p.result(arithmetic.compare(_COMPARE[fn], args[0], args[1]))
    if fn == "select":
        return p.result(arithmetic.select(*args))
    if fn in _CAST:
        return p.result(arithmetic.convert(_CAST[fn], args[0], core_type(op.result.type)))
    if fn == "bitcast":
        return args[0]
    if fn in ("smulhi", "umulhi"):
        return _high_product(p, fn, args[0], args[1])
    assert fn == "iabs", fn
    zero = p.constant(0, args[0].type)
    negative = p.result(arithmetic.compare("slt", args[0], zero))
    negated = p.result(arithmetic.binary(arith.SubiOp, zero, args[0]))
    return p.result(arithmetic.select(negative, negated, args[0]))


def _high_product(p: Placement, fn: str, a: SSAValue, b: SSAValue) -> SSAValue:
    assert isinstance(a.type, IntegerType)
    width = a.type.width.data
    wide = IntegerType(2 * width)
    extend: type[Operation] = arith.ExtSIOp if fn == "smulhi" else arith.ExtUIOp
    left, right = (p.result(arithmetic.convert(extend, v, wide)) for v in (a, b))
    product = p.result(arithmetic.binary(arith.MuliOp, left, right))
    high = p.result(arithmetic.binary(arith.ShRUIOp, product, p.constant(width, wide)))
    return p.result(arithmetic.convert(arith.TruncIOp, high, a.type))


# Arithmetic on operands, folded where both are known now


def _binary(
    p: Placement, kind: type[Operation], a: Operand, b: Operand, type_: Attribute
) -> SSAValue:
    return p.result(arithmetic.binary(kind, p.as_value(a, type_), p.as_value(b, type_)))


def add(p: Placement, a: Operand, b: Operand, type_: Attribute = i64) -> Operand:
    """a + b."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if b == 0:
        return a
    if a == 0:
        return b
    return _binary(p, arith.AddiOp, a, b, type_)


def subtract(p: Placement, a: Operand, b: Operand, type_: Attribute = i64) -> Operand:
    """a - b."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    if b == 0:
        return a
    return _binary(p, arith.SubiOp, a, b, type_)


def multiply(p: Placement, a: Operand, b: Operand, type_: Attribute = i64) -> Operand:
    """a * b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    if b == 1:
        return a
    if a == 1:
        return b
    return _binary(p, arith.MuliOp, a, b, type_)


def maximum(p: Placement, a: Operand, b: Operand, type_: Attribute = i64) -> Operand:
    """The larger one, signed."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return _binary(p, arith.MaxSIOp, a, b, type_)


def minimum(p: Placement, a: Operand, b: Operand, type_: Attribute = i64) -> Operand:
    """The smaller one, signed."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return _binary(p, arith.MinSIOp, a, b, type_)


def compare(p: Placement, predicate: str, a: SSAValue, b: Operand) -> SSAValue:
    """An i1 by a predicate of `arith.cmpi`."""
    return p.result(arithmetic.compare(predicate, a, p.as_value(b, a.type)))


def widen(p: Placement, value: Operand, type_: IntegerType = i64) -> Operand:
    """A signed operand in a wider type."""
    if isinstance(value, int) or value.type == type_:
        return value
    return p.result(arithmetic.convert(arith.ExtSIOp, value, type_))
