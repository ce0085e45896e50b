"""vexec as host code: iteration spaces, broadcasts, aliasing, run-time operands, faults."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from dsalang._backend.isa.vprog import MicroOp, VectorProgram
from dsalang._backend.llvm.host.host import AVX2, this_host

from .draw import drawn
from .harness import Case, check, random_bytes

SRAM = 8192
WIDTH = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1, "int64": 8, "int32": 4}


def _random_program(draw: st.DrawFn, ndim: int) -> VectorProgram:
    """A few operations on integers and moved floats, with scalars, constants and coordinates."""
    inputs = tuple(
        draw(st.lists(st.sampled_from(["int32", "fp16", "int8"]), min_size=1, max_size=3))
    )
    ops = [MicroOp("in", f, f, k, (), k) for k, f in enumerate(inputs)]
    registers: dict[str, list[int]] = {}
    for k, f in enumerate(inputs):
        registers.setdefault(f, []).append(k)
    ops.append(MicroOp("scalar", "int32", "int32", 8, (), 0))
    ops.append(MicroOp("const", "fp16", "fp16", 9, (), 0x3C01))
    registers.setdefault("int32", []).append(8)
    registers.setdefault("fp16", []).append(9)
    if ndim:
        ops.append(MicroOp("index", "int32", "int32", 10, (), draw(st.integers(0, ndim - 1))))
        registers["int32"].append(10)
    for n in range(draw(st.integers(0, 4))):
        f = draw(st.sampled_from(sorted(registers)))
        name = "fadd" if f == "fp16" else draw(st.sampled_from(["iadd", "imul", "ixor"]))
        a, b = (draw(st.sampled_from(registers[f])) for _ in range(2))
        ops.append(MicroOp(name, f, f, 11 + n, (a, b)))
        registers[f].append(11 + n)
    outputs = tuple(draw(st.lists(st.sampled_from(sorted(registers)), min_size=1, max_size=2)))
    for k, f in enumerate(outputs):
        ops.append(MicroOp("out", f, f, 0, (draw(st.sampled_from(registers[f])),), k))
    return VectorProgram(inputs, ("int32",), outputs, tuple(ops))


def _strides(draw: st.DrawFn, size: tuple[int, ...], width: int, broadcast: bool) -> list[int]:
    """A row-major, permuted, padded, reversed or (inputs) broadcast walk."""
    order = draw(st.permutations(range(len(size)))) if draw(st.booleans()) else range(len(size))
    strides, run = [0] * len(size), width * draw(st.sampled_from([1, 1, 1, 2]))
    for d in reversed(order):
        strides[d] = run * (-1 if draw(st.integers(0, 7)) == 0 else 1)
        run *= size[d] + draw(st.sampled_from([0, 0, 1]))
    if broadcast:
        strides = [0 if draw(st.integers(0, 3)) == 0 else s for s in strides]
    return strides


def _vexec(draw: st.DrawFn) -> Case:
    ndim = draw(st.integers(0, 4))
    most = (40, 40, 12, 7, 4)[ndim]
    size = tuple(draw(st.integers(1, most)) for _ in range(ndim))
    program = _random_program(draw, ndim)
    fields: dict[str, object] = {"ndim": ndim, "size": size, "inputs": len(program.inputs)}
    fields["outputs"] = len(program.outputs)
    fields["scalar"] = (0x1_0000_0007,)
    open_: dict[str, int] = {}
    for name, names in (("in", program.inputs), ("out", program.outputs)):
        strides = [_strides(draw, size, WIDTH[f], name == "in") for f in names]
        starts = []
        for row in strides:
            low = -sum(min((n - 1) * s, 0) for n, s in zip(size, row))
            # aliases are frequent: few different places
            starts.append(low + draw(st.sampled_from([0, 0, 4, 2048, 2048, 2052, SRAM // 2])))
        fields[name] = tuple(starts)
        fields[f"{name}_stride"] = tuple(s for row in strides for s in (*row, *(0,) * (4 - ndim)))
        for k, start in enumerate(starts):
            if draw(st.booleans()):
                open_[f"{name}.{k}"] = start
    if draw(st.booleans()):
        open_["scalar.0"] = draw(st.integers(-(2**63), 2**63 - 1))
    for d in range(ndim):
        if draw(st.integers(0, 5)) == 0:
            open_[f"size.{d}"] = size[d]
        if draw(st.integers(0, 9)) == 0:
            open_[f"in_stride.{d}"] = fields["in_stride"][d]  # type: ignore[index]
            open_[f"out_stride.{d}"] = fields["out_stride"][d]  # type: ignore[index]
    sram = random_bytes(SRAM, draw(st.integers(0, 99)))
    return Case("vexec", fields, open_, program, sram, what="random walk")


def test_random_walks() -> None:
    cases = drawn(_vexec, 80)
    for host in {this_host(), AVX2} if this_host().vector_bytes == 64 else {this_host()}:
        for start in range(0, len(cases), 40):
            check(cases[start : start + 40], host)


def _copy(count: int, **changes: object) -> Case:
    program = VectorProgram(
        ("fp32",),
        (),
        ("fp32",),
        (MicroOp("in", "fp32", "fp32", 0, (), 0), MicroOp("out", "fp32", "fp32", 0, (0,), 0)),
    )
    fields = {
        "ndim": 1, "size": (count,), "in": (0,), "in_stride": (4,), "out": (512,), "out_stride": (4,),
        "inputs": 1, "outputs": 1,
    }  # fmt: skip
    opened = changes.pop("open", {})
    return Case("vexec", {**fields, **changes}, opened, program, random_bytes(1024, 1))  # type: ignore[arg-type]


def test_faults() -> None:
    check([
        _copy(128),
        _copy(129),
        _copy(8, out=(1000,)),
        _copy(8, in_stride=(-4,)),
        _copy(8, open={"in.0": 996}),
        _copy(8, open={"out.0": 992}),
        _copy(8, open={"out.0": 1 << 40}),
        _copy(8, open={"in.0": -4}),
        _copy(8, open={"size.0": 0}),
        _copy(8, open={"size.0": 200}),
        _copy(8, open={"size.0": 3, "in_stride.0": 1 << 31}),
        _copy(8, open={"size.0": (1 << 32) - 1, "in_stride.0": (1 << 31) - 1}),
    ])  # fmt: skip


def test_shifted_in_place_reads_before_it_writes() -> None:
    check([_copy(100, out=(o,), in_=(i,)) for o in (0, 4, 64, 68) for i in (0, 4, 64, 68)])


def test_results_keep_the_order_of_outputs() -> None:
    program = VectorProgram(
        ("int32", "int32"),
        (),
        ("int32", "int32"),
        (
            MicroOp("in", "int32", "int32", 0, (), 0),
            MicroOp("in", "int32", "int32", 1, (), 1),
            MicroOp("out", "int32", "int32", 0, (1,), 1),
            MicroOp("out", "int32", "int32", 0, (0,), 0),
        ),
    )
    cases = []
    for second in (0, 4, 40, 400):
        fields = {
            "ndim": 1, "size": (50,), "in": (1000, 2000), "in_stride": (4, 0, 0, 0, 4), "inputs": 2,
            "out": (0, second), "out_stride": (4, 0, 0, 0, 4), "outputs": 2,
        }  # fmt: skip
        cases.append(Case("vexec", fields, {}, program, random_bytes(4096, 3)))
    check(cases)
    assert len({np.asarray(c.fields["out"]).tobytes() for c in cases}) == 4
