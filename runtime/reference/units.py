"""What every instruction does: one function per opcode, called with the complete fields.

A function reads and writes memory through `CoreState`, which checks each access. It returns how many
elements were not masked off where the cost depends on that, else None.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dsalang._backend import formats
from dsalang._backend.cost import Fields, array, scalar
from dsalang._backend.errors import DeviceError
from dsalang._backend.formats import Format
from dsalang._backend.isa.table import MAX_VECTOR_DIMS, NONE, SCALE_BLOCK, ReduceKind
from dsalang._backend.isa.vprog import CONST, IN, INDEX, OUT, SCALAR, MicroOp, VectorProgram
from dsalang._backend.numerics import blocks, convert, elementwise, matmul, nan, reduce

from .state import UNSIGNED, Array, CoreState
from .units_dma import atomic, gather, load, scatter, store

Semantic = Callable[[CoreState, Fields, VectorProgram | None], int | None]


def _operand(state: CoreState, fields: Fields, name: str, integers: bool) -> Array:
    """A as [batch, M, K] or B as [batch, K, N], in a format of one number per element and without scales."""
    fmt = formats.OPERANDS_BY_CODE[scalar(fields, f"fmt_{name}")]
    batch, k = scalar(fields, "batch"), scalar(fields, "k")
    along = scalar(fields, "m" if name == "a" else "n")
    axis = 2 if name == "a" else 1
    shape = [batch, along, along]
    shape[axis] = fmt.stored(k)
    strides = [scalar(fields, f"batch_{name}"), scalar(fields, f"ld{name}"), fmt.bytes]
    if scalar(fields, f"trans_{name}"):
        strides[1:] = reversed(strides[1:])
    values = state.sram_read(scalar(fields, name), shape, strides, fmt.storage)
    if fmt.per_element > 1:
        values = blocks.unpacked(values, fmt, axis, k)
    scales = _scales(state, fields, name, along, axis)
    if scales is None and (integers or fmt.is_float):
        return values
    return blocks.scaled(values, scales, axis)


def _scales(state: CoreState, fields: Fields, name: str, along: int, axis: int) -> Array | None:
    """The scales of an operand with their blocks along `axis`, None where it has none."""
    address = scalar(fields, f"scale_{name}")
    if address == NONE:
        return None
    shape = (scalar(fields, "batch"), along, -(-scalar(fields, "k") // SCALE_BLOCK))
    strides = (scalar(fields, f"batch_scale_{name}"), scalar(fields, f"ld_scale_{name}"), 1)
    scales = state.sram_read(address, shape, strides, UNSIGNED[1])
    return scales if axis == 2 else scales.swapaxes(1, 2)


def mma(state: CoreState, fields: Fields, program: VectorProgram | None) -> None:
    """mma: one product per batch entry; integer results that leave int32 are an error.

    With k = 0 the operands A and B are not there, and D becomes 0 (or stays).
    """
    fmt_d = formats.BY_CODE[scalar(fields, "fmt_d")]
    accumulate = bool(scalar(fields, "accumulate"))
    shape = (scalar(fields, "batch"), scalar(fields, "m"), scalar(fields, "n"))
    if scalar(fields, "k") == 0:
        if not accumulate:
            _result(state, fields, fmt_d)[...] = np.zeros(shape, fmt_d.storage)
        return
    integers = not fmt_d.is_float
    a, b = (_operand(state, fields, name, integers) for name in "ab")
    fmt_a, fmt_b = formats.BY_STORAGE[a.dtype], formats.BY_STORAGE[b.dtype]
    start = _accumulator(state, fields, fmt_d) if accumulate else None
    results = np.empty(shape, fmt_d.storage)
    for i in range(len(results)):
        acc = None if start is None else start[i]
        results[i], overflow = matmul.mma(a[i], b[i], acc, fmt_a, fmt_b, fmt_d, accumulate)
        if overflow:
            raise overflow_error(state, fields)
    _result(state, fields, fmt_d)[...] = results


def _accumulator(state: CoreState, fields: Fields, fmt: Format) -> Array:
    return state.sram_read(scalar(fields, "d"), *_walk_of_d(fields, fmt), fmt.storage)


def _walk_of_d(fields: Fields, fmt: Format) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = (scalar(fields, "batch"), scalar(fields, "m"), scalar(fields, "n"))
    return shape, (scalar(fields, "batch_d"), scalar(fields, "ldd"), fmt.bytes)


def overflow_error(state: CoreState, fields: Fields) -> DeviceError:
    """The integer accumulator of an mma does not hold the sum."""
    fmt = formats.BY_CODE[scalar(fields, "fmt_d")]
    return state.error(
        f"the {fmt} accumulator of mma overflowed",
        hint="split the sum into shorter ones, or use a float format",
    )


def _result(state: CoreState, fields: Fields, fmt: Format) -> Array:
    return state.sram_write(scalar(fields, "d"), *_walk_of_d(fields, fmt), fmt.storage)


def _entry(fields: Fields, name: str, operand: int, ndim: int) -> tuple[int, ...]:
    start = operand * MAX_VECTOR_DIMS
    return array(fields, name)[start : start + ndim]


def _constant(pattern: int, fmt: Format, ndim: int) -> Array:
    """The low bits of a pattern as an array of one element that broadcasts."""
    data = (pattern & (1 << 64) - 1).to_bytes(8, "little")
    return np.frombuffer(data, fmt.storage, 1).reshape((1,) * ndim)


def vexec(state: CoreState, fields: Fields, program: VectorProgram | None) -> None:
    """vexec: every operand is read before any output is written."""
    assert program is not None
    ndim = scalar(fields, "ndim")
    shape = array(fields, "size")[:ndim]
    registers: dict[int, Array] = {}
    outputs: dict[int, Array] = {}
    for op, cleans in zip(program.ops, nan.canonical_sources(program), strict=True):
        if cleans:
            source = formats.by_name(op.fmt if op.op == OUT else op.src_fmt)
            registers[op.srcs[0]] = convert.canonical_nan(registers[op.srcs[0]], source)
        if op.op == OUT:
            # Copied, since the value may be a view of an input that another output overwrites.
            outputs[op.imm] = np.array(registers[op.srcs[0]])
        else:
            registers[op.dst] = _micro_op(state, fields, program, op, registers)
    for k, value in outputs.items():
        dtype = formats.by_name(program.outputs[k]).storage
        strides = _entry(fields, "out_stride", k, ndim)
        tile = state.sram_write(array(fields, "out")[k], shape, strides, dtype)
        tile[...] = value


def _micro_op(
    state: CoreState,
    fields: Fields,
    program: VectorProgram,
    op: MicroOp,
    registers: dict[int, Array],
) -> Array:
    ndim = scalar(fields, "ndim")
    fmt = formats.by_name(op.fmt)
    if op.op == IN:
        strides = _entry(fields, "in_stride", op.imm, ndim)
        shape = [1 if s == 0 else n for n, s in zip(array(fields, "size"), strides)]
        return state.sram_read(array(fields, "in")[op.imm], shape, strides, fmt.storage)
    if op.op == SCALAR:
        return _constant(array(fields, "scalar")[op.imm], fmt, ndim)
    if op.op == CONST:
        return _constant(op.imm, fmt, ndim)
    if op.op == INDEX:
        along = [1] * ndim
        along[op.imm] = array(fields, "size")[op.imm]
        return np.arange(along[op.imm], dtype=fmt.storage).reshape(along)
    sources = [registers[s] for s in op.srcs]
    return elementwise.apply(op.op, fmt, formats.by_name(op.src_fmt), *sources)


def _axis_input(state: CoreState, fields: Fields) -> Array:
    ndim = scalar(fields, "ndim")
    fmt = formats.BY_CODE[scalar(fields, "fmt")]
    shape, strides = array(fields, "size")[:ndim], array(fields, "in_stride")[:ndim]
    return state.sram_read(scalar(fields, "in"), shape, strides, fmt.storage)


def reduce_(state: CoreState, fields: Fields, program: VectorProgram | None) -> None:
    """reduce: values, positions or both."""
    kind, axis = ReduceKind(scalar(fields, "kind")), scalar(fields, "axis")
    fmt = formats.BY_CODE[scalar(fields, "fmt")]
    source = _axis_input(state, fields)
    positions: Array | None = None
    if scalar(fields, "arg") != NONE:
        values, positions = reduce.arg_reduce(kind, source, axis, fmt)
    else:
        values = reduce.reduce(kind, source, axis, fmt)
    for name, result in (("out", values), ("arg", positions)):
        if result is not None and scalar(fields, name) != NONE:
            strides = list(array(fields, f"{name}_stride")[: source.ndim])
            del strides[axis]
            address = scalar(fields, name)
            state.sram_write(address, result.shape, strides, result.dtype)[...] = result


def scan(state: CoreState, fields: Fields, program: VectorProgram | None) -> None:
    """scan: inclusive, along one dim."""
    kind, axis = ReduceKind(scalar(fields, "kind")), scalar(fields, "axis")
    fmt = formats.BY_CODE[scalar(fields, "fmt")]
    source = _axis_input(state, fields)
    result = reduce.scan(kind, source, axis, bool(scalar(fields, "reverse")), fmt)
    strides = array(fields, "out_stride")[: source.ndim]
    address = scalar(fields, "out")
    state.sram_write(address, result.shape, strides, result.dtype)[...] = result


def take(state: CoreState, fields: Fields, program: VectorProgram | None) -> None:
    """take: elements along one dim by index; zero bits for an index outside of it."""
    ndim, axis, length = (scalar(fields, name) for name in ("ndim", "axis", "length"))
    size = array(fields, "size")[:ndim]
    storage = formats.BY_CODE[scalar(fields, "fmt")].storage
    index_storage = formats.BY_CODE[scalar(fields, "picks_fmt")].storage
    shape = [length if d == axis else n for d, n in enumerate(size)]
    strides = {name: array(fields, f"{name}_stride")[:ndim] for name in ("in", "picks", "out")}
    source = state.sram_read(scalar(fields, "in"), shape, strides["in"], UNSIGNED[storage.itemsize])
    index = state.sram_read(scalar(fields, "picks"), size, strides["picks"], index_storage)
    inside = (index >= 0) & (index < length)
    picked = np.take_along_axis(source, np.where(inside, index, 0).astype(np.int64), axis)
    result = np.where(inside, picked, 0).astype(source.dtype)
    address = scalar(fields, "out")
    state.sram_write(address, size, strides["out"], result.dtype)[...] = result


SEMANTICS: dict[str, Semantic] = {
    "dma.load": load,
    "dma.store": store,
    "dma.gather": gather,
    "dma.scatter": scatter,
    "dma.atomic": atomic,
    "mma": mma,
    "vexec": vexec,
    "reduce": reduce_,
    "scan": scan,
    "take": take,
}
"""By opcode; `set` and `wait` are the engine's own (`core.py`)."""


def read_scalar(state: CoreState, address: int, fmt: Format) -> int:
    """One element of SRAM as the control core sees it: its bits, sign-extended (int1: 0 or 1)."""
    value = state.sram_read(address, (), (), UNSIGNED[fmt.bytes])
    pattern, bits = int(value), 8 * fmt.bytes
    if fmt.bits == 1:
        return pattern & 1
    return pattern - (1 << bits) if pattern >> (bits - 1) else pattern
