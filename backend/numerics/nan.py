"""Where vector programs make NaNs canonical: a static rule, the same for every engine.

A NaN's sign and payload are observable only where bits leave a program (`out`) or are reread (`bitcast`).
A register is *computed* when a float arithmetic operation made it, or when `fneg`, `fabs` or `select`
made it from a computed one; otherwise it is *moved*: its bits come unchanged from an input, a scalar, a
constant or a bit cast. `out` and `bitcast` replace NaNs of computed registers by the canonical quiet NaN
of the register's format and leave moved ones alone.
"""

from __future__ import annotations

from .. import formats
from ..isa import vprog
from ..isa.vector_ops import BY_NAME
from ..isa.vprog import VectorProgram

_BIT_OPERATIONS = ("fneg", "fabs", "select")


def canonical_sources(program: VectorProgram) -> tuple[bool, ...]:
    """Per micro-op: True when it is an `out` or `bitcast` that makes NaNs of its source canonical."""
    computed: dict[int, bool] = {}
    result = []
    for op in program.ops:
        leaves = op.op in (vprog.OUT, "bitcast")
        result.append(leaves and computed[op.srcs[0]])
        if op.op == vprog.OUT:
            continue
        if op.op in _BIT_OPERATIONS:
            computed[op.dst] = any(computed[source] for source in op.srcs)
        else:
            arithmetic = op.op in BY_NAME and op.op != "bitcast"
            computed[op.dst] = arithmetic and formats.by_name(op.fmt).is_float
    return tuple(result)
