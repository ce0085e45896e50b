"""Builds tile IR as the fuse pass leaves it, for tests of the passes behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from dsalang._backend import formats
from dsalang._backend.dialects import tile
from dsalang._backend.dialects.types import (
    PtrType,
    element_type,
    scalar_type,
    shape_of,
    with_shape,
)


def fmt(name: str) -> Attribute:
    """The IR type of a format."""
    return scalar_type(formats.by_name(name))


class Kernel:
    """A kernel under construction; every operation gets a line of its own in "kernel.py"."""

    def __init__(self, **arguments: str) -> None:
        types = [PtrType(fmt(a[1:])) if a[0] == "*" else fmt(a) for a in arguments.values()]
        self.block = Block(arg_types=types)
        self.builder = Builder(InsertPoint.at_end(self.block))
        self.function = func.FuncOp("kernel", (types, []), Region(self.block))
        self.function.attributes["dsa.args"] = ArrayAttr([StringAttr(a) for a in arguments])
        self.args = dict(zip(arguments, self.block.args, strict=True))
        self.names = list(arguments)
        self.line = 0

    def add(self, op: Operation) -> SSAValue | None:
        self.line += 1
        op.location = FileLineColLoc(StringAttr("kernel.py"), IntAttr(self.line), IntAttr(5))
        self.builder.insert(op)
        return op.results[0] if op.results else None

    def module(self) -> ModuleOp:
        self.add(func.ReturnOp())
        module = ModuleOp([self.function])
        module.verify()
        return module

    @contextmanager
    def inside(self, block: Block) -> Any:
        outer, self.builder = self.builder, Builder(InsertPoint.at_end(block))
        yield block
        self.builder = outer

    # scalars

    def const(self, value: float, kind: str = "i32") -> SSAValue:
        type_ = fmt(kind)
        attribute = (
            IntegerAttr(int(value), type_)
            if isinstance(type_, IntegerType)
            else FloatAttr(float(value), type_)
        )
        return self.add(arith.ConstantOp(attribute))

    def map(self, fn: str, *args: SSAValue, to: str | None = None) -> SSAValue:
        return self.add(tile.MapOp(fn, args, fmt(to) if to else None))

    def pid(self, axis: int = 0) -> SSAValue:
        return self.add(tile.ProgramIdOp(axis))

    def address(self, name: str, offset: SSAValue | None = None, bytes_: int = 1) -> SSAValue:
        """The argument's address + offset (an i32) * bytes_."""
        base = self.add(tile.PtrCastOp(self.args[name], i64))
        if offset is None:
            return base
        wide = self.map("sext", offset, to="i64") if offset.type == i32 else offset
        return self.map("iadd", base, self.map("imul", wide, self.const(bytes_, "i64")))

    # memory

    def _box(self, shape: Sequence[int], base: SSAValue, strides: Sequence[int | SSAValue], lo: Any, hi: Any) -> list[Any]:  # fmt: skip
        def numbers(values: Any, kind: str) -> list[SSAValue]:
            return [v if isinstance(v, SSAValue) else self.const(v, kind) for v in values]

        return [
            base,
            numbers(strides, "i64"),
            numbers(lo if lo is not None else [0] * len(shape), "i32"),
            numbers(hi if hi is not None else shape, "i32"),
        ]

    def load(
        self,
        arg: str,
        shape: Sequence[int],
        base: SSAValue,
        strides: Sequence[int | SSAValue],
        lo: Any = None,
        hi: Any = None,
        wraps: dict[int, tuple[SSAValue, SSAValue]] | None = None,
        indices: dict[int, SSAValue] | None = None,
        fill: SSAValue | None = None,
    ) -> SSAValue:
        element = self.args[arg].type.pointee
        wraps, indices = wraps or {}, indices or {}
        operands = self._box(shape, base, strides, lo, hi)
        op = tile.LoadBoxOp(
            operands=[
                *operands,
                [s for s, _ in wraps.values()],
                [w for _, w in wraps.values()],
                list(indices.values()),
                fill,
            ],
            properties=self._properties(arg, wraps, indices),
            result_types=[with_shape(element, tuple(shape))],
        )
        return self.add(op)

    def store(
        self,
        arg: str,
        value: SSAValue,
        base: SSAValue,
        strides: Sequence[int | SSAValue],
        lo: Any = None,
        hi: Any = None,
        wraps: dict[int, tuple[SSAValue, SSAValue]] | None = None,
        indices: dict[int, SSAValue] | None = None,
    ) -> None:
        wraps, indices = wraps or {}, indices or {}
        operands = self._box(shape_of(value.type), base, strides, lo, hi)
        op = tile.StoreBoxOp(
            operands=[
                *operands,
                [s for s, _ in wraps.values()],
                [w for _, w in wraps.values()],
                list(indices.values()),
                value,
            ],
            properties=self._properties(arg, wraps, indices),
        )
        self.add(op)

    def _properties(self, arg: str, wraps: Any, indices: Any) -> dict[str, Attribute]:
        return {
            "wrapped": tile.i64_array(list(wraps)),
            "indexed": tile.i64_array(list(indices)),
            "arg": IntegerAttr(self.names.index(arg), i32),
        }

    def gather(self, arg: str, base: SSAValue, offsets: SSAValue, fill: Any = None) -> SSAValue:
        element = self.args[arg].type.pointee
        op = tile.GatherOp(
            operands=[base, offsets, fill],
            properties={"arg": IntegerAttr(self.names.index(arg), i32)},
            result_types=[with_shape(element, shape_of(offsets.type))],
        )
        return self.add(op)

    def scatter(self, arg: str, base: SSAValue, offsets: SSAValue, value: SSAValue) -> None:
        properties = {"arg": IntegerAttr(self.names.index(arg), i32)}
        self.add(tile.ScatterOp(operands=[base, offsets, value], properties=properties))

    def atomic(
        self, kind: str, arg: str, base: SSAValue, offsets: SSAValue, value: SSAValue, compare: Any = None
    ) -> SSAValue:  # fmt: skip
        op = tile.AtomicListOp(
            operands=[base, offsets, value, compare],
            properties={
                "kind": StringAttr(kind),
                "arg": IntegerAttr(self.names.index(arg), i32),
            },
            result_types=[value.type],
        )
        return self.add(op)

    # compute

    def fused(
        self,
        sizes: Sequence[int],
        args: Sequence[SSAValue],
        dims: Sequence[Sequence[int]],
        body: Callable[..., Sequence[SSAValue]],
    ) -> tuple[SSAValue, ...]:
        """`body(kernel, *elements)` gives the results' elements."""
        block = Block(arg_types=[element_type(a.type) for a in args])
        with self.inside(block):
            results = body(self, *block.args)
            self.add(tile.YieldOp(list(results)))
        op = tile.FusedOp(args, sizes, dims, block)
        self.add(op)
        return tuple(op.results)

    def same(self, fn: str, *args: SSAValue) -> SSAValue:
        """An elementwise operation on tiles of one shape (scalars follow no dim)."""
        sizes = next(shape_of(a.type) for a in args if shape_of(a.type))
        dims = [list(range(len(sizes))) if shape_of(a.type) else [] for a in args]
        return self.fused(sizes, args, dims, lambda k, *e: [k.map(fn, *e)])[0]

    def full(self, shape: Sequence[int], value: float, kind: str) -> SSAValue:
        return self.fused(shape, [], [], lambda k: [k.const(value, kind)])[0]

    def dot(self, a: SSAValue, b: SSAValue, acc: SSAValue | None = None, out: str = "fp32") -> SSAValue:  # fmt: skip
        shape = (*shape_of(a.type)[:-1], shape_of(b.type)[-1])
        return self.add(tile.DotOp(a, b, acc, with_shape(fmt(out), shape)))

    def reduce(self, kind: str, value: SSAValue, axis: int) -> SSAValue:
        return self.add(tile.ReduceOp(kind, value, axis))

    def permute(self, value: SSAValue, *order: int) -> SSAValue:
        return self.add(tile.PermuteOp(value, order))

    # control flow

    def loop(
        self,
        lb: SSAValue,
        ub: SSAValue,
        inits: Sequence[SSAValue],
        body: Callable[..., Sequence[SSAValue]],
        step: SSAValue | None = None,
    ) -> tuple[SSAValue, ...]:
        step = step or self.const(1, f"i{lb.type.width.data}")
        block = Block(arg_types=[lb.type, *(v.type for v in inits)])
        with self.inside(block):
            self.add(scf.YieldOp(*body(self, *block.args)))
        op = scf.ForOp(lb, ub, step, list(inits), block)
        self.add(op)
        return tuple(op.results)

    def branch(
        self,
        condition: SSAValue,
        then: Callable[[Kernel], Sequence[SSAValue]],
        otherwise: Callable[[Kernel], Sequence[SSAValue]] | None = None,
    ) -> tuple[SSAValue, ...]:
        blocks, types = [], []
        for make in (then, otherwise):
            if make is None:
                continue
            block = Block()
            with self.inside(block):
                values = make(self)
                types = [v.type for v in values]
                self.add(scf.YieldOp(*values))
            blocks.append(block)
        op = scf.IfOp(condition, types, [blocks[0]], [blocks[1]] if len(blocks) > 1 else None)
        self.add(op)
        return tuple(op.results)

    def repeat(
        self,
        inits: Sequence[SSAValue],
        before: Callable[..., tuple[SSAValue, Sequence[SSAValue]]],
        after: Callable[..., Sequence[SSAValue]],
    ) -> tuple[SSAValue, ...]:
        first = Block(arg_types=[v.type for v in inits])
        with self.inside(first):
            condition, passed = before(self, *first.args)
            types = [v.type for v in passed]
            self.add(scf.ConditionOp(condition, *passed))
        second = Block(arg_types=types)
        with self.inside(second):
            self.add(scf.YieldOp(*after(self, *second.args)))
        op = scf.WhileOp(list(inits), types, [first], [second])
        self.add(op)
        return tuple(op.results)


class Memory:
    """Arrays in one emulated HBM."""

    def __init__(self) -> None:
        self.chunks: list[np.ndarray] = []
        self.size = 4096

    def put(self, array: np.ndarray) -> int:
        """Give an array an address."""
        address = self.size
        self.chunks.append(array)
        self.size += -(-array.nbytes // 256) * 256 + 256
        return address

    def bytes(self) -> np.ndarray:
        """The memory with all arrays in it."""
        memory = np.zeros(self.size, np.uint8)
        at = 4096
        for array in self.chunks:
            memory[at : at + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
            at += -(-array.nbytes // 256) * 256 + 256
        return memory


def view_of(memory: np.ndarray, address: int, like: np.ndarray) -> np.ndarray:
    """The array at an address of the memory."""
    return np.ndarray(like.shape, like.dtype, memory, address)
