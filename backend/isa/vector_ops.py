"""The one table of elementwise operations.

The same names serve as `fn` of the tile IR's `tile.map`, as micro-ops of vector programs, in the cost
functions and in the semantics (`numerics/elementwise.py` has one numpy function per row). Adding an
operation is one row here and one function there.
"""

from __future__ import annotations

from dataclasses import dataclass

CHEAP, MEDIUM, COSTLY = "cheap", "medium", "costly"
"""Cost classes; a target file prices each per `vector_bytes_per_cycle` of data."""


@dataclass(frozen=True)
class VectorOp:
    """An elementwise operation.

    `operands` and `result` name the format class: 'float', 'int' (any signedness, int1 included), 'any',
    'bool' (int1). Operands of class 'same as first' share one format unless listed otherwise.
    A `result` of 'same' is the format of the last operand; casts ('cast') take it from the op.
    Signedness is in the name where it matters, because IR integers are signless.
    """

    name: str
    code: int
    operands: tuple[str, ...]
    result: str
    cost: str = CHEAP
    commutative: bool = False
    doc: str = ""


def _rows() -> tuple[VectorOp, ...]:
    f, i, a, b = "float", "int", "any", "bool"
    rows: list[tuple[str, tuple[str, ...], str, str, bool, str]] = [
        # floating point: computed in fp32 (fp64 in fp64), rounded once to the format of the op
        ("fadd", (f, f), "same", CHEAP, True, "a + b"),
        ("fsub", (f, f), "same", CHEAP, False, "a - b"),
        ("fmul", (f, f), "same", CHEAP, True, "a * b"),
        ("fdiv", (f, f), "same", MEDIUM, False, "a / b, correctly rounded"),
        ("frem", (f, f), "same", COSTLY, False, "C fmod: sign of a"),
        ("ffma", (f, f, f), "same", CHEAP, False, "a * b + c with one rounding"),
        ("fneg", (f,), "same", CHEAP, False, "-a (flips the sign bit, NaN too)"),
        ("fabs", (f,), "same", CHEAP, False, "|a| (clears the sign bit)"),
        ("fmin", (f, f), "same", CHEAP, True, "minimum, NaN if either is NaN; -0 < +0"),
        ("fmax", (f, f), "same", CHEAP, True, "maximum, NaN if either is NaN; -0 < +0"),
        ("fminnum", (f, f), "same", CHEAP, True, "minimum, the other one if one is NaN; -0 < +0"),
        ("fmaxnum", (f, f), "same", CHEAP, True, "maximum, the other one if one is NaN; -0 < +0"),
        ("ffloor", (f,), "same", CHEAP, False, "round down"),
        ("fceil", (f,), "same", CHEAP, False, "round up"),
        ("fround", (f,), "same", CHEAP, False, "round to nearest integer, ties to even"),
        ("ftrunc", (f,), "same", CHEAP, False, "round towards zero"),
        ("fsqrt", (f,), "same", MEDIUM, False, "square root, correctly rounded"),
        ("frsqrt", (f,), "same", MEDIUM, False, "1 / sqrt(a), each correctly rounded"),
        ("fexp", (f,), "same", MEDIUM, False, "e^a by polynomial"),
        ("fexp2", (f,), "same", MEDIUM, False, "2^a by polynomial"),
        ("flog", (f,), "same", MEDIUM, False, "natural logarithm by polynomial"),
        ("flog2", (f,), "same", MEDIUM, False, "base-2 logarithm by polynomial"),
        ("ftanh", (f,), "same", COSTLY, False, "hyperbolic tangent"),
        ("ferf", (f,), "same", COSTLY, False, "error function"),
        ("fsin", (f,), "same", COSTLY, False, "sine"),
        ("fcos", (f,), "same", COSTLY, False, "cosine"),
        # integers wrap around; division is C's (towards zero), x / 0 is 0 and x % 0 is x
        ("iadd", (i, i), "same", CHEAP, True, "a + b"),
        ("isub", (i, i), "same", CHEAP, False, "a - b"),
        ("imul", (i, i), "same", CHEAP, True, "a * b"),
        ("sdiv", (i, i), "same", MEDIUM, False, "signed quotient towards zero; MIN / -1 is MIN"),
        ("udiv", (i, i), "same", MEDIUM, False, "unsigned quotient"),
        ("srem", (i, i), "same", MEDIUM, False, "signed remainder, sign of a; MIN % -1 is 0"),
        ("urem", (i, i), "same", MEDIUM, False, "unsigned remainder"),
        ("smulhi", (i, i), "same", CHEAP, True, "high half of the signed product"),
        ("umulhi", (i, i), "same", CHEAP, True, "high half of the unsigned product"),
        ("smin", (i, i), "same", CHEAP, True, "signed minimum"),
        ("smax", (i, i), "same", CHEAP, True, "signed maximum"),
        ("umin", (i, i), "same", CHEAP, True, "unsigned minimum"),
        ("umax", (i, i), "same", CHEAP, True, "unsigned maximum"),
        ("iabs", (i,), "same", CHEAP, False, "|a|, MIN stays MIN"),
        ("iand", (i, i), "same", CHEAP, True, "bitwise and"),
        ("ior", (i, i), "same", CHEAP, True, "bitwise or"),
        ("ixor", (i, i), "same", CHEAP, True, "bitwise exclusive or"),
        ("shl", (i, i), "same", CHEAP, False, "shift left; 0 when b >= width"),
        ("ashr", (i, i), "same", CHEAP, False, "arithmetic shift right; sign fill when b >= width"),
        ("lshr", (i, i), "same", CHEAP, False, "logical shift right; 0 when b >= width"),
        # comparisons give int1; float ones are ordered (False on NaN) except fne
        ("feq", (f, f), b, CHEAP, True, "a == b"),
        ("fne", (f, f), b, CHEAP, True, "a != b, True on NaN"),
        ("flt", (f, f), b, CHEAP, False, "a < b"),
        ("fle", (f, f), b, CHEAP, False, "a <= b"),
        ("fgt", (f, f), b, CHEAP, False, "a > b"),
        ("fge", (f, f), b, CHEAP, False, "a >= b"),
        ("ieq", (i, i), b, CHEAP, True, "a == b"),
        ("ine", (i, i), b, CHEAP, True, "a != b"),
        ("slt", (i, i), b, CHEAP, False, "signed a < b"),
        ("sle", (i, i), b, CHEAP, False, "signed a <= b"),
        ("sgt", (i, i), b, CHEAP, False, "signed a > b"),
        ("sge", (i, i), b, CHEAP, False, "signed a >= b"),
        ("ult", (i, i), b, CHEAP, False, "unsigned a < b"),
        ("ule", (i, i), b, CHEAP, False, "unsigned a <= b"),
        ("ugt", (i, i), b, CHEAP, False, "unsigned a > b"),
        ("uge", (i, i), b, CHEAP, False, "unsigned a >= b"),
        ("select", (b, a, a), "same", CHEAP, False, "b if a else c"),
        # conversions: the result format is the op's; float to int saturates and NaN gives 0
        ("sitofp", (i,), "cast", CHEAP, False, "signed integer to float, nearest even"),
        (
            "uitofp",
            (i,),
            "cast",
            CHEAP,
            False,
            "unsigned integer (int1 too) to float, nearest even",
        ),
        ("fptosi", (f,), "cast", CHEAP, False, "float to signed integer, towards zero, saturating"),
        (
            "fptoui",
            (f,),
            "cast",
            CHEAP,
            False,
            "float to unsigned integer, towards zero, saturating",
        ),
        ("fcvt", (f,), "cast", CHEAP, False, "float to float, nearest even; fp8e4m3 saturates"),
        ("sext", (i,), "cast", CHEAP, False, "sign extension"),
        ("zext", (i,), "cast", CHEAP, False, "zero extension (int1 gives 0 or 1)"),
        ("trunc", (i,), "cast", CHEAP, False, "keep the low bits"),
        ("bitcast", (a,), "cast", CHEAP, False, "same bits, other format of the same width"),
    ]
    return tuple(
        VectorOp(name, code, operands, result, cost, commutative, doc)
        for code, (name, operands, result, cost, commutative, doc) in enumerate(rows, 16)
    )


VECTOR_OPS: tuple[VectorOp, ...] = _rows()
BY_NAME: dict[str, VectorOp] = {op.name: op for op in VECTOR_OPS}
BY_CODE: dict[int, VectorOp] = {op.code: op for op in VECTOR_OPS}
