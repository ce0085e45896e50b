"""Speed of single instructions as host code, beside numpy, and what compiling them costs.

`OPENBLAS_NUM_THREADS=1 python benchmarks/units.py [part …]` with the parts mma, vector, reduce, dma, compile.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from fast_units import test_mma, test_reduce
from fast_units.harness import PAGE, TARGET, Case, bound_call, compile_units

from dsalang._backend import formats
from dsalang._backend.isa.table import ReduceKind
from dsalang._backend.isa.vprog import MicroOp, VectorProgram
from dsalang._backend.llvm import ir
from dsalang._backend.llvm.host.emit import emit_unit

BYTES = 1 << 21


def best(function: Callable[[], object]) -> float:
    """Seconds per call: the best of many short rounds, which other load on the machine does not reach."""
    function()
    start = time.perf_counter()
    function()
    turns = max(1, int(3e-4 / (time.perf_counter() - start + 1e-9)))
    times = []
    for _ in range(100):
        start = time.perf_counter()
        for _ in range(turns):
            function()
        times.append((time.perf_counter() - start) / turns)
    return min(times)


def seconds(case: Case) -> float:
    """Seconds of one execution, without the call through ctypes."""
    (address,) = compile_units([case])
    return best(bound_call(address, case)) - _call_seconds()


@cache
def _call_seconds() -> float:
    """Seconds of a call that does nothing: a DMA with an empty valid box."""
    case = box("dma.load", 1, 1, valid=0)
    case.fields["keep"] = 1
    (address,) = compile_units([case])
    return best(bound_call(address, case))


def mma_beside_numpy(size: int) -> tuple[float, float]:
    """GFLOP/s of a square fp32 product, as an instruction and by numpy."""
    test_mma.SRAM = 1 << 22
    x, y = (np.random.default_rng(s).random((size, size), np.float32) for s in (0, 1))
    out = np.empty_like(x)
    flops = 2e-9 * size**3
    ours = seconds(test_mma.product("fp32", "fp32", "fp32", size, size, size))
    return flops / ours, flops / best(lambda: np.matmul(x, y, out=out))


def mma() -> None:
    """Matrix products."""
    test_mma.SRAM = 1 << 22
    for size in (64, 128, 256, 512):
        x, y = (np.random.default_rng(s).random((size, size), np.float32) for s in (0, 1))
        out = np.empty_like(x)
        time_ = best(lambda x=x, y=y, out=out: np.matmul(x, y, out=out))
        print(f"numpy fp32 {size:4}³ {2e-9 * size**3 / time_:24.1f} GFLOP/s")
    for a, b, d, m, n, k, flags in (
        *(("fp32", "fp32", "fp32", s, s, s, {}) for s in (32, 64, 128, 256, 512)),
        *((f, f, "fp32", 128, 128, 128, {}) for f in ("fp16", "bf16", "fp8e4m3", "fp8e5m2")),
        *((f, f, "fp32", 64, 64, 32, {}) for f in ("fp32", "fp16")),
        *((f, f, "fp32", 128, 128, 128, {"trans_a": 1}) for f in ("fp32", "fp16")),
        *((f, f, "fp32", 128, 128, 128, {"trans_b": 1}) for f in ("fp32", "fp16")),
        ("fp16", "fp16", "fp32", 512, 512, 512, {}),
        ("fp32", "fp32", "fp32", 100, 100, 100, {}),
        ("fp32", "fp32", "fp32", 1, 256, 256, {}),
        ("int8", "int8", "int32", 128, 128, 128, {}),
        ("uint8", "int8", "int32", 256, 256, 256, {}),
    ):
        case = test_mma.product(a, b, d, m, n, k, **flags)
        flops = 2 * m * n * k
        rate = flops / seconds(case) * 1e-9
        note = " ".join(flags)
        print(f"{a} {m}x{n}x{k} {note:8} {rate:24.1f} GFLOP/s")


def _program(name: str, inputs: list[str], fmt: str, src: str) -> VectorProgram:
    ops = [MicroOp("in", f, f, k, (), k) for k, f in enumerate(inputs)]
    ops.append(MicroOp(name, fmt, src, 9, tuple(range(len(inputs)))))
    ops.append(MicroOp("out", fmt, fmt, 0, (9,), 0))
    return VectorProgram(tuple(inputs), (), (fmt,), tuple(ops))


def _vexec(name: str, inputs: list[str], fmt: str, count: int = 4096) -> Case:
    width = {f: formats.by_name(f).bytes for f in (*inputs, fmt)}
    data = np.random.default_rng(0).standard_normal(BYTES // 4).astype(np.float32)
    fields = {
        "ndim": 1, "size": (count,), "in": tuple(k * BYTES // 4 for k in range(len(inputs))),
        "in_stride": tuple(v for f in inputs for v in (width[f], 0, 0, 0)), "inputs": len(inputs),
        "out": (3 * BYTES // 4,), "out_stride": (width[fmt],), "outputs": 1,
    }  # fmt: skip
    return Case("vexec", fields, {}, _program(name, inputs, fmt, inputs[-1]), data.view(np.uint8))


def vector() -> None:
    """Elementwise operations on 4096 elements."""
    x, out = np.random.default_rng(0).standard_normal((2, 4096)).astype(np.float32)
    numpy_ = {
        "fadd": lambda: np.add(x, x, out=out), "fexp": lambda: np.exp(x, out=out),
        "fdiv": lambda: np.divide(x, x, out=out), "fsqrt": lambda: np.sqrt(x, out=out),
        "fexp2": lambda: np.exp2(x, out=out), "flog": lambda: np.log(x, out=out),
        "ftanh": lambda: np.tanh(x, out=out), "fsin": lambda: np.sin(x, out=out),
        "fcos": lambda: np.cos(x, out=out), "fmax": lambda: np.maximum(x, x, out=out),
    }  # fmt: skip
    cases = [(n, ["fp32"] * 2, "fp32") for n in ("fadd", "fmax", "fdiv")]
    cases += [
        (n, ["fp32"], "fp32")
        for n in ("fsqrt", "fexp", "fexp2", "flog", "ftanh", "ferf", "fsin", "fcos")
    ]
    for f in ("fp16", "bf16", "fp8e4m3", "fp8e5m2"):
        cases += [("fadd", [f, f], f), ("fcvt", ["fp32"], f), ("fcvt", [f], "fp32")]
    cases.append(("iadd", ["int8", "int8"], "int8"))
    for name, inputs, fmt in cases:
        time_ = seconds(_vexec(name, inputs, fmt)) / 4096
        line = f"{name} {','.join(inputs)} -> {fmt}"
        print(f"{line:32} {time_ * 1e9:7.3f} ns per element", end="")
        if name in numpy_ and inputs[0] == "fp32":
            with np.errstate(all="ignore"):
                print(f", numpy {best(numpy_[name]) / 4096 * 1e9:.3f}", end="")
        print()


def reduce() -> None:
    """Reductions."""
    test_reduce.SRAM = BYTES
    fp32 = formats.by_name("fp32")
    kinds = (ReduceKind.FSUM, np.sum), (ReduceKind.FMAXNUM, np.max), (ReduceKind.FMAX, np.max)
    for kind, function in kinds:
        for size, axis in (((64, 64), 1), ((16, 1024), 1), ((64, 64), 0), ((64, 256), 0)):
            count = size[0] * size[1]
            case = test_reduce.reduction(kind, fp32, size, axis, 0, False)
            tile = np.random.default_rng(0).random(size, np.float32)
            ours = seconds(case) / count
            theirs = best(lambda f=function, t=tile, a=axis: f(t, axis=a)) / count
            print(
                f"{kind.name} {size} axis {axis}: {ours * 1e9:.3f} ns per element, numpy {theirs * 1e9:.3f}"
            )


def box(op: str, rows: int, columns: int, width: int = 4, valid: int | None = None) -> Case:
    """A tile of a matrix with rows of 16 KiB."""
    fields: dict[str, Any] = {
        "elem_bytes": width, "ndim": 2, "size": (rows, columns), "hbm": PAGE,
        "hbm_stride": (16384, width), "sram": 0, "sram_stride": (columns * width, width),
        "lo": (0, 0), "hi": (rows, columns),
    }  # fmt: skip
    opened = {"hbm": PAGE, "sram": 0, "hi.1": columns if valid is None else valid}
    arrays = [np.zeros(1 << 20, np.uint8)]
    return Case(op, fields, opened, None, np.zeros(BYTES, np.uint8), arrays, argument=0)


def dma() -> None:
    """DMA of boxes."""
    empty = seconds(box("dma.load", 1, 1))
    print(f"dma.load of one element {empty * 1e9:8.0f} ns")
    for op in ("dma.load", "dma.store"):
        for rows, columns, valid in (
            (1, 1024, None),
            (1, 4096, None),
            (64, 64, None),
            (64, 64, 50),
        ):
            time_ = seconds(box(op, rows, columns, valid=valid))
            moved = rows * (valid or columns) * 4
            note = f", {valid} columns valid" if valid else ""
            print(
                f"{op} {rows}x{columns} fp32{note}: {time_ * 1e9:.0f} ns, {moved / time_ * 1e-9:.1f} GB/s"
            )


def compile_() -> None:
    """Emitting and compiling units, without IR passes."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    test_mma.SRAM = 1 << 20
    load, add, store = (
        box("dma.load", 1, 1024),
        _vexec("fadd", ["fp32"] * 2, "fp32", 1024),
        box("dma.store", 1, 1024),
    )
    product = test_mma.product("fp16", "fp16", "fp32", 64, 64, 32, open={"a": 0, "b": 0, "d": 0})
    tiles = [box("dma.load", 64, 32, 2), box("dma.load", 32, 64, 2)]
    matmul = [*tiles, product, _vexec("fcvt", ["fp32"], "fp16"), box("dma.store", 64, 64, 2)]
    for what, cases in (
        ("(warm-up)", [add]), ("dma.load", [load]), ("dma.store", [store]), ("vexec add", [add]),
        ("vexec exp", [_vexec("fexp", ["fp32"], "fp32")]), ("mma 64x64x32 fp16", [product]),
        ("vector add: 2 loads, add, store", [load, load, add, store]),
        ("matmul: 2 loads, mma, convert, store", matmul),
    ):  # fmt: skip
        times = min((_compile(cases) for _ in range(5)), key=sum)
        parts = zip(("emit", "print", "compile"), times)
        print(f"{what:38}" + ", ".join(f"{name} {t * 1e3:.1f} ms" for name, t in parts))


def _compile(cases: list[Case]) -> tuple[float, float, float]:
    """Processor seconds for emitting, printing and compiling one module."""
    start = time.process_time()
    module = ir.Module()
    for k, case in enumerate(cases):
        image = case.image()
        emit_unit(module, image.templates[0], image, TARGET, f"u{k}")
    emitted = time.process_time()
    text = str(module)
    printed = time.process_time()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1
    )
    machine.emit_object(llvm.parse_assembly(text))
    return emitted - start, printed - emitted, time.process_time() - printed


PARTS = {"mma": mma, "vector": vector, "reduce": reduce, "dma": dma, "compile": compile_}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
