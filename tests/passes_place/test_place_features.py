"""One feature each: placed kernels leave the memory that evaluating the tile IR leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from dsalang._backend.dialects import tile
from dsalang._backend.dialects.types import with_shape
from dsalang._backend.errors import CompileError
from dsalang._backend.isa.table import INVALID_OFFSET
from dsalang._backend.passes.allocate import allocate
from dsalang._backend.passes.buffer import buffer
from dsalang._backend.passes.place import place
from dsalang._backend.target import Target

from .build import Kernel, Memory, fmt
from .execute import Machine, run
from .interpret import interpret
from .validate import validate

EDGE = Target.by_name("edge")
FEATURES: dict[str, Callable[[], ModuleOp]] = {}


def feature(make: Callable[[Kernel], None]) -> Callable[[Kernel], None]:
    def build() -> ModuleOp:
        k = Kernel(x="*int32", out="*int32", n="i32", f="*fp32", g="*fp32", a="fp32")
        make(k)
        return k.module()

    FEATURES[make.__name__] = build
    return make


def execute(build: Callable[[], ModuleOp], target: Target = EDGE) -> Machine:
    """Run both ways and compare all of memory."""
    memory, rng = Memory(), np.random.default_rng(11)
    x = memory.put(rng.integers(0, 60, 4096).astype(np.int32))
    out = memory.put(np.zeros(4096, np.int32))
    f = memory.put(rng.integers(-8, 9, 4096).astype(np.float32))  # sums are exact in any order
    g = memory.put(np.zeros(4096, np.float32))
    a = int(np.float32(1.5).view(np.int32))
    args, grid = [x, out, 21, f, g, a], (3, 1, 1)
    expected = memory.bytes()
    interpret(build(), expected, args, grid)
    module = build()
    place(module, target)
    buffer(module, target)
    allocate(module, target)
    module.verify()
    validate(module, target, True)
    machine = Machine(memory.bytes(), grid)
    run(module, machine, args)
    np.testing.assert_array_equal(machine.hbm, expected)
    return machine


def out_at(k: Kernel, element: int) -> SSAValue:
    start = k.map("iadd", k.map("imul", k.pid(), k.const(1024)), k.const(element))
    return k.address("out", start, 4)


def i64(k: Kernel, value: int) -> SSAValue:
    return k.const(value, "i64")


@feature
def wrapped_load(k: Kernel) -> None:
    """Rows modulo 5, starting at a run-time row: several windows, the last one cut."""
    start = k.map("iadd", k.map("imul", k.pid(), k.const(3)), k.const(2))
    wide = k.map("sext", start, to="i64")
    value = k.load(
        "x", [13, 6], k.address("x"), [24, 4], hi=[12, 5], fill=k.const(-7),
        wraps={0: (wide, i64(k, 5))},
    )  # fmt: skip
    k.store("out", value, out_at(k, 0), [24, 4])


@feature
def wrapped_twice(k: Kernel) -> None:
    """Both dims wrap; only the very first window may fill."""
    wide = k.map("sext", k.pid(), to="i64")
    value = k.load(
        "x", [7, 9], k.address("x"), [64, 4], hi=[6, 8], fill=k.const(3),
        wraps={0: (wide, i64(k, 4)), 1: (i64(k, 1), k.map("iadd", wide, i64(k, 2)))},
    )  # fmt: skip
    k.store("out", value, out_at(k, 0), [36, 4])


@feature
def wrapped_store(k: Kernel) -> None:
    value = k.load("x", [6], k.address("x"), [4])
    wraps = {0: (i64(k, 4), i64(k, 7))}
    k.store("out", value, out_at(k, 0), [4], wraps=wraps)


@feature
def row_gather(k: Kernel) -> None:
    """Rows by an index vector, with one of int64 for the columns: formats are made equal."""
    rows = k.load("x", [4], k.address("x", k.pid(), 4), [4])
    columns = k.fused([5], [], [], lambda k: [k.map("sext", k.add(tile.IndexOp(0)), to="int64")])[0]
    value = k.load("x", [4, 5], k.address("x"), [20, 8], indices={0: rows, 1: columns})
    k.store("out", value, out_at(k, 0), [20, 4], indices={1: columns})


@feature
def element_gather(k: Kernel) -> None:
    """Offsets of a transposed walk are packed first; one is masked off."""
    offsets = k.fused(
        [3, 4],
        [],
        [],
        lambda k: [
            k.map(
                "select",
                k.map("ieq", k.add(tile.IndexOp(0)), k.const(2)),
                i64(k, INVALID_OFFSET),
                k.map("imul", k.map("sext", k.add(tile.IndexOp(1)), to="i64"), i64(k, 4)),
            )
        ],
    )[0]
    turned = k.permute(offsets, 1, 0)
    value = k.gather("x", k.address("x", k.pid(), 4), turned, k.const(-1))
    k.store("out", value, out_at(k, 0), [12, 4])
    k.scatter("out", out_at(k, 100), turned, value)


@feature
def scalar_gather(k: Kernel) -> None:
    """One element: at an offset that the control core knows, at a masked one, and at one from SRAM."""
    offset = k.map("imul", k.map("sext", k.pid(), to="i64"), i64(k, 4))
    k.store("out", k.gather("x", k.address("x"), offset), out_at(k, 0), [])
    valid = k.map("slt", k.pid(), k.const(2))
    masked = k.map("select", valid, offset, i64(k, INVALID_OFFSET))
    k.store("out", k.gather("x", k.address("x"), masked, k.const(77)), out_at(k, 1), [])
    k.scatter("out", out_at(k, 50), masked, k.const(9))
    loaded = k.load("x", [], k.address("x", k.pid(), 4), [])
    far = k.map("imul", k.map("sext", loaded, to="i64"), i64(k, 4))
    k.store("out", k.gather("x", k.address("x"), far), out_at(k, 2), [])


@feature
def atomics(k: Kernel) -> None:
    offsets = k.fused(
        [6],
        [],
        [],
        lambda k: [
            k.map("imul", k.map("sext", k.map("iand", k.add(tile.IndexOp(0)), k.const(3)), to="i64"), i64(k, 4))
        ],
    )[0]  # fmt: skip
    value = k.load("x", [6], k.address("x"), [4])
    k.atomic("iadd", "out", k.address("out"), offsets, value)
    old = k.atomic("smax", "out", k.address("out", k.const(8), 4), offsets, value)
    k.store("out", old, out_at(k, 100), [4])
    old = k.atomic("cas", "out", k.address("out", k.const(16), 4), offsets, value, k.same("isub", old, old))  # fmt: skip
    k.store("out", old, out_at(k, 200), [4])
    one = k.atomic("iadd", "out", k.address("out", k.const(30), 4), i64(k, 0), k.const(5))
    k.store("out", one, out_at(k, 300), [])


@feature
def data_dependent_control(k: Kernel) -> None:
    """A loop bound, a condition, an address and a fill value that come from SRAM."""
    count = k.map("iand", k.load("x", [], k.address("x", k.pid(), 4), []), k.const(3))

    def body(k: Kernel, i: SSAValue, total: SSAValue) -> list[SSAValue]:
        value = k.load("x", [], k.address("x", k.map("iadd", i, count), 4), [])
        return [k.map("iadd", total, value)]

    (total,) = k.loop(k.const(0), count, [k.const(0)], body)
    even = k.map("ieq", k.map("iand", total, k.const(1)), k.const(0))
    (chosen,) = k.branch(
        even, lambda k: [k.map("imul", total, k.const(3))], lambda k: [k.const(-4)]
    )
    value = k.load("x", [8], k.address("x"), [4], hi=[count], fill=chosen)
    k.store("out", value, out_at(k, 0), [4])
    k.store("out", total, out_at(k, 8), [])


@feature
def control_core_needs_carried_sram(k: Kernel) -> None:
    """A carried scalar that starts in the control core and continues from SRAM, used as an address."""

    def body(k: Kernel, i: SSAValue, at: SSAValue) -> list[SSAValue]:
        return [k.load("x", [], k.address("x", at, 4), [])]

    (at,) = k.loop(k.const(0), k.const(4), [k.pid()], body)
    k.store("out", at, out_at(k, 0), [])


@feature
def float_scalars(k: Kernel) -> None:
    """A float argument, a reduction and a carried float meet in vector programs and as a fill."""
    x = k.load("f", [16], k.address("f", k.pid(), 64), [4], hi=[k.args["n"]])
    total = k.reduce("fmax", x, 0)

    def body(k: Kernel, i: SSAValue, s: SSAValue) -> list[SSAValue]:
        def step(k: Kernel, s: SSAValue, a: SSAValue, t: SSAValue) -> list[SSAValue]:
            return [k.map("fadd", k.map("fmul", s, a), t)]

        return list(k.fused([], [s, k.args["a"], total], [[], [], []], step))

    (carried,) = k.loop(k.const(0), k.const(3), [k.args["a"]], body)
    y = k.load("f", [16], k.address("f"), [4], hi=[k.const(5)], fill=carried)
    start = k.map("imul", k.pid(), k.const(64))
    k.store("g", k.same("fmul", y, carried), k.address("g", start, 4), [4])
    y = k.load("f", [4], k.address("f"), [4], hi=[k.const(2)], fill=k.args["a"])
    k.store("g", y, k.address("g", k.map("iadd", start, k.const(20)), 4), [4])


@feature
def high_rank(k: Kernel) -> None:
    """Six dims: boxes are split, vector instructions merge or split dims."""
    shape = [2, 3, 2, 2, 3, 2]
    strides = [4 * s for s in (72, 24, 12, 6, 2, 1)]
    lo, hi = [k.map("iand", k.pid(), k.const(1)), 0, 0, 0, 0, 0], [2, 2, 2, 2, 3, 2]
    x = k.load("x", shape, k.address("x"), strides, lo=lo, hi=hi, fill=k.const(-5))
    turned = k.permute(x, 5, 3, 1, 4, 2, 0)
    axes = list(range(6))

    def body(k: Kernel, a: SSAValue, b: SSAValue) -> list[SSAValue]:
        place = k.map("imul", k.add(tile.IndexOp(0)), k.add(tile.IndexOp(5)))
        return [k.map("iadd", k.map("isub", a, b), k.map("iadd", place, k.add(tile.IndexOp(2))))]

    y = k.fused([2, 2, 3, 3, 2, 2], [turned, turned], [axes, [5, 1, 2, 3, 4, 0]], body)[0]
    k.store("out", y, out_at(k, 0), [4 * s for s in (72, 36, 12, 4, 2, 1)])
    z = k.reduce("isum", k.permute(x, 5, 3, 1, 4, 2, 0), 2)
    k.store("out", z, out_at(k, 300), [4 * s for s in (24, 12, 4, 2, 1)])
    s = k.add(tile.ScanOp("isum", turned, 3, True))
    k.store("out", s, out_at(k, 500), [4 * s for s in (72, 36, 12, 4, 2, 1)])


@feature
def integer_arithmetic(k: Kernel) -> None:
    """Every scalar operation of the control core, through the address of a store of a constant."""
    p, n = k.pid(), k.args["n"]
    values = [
        k.map("sdiv", n, k.map("isub", p, k.const(1))), k.map("srem", n, p), k.map("udiv", n, p),
        k.map("urem", n, p), k.map("shl", n, p), k.map("ashr", k.map("isub", p, n), p),
        k.map("lshr", k.map("isub", p, n), k.const(29)), k.map("iabs", k.map("isub", p, n)),
        k.map("umin", n, k.map("isub", p, k.const(1))), k.map("umax", n, p), k.map("ior", n, p),
        k.map("zext", k.map("ult", n, k.map("isub", p, k.const(1))), to="i32"),
        k.map("sext", k.map("trunc", k.map("imul", n, k.const(13)), to="int8"), to="i32"),
        k.map("bitcast", n, to="i32"),
    ]  # fmt: skip
    for number, value in enumerate(values):
        k.store("out", value, out_at(k, number), [])


@feature
def batched_dot(k: Kernel) -> None:
    """A batch, both operands transposed, an accumulator that is used again (so it is copied)."""
    a = k.load("f", [2, 5, 4], k.address("f"), [80, 16, 4])
    b = k.load("f", [2, 3, 5], k.address("f", k.pid(), 4), [60, 20, 4])
    acc = k.load("f", [2, 4, 3], k.address("f"), [48, 12, 4])
    d = k.dot(k.permute(a, 0, 2, 1), k.permute(b, 0, 2, 1), acc)
    start = k.map("imul", k.pid(), k.const(64))
    k.store("g", k.same("fadd", d, acc), k.address("g", start, 4), [48, 12, 4])


@feature
def strided_dot_operand(k: Kernel) -> None:
    """Neither of the last two dims of an operand has neighbouring elements: it is packed."""
    a = k.permute(k.load("f", [4, 5, 2], k.address("f"), [40, 8, 4]), 2, 0, 1)
    b = k.load("f", [2, 5, 3], k.address("f"), [60, 12, 4])
    start = k.map("imul", k.pid(), k.const(64))
    k.store("g", k.dot(a, b), k.address("g", start, 4), [48, 12, 4])


@feature
def nested_accumulator(k: Kernel) -> None:
    """An accumulator of zeros carried around two loops; the inner one may not run at all."""
    zeros = k.full([3, 3], 0, "fp32")

    def inner(k: Kernel, j: SSAValue, acc: SSAValue) -> list[SSAValue]:
        a = k.load("f", [3, 4], k.address("f", j, 4), [16, 4])
        b = k.load("f", [4, 3], k.address("f"), [12, 4])
        return [k.dot(a, b, acc)]

    def outer(k: Kernel, i: SSAValue, acc: SSAValue) -> list[SSAValue]:
        return list(k.loop(k.const(0), i, [acc], inner))

    (acc,) = k.loop(k.const(0), k.pid(), [zeros], outer)
    start = k.map("imul", k.pid(), k.const(64))
    k.store("g", acc, k.address("g", start, 4), [12, 4])


@feature
def scalars_as_tiles(k: Kernel) -> None:
    """A scalar of the control core and one from SRAM, seen as tiles of one element and back."""
    for number, scalar in enumerate(
        [
            k.map("iadd", k.pid(), k.const(4)),
            k.reduce("isum", k.load("x", [5], k.address("x"), [4]), 0),
        ]
    ):
        one = k.add(tile.ReshapeOp(scalar, (1,)))
        k.store("out", one, out_at(k, 3 * number), [4])
        square = k.add(tile.ReshapeOp(scalar, (1, 1)))
        k.store("out", k.same("imul", square, square), out_at(k, 3 * number + 1), [4, 4])
        k.store("out", k.reduce("isum", square, 1), out_at(k, 3 * number + 2), [4])
    loaded = k.load("x", [1], k.address("x", k.pid(), 4), [4])
    count = k.map("iand", k.add(tile.ReshapeOp(loaded, ())), k.const(7))
    k.store("out", k.load("x", [8], k.address("x"), [4], hi=[count]), out_at(k, 10), [4])


@feature
def argmax(k: Kernel) -> None:
    x = k.load("x", [4, 7], k.address("x", k.pid(), 4), [28, 4])
    for axis in (0, 1):
        op = tile.ArgReduceOp("smax", x, axis)
        k.add(op)
        k.store("out", op.position, out_at(k, 20 * axis), [4])
        if axis:
            k.store("out", op.result, out_at(k, 40), [4])


@pytest.mark.parametrize("name", FEATURES)
def test_feature(name: str) -> None:
    execute(FEATURES[name])


def test_prints_and_asserts() -> None:
    def make() -> ModuleOp:
        k = Kernel(x="*int32", out="*int32", n="i32", f="*fp32", g="*fp32", a="fp32")
        x = k.load("x", [2, 3], k.address("x"), [12, 4])
        top = k.reduce("smax", k.reduce("smax", x, 0), 0)
        turned = k.permute(x, 1, 0)
        values = [x, turned, top, k.args["n"], k.args["a"]]
        k.add(tile.PrintOp("seen", values, [0, 0, 1, 1, 0]))
        k.add(tile.AssertOp(k.map("slt", k.args["n"], k.const(3)), "n is small"))
        positive = k.fused([2, 3], [x], [[0, 1]], lambda k, e: [k.map("sge", e, k.const(0))])[0]
        k.add(tile.AssertOp(positive, "all positive"))
        k.add(tile.AssertOp(k.same("sgt", x, k.same("iadd", x, x)), "never"))
        return k.module()

    machine = execute(make)
    assert set(machine.asserts) == {"n is small", "never"}
    prefix, (x, turned, top, n, a) = machine.prints[0]
    assert (prefix, n) == ("seen", 21)
    np.testing.assert_array_equal(x.T, turned)
    assert top == x.max()
    assert np.int32(a).view(np.float32) == 1.5


def test_long_products_are_split() -> None:
    tensor = dataclasses.replace(EDGE.tensor, max_dim=2)
    execute(FEATURES["batched_dot"], dataclasses.replace(EDGE, tensor=tensor))


def test_products_of_too_many_pieces_are_the_users_error() -> None:
    tensor = dataclasses.replace(EDGE.tensor, max_dim=1)
    target = dataclasses.replace(EDGE, tensor=tensor)
    execute(FEATURES["batched_dot"], target)
    k = Kernel(a="*fp16")
    a = k.load("a", [64, 64], k.address("a"), [128, 2])
    k.add(tile.DotOp(a, a, None, with_shape(fmt("fp32"), (64, 64))))
    module = k.module()
    with pytest.raises(CompileError, match=r"kernel.py:\d+:5: .* takes 262144 instructions"):
        place(module, target)


def test_unknown_multiply_format_is_the_users_error() -> None:
    k = Kernel(a="*int16")
    a = k.load("a", [4, 4], k.address("a"), [8, 2])
    k.add(tile.DotOp(a, a, None, with_shape(fmt("int32"), (4, 4))))
    module = k.module()
    with pytest.raises(CompileError, match=r"kernel.py:\d+:5: .* does not multiply int16"):
        place(module, EDGE)


def test_zeros_of_accumulators_cost_no_vector_instruction() -> None:
    machine = execute(FEATURES["nested_accumulator"])
    assert "vexec" not in machine.issued
