"""Kernels as the fuse pass leaves them, and what numpy says they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from dsalang._backend.dialects.types import shape_of

from .build import Kernel


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments (arrays or numbers) and the expected contents of some arrays afterwards."""

    module: Callable[[], ModuleOp]
    args: tuple[np.ndarray | int, ...]
    grid: tuple[int, int, int]
    expected: dict[int, np.ndarray]


def _rng() -> np.random.Generator:
    return np.random.default_rng(7)


def vector_add(n: int = 300, block: int = 128) -> Case:
    def module() -> ModuleOp:
        k = Kernel(x="*fp32", y="*fp32", out="*fp32", n="i32")
        start = k.map("imul", k.pid(), k.const(block))
        hi = k.map("isub", k.args["n"], start)
        tiles = [k.load(a, [block], k.address(a, start, 4), [4], hi=[hi]) for a in "xy"]
        total = k.same("fadd", *tiles)
        k.store("out", total, k.address("out", start, 4), [4], hi=[hi])
        return k.module()

    x, y = (_rng().standard_normal(n).astype(np.float32) for _ in range(2))
    grid = (-(-n // block), 1, 1)
    return Case(module, (x, y, np.zeros(n, np.float32), n), grid, {2: x + y})


def softmax(rows: int = 5, columns: int = 50, block: int = 64) -> Case:
    def module() -> ModuleOp:
        k = Kernel(x="*fp32", out="*fp32", n="i32")
        start = k.map("imul", k.pid(), k.args["n"])
        low = k.const(-np.inf, "fp32")
        x = k.load("x", [block], k.address("x", start, 4), [4], hi=[k.args["n"]], fill=low)
        top = k.reduce("fmax", x, 0)
        e = k.fused(
            [block], [x, top], [[0], []], lambda k, a, m: [k.map("fexp", k.map("fsub", a, m))]
        )[0]
        total = k.reduce("fsum", e, 0)
        y = k.same("fdiv", e, total)
        k.store("out", y, k.address("out", start, 4), [4], hi=[k.args["n"]])
        return k.module()

    x = _rng().standard_normal((rows, columns)).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    return Case(
        module, (x, np.zeros_like(x), columns), (rows, 1, 1), {1: e / e.sum(1, keepdims=True)}
    )


def _carry_axis(k: Kernel, start: SSAValue, limit: SSAValue) -> SSAValue:
    return k.map("isub", limit, start)


def matmul(
    m: int = 40, n: int = 48, kk: int = 50, bm: int = 16, bn: int = 32, bk: int = 16,
    static: bool = False, transposed_b: bool = False,
) -> Case:  # fmt: skip
    """C = A·B with fp16 operands and an fp32 accumulator; B may be stored as [N, K]."""

    def module() -> ModuleOp:
        k = Kernel(a="*fp16", b="*fp16", c="*fp32", m="i32", n="i32", k="i32")
        row = k.map("imul", k.pid(0), k.const(bm))
        column = k.map("imul", k.pid(1), k.const(bn))
        sizes = {name: k.map("sext", k.args[name], to="i64") for name in "mnk"}
        two, four = k.const(2, "i64"), k.const(4, "i64")
        lda = k.map("imul", sizes["k"], two)
        ldb = k.map("imul", sizes["k" if transposed_b else "n"], two)
        row64, column64 = (k.map("sext", v, to="i64") for v in (row, column))
        hi_m, hi_n = k.map("isub", k.args["m"], row), k.map("isub", k.args["n"], column)
        acc = k.full([bm, bn], 0, "fp32")

        def body(k: Kernel, i: SSAValue, acc: SSAValue) -> list[SSAValue]:
            hi_k = k.map("isub", k.args["k"], i)
            i64 = k.map("sext", i, to="i64")
            at = k.map("iadd", k.map("imul", row64, lda), k.map("imul", i64, two))
            a = k.load("a", [bm, bk], k.address("a", at, 1), [lda, 2], hi=[hi_m, hi_k])
            if transposed_b:
                at = k.map("iadd", k.map("imul", column64, ldb), k.map("imul", i64, two))
                b = k.load("b", [bn, bk], k.address("b", at, 1), [ldb, 2], hi=[hi_n, hi_k])
                b = k.permute(b, 1, 0)
            else:
                at = k.map("iadd", k.map("imul", i64, ldb), k.map("imul", column64, two))
                b = k.load("b", [bk, bn], k.address("b", at, 1), [ldb, 2], hi=[hi_k, hi_n])
            return [k.dot(a, b, acc)]

        end = k.const(kk) if static else k.args["k"]
        (acc,) = k.loop(k.const(0), end, [acc], body, step=k.const(bk))
        ldc = k.map("imul", sizes["n"], four)
        at = k.map("iadd", k.map("imul", row64, ldc), k.map("imul", column64, four))
        k.store("c", acc, k.address("c", at, 1), [ldc, 4], hi=[hi_m, hi_n])
        return k.module()

    a = _rng().standard_normal((m, kk)).astype(np.float16)
    b = _rng().standard_normal((kk, n)).astype(np.float16)
    c = np.full((m, n), np.nan, np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    stored = np.ascontiguousarray(b.T) if transposed_b else b
    grid = (-(-m // bm), -(-n // bn), 1)
    return Case(module, (a, stored, c, m, n, kk), grid, {2: expected})


__all__ = ["Case", "matmul", "shape_of", "softmax", "vector_add"]
