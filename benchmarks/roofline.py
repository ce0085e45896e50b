"""Share of the machine's own limit that kernels reach: `python benchmarks/roofline.py [--check] [NAME …]`.

The limit of a kernel on a target is the largest of tensor time, vector time and HBM time at full rate: the products it
needs, the micro-ops of its vector instructions without start-up, and the bytes that have to cross HBM at least once. Runs are
timing-only; cycles are exact. `--check` fails and names every row below the issue's figure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table
from suite import kernels

import dsalang.language as tl
from dsalang import Target
from dsalang._backend.image.model import Image
from dsalang._backend.isa.table import Engine
from dsalang._runtime.memory import Memory
from dsalang._runtime.reference.engine import run
from dsalang._runtime.reference.options import Options
from dsalang._runtime.report import Run


@dataclass(frozen=True)
class Shot:
    """A launch to measure. `macs` maps an operand format to its products, `traffic` is the bytes HBM must move."""

    kernel: Any
    grid: tuple[int, ...]
    signature: dict[str, str]
    values: dict[str, Any]
    constants: dict[str, Any]
    macs: dict[str, int]
    traffic: int


@dataclass(frozen=True)
class Row:
    """A line of the table: the least share of the limit, and the launch for a target."""

    name: str
    least: float
    shot: Callable[[Target], Shot]


BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8e4m3": 1, "int8": 1, "int32": 4}


def matmul(fmt: str) -> Callable[[Target], Shot]:
    def shot(target: Target) -> Shot:
        size = 2048 if target.cores == 1 else {1: 12288, 2: 8192}[BYTES[fmt]]
        out = {"int8": "int32"}.get(fmt, "bf16")
        bm, bn, bk = (512, 512, 256) if target.cores == 1 else (512, 1024, 256)
        pointers = {"a": f"*{fmt}:16", "b": f"*{fmt}:16", "c": f"*{out}:16"}
        values = dict(M=size, N=size, K=size, stride_am=size, stride_bk=size, stride_cm=size)
        constants = dict(
            stride_ak=1, stride_bn=1, stride_cn=1, BLOCK_M=bm, BLOCK_N=bn, BLOCK_K=bk, GROUP_M=4,
            ACC=tl.int32 if fmt == "int8" else tl.float32,
        )  # fmt: skip
        grid = (ceil(size / bm) * ceil(size / bn),)
        traffic = size * size * (2 * BYTES[fmt] + BYTES[out])
        return Shot(kernels.matmul, grid, pointers, values, constants, {fmt: size**3}, traffic)

    return shot


def linear_gelu(target: Target) -> Shot:
    m = n = k = 1024 if target.cores == 1 else 8192
    bm, bn, bk, parts = (256, 128, 512, 4) if target.cores == 1 else (512, 256, 512, 2)
    pointers = dict.fromkeys(("x", "w", "bias", "y"), "*fp16:16")
    values = dict(M=m, N=n, K=k, stride_xm=k, stride_wk=n, stride_ym=n)
    constants = dict(
        stride_xk=1, stride_wn=1, stride_yn=1, BLOCK_M=bm, BLOCK_N=bn, BLOCK_K=bk, PARTS=parts
    )  # fmt: skip
    traffic = 2 * (m * k + k * n + n + m * n)
    grid = (ceil(m / bm), ceil(n / (bn * parts)))
    return Shot(
        kernels.linear_gelu_parts, grid, pointers, values, constants, {"fp16": m * n * k}, traffic
    )


def matvec(target: Target) -> Shot:
    size = 4096 if target.cores == 1 else 16384
    pointers = dict.fromkeys(("x", "w", "y"), "*bf16:16")
    block = 512
    return Shot(
        kernels.matvec, (ceil(size / block),), pointers, dict(N=size, K=size),
        dict(BLOCK_N=block, BLOCK_K=256), {"bf16": size * size}, 2 * (size * size + 2 * size),
    )  # fmt: skip


def vector_add(target: Target) -> Shot:
    n = 1 << 24
    block = 32768
    pointers = dict.fromkeys(("x", "y", "out"), "*fp32:16")
    return Shot(
        kernels.vector_add, (ceil(n / block),), pointers, {"n": n}, {"BLOCK": block}, {}, 12 * n
    )


def small_programs(target: Target) -> Shot:
    block = 8192
    n = 64 * block * target.cores
    pointers = dict.fromkeys(("x", "y", "out"), "*fp32:16")
    grid = (64 * target.cores,)
    return Shot(kernels.vector_add, grid, pointers, {"n": n}, {"BLOCK": block}, {}, 12 * n)


def rows(kernel: Any, weights: int) -> Callable[[Target], Shot]:
    def shot(target: Target) -> Shot:
        count, columns, per_program = 4096 if target.cores == 1 else 8192, 4096, 4
        names = ("x", "out", "weight", "bias")[: 2 + weights]
        values: dict[str, Any] = dict(rows=count, columns=columns)
        if weights:
            values["eps"] = 1e-5
        return Shot(
            kernel, (count // per_program,), dict.fromkeys(names, "*fp32:16"), values,
            dict(ROWS=per_program, BLOCK=columns), {}, 4 * columns * (2 * count + weights),
        )  # fmt: skip

    return shot


def softmax_long(target: Target) -> Shot:
    count, columns = 128, 65536
    return Shot(
        kernels.softmax_long, (count,), dict.fromkeys(("x", "out"), "*fp32:16"),
        dict(columns=columns), {"BLOCK": 16384}, {}, 3 * 4 * count * columns,
    )  # fmt: skip


def attention(head: int) -> Callable[[Target], Shot]:
    def shot(target: Target) -> Shot:
        length, heads = 4096, 1 if target.cores == 1 else 32
        block_m, block_n = 256, 512
        pointers = dict.fromkeys(("q", "k", "v", "out"), "*bf16:16")
        values = dict(scale=0.125, length=length, stride_h=length * head, stride_n=head)
        constants = dict(
            stride_d=1, BLOCK_M=block_m, BLOCK_N=block_n, HEAD=head, CAUSAL=False
        )  # fmt: skip
        macs = {"bf16": 2 * heads * length * length * head}
        traffic = 4 * 2 * heads * length * head
        grid = (ceil(length / block_m), heads)
        return Shot(kernels.attention, grid, pointers, values, constants, macs, traffic)

    return shot


ROWS = (
    Row("matmul bf16", 0.97, matmul("bf16")),
    Row("matmul int8", 0.97, matmul("int8")),
    Row("matmul fp8", 0.97, matmul("fp8e4m3")),
    Row("matmul + bias + gelu fp16", 0.95, linear_gelu),
    Row("batch-1 matmul bf16", 0.97, matvec),
    Row("vector add fp32", 0.97, vector_add),
    Row("softmax", 0.97, rows(kernels.softmax_rows, 0)),
    Row("layer norm", 0.97, rows(kernels.layer_norm_rows, 2)),
    Row("RMS norm", 0.97, rows(kernels.rms_norm_rows, 1)),
    Row("softmax, long rows", 0.95, softmax_long),
    Row("attention D=64", 0.90, attention(64)),
    Row("attention D=128", 0.90, attention(128)),
    Row("vector add, 64 programs a core", 0.90, small_programs),
)


def execute(shot: Shot, target: Target) -> Run:
    """Compile and run without data."""
    signature = dict(shot.signature)
    for name, value in shot.values.items():
        signature[name] = "fp32" if isinstance(value, float) else "i32"
    ordered = [p.name for p in shot.kernel.source.params if p.name in signature]
    compiled = shot.kernel.compile(
        {name: signature[name] for name in ordered}, constants=shot.constants, target=target
    )
    return without_data(compiled.image, shot, target)


def without_data(image: Image, shot: Shot, target: Target) -> Run:
    """Run an image of a shot for its times only; arrays are addresses with nothing behind them."""
    args = [
        (number + 1) << 36 if argument.is_pointer else int(shot.values[argument.name])
        for number, argument in enumerate(image.arguments)
    ]
    x, y, z = (*shot.grid, 1, 1)[:3]
    return run(image, target, args, (x, y, z), Memory([]), Options(functional=False))


def limits(shot: Shot, result: Run, target: Target) -> dict[str, float]:
    """Cycles at full rate on all cores that ran, by resource."""
    cores = min(target.cores, prod(shot.grid))
    tensor = sum(macs / target.tensor.macs_per_cycle[fmt] for fmt, macs in shot.macs.items())
    vector = sum(
        core.engines[Engine.VE].busy
        - core.engines[Engine.VE].instructions * target.vector.startup_cycles
        for core in result.cores
    )
    hbm = shot.traffic / float(target.hbm_bytes_per_cycle(1))
    return {"tensor": tensor / cores, "vector": vector / cores, "HBM": hbm}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="only rows whose name contains one of these")
    parser.add_argument("--target", action="append", help="default: edge and center")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    table = Table(title="share of the target's limit (timing-only runs)")
    for column in ("kernel", "target", "cycles", "limit", "bound by", "share", "at least"):
        table.add_column(column, justify="left" if column in ("kernel", "target") else "right")
    failures = []
    for row in ROWS:
        if options.names and not any(n in row.name for n in options.names):
            continue
        for name in options.target or ("edge", "center"):
            target = Target.by_name(name)
            shot = row.shot(target)
            result = execute(shot, target)
            found = limits(shot, result, target)
            bound = max(found, key=lambda k: found[k])
            share = found[bound] / result.cycles
            mark = "" if share >= row.least else "[red]"
            table.add_row(
                row.name, name, f"{result.cycles:,}", f"{found[bound]:,.0f}", bound,
                f"{mark}{share:.1%}", f"{row.least:.0%}",
            )  # fmt: skip
            if share < row.least:
                failures.append(f"{row.name} on {name}: {share:.1%}, at least {row.least:.0%}")
    Console(width=110).print(table)
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
