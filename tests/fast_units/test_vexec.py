"""vexec as host code against the reference: every operation, every format, every walk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from dsalang._backend import formats
from dsalang._backend.formats import FORMATS, Format
from dsalang._backend.isa.vector_ops import BY_NAME, VECTOR_OPS, VectorOp
from dsalang._backend.isa.vprog import MicroOp, VectorProgram
from dsalang._backend.llvm.host.host import AVX2, AVX512, Host, this_host
from dsalang._backend.numerics.convert import FLOAT_LAYOUTS

from .draw import drawn
from .harness import Case, check

HOSTS = [AVX512, AVX2] if this_host().vector_bytes == 64 else [this_host()]
FLOATS = [f for f in FORMATS if f.is_float]
INTS = [f for f in FORMATS if not f.is_float]
CLASSES = {"float": FLOATS, "int": INTS, "any": list(FORMATS), "bool": [formats.by_name("int1")]}
COUNT = 365
SPACE = 4096


def special(fmt: Format) -> list[int]:
    """Bit patterns at the edges of a format."""
    top = 1 << (fmt.bits - 1)
    patterns = [0, 1, 2, 3, top, top - 1, top + 1, 2 * top - 1]
    if fmt.is_float:
        layout = FLOAT_LAYOUTS[fmt.name]
        one = layout.bias << layout.mantissa_bits
        edges = (layout.nan, layout.overflow, layout.largest, one, one - 1)
        patterns += [p | sign for p in edges for sign in (0, top)]
    return patterns


def values(fmt: Format, seed: int, count: int = COUNT) -> np.ndarray:
    """Random bits with special values and ordinary numbers among them."""
    rng = np.random.default_rng(seed)
    if fmt.bits == 1:
        return rng.integers(0, 2, count, np.uint8)
    data = rng.integers(0, 256, count * fmt.bytes, np.uint8).view(f"u{fmt.bytes}")
    if fmt.is_float:
        some = rng.integers(0, count, count // 3)
        small = rng.standard_normal(len(some)).astype(np.float32) * np.float32(4)
        data[some] = small.astype(fmt.storage).view(f"u{fmt.bytes}")
    edges = np.array(special(fmt), data.dtype)
    data[rng.integers(0, count, count // 3)] = rng.choice(edges, count // 3)
    return data.view(np.uint8)


def operand(fmt: Format, k: int, seed: int) -> np.ndarray:
    """The k-th operand: with its neighbour all pairs of special values, then anything."""
    data = values(fmt, seed)
    if fmt.bits > 1:
        edges = np.array(special(fmt), f"u{fmt.bytes}")
        grid = np.tile(edges, len(edges)) if k % 2 else np.repeat(edges, len(edges))
        data.view(grid.dtype)[: len(grid)] = grid
    return data


def single(op: VectorOp, fmt: Format, src: Format, seed: int) -> Case:
    """One operation on contiguous vectors."""
    sources = [src] * len(op.operands)
    if op.name == "select":
        sources[0] = formats.by_name("int1")
    program = VectorProgram(
        tuple(f.name for f in sources),
        (),
        (fmt.name,),
        (
            *(MicroOp("in", f.name, f.name, k, (), k) for k, f in enumerate(sources)),
            MicroOp(op.name, fmt.name, src.name, 7, tuple(range(len(sources)))),
            MicroOp("out", fmt.name, fmt.name, 0, (7,), 0),
        ),
    )
    sram = np.zeros(SPACE * 4, np.uint8)
    for k, f in enumerate(sources):
        data = operand(f, k, seed + k)
        sram[k * SPACE : k * SPACE + len(data)] = data
    strides = tuple(v for f in sources for v in (f.bytes, 0, 0, 0))
    fields = {
        "ndim": 1, "size": (COUNT,), "inputs": len(sources), "outputs": 1,
        "in": tuple(k * SPACE for k in range(len(sources))), "in_stride": strides,
        "out": (3 * SPACE,), "out_stride": (fmt.bytes,),
    }  # fmt: skip
    return Case("vexec", fields, {}, program, sram, what=f"{op.name}.{fmt}<{src}>")


def all_cases(op: VectorOp) -> list[Case]:
    """The operation in every format that it takes and gives."""
    cases = []
    for n, src in enumerate(CLASSES[op.operands[-1]]):
        if op.result == "same":
            results = [src]
        elif op.result == "bool":
            results = CLASSES["bool"]
        elif op.name == "bitcast":
            results = [f for f in FORMATS if f.bits == src.bits]
        elif op.name in ("sitofp", "uitofp", "fcvt"):
            results = FLOATS
        else:
            results = INTS
        cases += [single(op, fmt, src, 100 * n + m) for m, fmt in enumerate(results)]
    return cases


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: str(h.vector_bytes))
@pytest.mark.parametrize("op", VECTOR_OPS, ids=lambda op: op.name)
def test_every_operation_in_every_format(op: VectorOp, host: Host) -> None:
    check(all_cases(op), host, passes=host is HOSTS[0])


def _chain(draw: st.DrawFn) -> Case:
    """A few float operations, bit operations among them, several results and a look at the bits."""
    fmt = draw(st.sampled_from(FLOATS))
    bits = formats.by_name(f"int{fmt.bits}")
    name = fmt.name
    ops = [MicroOp("in", name, name, k, (), k) for k in range(2)]
    ops.append(MicroOp("in", "int1", "int1", 30, (), 2))
    floats, integers = [0, 1], []
    for n in range(draw(st.integers(1, 6))):
        target = 2 + n
        op = draw(
            st.sampled_from(["fneg", "fabs", "select", "fadd", "fmul", "fmax", "bitcast", "back"])
        )
        a, b = draw(st.sampled_from(floats)), draw(st.sampled_from(floats))
        if op == "bitcast":
            ops.append(MicroOp("bitcast", bits.name, name, target, (a,)))
            integers.append(target)
            continue
        if op == "back" and integers:
            ops.append(
                MicroOp("bitcast", name, bits.name, target, (draw(st.sampled_from(integers)),))
            )
        elif op == "select":
            ops.append(MicroOp("select", name, name, target, (30, a, b)))
        elif op in ("fneg", "fabs", "back"):
            ops.append(MicroOp("fneg" if op == "back" else op, name, name, target, (a,)))
        else:
            ops.append(MicroOp(op, name, name, target, (a, b)))
        floats.append(target)
    results = [(name, draw(st.sampled_from(floats))) for _ in range(2)]
    if integers:
        results.append((bits.name, integers[-1]))
    ops += [MicroOp("out", f, f, 0, (r,), k) for k, (f, r) in enumerate(results)]
    program = VectorProgram((name, name, "int1"), (), tuple(f for f, _ in results), tuple(ops))
    sram = np.zeros(SPACE * 6, np.uint8)
    for k, f in enumerate((fmt, fmt, formats.by_name("int1"))):
        data = operand(f, k, draw(st.integers(0, 99)))
        sram[k * SPACE : k * SPACE + len(data)] = data
    width = fmt.bytes
    fields = {
        "ndim": 1, "size": (COUNT,), "inputs": 3, "outputs": len(results), "in": (0, SPACE, 2 * SPACE),
        "in_stride": (width, 0, 0, 0, width, 0, 0, 0, 1), "out": tuple((3 + k) * SPACE for k in range(len(results))),
        "out_stride": (width, 0, 0, 0) * len(results),
    }  # fmt: skip
    return Case("vexec", fields, {}, program, sram, what=f"chain {ops}")


def _after_a_computed(name: str, fmt: Format, sources: tuple[int, ...]) -> Case:
    """An operation on bits after a + b; the sum is register 2, int1 register 3."""
    ops = (
        *(MicroOp("in", fmt.name, fmt.name, k, (), k) for k in range(2)),
        MicroOp("in", "int1", "int1", 3, (), 2),
        MicroOp("fadd", fmt.name, fmt.name, 2, (0, 1)),
        MicroOp(name, fmt.name, fmt.name, 4, sources),
        MicroOp("out", fmt.name, fmt.name, 0, (4,), 0),
    )
    program = VectorProgram((fmt.name, fmt.name, "int1"), (), (fmt.name,), ops)
    case = single(BY_NAME["select"], fmt, fmt, 5)
    case.program = program
    case.sram[2 * SPACE : 3 * SPACE] &= 1
    width = fmt.bytes
    case.fields["in_stride"] = (width, 0, 0, 0, width, 0, 0, 0, 1)
    case.what = f"{name}.{fmt} {sources}"
    return case


def test_bit_operations_on_computed_values_give_canonical_nans() -> None:
    kinds = [("fneg", (2,)), ("fabs", (2,)), ("select", (3, 0, 2)), ("select", (3, 2, 1))]
    kinds += [("fneg", (0,)), ("fabs", (1,)), ("select", (3, 0, 1))]
    check([_after_a_computed(name, fmt, sources) for fmt in FLOATS for name, sources in kinds])


def test_which_nans_are_canonical() -> None:
    cases = drawn(_chain, 100)
    check(cases)
    check(cases[:40], passes=True)


def test_long_programs_with_every_tail() -> None:
    """Programs with a masked loop, and what passes make of its masks."""
    cases = []
    for size in (1, 2, 15, 16, 17, 18, 31, 33, 47, 49, 63, 65):
        for name in ("fp16", "int16", "fp32"):
            fmt = formats.by_name(name)
            op = "fadd" if fmt.is_float else "iadd"
            ops = [MicroOp("in", name, name, 0, (), 0)]
            ops += [MicroOp(op, name, name, k, (k - 1, 0)) for k in range(1, 29)]
            ops.append(MicroOp("out", name, name, 0, (28,), 0))
            program = VectorProgram((name,), (), (name,), tuple(ops))
            fields = {
                "ndim": 1, "size": (size,), "inputs": 1, "outputs": 1, "in": (0,), "in_stride": (fmt.bytes,),
                "out": (1024,), "out_stride": (fmt.bytes,),
            }  # fmt: skip
            sram = values(fmt, size, 2048 // fmt.bytes).copy()
            cases.append(Case("vexec", fields, {}, program, sram, what=f"long {name} {size}"))
    check(cases)
    check(cases, passes=True)
