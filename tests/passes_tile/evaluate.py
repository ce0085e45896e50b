"""A small evaluator of tile IR over numpy: one program of a grid, against a byte array as HBM.

It shares no code with the compiler. Elementwise operations are written on numpy's own arithmetic; the
transcendental ones only have to be the same function before and after a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from dsalang._backend import formats
from dsalang._backend.dialects import tile
from dsalang._backend.dialects.types import PtrType, format_of
from dsalang._backend.isa.check import check_program
from dsalang._backend.isa.vprog import VectorProgram
from dsalang._backend.passes.fuse_limits import may_be_in_sram
from dsalang._backend.passes.vprogram import build_program

Array = np.ndarray[Any, Any]
INVALID = -(1 << 63)


class Unsupported(Exception):
    """The evaluator does not know an operation."""


class Machine:
    """HBM, and what the program printed and asserted."""

    def __init__(self, size: int, program: Sequence[int] = (0, 0, 0)) -> None:
        self.memory = np.zeros(size, np.uint8)
        self.program = tuple(program)
        self.grid = (7, 5, 3)
        self.log: list[tuple[str, tuple[bytes, ...]]] = []

    def address(self, at: int, size: int) -> slice:
        if not 0 <= at <= len(self.memory) - size:
            raise IndexError(f"address {at} is outside of memory")
        return slice(at, at + size)

    def read(self, at: int, dtype: np.dtype[Any]) -> Any:
        return self.memory[self.address(at, dtype.itemsize)].view(dtype)[0]

    def gather(self, addresses: Array, valid: Array, out: Array) -> None:
        """Read the valid elements of `out` from their addresses."""
        wanted = addresses[valid]
        if wanted.size:
            size = out.dtype.itemsize
            self.address(int(wanted.min()), size)
            self.address(int(wanted.max()), size)
            data = self.memory[wanted[:, None] + np.arange(size)]
            out[valid] = np.ascontiguousarray(data).view(out.dtype)[:, 0]

    def scatter(self, addresses: Array, valid: Array, value: Array) -> None:
        """Write the valid elements in row-major order."""
        data = np.ascontiguousarray(value[valid]).reshape(-1, 1).view(np.uint8)
        size = value.dtype.itemsize
        for at, row in zip(addresses[valid].tolist(), data, strict=True):
            self.memory[self.address(at, size)] = row

    def write(self, at: int, value: Any, dtype: np.dtype[Any]) -> None:
        self.memory[self.address(at, dtype.itemsize)] = np.array([value], dtype).view(np.uint8)


def storage(type_: Attribute) -> np.dtype[Any]:
    return format_of(type_).storage


def shape(type_: Attribute) -> tuple[int, ...]:
    return tuple(type_.get_shape()) if isinstance(type_, TensorType) else ()


def run(module: ModuleOp, args: Sequence[Any], machine: Machine) -> None:
    """Run the one function of a module."""
    (function,) = [op for op in module.ops if isinstance(op, func.FuncOp)]
    block = function.body.block
    env: dict[SSAValue, Array] = {}
    for argument, value in zip(block.args, args, strict=True):
        env[argument] = np.asarray(value).astype(storage(argument.type))
    with np.errstate(all="ignore"):
        run_block(block, env, machine)


def run_block(block: Block, env: dict[SSAValue, Array], machine: Machine) -> list[Array]:
    """Run a block; what its terminator yields (the condition first for scf.condition)."""
    for op in block.ops:
        if op is block.last_op:
            return [env[v] for v in op.operands]
        for result, value in zip(op.results, run_op(op, env, machine), strict=True):
            value = np.asarray(value)
            assert value.shape == shape(result.type), (op.name, value.shape, str(result.type))
            assert value.dtype == storage(result.type), (op.name, value.dtype, str(result.type))
            env[result] = value
    return []


def run_op(op: Operation, env: dict[SSAValue, Array], machine: Machine) -> Sequence[Array]:
    handler = HANDLERS.get(type(op))
    if handler is None:
        raise Unsupported(op.name)
    return handler(op, env, machine)


# Elementwise operations


def unsigned(a: Array) -> Array:
    return a.view(np.dtype(f"u{a.dtype.itemsize}")) if a.dtype != np.bool_ else a


def bits_of(a: Array) -> int:
    return 1 if a.dtype == np.bool_ else a.dtype.itemsize * 8


def truncated_division(a: Array, b: Array) -> Array:
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    quotient = np.floor_divide(a, safe)
    inexact = np.multiply(quotient, safe) != a
    if a.dtype.kind == "i":
        quotient = quotient + (inexact & ((a < 0) != (safe < 0))).astype(a.dtype)
        low = np.iinfo(a.dtype).min
        quotient = np.where((safe == -1) & (a == low), low, quotient)
    return np.where(b == 0, 0, quotient).astype(a.dtype)


def remainder(a: Array, b: Array) -> Array:
    return (a - truncated_division(a, b) * b).astype(a.dtype)


def shift(kind: str, a: Array, b: Array) -> Array:
    width = bits_of(a)
    amount = unsigned(b)
    small = np.minimum(amount, width - 1).astype(a.dtype)
    if kind == "ashr":
        return a >> small
    if kind == "shl":
        return np.where(amount >= width, 0, a << small).astype(a.dtype)
    shifted = unsigned(a) >> unsigned(small)
    return np.where(amount >= width, 0, shifted).astype(unsigned(a).dtype).view(a.dtype)


def in_fp32(fn: Callable[..., Array]) -> Callable[..., Array]:
    def apply(*args: Array) -> Array:
        return fn(*(a.astype(np.float32) for a in args)).astype(args[-1].dtype)

    return apply


def compare_fp32(fn: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, b: fn(a.astype(np.float32), b.astype(np.float32))


def as_unsigned(fn: Callable[..., Array]) -> Callable[..., Array]:
    def apply(a: Array, b: Array) -> Array:
        result = fn(unsigned(a), unsigned(b))
        return result if result.dtype == np.bool_ else result.view(a.dtype)

    return apply


ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "iadd": lambda a, b: (a + b).astype(a.dtype) if a.dtype != np.bool_ else a ^ b,
    "isub": lambda a, b: (a - b).astype(a.dtype) if a.dtype != np.bool_ else a ^ b,
    "imul": lambda a, b: (a * b).astype(a.dtype),
    "sdiv": truncated_division,
    "srem": remainder,
    "udiv": as_unsigned(truncated_division),
    "urem": as_unsigned(remainder),
    "smin": np.minimum,
    "smax": np.maximum,
    "umin": as_unsigned(np.minimum),
    "umax": as_unsigned(np.maximum),
    "iabs": lambda a: np.abs(a).astype(a.dtype),
    "iand": lambda a, b: a & b,
    "ior": lambda a, b: a | b,
    "ixor": lambda a, b: a ^ b,
    "shl": lambda a, b: shift("shl", a, b),
    "ashr": lambda a, b: shift("ashr", a, b),
    "lshr": lambda a, b: shift("lshr", a, b),
    "ieq": np.equal,
    "ine": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "ult": as_unsigned(np.less),
    "ule": as_unsigned(np.less_equal),
    "ugt": as_unsigned(np.greater),
    "uge": as_unsigned(np.greater_equal),
    "select": lambda c, a, b: np.where(c, a, b),
    "fadd": in_fp32(np.add),
    "fsub": in_fp32(np.subtract),
    "fmul": in_fp32(np.multiply),
    "fdiv": in_fp32(np.divide),
    "fneg": lambda a: -a,
    "fabs": np.abs,
    "fmin": in_fp32(np.minimum),
    "fmax": in_fp32(np.maximum),
    "fminnum": in_fp32(np.fmin),
    "fmaxnum": in_fp32(np.fmax),
    "fexp": in_fp32(np.exp),
    "fsqrt": in_fp32(np.sqrt),
    "ftanh": in_fp32(np.tanh),
    "feq": compare_fp32(np.equal),
    "fne": compare_fp32(np.not_equal),
    "flt": compare_fp32(np.less),
    "fle": compare_fp32(np.less_equal),
    "fgt": compare_fp32(np.greater),
    "fge": compare_fp32(np.greater_equal),
}


def cast(fn: str, a: Array, to: np.dtype[Any]) -> Array:
    if fn == "sext":
        return (-a.astype(to)) if a.dtype == np.bool_ else a.astype(to)
    if fn == "zext":
        return unsigned(a).astype(to)
    if fn == "trunc":
        return (a & 1).astype(np.bool_) if to == np.bool_ else a.astype(to)
    if fn == "sitofp":
        return (-a.astype(np.int8) if a.dtype == np.bool_ else a).astype(np.float64).astype(to)
    if fn == "uitofp":
        return unsigned(a).astype(np.float64).astype(to)
    if fn == "fcvt":
        return a.astype(to)
    if fn == "bitcast":
        return a.view(to)
    if fn == "fptosi":
        limits = np.iinfo(to)
        wide = np.nan_to_num(np.trunc(a.astype(np.float64)), nan=0.0)
        return np.clip(wide, limits.min, limits.max).astype(to)
    raise Unsupported(fn)


def elementwise(fn: str, args: Sequence[Array], to: np.dtype[Any]) -> Array:
    if fn in ELEMENTWISE:
        return np.asarray(ELEMENTWISE[fn](*args))
    return np.asarray(cast(fn, args[0], to))


# Operations


def do_constant(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    type_ = op.result.type
    if isinstance(op.value, IntegerAttr):
        number = op.value.value.data
        number = number & 1 if type_ == IntegerType(1) else number
        return [np.array(number).astype(storage(type_))]
    assert isinstance(op.value, FloatAttr)
    return [np.array(op.value.value.data).astype(storage(type_))]


def do_map(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    return [elementwise(op.fn.data, [env[a] for a in op.args], storage(op.result.type))]


def do_iota(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    start, (length,) = op.start.value.data, shape(op.result.type)
    return [np.arange(start, start + length, dtype=np.int32)]


def do_splat(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    return [np.full(shape(op.result.type), env[op.value])]


def do_addptr(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    element = op.ptr.type.element_type if shape(op.ptr.type) else op.ptr.type
    assert isinstance(element, PtrType)
    size = storage(element.pointee).itemsize
    return [env[op.ptr] + env[op.offset].astype(np.int64) * size]


def do_reshape(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    return [env[op.operands[0]].reshape(shape(op.results[0].type))]


def do_broadcast(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    return [np.broadcast_to(env[op.value], shape(op.result.type)).copy()]


def do_permute(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    return [np.ascontiguousarray(env[op.value].transpose(tile.ints(op.order)))]


def do_load(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    addresses, dtype = env[op.ptr], storage(op.result.type)
    mask = np.ones(addresses.shape, bool) if op.mask is None else env[op.mask]
    out = np.zeros(addresses.shape, dtype)
    if op.other is not None and op.mask is not None:
        out = env[op.other].copy()
    machine.gather(
        np.atleast_1d(addresses), np.atleast_1d(mask), out.reshape(np.atleast_1d(out).shape)
    )
    return [out]


def do_store(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    addresses, value = env[op.ptr], env[op.value]
    mask = np.ones(addresses.shape, bool) if op.mask is None else env[op.mask]
    machine.scatter(*map(np.atleast_1d, (addresses, mask, value)))
    return []


def combine(kind: str, old: Any, value: Any, compare: Any) -> Any:
    if kind == "xchg":
        return value
    if kind == "cas":
        return value if old == compare else old
    names = {"and": "iand", "or": "ior", "xor": "ixor"}
    return elementwise(names.get(kind, kind), [np.asarray(old), np.asarray(value)], value.dtype)


def atomic(
    kind: str, addresses: Array, value: Array, compare: Array | None, mask: Array, machine: Machine
) -> Array:
    old = np.zeros(value.shape, value.dtype)
    for i in np.ndindex(*addresses.shape):
        if mask[i]:
            old[i] = machine.read(int(addresses[i]), value.dtype)
            new = combine(kind, old[i], value[i], None if compare is None else compare[i])
            machine.write(int(addresses[i]), new, value.dtype)
    return old


def do_atomic(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    addresses = env[op.ptr]
    mask = np.ones(addresses.shape, bool) if op.mask is None else env[op.mask]
    compare = None if op.compare is None else env[op.compare]
    return [atomic(op.kind.data, addresses, env[op.value], compare, mask, machine)]


def do_atomic_list(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    offsets = env[op.offsets]
    compare = None if op.compare is None else env[op.compare]
    addresses = np.where(offsets == INVALID, 0, env[op.base] + offsets)
    valid = offsets != INVALID
    return [atomic(op.kind.data, addresses, env[op.value], compare, valid, machine)]


def box(op: Any, env: Any, sizes: tuple[int, ...]) -> tuple[Array, Array]:
    """Addresses and validity of the elements of a box, straight from the docstring of `load_box`."""
    rank = len(sizes)
    assert len(op.strides) == len(op.lo) == len(op.hi) == rank
    wrapped, indexed = tile.ints(op.wrapped), tile.ints(op.indexed)
    address = np.full(sizes, env[op.base], np.int64)
    valid = np.ones(sizes, bool)
    for d, size in enumerate(sizes):
        i = np.arange(size, dtype=np.int64)
        position = i
        if d in wrapped:
            k = wrapped.index(d)
            start, modulus = int(env[op.wrap_starts[k]]), int(env[op.wraps[k]])
            assert start >= 0 and modulus > 0
            position = (start + i) % modulus
        if d in indexed:
            index = env[op.indices[indexed.index(d)]]
            assert index.shape == (size,) and index.dtype in (np.int32, np.int64)
            position = index.astype(np.int64)
        lo, hi = int(env[op.lo[d]]), int(env[op.hi[d]])
        assert 0 <= lo <= size and 0 <= hi <= size
        along = [1] * rank
        along[d] = size
        address = address + (position * env[op.strides[d]]).reshape(along)
        valid = valid & ((lo <= i) & (i < hi)).reshape(along)
    return address, valid


def filled(op: Any, env: Any) -> Array:
    dtype = storage(op.result.type)
    return np.full(shape(op.result.type), 0 if op.fill is None else env[op.fill]).astype(dtype)


def do_load_box(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    address, valid = box(op, env, shape(op.result.type))
    out = filled(op, env)
    machine.gather(address, valid, out)
    return [out]


def do_store_box(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    value = env[op.value]
    address, valid = box(op, env, value.shape)
    machine.scatter(address, valid, value)
    return []


def do_gather(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    out, offsets = filled(op, env), env[op.offsets]
    machine.gather(env[op.base] + offsets, offsets != INVALID, out)
    return [out]


def do_scatter(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    value, offsets = env[op.value], env[op.offsets]
    machine.scatter(env[op.base] + offsets, offsets != INVALID, value)
    return []


def do_dot(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    dtype = storage(op.result.type)
    product = env[op.a].astype(np.float64) @ env[op.b].astype(np.float64)
    acc = 0 if op.acc is None else env[op.acc].astype(np.float64)
    return [(product + acc).astype(dtype)]


REDUCTIONS: dict[str, Callable[..., Array]] = {
    "fsum": np.sum, "isum": np.sum, "fmax": np.max, "fmin": np.min, "smax": np.max, "smin": np.min,
}  # fmt: skip


def do_reduce(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    value = env[op.value]
    return [
        np.asarray(REDUCTIONS[op.kind.data](value, axis=op.axis.value.data)).astype(value.dtype)
    ]


def do_scan(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    value = env[op.value]
    return [np.cumsum(value, axis=op.axis.value.data).astype(value.dtype)]


def do_fused(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    sizes = tile.ints(op.sizes)
    assert len(sizes) <= 4 and len(op.results) <= 4
    inner: dict[SSAValue, Array] = {}
    for argument, value, dims in zip(op.body.block.args, op.args, op.dims, strict=True):
        inner[argument] = walked(env[value], sizes, tile.ints(dims))
    block = op.body.block
    for body_op in block.ops:
        if isinstance(body_op, tile.YieldOp):
            results = [inner[v].copy() for v in body_op.values]
            check_vector_program(op, [inner[a] for a in block.args], results)
            return results
        if isinstance(body_op, tile.IndexOp):
            along = [1] * len(sizes)
            along[body_op.dim.value.data] = -1
            coordinate = np.arange(sizes[body_op.dim.value.data], dtype=np.int32).reshape(along)
            inner[body_op.result] = np.broadcast_to(coordinate, sizes).copy()
        else:
            (value,) = run_op(body_op, inner, machine)
            inner[body_op.results[0]] = np.broadcast_to(value, sizes).copy()
    raise AssertionError("no yield")


def run_program(
    program: VectorProgram,
    inputs: Sequence[Array],
    scalars: Sequence[Array],
    sizes: tuple[int, ...],
) -> list[Array]:
    """A vector program at every point of an iteration space."""
    check_program(program)
    registers: dict[int, Array] = {}
    outputs: dict[int, Array] = {}
    for op in program.ops:
        dtype = formats.by_name(op.fmt).storage
        if op.op == "out":
            assert registers[op.srcs[0]].dtype == dtype
            outputs[op.imm] = registers[op.srcs[0]]
            continue
        if op.op == "in":
            value = inputs[op.imm]
        elif op.op == "scalar":
            value = np.broadcast_to(scalars[op.imm], sizes)
        elif op.op == "const":
            bits = np.array(op.imm, np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
            value = np.broadcast_to(bits, sizes)
        elif op.op == "index":
            value = np.broadcast_to(np.indices(sizes, np.int32)[op.imm], sizes)
        else:
            sources = [registers[r] for r in op.srcs]
            assert sources[-1].dtype == formats.by_name(op.src_fmt).storage
            value = elementwise(op.op, sources, dtype)
        assert value.dtype == dtype and value.shape == sizes, op
        registers[op.dst] = value
    return [outputs[k] for k in range(len(program.outputs))]


def check_vector_program(
    op: tile.FusedOp, values: Sequence[Array], results: Sequence[Array]
) -> None:
    """The vector program of a fused op gives the same bits, whichever scalars lie in SRAM."""
    sizes = tile.ints(op.sizes)
    tiles = [bool(shape(v.type)) for v in op.args]
    for in_sram in (tiles, [t or may_be_in_sram(v) for t, v in zip(tiles, op.args)]):
        program, inputs, scalar_numbers = build_program(op, in_sram)
        found = run_program(
            program, [values[j] for j in inputs], [values[j] for j in scalar_numbers], sizes
        )
        for got, want in zip(found, results, strict=True):
            assert got.dtype == want.dtype
            assert np.array_equal(got.view(bits_type(got)), want.view(bits_type(want)))


def bits_type(a: Array) -> str:
    return f"u{a.dtype.itemsize}"


def walked(value: Array, sizes: tuple[int, ...], dims: tuple[int, ...]) -> Array:
    """An operand of a fused op over the iteration space."""
    assert len(dims) == value.ndim
    index = []
    for size, dim in zip(value.shape, dims):
        if dim == -1:
            assert size == 1
            index.append(np.zeros([1] * len(sizes), int))
        else:
            assert size == sizes[dim]
            along = [1] * len(sizes)
            along[dim] = size
            index.append(np.arange(size).reshape(along))
    return np.broadcast_to(value[tuple(index)], sizes).copy()


def do_for(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    block = op.body.block
    values = [env[v] for v in op.iter_args]
    for counter in range(int(env[op.lb]), int(env[op.ub]), int(env[op.step])):
        env[block.args[0]] = np.array(counter).astype(storage(op.lb.type))
        env.update(zip(block.args[1:], values, strict=True))
        values = run_block(block, env, machine)
    return values


def do_if(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    region = op.true_region if env[op.cond] else op.false_region
    return run_block(region.block, env, machine) if region.blocks else []


def do_while(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    before, after = op.before_region.block, op.after_region.block
    values = [env[v] for v in op.arguments]
    for _ in range(1000):
        env.update(zip(before.args, values, strict=True))
        condition, *outward = run_block(before, env, machine)
        if not condition:
            return outward
        env.update(zip(after.args, outward, strict=True))
        values = run_block(after, env, machine)
    raise AssertionError("a loop that does not end")


def do_print(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    machine.log.append((op.prefix.data, tuple(env[v].tobytes() for v in op.args)))
    return []


def do_assert(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    machine.log.append((op.message.data, (bytes([bool(np.all(env[op.condition]))]),)))
    return []


def do_slice(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    walks = zip(tile.ints(op.starts), tile.ints(op.steps), shape(op.result.type))
    return [env[op.value][np.ix_(*(start + step * np.arange(n) for start, step, n in walks))]]


def do_concat(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    return [np.concatenate([env[v] for v in op.args], axis=op.axis.value.data)]


def do_take(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    value, index, axis = env[op.value], env[op.index], op.axis.value.data
    inside = (index >= 0) & (index < value.shape[axis])
    found = np.take_along_axis(value, np.where(inside, index, 0), axis)
    return [np.where(inside, found, np.zeros((), value.dtype))]


def do_ptr_cast(op: Any, env: Any, machine: Machine) -> Sequence[Array]:
    return [env[op.value]]


HANDLERS: dict[type[Operation], Callable[[Any, Any, Machine], Sequence[Array]]] = {
    arith.ConstantOp: do_constant,
    tile.MapOp: do_map,
    tile.IotaOp: do_iota,
    tile.SplatOp: do_splat,
    tile.AddPtrOp: do_addptr,
    tile.PtrCastOp: do_ptr_cast,
    tile.ExpandDimsOp: do_reshape,
    tile.ReshapeOp: do_reshape,
    tile.BroadcastOp: do_broadcast,
    tile.PermuteOp: do_permute,
    tile.SliceOp: do_slice,
    tile.ConcatOp: do_concat,
    tile.TakeOp: do_take,
    tile.LoadOp: do_load,
    tile.StoreOp: do_store,
    tile.AtomicOp: do_atomic,
    tile.LoadBoxOp: do_load_box,
    tile.StoreBoxOp: do_store_box,
    tile.GatherOp: do_gather,
    tile.ScatterOp: do_scatter,
    tile.AtomicListOp: do_atomic_list,
    tile.DotOp: do_dot,
    tile.ReduceOp: do_reduce,
    tile.ScanOp: do_scan,
    tile.FusedOp: do_fused,
    tile.PrintOp: do_print,
    tile.AssertOp: do_assert,
    tile.ProgramIdOp: lambda op, env, m: [np.int32(m.program[op.axis.value.data])],
    tile.NumProgramsOp: lambda op, env, m: [np.int32(m.grid[op.axis.value.data])],
    scf.ForOp: do_for,
    scf.IfOp: do_if,
    scf.WhileOp: do_while,
}
