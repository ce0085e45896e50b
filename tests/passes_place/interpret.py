"""Runs tile IR (after fuse) on numpy by value: what a placed kernel must compute. Knows nothing of memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from dsalang._backend.dialects import tile
from dsalang._backend.dialects.types import format_of, shape_of
from dsalang._backend.isa.table import INVALID_OFFSET

from .execute import BINARY, REDUCE, UNARY

Env = dict[SSAValue, np.ndarray]


def interpret(
    module: ModuleOp, hbm: np.ndarray, args: Sequence[int], grid: tuple[int, int, int]
) -> None:
    """Run all programs of the kernel in order on `hbm`."""
    kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
    block = kernel.body.block
    for z, y, x in product(range(grid[2]), range(grid[1]), range(grid[0])):
        env: Env = {}
        for value, number in zip(block.args, args, strict=True):
            fmt = format_of(value.type)
            bits = (number & ((1 << (8 * fmt.bytes)) - 1)).to_bytes(fmt.bytes, "little")
            env[value] = np.frombuffer(bits, fmt.storage)[0]
        _Run(hbm, (x, y, z), grid).block(block, env)


def apply(fn: str, args: list[np.ndarray], dtype: Any) -> np.ndarray:
    """An elementwise operation, with the result's storage type."""
    with np.errstate(all="ignore"):
        if fn == "select":
            result = np.where(args[0], args[1], args[2])
        elif fn in UNARY:
            result = UNARY[fn](args[0])
        elif fn in BINARY:
            result = BINARY[fn](args[0], args[1])
        elif fn == "bitcast":
            result = np.asarray(args[0]).view(dtype)
        else:
            result = args[0]
        return np.asarray(result).astype(dtype)


class _Run:
    def __init__(
        self, hbm: np.ndarray, pid: tuple[int, int, int], grid: tuple[int, int, int]
    ) -> None:
        self.hbm, self.pid, self.grid = hbm, pid, grid

    def block(self, block: Block, env: Env) -> list[np.ndarray]:
        for op in block.ops:
            if isinstance(op, scf.YieldOp | scf.ConditionOp | tile.YieldOp | func.ReturnOp):
                return [env[v] for v in op.operands]
            results = self.op(op, env)
            for result, value in zip(op.results, results, strict=True):
                array = np.asarray(value).astype(format_of(result.type).storage)
                env[result] = array.reshape(shape_of(result.type))
        return []

    def op(self, op: Any, env: Env) -> Sequence[Any]:
        method = getattr(self, op.name.replace(".", "_"))
        return method(op, env)  # type: ignore[no-any-return]

    def arith_constant(self, op: arith.ConstantOp, env: Env) -> Sequence[Any]:
        return [op.value.value.data]

    def tile_program_id(self, op: Any, env: Env) -> Sequence[Any]:
        return [self.pid[op.axis.value.data]]

    def tile_num_programs(self, op: Any, env: Env) -> Sequence[Any]:
        return [self.grid[op.axis.value.data]]

    def tile_ptr_cast(self, op: Any, env: Env) -> Sequence[Any]:
        return [env[op.value]]

    def tile_map(self, op: Any, env: Env) -> Sequence[Any]:
        return [apply(op.fn.data, [env[v] for v in op.args], format_of(op.result.type).storage)]

    def tile_expand_dims(self, op: Any, env: Env) -> Sequence[Any]:
        return [env[op.value]]

    tile_reshape = tile_expand_dims

    def tile_permute(self, op: Any, env: Env) -> Sequence[Any]:
        return [env[op.value].transpose(tile.ints(op.order))]

    def tile_fused(self, op: tile.FusedOp, env: Env) -> Sequence[Any]:
        sizes = tile.ints(op.sizes)
        inner: Env = {}
        for arg, value, dims in zip(op.body.block.args, op.args, op.dims, strict=True):
            axes = tile.ints(dims)
            shape = [1] * len(sizes)
            array = env[value]
            order = sorted(range(len(axes)), key=lambda e: axes[e])
            array = array.transpose(order) if axes else array
            for e, axis in enumerate(axes):
                if axis >= 0:
                    shape[axis] = env[value].shape[e]
            inner[arg] = np.broadcast_to(np.asarray(array).reshape(shape), sizes)
        for inner_op in op.body.block.ops:
            if isinstance(inner_op, tile.YieldOp):
                return [np.broadcast_to(inner[v], sizes).copy() for v in inner_op.values]
            if isinstance(inner_op, tile.IndexOp):
                shape = [1] * len(sizes)
                d = inner_op.dim.value.data
                shape[d] = sizes[d]
                inner[inner_op.result] = np.arange(sizes[d], dtype=np.int32).reshape(shape)
            else:
                (value_,) = self.op(inner_op, inner)
                storage = format_of(inner_op.results[0].type).storage
                inner[inner_op.results[0]] = np.asarray(value_).astype(storage)
        raise AssertionError

    def tile_reduce(self, op: Any, env: Env) -> Sequence[Any]:
        value = env[op.value]
        kind = op.kind.data.upper()
        return [REDUCE[kind].reduce(value, axis=op.axis.value.data, dtype=value.dtype)]

    def tile_arg_reduce(self, op: Any, env: Env) -> Sequence[Any]:
        value, axis = env[op.value], op.axis.value.data
        if "max" in op.kind.data:
            return [value.max(axis), value.argmax(axis)]
        return [value.min(axis), value.argmin(axis)]

    def tile_scan(self, op: Any, env: Env) -> Sequence[Any]:
        value, axis = env[op.value], op.axis.value.data
        value = np.flip(value, axis) if op.reverse.value.data else value
        value = REDUCE[op.kind.data.upper()].accumulate(value, axis=axis, dtype=value.dtype)
        return [np.flip(value, axis) if op.reverse.value.data else value]

    def tile_dot(self, op: Any, env: Env) -> Sequence[Any]:
        storage = format_of(op.result.type).storage
        value = env[op.a].astype(storage) @ env[op.b].astype(storage)
        return [value if op.acc is None else value + env[op.acc]]

    def tile_load_box(self, op: Any, env: Env) -> Sequence[Any]:
        fmt, shape = format_of(op.result.type), shape_of(op.result.type)
        result = np.full(shape, env[op.fill] if op.fill is not None else 0).astype(fmt.storage)
        for point, address in self._box(op, shape, env):
            result[point] = np.ndarray((), fmt.storage, self.hbm, address)
        return [result]

    def tile_store_box(self, op: Any, env: Env) -> Sequence[Any]:
        value = env[op.value]
        for point, address in self._box(op, value.shape, env):
            np.ndarray((), value.dtype, self.hbm, address)[...] = value[point]
        return []

    def _box(self, op: Any, shape: Sequence[int], env: Env) -> Any:
        wraps = {
            d: (int(env[s]), int(env[w]))
            for d, s, w in zip(tile.ints(op.wrapped), op.wrap_starts, op.wraps)
        }
        index = {d: env[v].reshape(-1) for d, v in zip(tile.ints(op.indexed), op.indices)}
        for point in product(*(range(s) for s in shape)):
            if not all(int(env[lo]) <= i < int(env[hi]) for i, lo, hi in zip(point, op.lo, op.hi)):
                continue
            address = int(env[op.base])
            for d, (i, stride) in enumerate(zip(point, op.strides)):
                if d in wraps:
                    i = (wraps[d][0] + i) % wraps[d][1]
                elif d in index:
                    i = int(index[d][i])
                address += i * int(env[stride])
            yield point, address

    def tile_gather(self, op: Any, env: Env) -> Sequence[Any]:
        fmt, shape = format_of(op.result.type), shape_of(op.result.type)
        result = np.full(shape, env[op.fill] if op.fill is not None else 0).astype(fmt.storage)
        for point in np.ndindex(*shape):
            offset = int(env[op.offsets][point])
            if offset != INVALID_OFFSET:
                result[point] = np.ndarray((), fmt.storage, self.hbm, int(env[op.base]) + offset)
        return [result]

    def tile_scatter(self, op: Any, env: Env) -> Sequence[Any]:
        value = env[op.value]
        for point in np.ndindex(*value.shape):
            offset = int(env[op.offsets][point])
            if offset != INVALID_OFFSET:
                place = np.ndarray((), value.dtype, self.hbm, int(env[op.base]) + offset)
                place[...] = value[point]
        return []

    def tile_atomic_list(self, op: Any, env: Env) -> Sequence[Any]:
        value = env[op.value]
        old = np.zeros_like(value)
        for point in np.ndindex(*value.shape):
            offset = int(env[op.offsets][point])
            if offset == INVALID_OFFSET:
                continue
            place = np.ndarray((), value.dtype, self.hbm, int(env[op.base]) + offset)
            old[point] = place
            kind = op.kind.data
            if kind == "cas":
                if place == env[op.compare][point]:
                    place[...] = value[point]
            elif kind == "xchg":
                place[...] = value[point]
            else:
                place[...] = {"iadd": np.add, "fadd": np.add, "smax": np.maximum}[kind](
                    place, value[point]
                )
        return [old]

    def scf_for(self, op: scf.ForOp, env: Env) -> Sequence[Any]:
        carried = [env[v] for v in op.iter_args]
        block = op.body.block
        for i in range(int(env[op.lb]), int(env[op.ub]), int(env[op.step])):
            env.update(zip(block.args, [np.int64(i), *carried], strict=True))
            carried = self.block(block, env)
        return carried

    def scf_if(self, op: scf.IfOp, env: Env) -> Sequence[Any]:
        region = op.true_region if env[op.cond] else op.false_region
        return self.block(region.block, env) if region.blocks else []

    def scf_while(self, op: scf.WhileOp, env: Env) -> Sequence[Any]:
        carried = [env[v] for v in op.arguments]
        while True:
            env.update(zip(op.before_region.block.args, carried, strict=True))
            condition, *carried = self.block(op.before_region.block, env)
            if not condition:
                return carried
            env.update(zip(op.after_region.block.args, carried, strict=True))
            carried = self.block(op.after_region.block, env)

    def tile_print(self, op: Any, env: Env) -> Sequence[Any]:
        return []

    tile_assert = tile_print
