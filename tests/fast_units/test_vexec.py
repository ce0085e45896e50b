"""vexec as host code against the reference: every operation, every format, every walk."""

from __future__ import annotations

import numpy as np
import pytest

from dsalang._backend import formats
from dsalang._backend.formats import FORMATS, Format
from dsalang._backend.isa.vector_ops import VECTOR_OPS, VectorOp
from dsalang._backend.isa.vprog import MicroOp, VectorProgram
from dsalang._backend.llvm.host.host import AVX2, AVX512, Host, this_host

from .harness import Case, check

HOSTS = [AVX512, AVX2] if this_host().vector_bytes == 64 else [this_host()]
FLOATS = [f for f in FORMATS if f.is_float]
INTS = [f for f in FORMATS if not f.is_float]
CLASSES = {"float": FLOATS, "int": INTS, "any": list(FORMATS), "bool": [formats.by_name("int1")]}
COUNT = 75


def values(fmt: Format, seed: int, count: int = COUNT) -> np.ndarray:
    """Random bits with special values among them."""
    rng = np.random.default_rng(seed)
    if fmt.bits == 1:
        return rng.integers(0, 2, count, np.uint8)
    data = rng.integers(0, 256, count * fmt.bytes, np.uint8).view(f"u{fmt.bytes}")
    top = 1 << (fmt.bits - 1)
    special = [0, 1, top, top - 1, 2 * top - 1, top + 1, 2, 3]
    if fmt.is_float:
        from dsalang._backend.numerics.convert import FLOAT_LAYOUTS

        layout = FLOAT_LAYOUTS[fmt.name]
        special += [layout.nan, layout.nan | top, layout.overflow, layout.overflow | top]
        one = layout.bias << layout.mantissa_bits
        special += [one, one | top, one - 1, one + 1]
        some = rng.integers(0, count, count // 3)
        small = rng.standard_normal(len(some)).astype(np.float32) * np.float32(4)
        data[some] = small.astype(fmt.storage).view(f"u{fmt.bytes}")
    data[rng.integers(0, count, count // 3)] = rng.choice(np.array(special, data.dtype), count // 3)
    return data.view(np.uint8)


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
    space = 1024
    sram = np.zeros(space * 4, np.uint8)
    for k, f in enumerate(sources):
        data = values(f, seed + k)
        sram[k * space : k * space + len(data)] = data
    strides = tuple(v for f in sources for v in (f.bytes, 0, 0, 0))
    fields = {
        "ndim": 1, "size": (COUNT,), "inputs": len(sources), "outputs": 1,
        "in": tuple(k * space for k in range(len(sources))), "in_stride": strides,
        "out": (3 * space,), "out_stride": (fmt.bytes,),
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
    check(all_cases(op), host)
