"""The kernels of `peers.py` for JAX Pallas in TPU interpret mode, with the same blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def runs(name: str, args: tuple[Any, ...]) -> Callable[[], Any]:
    """A function that runs a kernel once and waits for it."""
    make = {"add": _add, "softmax": _softmax, "matmul": _matmul}[name]
    call, values = make(args)
    return lambda: jax.block_until_ready(call(*values))


def _call(kernel: Any, shape: tuple[int, ...], grid: Any, ins: Any, out: Any) -> Any:
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(shape, jnp.float32),
        grid=grid,
        in_specs=ins,
        out_specs=out,
        interpret=pltpu.InterpretParams(),
    )


def _add(args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    x, y = (jnp.asarray(a).reshape(-1, 1024) for a in args[:2])

    def kernel(x: Any, y: Any, out: Any) -> None:
        out[...] = x[...] + y[...]

    block = pl.BlockSpec((1, 1024), lambda i: (i, 0))
    return _call(kernel, x.shape, (x.shape[0],), [block, block], block), (x, y)


def _softmax(args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    x = jnp.asarray(args[0])

    def kernel(x: Any, out: Any) -> None:
        top = jnp.exp(x[...] - jnp.max(x[...], axis=1, keepdims=True))
        out[...] = top / jnp.sum(top, axis=1, keepdims=True)

    block = pl.BlockSpec((1, x.shape[1]), lambda i: (i, 0))
    return _call(kernel, x.shape, (x.shape[0],), [block], block), (x,)


def _matmul(args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    a, b = (jnp.asarray(v) for v in args[:2])
    n = a.shape[0]

    def kernel(a: Any, b: Any, out: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _clear() -> None:
            out[...] = jnp.zeros_like(out)

        out[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

    left = pl.BlockSpec((64, 64), lambda i, j, k: (i, k))
    right = pl.BlockSpec((64, 64), lambda i, j, k: (k, j))
    out = pl.BlockSpec((64, 64), lambda i, j, k: (i, j))
    grid = (n // 64, n // 64, n // 64)
    return _call(kernel, a.shape, grid, [left, right], out), (a, b)
