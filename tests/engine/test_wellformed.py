"""Malformed templates are an ImageError before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from dsalang._backend.errors import DeviceError, ImageError
from dsalang._backend.isa.vprog import MicroOp, VectorProgram

from .machine import VE, Program

MMA = {
    "fmt_a": 11, "fmt_b": 11, "fmt_d": 13, "batch": 1, "m": 1, "n": 1, "k": 1,
}  # fmt: skip
LOAD = {"elem_bytes": 4, "ndim": 1, "size": (4,)}
REDUCE = {"fmt": 13, "ndim": 1, "size": (4,)}


@pytest.mark.parametrize("op, fields, match", [
    ("dma.load", {**LOAD, "elem_bytes": 3}, "elements of 3 bytes"),
    ("dma.load", {**LOAD, "ndim": 6}, "6 dims"),
    ("dma.load", {**LOAD, "size": (0,)}, r"size\.0 is 0"),
    ("dma.load", {**LOAD, "index": (0,)}, "index vectors of format int1"),
    ("dma.load", {**LOAD, "open": (("elem_bytes", 4),)}, "elem_bytes cannot come at run time"),
    ("dma.load", {**LOAD, "open": (("size", 4),)}, "no open field 'size'"),
    ("dma.load", {**LOAD, "open": (("size.7", 4),)}, r"no open field 'size\.7'"),
    ("dma.load", {**LOAD, "open": (("colour", 4),)}, "no open field 'colour'"),
    ("dma.load", {**LOAD, "argument": 3}, "argument 3, which does not exist"),
    ("dma.load", {**LOAD, "engine": VE}, "cannot be issued to VE"),
    ("dma.load", {**LOAD, "colour": 3}, "no field 'colour'"),
    ("reduce", {**REDUCE, "axis": 1}, "no axis 1"),
    ("reduce", {**REDUCE, "kind": 99}, "99 is not a valid ReduceKind"),
    ("reduce", {**REDUCE, "fmt": 99}, "unknown format 99"),
    ("dma.atomic", {**LOAD, "kind": 14}, "14 is not a valid AtomicKind"),
    ("mma", {**MMA, "n": 0}, "n is 0"),
    ("mma", {**MMA, "k": 1 << 20}, "above the 65536 of edge"),
    ("mma", {**MMA, "fmt_a": 3, "fmt_b": 3}, "does not multiply int32"),
    ("mma", {**MMA, "fmt_d": 3}, "mma of fp16 by fp16 into int32 does not exist"),
    ("mma", {**MMA, "fmt_b": 1, "fmt_d": 3}, "mma of fp16 by int8 into int32 does not exist"),
    ("mma", {**MMA, "fmt_a": 32, "fmt_b": 1}, "mma of int4 by int8 into fp32 does not exist"),
    ("mma", {**MMA, "fmt_a": 1, "fmt_b": 1, "fmt_d": 3, "scale_a": 0}, "int8 by int8 into int32"),
    ("mma", {**MMA, "fmt_d": 34}, "unknown format 34"),
    ("reduce", {**REDUCE, "fmt": 34}, "unknown format 34"),
    ("vexec", {"program": 4}, "no vector program 4"),
])  # fmt: skip
def test_malformed_templates(op: str, fields: dict[str, Any], match: str) -> None:
    p = Program()
    p.issue(op, **fields)
    with pytest.raises(ImageError, match=match):
        p.run()


def test_malformed_programs() -> None:
    p = Program()
    sink = MicroOp("out", "int8", "int8", 0, (0,), 0)
    p.programs.append(VectorProgram((), (), ("int8",), (sink,)))
    with pytest.raises(ImageError, match="register r0 is read before it is written"):
        p.run()
    source = MicroOp("in", "int8", "int8", 0, (), 0)
    p.programs = [VectorProgram(("int8",), (), ("int8",), (source, sink))]
    p.issue("vexec", program=0, ndim=1, size=(4,), out=(0,))
    with pytest.raises(ImageError, match=r"operand in\.0 is missing"):
        p.run()


def test_sizes_that_come_at_run_time_are_checked_then() -> None:
    p = Program()
    p.issue("dma.load", **{**LOAD, "size": (0,)}, open=(("size.0", 0),))
    with pytest.raises(DeviceError, match=r"operand size\.0 = 0 does not fit"):
        p.run()


def test_bad_calls() -> None:
    for call, match in (
        (("print", 0, 0), "refers to print 0"),
        (("assert", 0, 0), "refers to assert 0"),
        (("read", 0, 99), "unknown format 99"),
        (("wait", 200, 0), "semaphore 200, which does not exist"),
    ):
        p = Program()
        p.call(*call)
        with pytest.raises(ImageError, match=match):
            p.run()
    p = Program()
    p.set(VE, 200)
    with pytest.raises(ImageError, match="semaphore 200 does not exist"):
        p.run()
