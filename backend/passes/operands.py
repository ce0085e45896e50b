"""operands, before fuse: products that the tensor engine cannot take become products of wider operands.

A target that multiplies packed formats, and takes a scale per 32 numbers along K, reads them as they are. For any
other one the vector engine unpacks and scales the operands here: to fp8 where that is exact and there are no scales,
else to bf16, or to fp32 where bf16 does not hold the numbers. Scales of wider blocks are repeated.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp, i8, i32
from xdsl.ir import SSAValue

from ..dialects import tile
from ..dialects.types import element_type, format_of, scalar_type, shape_of
from ..formats import OPERANDS, Format
from ..isa.table import SCALE_BLOCK
from ..target import Target
from .simplify_emit import Emitter

_EXACT = {
    "fp8e4m3": ("fp4e2m1",),
    "int8": ("int4", "uint4"),
    "bf16": ("fp4e2m1", "fp8e4m3", "fp8e5m2", "bf16", "int4", "uint4", "int8", "uint8"),
    "fp32": ("fp16", "fp4e2m1", "fp8e4m3", "fp8e5m2", "bf16", "int4", "uint4", "int8", "uint8"),
}
"""Formats that stand in for others, the best ones first, and those whose numbers they hold."""
_NARROW = ("fp8e4m3", "int8")
"""Those that a scale may overflow."""


def operands(module: ModuleOp, target: Target) -> None:
    """Rewrite every product of a module whose operands the target does not take."""
    for op in list(module.walk()):
        if isinstance(op, tile.DotOp):
            _rewrite(op, target)


def _rewrite(op: tile.DotOp, target: Target) -> None:
    rates, emit = target.tensor.macs_per_cycle, Emitter.at(op)
    floats = format_of(op.result.type).is_float
    scales = [_repeated(emit, op, scale) for scale in (op.scale_a, op.scale_b)]
    values, names = [op.a, op.b], [fmt.name for fmt in op.formats]
    for k, fmt in enumerate(op.formats):
        plain = scales[k] is None and fmt.is_float == floats
        if fmt.name in rates and (
            plain or (target.tensor.block_scales and op.takes_scale(scales[k]))
        ):
            continue
        name = _wider(fmt, rates, floats, scales[k] is not None)
        if name is None:
            continue  # place says that the target does not multiply it
        axis = len(shape_of(values[k].type)) - (1 if k == 0 else 2)
        value, scale = values[k], scales[k]
        if fmt.per_element == 2:
            value = _unpacked(emit, value, fmt, axis)
        factors = None if scale is None else _factors(emit, scale, axis, op.block(scale), op.k)
        values[k] = _widened(emit, value, fmt.is_signed, OPERANDS[name], factors)
        names[k], scales[k] = name, None
    if [op.a, op.b, op.scale_a, op.scale_b] == [*values, *scales]:
        return
    formats = [None if format_of(v.type).name == n else n for v, n in zip(values, names)]
    new = tile.DotOp(
        values[0],
        values[1],
        op.acc,
        op.result.type,
        (scales[0], scales[1]),
        (formats[0], formats[1]),
    )
    emit.insert(new)
    op.result.replace_all_uses_with(new.result)
    assert op.parent is not None
    op.parent.erase_op(op)


def _wider(fmt: Format, rates: Mapping[str, int], floats: bool, scaled: bool) -> str | None:
    for name, held in _EXACT.items():
        fits = OPERANDS[name].is_float == floats and not (scaled and name in _NARROW)
        if fmt.name in held and name in rates and fits:
            return name
    return None


def _repeated(emit: Emitter, op: tile.DotOp, scale: SSAValue | None) -> SSAValue | None:
    """Scales of blocks of 64, 96, … as those of blocks of 32."""
    if scale is None or op.block(scale) % SCALE_BLOCK or op.block(scale) == SCALE_BLOCK:
        return scale
    return _spread(emit, scale, len(shape_of(scale.type)) - 1, op.block(scale) // SCALE_BLOCK)


def _spread(emit: Emitter, value: SSAValue, axis: int, times: int) -> SSAValue:
    """Every element `times` times along an axis."""
    shape = shape_of(value.type)
    inner = emit.reshape(value, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    wide = emit.broadcast(inner, (*shape[: axis + 1], times, *shape[axis + 1 :]))
    return emit.reshape(wide, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :]))


def _widened(
    emit: Emitter, value: SSAValue, signed: bool, wanted: Format, factors: SSAValue | None
) -> SSAValue:
    """Numbers in another format, multiplied by their scales in fp32."""
    wide = OPERANDS["fp32"] if factors is not None else wanted
    if not wide.is_float:
        return value
    if format_of(value.type).is_float:
        value = _converted(emit, value, wide)
    else:
        value = emit.map("sitofp" if signed else "uitofp", value, element=scalar_type(wide))
    if factors is None:
        return value
    return _converted(emit, emit.map("fmul", value, factors), wanted)


def _factors(emit: Emitter, scale: SSAValue, axis: int, block: int, k: int) -> SSAValue:
    """The scale of every number of an operand whose K is dim `axis`, as fp32."""
    factors, rank = _powers(emit, scale), len(shape_of(scale.type))
    if axis == rank - 2:
        order = (*range(rank - 2), rank - 1, rank - 2)
        factors = emit.insert(tile.PermuteOp(factors, order)).results[0]
    spread = _spread(emit, factors, axis, block)
    shape = list(shape_of(spread.type))
    if shape[axis] != k:
        shape[axis] = k
        starts, steps = [0] * rank, [1] * rank
        spread = emit.insert(tile.SliceOp(spread, starts, steps, shape)).results[0]
    return spread


def _converted(emit: Emitter, value: SSAValue, wanted: Format) -> SSAValue:
    if format_of(value.type).name == wanted.name:
        return value
    return emit.map("fcvt", value, element=scalar_type(wanted))


def _powers(emit: Emitter, scale: SSAValue) -> SSAValue:
    """Scales as fp32: 2^(code - 127) of E8M0 codes, 255 is NaN; floats as they are."""
    if element_type(scale.type) != i8:
        return _converted(emit, scale, OPERANDS["fp32"])
    code = emit.map("zext", scale, element=i32)

    def c(number: int) -> SSAValue:
        return emit.filled(number, code.type)

    pattern = emit.map("shl", code, c(23))
    pattern = emit.map("select", emit.map("ieq", code, c(0)), c(1 << 22), pattern)
    pattern = emit.map("select", emit.map("ieq", code, c(255)), c(0x7FC0_0000), pattern)
    return emit.map("bitcast", pattern, element=scalar_type(OPERANDS["fp32"]))


def _unpacked(emit: Emitter, value: SSAValue, fmt: Format, axis: int) -> SSAValue:
    """Numbers of a packed format: int8 elements, fp8e4m3 for fp4."""
    four = emit.filled(4, value.type)
    if fmt.is_signed and not fmt.is_float:
        low = emit.map("ashr", emit.map("shl", value, four), four)
        high = emit.map("ashr", value, four)
    else:
        low = emit.map("iand", value, emit.filled(15, value.type))
        high = emit.map("lshr", value, four)
    if fmt.is_float:
        low, high = _fp8_of(emit, low), _fp8_of(emit, high)
    shape = shape_of(value.type)
    unit = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    pair = tile.ConcatOp([emit.reshape(low, unit), emit.reshape(high, unit)], axis + 1)
    joined = emit.insert(pair).results[0]
    return emit.reshape(joined, (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))


def _fp8_of(emit: Emitter, code: SSAValue) -> SSAValue:
    """fp4 codes as fp8e4m3: exponent and mantissa move up by two bits, the bias grows by 6; 0.5 is no subnormal there."""

    def c(number: int) -> SSAValue:
        return emit.filled(number, code.type)

    magnitude = emit.map("iand", code, c(7))
    sign = emit.map("shl", emit.map("iand", code, c(8)), c(4))
    normal = emit.map("iadd", emit.map("shl", magnitude, c(2)), c(48))
    small = emit.map("ult", magnitude, c(2))
    bits = emit.map("select", small, emit.map("imul", magnitude, c(48)), normal)
    return emit.map(
        "bitcast", emit.map("ior", bits, sign), element=scalar_type(OPERANDS["fp8e4m3"])
    )
