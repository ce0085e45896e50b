"""The launches that `peers.py` measures: kernels, arguments, blocks."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


def load_kernels(language: Any, jit: Callable[[Any], Any]) -> dict[str, Any]:
    """The kernels' one text for a language (`dsalang.language` or `triton.language`)."""
    return _kernels(language, jit, "peer_kernels")


def _kernels(language: Any, jit: Callable[[Any], Any], module: str) -> dict[str, Any]:
    path = HERE / f"{module}.py"
    scope: dict[str, Any] = {"tl": language, "__name__": module}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    names = [name for name, value in scope.items() if inspect.isfunction(value)]
    return {name: jit(scope[name]) for name in names}


def ours() -> dict[str, Any]:
    """The kernels as ours."""
    import dsalang as dsa

    return load_kernels(dsa.language, dsa.jit)


def library_kernels() -> dict[str, Any]:
    """Our kernels for what numpy and torch do in one call."""
    import dsalang as dsa

    return {**ours(), **_kernels(dsa.language, dsa.jit, "library_kernels")}


@dataclass(frozen=True)
class Case:
    """A launch: `name` of the kernel, arguments as numpy arrays, and how to make what numpy does."""

    name: str
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    meta: dict[str, int]
    num_stages: int | None = None

    def bound(self, kernels: dict[str, Any], **options: Any) -> Callable[[], Any]:
        """Our launch."""
        found: Callable[[], Any] = kernels[self.name][self.grid].bind(
            *self.args, **self.meta, num_stages=self.num_stages, **options
        )
        return found


RNG = np.random.default_rng(0)


def normal(*shape: int, kind: Any = np.float32) -> Any:
    """Random numbers of a type."""
    return RNG.standard_normal(shape, np.float32).astype(kind)


def add_case(n: int, block: int) -> Case:
    x, y = normal(n), normal(n)
    return Case("add", (math.ceil(n / block),), (x, y, np.empty_like(x), n), {"BLOCK": block})


def softmax_case(rows: int, columns: int) -> Case:
    x = normal(rows, columns)
    return Case("softmax", (rows,), (x, np.empty_like(x), columns), {"BLOCK": columns})


def norm_case(rows: int, columns: int) -> Case:
    x = normal(rows, columns)
    args = (x, np.empty_like(x), normal(columns), normal(columns), columns, 1e-5)
    return Case("layer_norm", (rows,), args, {"BLOCK": columns})


def matmul_case(size: int, kind: Any, out: Any, blocks: tuple[int, int, int]) -> Case:
    a, b = normal(size, size, kind=kind), normal(size, size, kind=kind)
    bm, bn, bk = blocks
    args = (a, b, np.empty((size, size), out), size, size, size)
    return Case("matmul", (size // bm, size // bn), args, {"BM": bm, "BN": bn, "BK": bk})


def any_matmul_case(size: int, blocks: tuple[int, int, int]) -> Case:
    bm, bn, bk = blocks
    a, b = normal(size, size, kind=np.float16), normal(size, size, kind=np.float16)
    args = (a, b, np.empty((size, size), np.float16), size, size, size, *(size, 1) * 3)
    return Case("any_matmul", (size * size // bm // bn,), args, {"BM": bm, "BN": bn, "BK": bk})


def any_attention_case(heads: int, n: int, d: int) -> Case:
    case = attention_case(heads, n, d)
    return replace(case, name="any_attention", args=(*case.args, n * d, d, 1))


def attention_case(heads: int, n: int, d: int) -> Case:
    q, k, v = (normal(heads, n, d, kind=np.float16) for _ in range(3))
    args = (q, k, v, np.empty_like(q), d**-0.5, n)
    return Case("attention", (n // 64, heads), args, {"BM": 64, "BN": 64, "D": d})


# What numpy and torch do in one call: blocks are ours to choose.


def _at_a_line(array: Any) -> Any:
    """A copy that starts at a cache line, as torch's arrays do."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    found = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def big_add_case(n: int) -> Case:
    """Chunks of a long vector, in blocks so small that three of them fit the first cache of the host."""
    arrays = [_at_a_line(a) for a in (normal(n), normal(n), np.empty(n, np.float32))]
    chunk = n // 16
    return Case("add_chunks", (16,), (*arrays, n), {"CHUNK": chunk, "BLOCK": 1024})


def rows_case(case: Case, rows: int) -> Case:
    """Softmax or layer norm by four programs, several rows at a time."""
    args = tuple(_at_a_line(a) if isinstance(a, np.ndarray) else a for a in case.args)
    meta = {**case.meta, "CHUNK": case.grid[0] // 4, "ROWS": rows}
    return Case(f"{case.name}_rows", (4,), args, meta)


def big_matmul_case(kind: Any) -> Case:
    """A product of 1024³ by two programs; what is narrower is converted once for more columns."""
    size, rows, columns = 1024, 512, 64 if kind is np.float32 else 512
    a, b = normal(size, size, kind=kind), normal(size, size, kind=kind)
    meta = {"K": size, "BM": rows, "BN": columns}
    args = (a, b, np.empty((size, size), kind), size)
    return Case("matmul_panels", (size // rows,), args, meta, num_stages=1)
