"""A small in-order executor of dsa IR on numpy: no queues, no timing, no flags.

It poisons a slot at every acquire, so a value that is expected to survive a rotation shows up as garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from dsalang._backend import formats
from dsalang._backend.dialects import dsa
from dsalang._backend.isa.table import BY_NAME, INVALID_OFFSET, NONE, AtomicKind, ReduceKind
from dsalang._backend.isa.text import parse_program

POISON = 0xFF


@dataclass
class Machine:
    """One core and the memory outside it."""

    hbm: np.ndarray
    grid: tuple[int, int, int]
    core: int = 0
    cores: int = 1
    sram: np.ndarray = field(default_factory=lambda: np.full(1 << 22, POISON, np.uint8))
    prints: list[tuple[str, list[Any]]] = field(default_factory=list)
    asserts: list[str] = field(default_factory=list)
    issued: dict[str, int] = field(default_factory=dict)
    env: dict[SSAValue, int] = field(default_factory=dict)
    rings: dict[SSAValue, tuple[int, int, int, int]] = field(default_factory=dict)
    turns: dict[SSAValue, int] = field(default_factory=dict)


def run(module: ModuleOp, machine: Machine, args: Sequence[int]) -> None:
    """Run the kernel of `module` on one core."""
    kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
    block = kernel.body.block
    machine.env.update(zip(block.args, args, strict=True))
    _block(machine, block)


def _signed(value: int, type_: Any) -> int:
    if not isinstance(type_, IntegerType):
        return value
    width = type_.width.data
    value &= (1 << width) - 1
    if width == 1:
        return value
    return value - (1 << width) if value >> (width - 1) else value


def _unsigned(value: int, type_: Any) -> int:
    return value & ((1 << type_.width.data) - 1)


def _block(m: Machine, block: Block) -> list[int]:
    """Run a block; the result is the terminator's operands."""
    for op in block.ops:
        if op is block.last_op and isinstance(op, scf.YieldOp | scf.ConditionOp | func.ReturnOp):
            return [m.env[v] for v in op.operands]
        _op(m, op)
    return []


def _op(m: Machine, op: Operation) -> None:
    if isinstance(op, arith.ConstantOp):
        m.env[op.result] = _signed(op.value.value.data, op.result.type)
    elif type(op) in ARITH:
        a, b = (m.env[v] for v in op.operands)
        ua, ub = (_unsigned(m.env[v], v.type) for v in op.operands)
        m.env[op.results[0]] = _signed(ARITH[type(op)](a, b, ua, ub), op.results[0].type)
    elif isinstance(op, arith.CmpiOp):
        m.env[op.result] = int(_compare(m, op))
    elif isinstance(op, arith.SelectOp):
        m.env[op.result] = m.env[op.lhs] if m.env[op.cond] else m.env[op.rhs]
    elif isinstance(op, arith.ExtSIOp):
        value = m.env[op.input]
        m.env[op.result] = -value if op.input.type.width.data == 1 else value
    elif isinstance(op, arith.ExtUIOp):
        m.env[op.result] = _signed(_unsigned(m.env[op.input], op.input.type), op.result.type)
    elif isinstance(op, arith.TruncIOp):
        m.env[op.result] = _signed(m.env[op.input], op.result.type)
    elif isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
        _control(m, op)
    else:
        DSA[type(op)](m, op)


def _compare(m: Machine, op: arith.CmpiOp) -> bool:
    a, b = m.env[op.lhs], m.env[op.rhs]
    name = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")[
        op.predicate.value.data
    ]
    if name[0] == "u":
        a, b, name = _unsigned(a, op.lhs.type), _unsigned(b, op.rhs.type), "s" + name[1:]
    return {"eq": a == b, "ne": a != b, "slt": a < b, "sle": a <= b, "sgt": a > b, "sge": a >= b}[
        name
    ]


def _c_div(a: int, b: int) -> int:
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


ARITH: dict[type[Operation], Callable[[int, int, int, int], int]] = {
    arith.AddiOp: lambda a, b, ua, ub: a + b,
    arith.SubiOp: lambda a, b, ua, ub: a - b,
    arith.MuliOp: lambda a, b, ua, ub: a * b,
    arith.AndIOp: lambda a, b, ua, ub: ua & ub,
    arith.OrIOp: lambda a, b, ua, ub: ua | ub,
    arith.XOrIOp: lambda a, b, ua, ub: ua ^ ub,
    arith.DivSIOp: lambda a, b, ua, ub: _c_div(a, b),
    arith.RemSIOp: lambda a, b, ua, ub: a - _c_div(a, b) * b,
    arith.DivUIOp: lambda a, b, ua, ub: ua // ub if ub else 0,
    arith.RemUIOp: lambda a, b, ua, ub: ua % ub if ub else ua,
    arith.MinSIOp: lambda a, b, ua, ub: min(a, b),
    arith.MaxSIOp: lambda a, b, ua, ub: max(a, b),
    arith.MinUIOp: lambda a, b, ua, ub: min(ua, ub),
    arith.MaxUIOp: lambda a, b, ua, ub: max(ua, ub),
    arith.ShLIOp: lambda a, b, ua, ub: a << ub if ub < 64 else 0,
    arith.ShRSIOp: lambda a, b, ua, ub: a >> ub,
    arith.ShRUIOp: lambda a, b, ua, ub: ua >> ub,
}


def _control(m: Machine, op: Operation) -> None:
    if isinstance(op, scf.ForOp):
        carried = [m.env[v] for v in op.iter_args]
        block = op.body.block
        for i in range(m.env[op.lb], m.env[op.ub], m.env[op.step]):
            m.env.update(zip(block.args, [i, *carried], strict=True))
            carried = _block(m, block)
    elif isinstance(op, scf.IfOp):
        region = op.true_region if m.env[op.cond] else op.false_region
        carried = _block(m, region.block) if region.blocks else []
    else:
        assert isinstance(op, scf.WhileOp)
        carried = [m.env[v] for v in op.arguments]
        while True:
            m.env.update(zip(op.before_region.block.args, carried, strict=True))
            condition, *carried = _block(m, op.before_region.block)
            if not condition:
                break
            m.env.update(zip(op.after_region.block.args, carried, strict=True))
            carried = _block(m, op.after_region.block)
    m.env.update(zip(op.results, carried, strict=True))


# dsa operations


def _ring(m: Machine, op: dsa.RingOp) -> None:
    slots, bytes_ = max(1, op.slots.value.data), op.bytes.value.data
    stride = -(-bytes_ // 64) * 64
    address = op.address.value.data
    if address < 0:  # not allocated: everything apart
        address = sum(s * n for _, s, n, _ in m.rings.values())
    m.rings[op.result] = (address, stride, slots, bytes_)


def _acquire(m: Machine, op: dsa.AcquireOp) -> None:
    address, stride, slots, bytes_ = m.rings[op.ring]
    turn = m.turns.get(op.ring, 0)
    m.turns[op.ring] = turn + 1
    at = address + turn % slots * stride
    m.sram[at : at + bytes_] = POISON
    m.env[op.result] = at


def _held(m: Machine, op: dsa.HeldOp) -> None:
    acquire = op.current.owner
    assert isinstance(acquire, dsa.AcquireOp)
    address, stride, slots, _ = m.rings[acquire.ring]
    age = op.age.value.data
    assert age < slots
    m.env[op.result] = address + (m.turns[acquire.ring] - 1 - age) % slots * stride


def _part(m: Machine, op: dsa.PartOp) -> None:
    m.env[op.result] = m.env[op.whole] + m.env[op.offset]


def _read(m: Machine, op: dsa.ReadOp) -> None:
    fmt = formats.by_name(op.fmt.data)
    at = m.env[op.slot] + op.offset.value.data
    bits = int.from_bytes(m.sram[at : at + fmt.bytes].tobytes(), "little")
    m.env[op.result] = _signed(bits, op.result.type)


def _issue(m: Machine, op: dsa.IssueOp) -> None:
    row, fields = BY_NAME[op.op.data], {}
    for f in row.fields:
        absent = NONE if f.optional else 0
        present = f.name in op.fields.data
        value = op.static(f.name)
        if not present:
            value = absent if f.count == 1 else (absent,) * f.count
        fields[f.name] = value if isinstance(value, int) else list(value)
    for name, value in op.bound().items():
        field_name, _, entry = name.partition(".")
        number = m.env[value]
        if isinstance(value.type, dsa.SlotType):
            static = fields[field_name] if not entry else fields[field_name][int(entry)]
            number += 0 if static == NONE else static
        if entry:
            fields[field_name][int(entry)] = number
        else:
            fields[field_name] = number
    m.issued[row.name] = m.issued.get(row.name, 0) + 1
    program = parse_program(op.program.data) if op.program is not None else None
    ISSUE[row.name](m, fields, program)


def _print(m: Machine, op: dsa.PrintOp) -> None:
    values: list[Any] = []
    for value, fmt, shape in zip(op.args, op.fmts, op.shapes, strict=True):
        sizes = tuple(int(s) for s in shape.get_values())
        if sizes:
            storage = formats.by_name(fmt.data).storage
            values.append(_tile(m.sram, m.env[value], sizes, None, storage).copy())
        else:
            values.append(m.env[value])
    m.prints.append((op.prefix.data, values))


def _assert(m: Machine, op: dsa.AssertOp) -> None:
    if not m.env[op.condition]:
        m.asserts.append(op.message.data)


DSA: dict[type[Operation], Callable[[Machine, Any], None]] = {
    dsa.RingOp: _ring,
    dsa.AcquireOp: _acquire,
    dsa.HeldOp: _held,
    dsa.PartOp: _part,
    dsa.ReadOp: _read,
    dsa.IssueOp: _issue,
    dsa.PrintOp: _print,
    dsa.AssertOp: _assert,
    dsa.CoreIdOp: lambda m, op: m.env.update({op.result: m.core}),
    dsa.NumCoresOp: lambda m, op: m.env.update({op.result: m.cores}),
    dsa.GridDimOp: lambda m, op: m.env.update({op.result: m.grid[op.axis.value.data]}),
}


# Instructions


def _tile(memory: np.ndarray, at: int, size: Sequence[int], strides: Sequence[int] | None, dtype: Any) -> np.ndarray:  # fmt: skip
    if strides is None:
        return np.ndarray(tuple(size), dtype, memory, at)
    return np.ndarray(tuple(size), dtype, memory, at, tuple(strides))


def _dma(m: Machine, f: dict[str, Any], program: Any, load: bool) -> None:
    n, bytes_ = f["ndim"], f["elem_bytes"]
    index = []
    for d in range(n):
        if f["index"][d] == NONE:
            index.append(np.arange(f["size"][d]))
        else:
            storage = formats.BY_CODE[f["index_fmt"]].storage
            index.append(_tile(m.sram, f["index"][d], (f["size"][d],), None, storage).astype(int))
    for point in product(*(range(s) for s in f["size"][:n])):
        at = f["sram"] + sum(i * s for i, s in zip(point, f["sram_stride"]))
        place = m.sram[at : at + bytes_]
        if all(f["lo"][d] <= i < f["hi"][d] for d, i in enumerate(point)):
            far = f["hbm"] + sum(int(index[d][i]) * f["hbm_stride"][d] for d, i in enumerate(point))
            assert far >= 0 and far + bytes_ <= m.hbm.size, "outside of HBM"
            if load:
                place[:] = m.hbm[far : far + bytes_]
            else:
                m.hbm[far : far + bytes_] = place
        elif load and not f["keep"]:
            bits = f["fill"] & ((1 << (8 * bytes_)) - 1)
            place[:] = np.frombuffer(bits.to_bytes(bytes_, "little"), np.uint8)


def _list(m: Machine, f: dict[str, Any], action: Callable[[int, int, int], None]) -> None:
    sizes = f["size"][: f["ndim"]]
    offsets = _tile(m.sram, f["offset"], sizes, None, np.int64)
    for point in product(*(range(s) for s in sizes)):
        relative = sum(i * s for i, s in zip(point, f["sram_stride"]))
        action(int(offsets[point]), f["sram"] + relative, relative)


def _gather(m: Machine, f: dict[str, Any], program: Any) -> None:
    n = f["elem_bytes"]

    def one(offset: int, at: int, _: int) -> None:
        if offset == INVALID_OFFSET:
            bits = f["fill"] & ((1 << (8 * n)) - 1)
            m.sram[at : at + n] = np.frombuffer(bits.to_bytes(n, "little"), np.uint8)
        else:
            m.sram[at : at + n] = m.hbm[f["hbm"] + offset : f["hbm"] + offset + n]

    _list(m, f, one)


def _scatter(m: Machine, f: dict[str, Any], program: Any) -> None:
    n = f["elem_bytes"]

    def one(offset: int, at: int, _: int) -> None:
        if offset != INVALID_OFFSET:
            m.hbm[f["hbm"] + offset : f["hbm"] + offset + n] = m.sram[at : at + n]

    _list(m, f, one)


def _atomic(m: Machine, f: dict[str, Any], program: Any) -> None:
    fmt, kind = formats.BY_CODE[f["fmt"]], AtomicKind(f["kind"])

    def one(offset: int, at: int, relative: int) -> None:
        if offset == INVALID_OFFSET:
            return
        value = _tile(m.sram, at, (), None, fmt.storage)
        place = _tile(m.hbm, f["hbm"] + offset, (), None, fmt.storage)
        old = place.copy()
        if kind is AtomicKind.CAS:
            if place == _tile(m.sram, f["compare"] + relative, (), None, fmt.storage):
                place[...] = value
        else:
            place[...] = {
                AtomicKind.FADD: old + value,
                AtomicKind.IADD: old + value,
                AtomicKind.XCHG: value,
                AtomicKind.SMAX: np.maximum(old, value),
            }[kind]
        if f["old"] != NONE:
            _tile(m.sram, f["old"] + relative, (), None, fmt.storage)[...] = old

    _list(m, f, one)


def _mma(m: Machine, f: dict[str, Any], program: Any) -> None:
    fmt = {name: formats.BY_CODE[f[f"fmt_{name}"]].storage for name in "abd"}
    rows, columns, k = f["m"], f["n"], f["k"]

    def operand(name: str, height: int, width: int) -> np.ndarray:
        size = fmt[name].itemsize
        strides = (f[f"batch_{name}"], f[f"ld{name}"], size)
        if name != "d" and f[f"trans_{name}"]:
            strides = (strides[0], size, f[f"ld{name}"])
        return _tile(m.sram, f[name], (f["batch"], height, width), strides, fmt[name])

    d = operand("d", rows, columns)
    wide = np.float32 if f["fmt_d"] >= formats.by_name("fp8e4m3").code else np.int32
    product_ = np.zeros(d.shape, wide)
    if k:
        product_ = operand("a", rows, k).astype(wide) @ operand("b", k, columns).astype(wide)
    d[...] = (d.astype(wide) + product_ if f["accumulate"] else product_).astype(fmt["d"])


def _unsigned_view(values: np.ndarray) -> np.ndarray:
    return values.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[values.itemsize])


UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "fneg": np.negative, "fabs": np.abs, "fsqrt": np.sqrt, "fexp": np.exp, "fexp2": np.exp2,
    "flog": np.log, "iabs": np.abs, "ffloor": np.floor, "ftanh": np.tanh,
}  # fmt: skip
BINARY: dict[str, Callable[..., np.ndarray]] = {
    "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide,
    "fmax": np.maximum, "fmin": np.minimum, "iadd": np.add, "isub": np.subtract,
    "imul": np.multiply, "smax": np.maximum, "smin": np.minimum, "iand": np.bitwise_and,
    "ior": np.bitwise_or, "ixor": np.bitwise_xor, "flt": np.less, "fgt": np.greater,
    "fge": np.greater_equal, "slt": np.less, "sgt": np.greater, "sge": np.greater_equal,
    "ieq": np.equal, "ine": np.not_equal, "sle": np.less_equal, "feq": np.equal,
    "sdiv": lambda a, b: _each(lambda x, y: _c_div(x, y), a, b),
    "srem": lambda a, b: _each(lambda x, y: x - _c_div(x, y) * y, a, b),
    "udiv": lambda a, b: _each(lambda x, y: x // y if y else 0, _unsigned_view(a), _unsigned_view(b)),
    "urem": lambda a, b: _each(lambda x, y: x % y if y else x, _unsigned_view(a), _unsigned_view(b)),
    "shl": lambda a, b: _each(lambda x, y: x << y if 0 <= y < 32 else 0, a, b),
    "ashr": lambda a, b: _each(lambda x, y: x >> y, a, b),
    "lshr": lambda a, b: _each(lambda x, y: x >> y, _unsigned_view(a), _unsigned_view(b)),
    "umin": lambda a, b: np.minimum(_unsigned_view(a), _unsigned_view(b)),
    "umax": lambda a, b: np.maximum(_unsigned_view(a), _unsigned_view(b)),
    "ult": lambda a, b: _unsigned_view(a) < _unsigned_view(b),
}  # fmt: skip


def _each(f: Callable[[int, int], int], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """An integer function element by element in Python's integers."""
    return np.vectorize(lambda x, y: f(int(x), int(y)), otypes=[np.int64])(a, b)


def _vexec(m: Machine, f: dict[str, Any], program: Any) -> None:
    size = f["size"][: f["ndim"]]

    def operand(kind: str, k: int, name: str) -> np.ndarray:
        strides = f[f"{kind}_stride"][4 * k : 4 * k + f["ndim"]]
        return _tile(m.sram, f[kind][k], size, strides, formats.by_name(name).storage)

    inputs = [operand("in", k, name).copy() for k, name in enumerate(program.inputs)]
    registers: dict[int, np.ndarray] = {}
    for op in program.ops:
        dtype = formats.by_name(op.fmt).storage
        source = [registers[r] for r in op.srcs]
        if op.op == "out":
            operand("out", op.imm, op.fmt)[...] = source[0]
            continue
        if op.op == "in":
            value = inputs[op.imm]
        elif op.op in ("scalar", "const"):
            bits = f["scalar"][op.imm] if op.op == "scalar" else op.imm
            raw = (bits & ((1 << (8 * dtype.itemsize)) - 1)).to_bytes(dtype.itemsize, "little")
            value = np.broadcast_to(np.frombuffer(raw, dtype)[0], size)
        elif op.op == "index":
            shape = [1] * len(size)
            shape[op.imm] = size[op.imm]
            value = np.broadcast_to(np.arange(size[op.imm], dtype=np.int32).reshape(shape), size)
        elif op.op == "select":
            value = np.where(source[0], source[1], source[2])
        elif op.op == "bitcast":
            value = np.asarray(source[0]).view(dtype)
        elif op.op in UNARY:
            value = UNARY[op.op](source[0])
        elif op.op in BINARY:
            value = BINARY[op.op](source[0], source[1])
        else:
            assert op.op in ("sitofp", "fcvt", "sext", "zext", "trunc", "fptosi", "uitofp"), op.op
            value = source[0]
        registers[op.dst] = np.asarray(value).astype(dtype)


REDUCE: dict[str, Any] = {
    "FSUM": np.add, "ISUM": np.add, "FMAX": np.maximum, "FMIN": np.minimum, "SMAX": np.maximum,
    "SMIN": np.minimum, "AND": np.bitwise_and, "OR": np.bitwise_or, "FPROD": np.multiply,
}  # fmt: skip


def _reduce(m: Machine, f: dict[str, Any], program: Any) -> None:
    n, axis, dtype = f["ndim"], f["axis"], formats.BY_CODE[f["fmt"]].storage
    source = _tile(m.sram, f["in"], f["size"][:n], f["in_stride"][:n], dtype)
    out_size = [s for d, s in enumerate(f["size"][:n]) if d != axis]

    def strides(name: str) -> list[int]:
        return [s for d, s in enumerate(f[name][:n]) if d != axis]

    kind = ReduceKind(f["kind"]).name
    if f["out"] != NONE:
        value = REDUCE[kind].reduce(source, axis=axis, dtype=dtype)
        _tile(m.sram, f["out"], out_size, strides("out_stride"), dtype)[...] = value
    if f["arg"] != NONE:
        where = source.argmax(axis) if kind.endswith("MAX") else source.argmin(axis)
        _tile(m.sram, f["arg"], out_size, strides("arg_stride"), np.int32)[...] = where


def _scan(m: Machine, f: dict[str, Any], program: Any) -> None:
    n, axis, dtype = f["ndim"], f["axis"], formats.BY_CODE[f["fmt"]].storage
    source = _tile(m.sram, f["in"], f["size"][:n], f["in_stride"][:n], dtype)
    if f["reverse"]:
        source = np.flip(source, axis)
    value = REDUCE[ReduceKind(f["kind"]).name].accumulate(source, axis=axis, dtype=dtype)
    if f["reverse"]:
        value = np.flip(value, axis)
    _tile(m.sram, f["out"], f["size"][:n], f["out_stride"][:n], dtype)[...] = value


def _take(m: Machine, f: dict[str, Any], program: Any) -> None:
    n, axis, dtype = f["ndim"], f["axis"], formats.BY_CODE[f["fmt"]].storage
    size = list(f["size"][:n])
    wide = [*size[:axis], f["length"], *size[axis + 1 :]]
    source = _tile(m.sram, f["in"], wide, f["in_stride"][:n], dtype)
    index = _tile(
        m.sram, f["picks"], size, f["picks_stride"][:n], formats.BY_CODE[f["picks_fmt"]].storage
    )
    value = np.zeros(size, dtype)
    for at in np.ndindex(*size):
        if 0 <= index[at] < f["length"]:
            value[at] = source[(*at[:axis], index[at], *at[axis + 1 :])]
    _tile(m.sram, f["out"], size, f["out_stride"][:n], dtype)[...] = value


ISSUE: dict[str, Callable[[Machine, dict[str, Any], Any], None]] = {
    "dma.load": lambda m, f, p: _dma(m, f, p, True),
    "dma.store": lambda m, f, p: _dma(m, f, p, False),
    "dma.gather": _gather,
    "dma.scatter": _scatter,
    "dma.atomic": _atomic,
    "mma": _mma,
    "vexec": _vexec,
    "reduce": _reduce,
    "scan": _scan,
    "take": _take,
}
