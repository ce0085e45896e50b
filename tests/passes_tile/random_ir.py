"""Random tile kernels: pointer tiles of many kinds, masks, loops that carry pointers, elementwise graphs."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import (
    FileLineColLoc,
    Float16Type,
    Float32Type,
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

from dsalang._backend.dialects import tile
from dsalang._backend.dialects.types import PtrType, element_type, shape_of, with_shape

f16, f32, i8 = Float16Type(), Float32Type(), IntegerType(8)
REGION = 1 << 15
"""Bytes between the arrays behind the pointer arguments, whose addresses are in the middle."""

POINTERS: tuple[Attribute, ...] = (f32, i32, f16, f32, i32)
"""Pointees: x, index, h, out, hist. The index array holds small numbers."""


class Builder:
    """Appends ops with a location of their own to a block."""

    def __init__(self, block: Block, rng: random.Random, counter: list[int]) -> None:
        self.block = block
        self.rng = rng
        self.counter = counter

    def nested(self, block: Block) -> Builder:
        return Builder(block, self.rng, self.counter)

    def add(self, op: Operation) -> SSAValue:
        self.counter[0] += 1
        line = IntAttr(self.counter[0])
        op.location = FileLineColLoc(StringAttr("k.py"), line, IntAttr(1))
        self.block.add_op(op)
        return op.results[0] if op.results else None  # type: ignore[return-value]

    def const(self, value: int | float, type_: Attribute = i32) -> SSAValue:
        if isinstance(type_, IntegerType):
            return self.add(arith.ConstantOp(IntegerAttr(int(value), type_)))
        return self.add(arith.ConstantOp(FloatAttr(float(value), type_)))  # type: ignore[arg-type]

    def map(self, fn: str, *args: SSAValue, to: Attribute | None = None) -> SSAValue:
        return self.add(tile.MapOp(fn, args, to))

    def splat(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        return self.add(tile.SplatOp(value, shape)) if shape else value

    def like(self, value: SSAValue, other: SSAValue) -> SSAValue:
        return self.splat(value, shape_of(other.type))

    def iota(self, length: int, start: int = 0) -> SSAValue:
        return self.add(tile.IotaOp(start, length))

    def spread(self, value: SSAValue, shape: Sequence[int], dim: int) -> SSAValue:
        """A rank-1 tile along one dim of a shape."""
        for d in range(len(shape)):
            if d != dim:
                value = self.add(tile.ExpandDimsOp(value, d))
        if shape_of(value.type) == tuple(shape):
            return value
        return self.add(tile.BroadcastOp(value, shape))


class Kernel(Builder):
    """The arguments of the kernel, and choices."""

    def __init__(self, seed: int) -> None:
        types = [PtrType(t) for t in POINTERS] + [i32, i32, i32]
        block = Block(arg_types=types)
        super().__init__(block, random.Random(seed), [0])
        self.x, self.index, self.h, self.out, self.hist, self.n, self.m, self.s = block.args
        self.root = self
        function = func.FuncOp("k", (types, []), Region(block))
        function.attributes["dsa.alias"] = tile.i64_array([0, 1, 2, 3, 4, -1, -1, -1])
        self.module = ModuleOp([function])

    def finish(self) -> ModuleOp:
        self.add(func.ReturnOp())
        self.module.verify()
        return self.module

    # Scalars and index expressions

    def small(self, b: Builder, loop: Sequence[SSAValue] = ()) -> SSAValue:
        """A small i32 scalar, often not known at compile time."""
        rng = self.rng
        kind = rng.randrange(6)
        if kind == 0:
            return b.const(rng.randrange(-4, 9))
        if kind == 1:
            return b.add(tile.ProgramIdOp(rng.randrange(3)))
        if kind == 2 and loop:
            return rng.choice(list(loop))
        if kind == 3:
            return b.map("iadd", rng.choice([self.n, self.m]), b.const(rng.randrange(-3, 4)))
        if kind == 4:
            return b.map("imul", b.add(tile.ProgramIdOp(0)), b.const(rng.randrange(1, 5)))
        return rng.choice([self.n, self.m, self.s])

    def line(self, b: Builder, size: int, loop: Sequence[SSAValue] = ()) -> SSAValue:
        """A rank-1 i32 tile: affine, wrapped, divided, looked up."""
        rng = self.rng
        value = b.iota(size, rng.choice([0, 0, 3]))
        if rng.random() < 0.25:
            block = b.map("imul", b.add(tile.ProgramIdOp(0)), b.const(size))
            value = b.map("iadd", b.like(block, value), value)
            modulus = rng.choice([b.const(rng.randrange(1, 9)), self.n, self.m])
            value = b.map(rng.choice(["srem", "urem"]), value, b.like(modulus, value))
        for _ in range(rng.randrange(4)):
            fn = rng.choice(
                [
                    "iadd",
                    "iadd",
                    "isub",
                    "imul",
                    "srem",
                    "srem",
                    "urem",
                    "sdiv",
                    "shl",
                    "rsub",
                    "smin",
                ]
            )
            if fn in ("imul", "shl"):
                operand = b.const(rng.choice([1, 2, 3] if fn == "imul" else [0, 1]))
            elif fn in ("srem", "urem", "sdiv"):
                operand = rng.choice([b.const(rng.randrange(1, 7)), self.n, self.s])
            else:
                operand = self.small(b, loop)
            tiles = (value, b.splat(operand, (size,)))
            if fn == "rsub":
                fn, tiles = "isub", tiles[::-1]
            if rng.random() < 0.3 and fn in ("iadd", "imul"):
                tiles = tiles[::-1]
            value = b.map(fn, *tiles)
        if rng.random() < 0.15:
            wrapped = b.map("iand", value, b.like(b.const(63), value))
            pointers = b.add(tile.AddPtrOp(b.like(self.index, wrapped), wrapped))
            value = b.add(tile.LoadOp(pointers))
        return value

    def offsets(self, b: Builder, shape: Sequence[int], loop: Sequence[SSAValue] = ()) -> SSAValue:
        """An i32 (or i64) offset tile of a shape."""
        rng = self.rng
        total: SSAValue | None = None
        for dim, size in enumerate(shape):
            part = self.line(b, size, loop)
            if rng.random() < 0.5:
                stride = rng.choice([self.s, self.m, b.const(rng.choice([1, 5, 8]))])
                part = b.map("imul", part, b.like(stride, part))
            part = b.spread(part, shape, dim)
            total = part if total is None else b.map("iadd", total, part)
        assert total is not None
        chance = rng.random()
        if len(shape) > 1 and chance < 0.12:
            total = b.map("srem", total, b.like(b.const(61), total))
        elif chance < 0.2:
            total = b.map("iadd", total, b.like(self.small(b, loop), total))
        # keep within the arrays whatever the scalars are
        if rng.random() < 0.3:
            total = b.map(rng.choice(["sext", "sext", "zext"]), total, to=i64)
            if rng.random() < 0.3:
                total = b.map("trunc", total, to=i32)
        return total

    def offsets_i32(
        self, b: Builder, shape: Sequence[int], loop: Sequence[SSAValue] = ()
    ) -> SSAValue:
        offsets = self.offsets(b, shape, loop)
        return offsets if element_type(offsets.type) == i32 else b.map("trunc", offsets, to=i32)

    def mask(
        self, b: Builder, shape: Sequence[int], loop: Sequence[SSAValue] = ()
    ) -> SSAValue | None:
        rng = self.rng
        if rng.random() < 0.25:
            return None
        parts = []
        for _ in range(rng.randrange(1, 4)):
            dim = rng.randrange(len(shape))
            fn = rng.choice(["slt", "sle", "sgt", "sge", "ult", "uge", "ieq", "slt", "slt"])
            line = self.line(b, shape[dim], loop)
            pair = (line, b.like(self.small(b, loop), line))
            compared = b.map(fn, *(pair if rng.random() < 0.8 else pair[::-1]))
            if rng.random() < 0.15:
                flag = b.map("slt", self.small(b, loop), self.small(b, loop))
                compared = b.map("iand", compared, b.like(flag, compared))
            parts.append(b.spread(compared, shape, dim))
        total = parts[0]
        for part in parts[1:]:
            total = b.map(rng.choice(["iand", "iand", "iand", "ior"]), total, part)
        return total

    def pointers(
        self, b: Builder, base: SSAValue, shape: Sequence[int], loop: Sequence[SSAValue] = ()
    ) -> SSAValue:
        if self.rng.random() < 0.3:
            base = b.add(tile.AddPtrOp(base, self.small(b, loop)))
        offsets = self.offsets(b, shape, loop)
        if self.rng.random() < 0.3 and len(shape) == 2:
            row = b.spread(self.line(b, shape[0], loop), (shape[0], 1), 0)
            column = b.add(tile.AddPtrOp(b.splat(base, (shape[0], 1)), row))
            wide = b.add(tile.BroadcastOp(column, shape))
            return b.add(tile.AddPtrOp(wide, offsets))
        return b.add(tile.AddPtrOp(b.splat(base, shape), offsets))

    def load(
        self, b: Builder, ptr: SSAValue, loop: Sequence[SSAValue] = (), mask: SSAValue | None = None
    ) -> SSAValue:
        rng, shape = self.rng, shape_of(ptr.type)
        mask = self.mask(b, shape, loop) if mask is None else mask
        other = None
        element = element_type(ptr.type)
        assert isinstance(element, PtrType)
        if mask is not None and rng.random() < 0.6:
            other = b.splat(b.const(rng.choice([0, 1, -2]), element.pointee), shape)
            if rng.random() < 0.3:
                iota = b.spread(b.iota(shape[0]), shape, 0)
                fn = "sitofp" if not isinstance(element.pointee, IntegerType) else "trunc"
                other = b.map(fn, iota, to=element.pointee)
        return b.add(tile.LoadOp(ptr, mask, other))

    # Elementwise graphs

    def elementwise(self, b: Builder, values: list[SSAValue], steps: int) -> SSAValue:
        """A graph over f32 tiles of one shape."""
        rng = self.rng
        pool = list(values)
        shape = shape_of(pool[0].type)
        for _ in range(steps):
            kind = rng.randrange(8)
            a, c = rng.choice(pool), rng.choice(pool)
            if kind < 3:
                value = b.map(rng.choice(["fadd", "fsub", "fmul", "fmax"]), a, c)
            elif kind == 3:
                value = b.map(rng.choice(["fneg", "fabs", "fexp", "ftanh"]), a)
            elif kind == 4:
                value = b.map("select", b.map("flt", a, c), c, b.like(b.const(1.5, f32), a))
            elif kind == 5 and len(shape) > 1:
                axis = rng.randrange(len(shape))
                reduced = b.add(tile.ReduceOp("fmax", a, axis))
                if shape_of(reduced.type):
                    reduced = b.map("fmul", reduced, b.like(b.const(0.5, f32), reduced))
                wide = b.add(tile.BroadcastOp(b.add(tile.ExpandDimsOp(reduced, axis)), shape))
                value = b.map("fsub", a, wide)
            elif kind == 6:
                iota = b.spread(b.iota(shape[-1], 1), shape, len(shape) - 1)
                value = b.map("fmul", a, b.map("sitofp", iota, to=f32))
            else:
                half = b.map("fcvt", a, to=f16)
                value = b.map("fcvt", half, to=f32)
            pool.append(value)
        return pool[-1]


def yield_(b: Builder, *values: SSAValue) -> None:
    b.add(scf.YieldOp(*values))


def advance(k: Kernel, b: Builder, ptr: SSAValue, loop: Sequence[SSAValue]) -> SSAValue:
    """The next value of a carried pointer or offset tile: mostly a splat added, at times something else."""
    shape = shape_of(ptr.type)
    step = b.splat(k.small(b, loop), shape)
    chance = k.rng.random()
    if chance < 0.2 and len(shape) > 0:
        part = b.spread(b.iota(shape[0]), shape, 0)
        step = b.map("iadd", step, part)
    if chance > 0.93 and len(shape) == 1:
        step = k.line(b, shape[0], loop)
    if isinstance(element_type(ptr.type), PtrType):
        return b.add(tile.AddPtrOp(ptr, step))
    return b.map("iadd", ptr, step)


def random_kernel(seed: int) -> ModuleOp:
    """A kernel that loads, computes, stores, in loops and conditionals."""
    k = Kernel(seed)
    rng = k.rng
    shape = rng.choice(SHAPES)
    for _ in range(rng.randrange(1, 4)):
        rng.choice([straight, looped, looped, conditional, indexed, scalars, while_loop])(
            k, k, shape, ()
        )
    return k.finish()


Loop = Sequence[SSAValue]


def straight(k: Kernel, b: Builder, shape: Sequence[int], loop: Loop) -> None:
    tiles = []
    for _ in range(k.rng.randrange(1, 4)):
        value = k.load(b, k.pointers(b, k.rng.choice([k.x, k.x, k.h, k.out]), shape, loop), loop)
        if element_type(value.type) == f16:
            value = b.map("fcvt", value, to=f32)
        tiles.append(value)
    result = k.elementwise(b, tiles, k.rng.randrange(0, 9))
    if k.rng.random() < 0.2:
        b.add(tile.PrintOp("value", [result], [0]))
    b.add(tile.StoreOp(k.pointers(b, k.out, shape, loop), result, k.mask(b, shape, loop)))


def looped(k: Kernel, b: Builder, shape: Sequence[int], loop: Loop) -> None:
    """A loop that carries pointers, offsets and a sum."""
    rng = k.rng
    ptr = k.pointers(b, k.x, shape, loop)
    line = k.line(b, shape[-1], loop)
    acc = b.splat(b.const(0.0, f32), shape)
    bounds = [b.const(0), rng.choice([b.const(3), b.const(1), k.n, k.n, k.n, k.m]), b.const(1)]
    block = Block(arg_types=[i32, ptr.type, line.type, acc.type])
    inner = b.nested(block)
    counter, carried, offs, total = block.args
    counters = (*loop, counter)
    mask = None
    if rng.random() < 0.6:
        bound = inner.like(k.small(inner, counters), offs)
        mask = inner.spread(inner.map("slt", offs, bound), shape, len(shape) - 1)
    value = k.load(inner, carried, counters, mask)
    total = inner.map("fadd", total, value)
    if len(counters) < 3 and rng.random() < 0.4:
        rng.choice([straight, looped, conditional])(k, inner, shape, counters)
    next_ptr = advance(k, inner, carried, counters)
    if rng.random() < 0.1:
        next_ptr = carried
    yield_(inner, next_ptr, advance(k, inner, offs, counters), total)
    op = scf.ForOp(*bounds, [ptr, line, acc], block)
    b.add(op)
    if rng.random() < 0.5:
        last = b.add(tile.LoadOp(op.results[0]))
        total = b.map("fadd", op.results[2], last)
    else:
        total = op.results[2]
    target = k.pointers(b, k.out, shape, loop)
    if rng.random() < 0.3:
        target = b.add(tile.AddPtrOp(target, b.spread(op.results[1], shape, len(shape) - 1)))
    b.add(tile.StoreOp(target, total, k.mask(b, shape, loop)))


def conditional(k: Kernel, b: Builder, shape: Sequence[int], loop: Loop) -> None:
    """A pointer tile and a value that come out of an `if`."""
    condition = b.map("slt", k.small(b, loop), k.small(b, loop))
    base = k.pointers(b, k.x, shape, loop)
    regions = []
    for branch in range(2):
        block = Block()
        inner = b.nested(block)
        ptr = k.pointers(inner, k.x, shape, loop) if k.rng.random() < 0.4 else base
        if k.rng.random() < 0.6:
            ptr = inner.add(tile.AddPtrOp(ptr, inner.splat(k.small(inner, loop), shape)))
        if k.rng.random() < 0.3:
            straight(k, inner, shape, loop)
        yield_(inner, ptr, inner.splat(inner.const(branch + 0.5, f32), shape))
        regions.append(Region(block))
    op = scf.IfOp(condition, [base.type, with_shape(f32, tuple(shape))], *regions)
    b.add(op)
    value = k.load(b, op.results[0], loop)
    value = b.map("fadd", value, op.results[1])
    b.add(tile.StoreOp(k.pointers(b, k.out, shape, loop), value))


def indexed(k: Kernel, b: Builder, shape: Sequence[int], loop: Loop) -> None:
    """Atomics on addresses looked up in memory, old values stored."""
    rng = k.rng
    offsets = b.map("iand", k.offsets_i32(b, shape, loop), b.splat(b.const(63), shape))
    index = b.add(tile.LoadOp(b.add(tile.AddPtrOp(b.splat(k.index, shape), offsets))))
    target = b.add(tile.AddPtrOp(b.splat(k.hist, shape), index))
    kind = rng.choice(["iadd", "smax", "xchg", "and"])
    one = b.splat(b.const(rng.randrange(1, 5)), shape)
    old = b.add(
        tile.AtomicOp(kind, target, b.map("iadd", one, offsets), None, k.mask(b, shape, loop))
    )
    if rng.random() < 0.7:
        wide = b.map("sitofp", old, to=f32)
        b.add(tile.StoreOp(k.pointers(b, k.out, shape, loop), wide, k.mask(b, shape, loop)))
    picked = b.add(tile.AddPtrOp(b.splat(k.x, shape), index))
    b.add(tile.StoreOp(k.pointers(b, k.out, shape, loop), k.load(b, picked, loop)))


def scalars(k: Kernel, b: Builder, shape: Sequence[int], loop: Loop) -> None:
    """Scalar loads, stores and float arithmetic on scalars."""
    rng = k.rng
    condition = b.map("slt", k.small(b, loop), k.small(b, loop)) if rng.random() < 0.6 else None
    ptr = b.add(tile.AddPtrOp(k.x, k.small(b, loop)))
    value = b.add(tile.LoadOp(ptr, condition))
    value = b.map("fmul", b.map("fadd", value, b.const(1.5, f32)), value)
    count = b.add(
        tile.LoadOp(b.add(tile.AddPtrOp(k.index, b.map("iand", k.small(b, loop), b.const(31)))))
    )
    scaled = b.map("fmul", value, b.map("sitofp", count, to=f32))
    b.add(tile.StoreOp(b.add(tile.AddPtrOp(k.out, k.small(b, loop))), scaled, condition))
    line = b.iota(shape[-1])
    offsets = b.map("iadd", line, b.like(count, line))
    wide = b.like(scaled, line)
    mask = b.map("slt", line, b.like(count, line)) if rng.random() < 0.5 else None
    b.add(tile.StoreOp(b.add(tile.AddPtrOp(b.like(k.out, line), offsets)), wide, mask))


def while_loop(k: Kernel, b: Builder, shape: Sequence[int], loop: Loop) -> None:
    """A while loop that carries a pointer tile and a counter, and hands both out."""
    ptr = k.pointers(b, k.x, shape, loop)
    before, after = Block(arg_types=[i32, ptr.type]), Block(arg_types=[i32, ptr.type])
    inner = b.nested(before)
    go = inner.map("slt", before.args[0], inner.const(k.rng.randrange(0, 4)))
    handed = before.args[1]
    if k.rng.random() < 0.4:
        handed = advance(k, inner, handed, (*loop, before.args[0]))
    inner.add(scf.ConditionOp(go, before.args[0], handed))
    inner = b.nested(after)
    value = k.load(inner, after.args[1], (*loop, after.args[0]))
    target = k.pointers(inner, k.out, shape, (*loop, after.args[0]))
    inner.add(tile.StoreOp(target, value))
    step = inner.map("iadd", after.args[0], inner.const(1))
    yield_(inner, step, advance(k, inner, after.args[1], (*loop, after.args[0])))
    start = b.const(0)
    op = scf.WhileOp([start, ptr], [i32, ptr.type], Region(before), Region(after))
    b.add(op)
    b.add(tile.StoreOp(k.pointers(b, k.out, shape, loop), k.load(b, op.results[1], loop)))


def crowded(k: Kernel, b: Builder, shape: Sequence[int], loop: Loop) -> None:
    """More inputs, scalars and outputs than a vector program has, and reshapes and permutes between."""
    rng = k.rng
    tiles = [
        k.load(b, b.add(tile.AddPtrOp(b.splat(k.x, shape), k.offsets_i32(b, shape, loop))), loop)
        for _ in range(rng.randrange(1, 12))
    ]
    for _ in range(rng.randrange(3, 20)):
        scalar = b.map("sitofp", k.small(b, loop), to=f32)
        value = b.map(
            rng.choice(["fadd", "fmul", "fmin"]), rng.choice(tiles), b.splat(scalar, shape)
        )
        tiles.append(b.map("fadd", value, rng.choice(tiles)))
    if rng.random() < 0.5 and len(shape) > 1:
        order = list(range(len(shape)))
        rng.shuffle(order)
        turned = b.add(tile.PermuteOp(tiles[-1], order))
        turned = b.map("fneg", turned)
        back = [order.index(d) for d in range(len(shape))]
        tiles.append(b.map("fadd", tiles[-2], b.add(tile.PermuteOp(turned, back))))
    if rng.random() < 0.5:
        flat = b.add(tile.ReshapeOp(tiles[-1], [int(np.prod(shape))]))
        flat = b.map("fmul", flat, b.map("sitofp", b.iota(int(np.prod(shape))), to=f32))
        summed = b.add(tile.ScanOp("fsum", flat, 0, False))
        tiles.append(b.add(tile.ReshapeOp(summed, shape)))
    if rng.random() < 0.5:
        tiles.append(rejoined(b, rng, rng.choice(tiles), shape))
    for value in rng.sample(tiles, min(len(tiles), rng.randrange(1, 9))):
        b.add(tile.StoreOp(k.pointers(b, k.out, shape, loop), value, k.mask(b, shape, loop)))


def rejoined(b: Builder, rng: random.Random, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    """A tile cut in two along an axis, one part backwards, and put together again."""
    axis = rng.randrange(len(shape))
    size = shape[axis]
    cut = rng.randrange(1, size) if size > 1 else 0
    parts = []
    for first, last in ((0, cut), (cut, size)):
        if first == last:
            continue
        back = rng.random() < 0.5
        starts, steps, part = [0] * len(shape), [1] * len(shape), list(shape)
        starts[axis], steps[axis], part[axis] = (
            (last - 1 if back else first),
            (-1 if back else 1),
            last - first,
        )
        sliced = b.add(tile.SliceOp(value, starts, steps, part))
        parts.append(b.map("fneg", sliced) if rng.random() < 0.5 else sliced)
    return b.add(tile.ConcatOp(parts, axis))


SHAPES: tuple[tuple[int, ...], ...] = (
    (5,), (8,), (1,), (4, 3), (3, 8), (1, 6), (2, 3, 4), (2, 1, 3), (2, 2, 1, 2, 2, 2),
)  # fmt: skip
PARTS = (straight, looped, looped, conditional, indexed, scalars, while_loop, crowded)


def memory_image(seed: int) -> np.ndarray:
    """HBM with something in every array; the index array holds 0 to 31."""
    rng = np.random.default_rng(seed)
    parts = []
    for number, pointee in enumerate(POINTERS):
        if pointee == f32:
            part = rng.integers(-8, 9, REGION // 4).astype(np.float32) / 4
        elif pointee == f16:
            part = (rng.integers(-8, 9, REGION // 2) / 4).astype(np.float16)
        else:
            part = rng.integers(0, 32, REGION // 4).astype(np.int32)
        parts.append(part.view(np.uint8))
        assert number >= 0
    return np.concatenate(parts)


def arguments(seed: int) -> list[int]:
    """Addresses and scalars."""
    rng = random.Random(seed)
    addresses = [REGION * k + REGION // 2 for k in range(len(POINTERS))]
    return [*addresses, rng.randrange(1, 9), rng.choice([-3, 0, 1, 2, 5, 7]), rng.randrange(-3, 9)]
