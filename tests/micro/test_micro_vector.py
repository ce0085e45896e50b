"""Tracing of vector programs: registers, operators, constants, formats; and tiles against numpy's slicing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import i64
from xdsl.ir import Block

from dsalang import MicrokernelError
from dsalang._backend import formats
from dsalang._backend.isa.text import print_program
from dsalang._backend.micro.tiles import Tile
from dsalang._backend.micro.vector import trace
from dsalang._backend.passes.placing.emit import View
from dsalang._backend.passes.placing.walks import row_major


def test_a_program():
    made = trace(lambda v, x, y: v.fcvt(v.fexp(x - y) * 0.5, "bf16"), ["fp32", "fp32"], ["bf16"])
    assert print_program(made).splitlines() == [
        "program inputs(fp32, fp32) scalars() outputs(bf16)",
        "r0 = in.fp32 0",
        "r1 = in.fp32 1",
        "r1 = fsub.fp32 r0, r1",
        "r1 = fexp.fp32 r1",
        "r0 = const.fp32 0x3f000000",
        "r0 = fmul.fp32 r1, r0",
        "r0 = fcvt.bf16<fp32> r0",
        "out.bf16 r0, 0",
    ]


def test_operators_follow_the_format():
    def body(v, x):
        return (1 - x) * 3 + (x << 2 | 1 ^ x & 7) + (x >> 1)

    text = print_program(trace(body, ["uint8"], ["uint8"]))
    for name in ("isub", "imul", "iadd", "shl", "ior", "ixor", "iand", "lshr"):
        assert f"= {name}.uint8" in text or f"= {name}.int8" in text, name
    assert "ashr" in print_program(trace(lambda v, x: x >> 1, ["int8"], ["int8"]))


def test_quotients_and_signs():
    text = print_program(trace(lambda v, x: -(1 / x) / 2.0, ["fp32"], ["fp32"]))
    assert text.count("fdiv.fp32") == 2 and "fneg.fp32" in text
    assert "isub.int32" in print_program(trace(lambda v, x: -x, ["int32"], ["int32"]))


def test_comparisons_select():
    made = trace(lambda v, x: v.select(v.flt(x, 0.0), v.fneg(x), x), ["fp16"], ["fp16"])
    assert "flt.int1<fp16>" in print_program(made)


def test_what_is_not_used_is_left_out():
    made = trace(lambda v, x: (v.fexp(x), x)[1], ["fp32"], ["fp32"])
    assert [op.op for op in made.ops] == ["in", "out"]


def test_registers_are_used_again():
    def long(v, x):
        for _ in range(100):
            x = x + 1.0
        return x

    assert max(op.dst for op in trace(long, ["fp32"], ["fp32"]).ops) <= 2


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda v, x: x + 0.5, "0.5 is not a number of int32"),
        (lambda v, x: x / 2, "not well formed: .*fdiv"),
        (lambda v, x: v.fadd(1.0, 2.0), "no register among its operands"),
        (lambda v, x: v.zext(x), "takes the format of its result"),
        (lambda v, x: 3, "result 0 of the vector program is no register"),
    ],
)
def test_mistakes(body, text):
    with pytest.raises(MicrokernelError, match=text):
        trace(body, ["int32"], ["int32"])


def test_registers_of_another_program():
    kept = []
    trace(lambda v, x: kept.append(x) or x, ["fp32"], ["fp32"])
    with pytest.raises(MicrokernelError, match="another vector program"):
        trace(lambda v, x: x + kept[0], ["fp32"], ["fp32"])


SHAPE = (4, 6, 8)
ARRAY = np.arange(np.prod(SHAPE), dtype=np.int32).reshape(SHAPE)
SLOT = Block(arg_types=[i64]).args[0]


def tile():
    view = View(SLOT, 0, SHAPE, row_major(SHAPE, 4), formats.by_name("int32"))
    return Tile(view, "int32", "t")


def walked(t):
    """The elements that a tile walks."""
    start = t._view.offset // 4
    flat = np.lib.stride_tricks.as_strided(ARRAY.reshape(-1)[start:], t.shape, t.strides)
    return flat


entries = st.one_of(
    st.integers(-4, 3),
    st.builds(slice, st.integers(0, 2), st.integers(3, 4), st.integers(1, 3)),
    st.just(slice(None)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(entries, min_size=1, max_size=3), st.integers(0, 3), st.booleans())
def test_tiles_cut_as_arrays(keys, at, turn):
    key = (*keys[:at], None, *keys[at:])
    ours, theirs = tile()[key], ARRAY[key]
    if turn and ours.ndim >= 2:
        ours, theirs = ours.T, np.swapaxes(theirs, -1, -2)
    assert ours.shape == theirs.shape
    assert (walked(ours) == theirs).all()


def test_reshape_and_view():
    t = tile()
    assert (walked(t.reshape(24, 8)[3]) == ARRAY.reshape(24, 8)[3]).all()
    assert (walked(t.permute(2, 0, 1)) == ARRAY.transpose(2, 0, 1)).all()
    assert t.view("fp32").fmt == "fp32" and t.view("uint8").shape == (4, 6, 32)
    assert t.broadcast((5, 4, 6, 8)) == (0, *t.strides) and t[:, :1].broadcast(SHAPE)[1] == 0
    with pytest.raises(MicrokernelError, match="copy it first"):
        t.T.reshape(192)
