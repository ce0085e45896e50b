"""A small evaluator of tile IR over numpy: what the tests run parsed kernels with.

One program at a time, no machine behind it. HBM is one byte array; pointers are addresses in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from dsalang._backend import formats
from dsalang._backend.dialects import tile
from dsalang._backend.dialects.types import PtrType, element_type, format_of, shape_of
from dsalang._backend.numerics import elementwise
from dsalang._jit.parse import parse
from dsalang._jit.source import KernelSource

Array = Any
MAX_STEPS = 100_000


def taken(value: Array, index: Array, axis: int) -> Array:
    """Elements along an axis by index, 0 where there are none."""
    inside = (index >= 0) & (index < value.shape[axis])
    found = np.take_along_axis(value, np.where(inside, index, 0), axis)
    return np.where(inside, found, np.zeros((), value.dtype))


def sliced(value: Array, op: tile.SliceOp) -> Array:
    """The elements that a `tile.slice` picks."""
    walks = zip(tile.ints(op.starts), tile.ints(op.steps), shape_of(op.result.type))
    return value[np.ix_(*(start + step * np.arange(n) for start, step, n in walks))]


class Evaluator:
    def __init__(self, memory: np.ndarray, program: tuple[int, int, int], grid: tuple[int, ...]):
        self.memory, self.program, self.grid = memory, program, grid
        self.values: dict[SSAValue, Array] = {}
        self.printed: list[str] = []
        self.steps = 0

    def get(self, value: SSAValue) -> Array:
        return self.values[value]

    def run(self, block: Block, args: Sequence[Array]) -> list[Array]:
        for argument, value in zip(block.args, args, strict=True):
            self.values[argument] = value
        for op in block.ops:
            self.steps += 1
            assert self.steps < MAX_STEPS, "the kernel does not end"
            if isinstance(op, scf.YieldOp | func.ReturnOp):
                return [self.get(v) for v in op.operands]
            if isinstance(op, scf.ConditionOp):
                return [self.get(v) for v in op.operands]
            results = self.step(op)
            for result, value in zip(op.results, results, strict=True):
                assert np.shape(value) == shape_of(result.type), (str(op), np.shape(value))
                self.values[result] = value
        raise AssertionError("no terminator")

    def step(self, op: Operation) -> list[Array]:
        name = type(op).__name__
        return getattr(self, name)(op)

    def ConstantOp(self, op: arith.ConstantOp) -> list[Array]:
        fmt = format_of(op.result.type)
        value = op.value.value.data
        return [np.asarray(abs(value) if fmt.name == "int1" else value).astype(fmt.storage)]

    def ForOp(self, op: scf.ForOp) -> list[Array]:
        lower, upper, step = (int(self.get(v)) for v in (op.lb, op.ub, op.step))
        assert step > 0
        carried = [self.get(v) for v in op.iter_args]
        storage = format_of(op.lb.type).storage
        for i in range(lower, upper, step):
            carried = self.run(op.body.block, [storage.type(i), *carried])
        return carried

    def IfOp(self, op: scf.IfOp) -> list[Array]:
        region = op.true_region if self.get(op.cond) else op.false_region
        return self.run(region.block, [])

    def WhileOp(self, op: scf.WhileOp) -> list[Array]:
        carried = [self.get(v) for v in op.arguments]
        while True:
            condition, *carried = self.run(op.before_region.block, carried)
            if not condition:
                return carried
            carried = self.run(op.after_region.block, carried)

    def ProgramIdOp(self, op: tile.ProgramIdOp) -> list[Array]:
        return [np.int32(self.program[op.axis.value.data])]

    def NumProgramsOp(self, op: tile.NumProgramsOp) -> list[Array]:
        return [np.int32(self.grid[op.axis.value.data])]

    def IotaOp(self, op: tile.IotaOp) -> list[Array]:
        (length,) = shape_of(op.result.type)
        return [np.arange(length, dtype=np.int32) + np.int32(op.start.value.data)]

    def SplatOp(self, op: tile.SplatOp) -> list[Array]:
        return [np.broadcast_to(self.get(op.value), shape_of(op.result.type))]

    def MapOp(self, op: tile.MapOp) -> list[Array]:
        arrays = [self.get(a) for a in op.args]
        fmt, source = format_of(op.result.type), format_of(op.args[-1].type)
        return [elementwise.apply(op.fn.data, fmt, source, *arrays).astype(fmt.storage)]

    def AddPtrOp(self, op: tile.AddPtrOp) -> list[Array]:
        pointer = element_type(op.ptr.type)
        assert isinstance(pointer, PtrType)
        size = format_of(pointer.pointee).bytes
        return [self.get(op.ptr) + self.get(op.offset).astype(np.int64) * size]

    def PtrCastOp(self, op: tile.PtrCastOp) -> list[Array]:
        return [self.get(op.value)]

    def ExpandDimsOp(self, op: tile.ExpandDimsOp) -> list[Array]:
        return [np.expand_dims(self.get(op.value), op.axis.value.data)]

    def BroadcastOp(self, op: tile.BroadcastOp) -> list[Array]:
        return [np.broadcast_to(self.get(op.value), shape_of(op.result.type))]

    def ReshapeOp(self, op: tile.ReshapeOp) -> list[Array]:
        return [np.reshape(self.get(op.value), shape_of(op.result.type))]

    def PermuteOp(self, op: tile.PermuteOp) -> list[Array]:
        return [np.transpose(self.get(op.value), tile.ints(op.order))]

    def SliceOp(self, op: tile.SliceOp) -> list[Array]:
        return [sliced(self.get(op.value), op)]

    def ConcatOp(self, op: tile.ConcatOp) -> list[Array]:
        return [np.concatenate([self.get(v) for v in op.args], axis=op.axis.value.data)]

    def TakeOp(self, op: tile.TakeOp) -> list[Array]:
        return [taken(self.get(op.value), self.get(op.index), op.axis.value.data)]

    def _pieces(self, op: Any) -> Any:
        pointers = np.asarray(self.get(op.ptr))
        mask = np.ones(pointers.shape, bool) if op.mask is None else self.get(op.mask)
        for index in np.ndindex(pointers.shape):
            if np.asarray(mask)[index]:
                yield index, int(pointers[index])

    def LoadOp(self, op: tile.LoadOp) -> list[Array]:
        storage = format_of(op.result.type).storage
        shape = shape_of(op.result.type)
        other = 0 if op.other is None else self.get(op.other)
        result = np.array(np.broadcast_to(np.asarray(other).astype(storage), shape))
        for index, address in self._pieces(op):
            result[index] = self.memory[address : address + storage.itemsize].view(storage)[0]
        return [result]

    def StoreOp(self, op: tile.StoreOp) -> list[Array]:
        value = np.asarray(self.get(op.value))
        for index, address in self._pieces(op):
            self.memory[address : address + value.itemsize] = value[index].reshape(1).view(np.uint8)
        return []

    def AtomicOp(self, op: tile.AtomicOp) -> list[Array]:
        value = np.asarray(self.get(op.value))
        old = np.zeros(value.shape, value.dtype)
        fmt = format_of(op.value.type)
        functions = {"iadd": "iadd", "fadd": "fadd", "and": "iand", "or": "ior", "xor": "ixor"}
        for index, address in self._pieces(op):
            place = self.memory[address : address + value.itemsize].view(value.dtype)
            old[index] = place[0]
            kind = op.kind.data
            if kind == "xchg":
                place[0] = value[index]
            elif kind == "cas":
                if place[0] == np.asarray(self.get(op.compare))[index]:
                    place[0] = value[index]
            else:
                fn = functions.get(kind, kind)
                place[0] = elementwise.apply(fn, fmt, fmt, place[0], value[index])
        return [old]

    def DotOp(self, op: tile.DotOp) -> list[Array]:
        wide = np.float64 if format_of(op.result.type).is_float else np.int64
        result = self.get(op.a).astype(wide) @ self.get(op.b).astype(wide)
        if op.acc is not None:
            result = result + self.get(op.acc).astype(wide)
        return [result.astype(format_of(op.result.type).storage)]

    def ReduceOp(self, op: tile.ReduceOp) -> list[Array]:
        value, axis = self.get(op.value), op.axis.value.data
        functions = {
            "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "maxnum": np.nanmax,
            "minnum": np.nanmin, "and": np.bitwise_and.reduce, "or": np.bitwise_or.reduce,
            "xor": np.bitwise_xor.reduce,
        }  # fmt: skip
        kind = op.kind.data
        function = functions.get(kind) or functions[kind[1:]]
        if kind[0] == "u" and value.dtype.kind == "i":
            value = value.view(value.dtype.str.replace("i", "u"))
        wide = value.astype(np.float64) if kind[0] == "f" else value
        return [np.asarray(function(wide, axis=axis)).astype(format_of(op.value.type).storage)]

    def ArgReduceOp(self, op: tile.ArgReduceOp) -> list[Array]:
        value, axis = self.get(op.value), op.axis.value.data
        kind, wide = op.kind.data, value.astype(np.float64)
        best = np.max if "max" in kind else np.min
        where = np.argmax if "max" in kind else np.argmin
        if "num" in kind:
            wide = np.where(np.isnan(wide), -np.inf if "max" in kind else np.inf, wide)
        return [best(wide, axis).astype(value.dtype), where(wide, axis).astype(np.int32)]

    def ScanOp(self, op: tile.ScanOp) -> list[Array]:
        value, axis = self.get(op.value), op.axis.value.data
        function = np.cumsum if "sum" in op.kind.data else np.cumprod
        if op.reverse.value.data:
            value = np.flip(value, axis)
        result = function(value.astype(np.float64 if op.kind.data[0] == "f" else np.int64), axis)
        if op.reverse.value.data:
            result = np.flip(result, axis)
        return [result.astype(format_of(op.value.type).storage)]

    def PrintOp(self, op: tile.PrintOp) -> list[Array]:
        self.printed.append(" ".join([op.prefix.data, *(str(self.get(a)) for a in op.args)]))
        return []

    def AssertOp(self, op: tile.AssertOp) -> list[Array]:
        assert np.all(self.get(op.condition)), f"device assertion: {op.message.data}"
        return []


def signature_of(value: object) -> str:
    if isinstance(value, np.ndarray):
        return "*" + formats.BY_STORAGE[value.dtype].name
    if isinstance(value, np.generic):
        return formats.BY_STORAGE[value.dtype].name
    if isinstance(value, bool):
        return "i1"
    return "i32" if isinstance(value, int) else "fp32"


def parse_call(function: Any, args: Mapping[str, Any]) -> tuple[ModuleOp, dict[str, Any]]:
    """Parse a kernel for these arguments; constexpr parameters are picked out. The run-time ones too."""
    source = function if isinstance(function, KernelSource) else function.source
    constants = {p.name for p in source.params if p.constexpr and p.name in args}
    constants |= {name for name, value in args.items() if value is None}
    run_time = {p.name: args[p.name] for p in source.params if p.name in args}
    run_time = {name: value for name, value in run_time.items() if name not in constants}
    signature = {name: signature_of(value) for name, value in run_time.items()}
    module = parse(source, signature, {name: args[name] for name in constants})
    module.verify()
    return module, run_time


def run_kernel(function: Any, grid: Sequence[int] = (1,), **args: Any) -> list[str]:
    """Parse and run a kernel on numpy arrays in place; gives what it printed."""
    module, run_time = parse_call(function, args)
    body = next(op for op in module.ops if isinstance(op, func.FuncOp)).body.block
    memory = np.full(
        64 + sum(v.nbytes + 128 for v in run_time.values() if np.ndim(v)), 0xAA, np.uint8
    )
    arguments: list[Array] = []
    places: list[tuple[np.ndarray, int]] = []
    top = 64
    for value in run_time.values():
        if isinstance(value, np.ndarray):
            memory[top : top + value.nbytes] = (
                np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            )
            places.append((value, top))
            arguments.append(np.int64(top))
            top += (value.nbytes + 127) // 64 * 64
        else:
            fmt = formats.by_name(signature_of(value))
            arguments.append(np.asarray(value).astype(fmt.storage))
    full = (*grid, 1, 1)[:3]
    printed: list[str] = []
    for z, y, x in np.ndindex(full[::-1]):
        evaluator = Evaluator(memory, (x, y, z), full)
        evaluator.run(body, arguments)
        printed += evaluator.printed
    for array, place in places:
        raw = memory[place : place + array.nbytes].view(array.dtype)
        array[...] = raw.reshape(array.shape)
    return printed
