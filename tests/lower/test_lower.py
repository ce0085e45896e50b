"""Lowering of hand-written dsa IR: templates, rings, control flow, arithmetic, errors."""

from __future__ import annotations

import itertools
import random

import pytest
from glue_machines import run_host, run_rv64
from glue_oracle import Oracle, spelled_out
from glue_random import BINARY, random_kernel

from dsalang._backend.dialects import parse_ir
from dsalang._backend.errors import InternalError, Loc
from dsalang._backend.image.elf import CODE_ADDRESS
from dsalang._backend.image.model import Argument, Image
from dsalang._backend.isa.table import NONE, Engine
from dsalang._backend.passes.lower import lower, riscv_assembly
from dsalang._backend.target import Target

EDGE = Target.by_name("edge")


def kernel(body: str, arguments: str = "%p: i64, %n: i32", attributes: str = "") -> str:
    count = arguments.count(":")
    names = ", ".join(f'"a{i}"' for i in range(count))
    fmts = ", ".join('"*fp16"' if i == 0 else '"i32"' for i in range(count))
    return (
        f"func.func @k({arguments}) attributes {{dsa.args = [{names}], dsa.formats = [{fmts}]"
        f"{attributes}}} {{\n{body}\nfunc.return\n}}"
    )


def ring(name: str, slots: int, address: int) -> str:
    return (
        f'%{name} = "dsa.ring"() <{{label = "{name}", bytes = 100 : i64, slots = {slots} : i64, '
        f'address = {address} : i64, shape = array<i64: 50>, fmt = "fp16"}}> : () -> !dsa.ring'
    )


def acquire(name: str, ring_name: str) -> str:
    return f'%{name} = "dsa.acquire"(%{ring_name}) : (!dsa.ring) -> !dsa.slot'


def compiled(text: str) -> Image:
    return lower(parse_ir(text), EDGE)


def checked(text: str, *launches: tuple[list[int], int, int]) -> list[list[tuple[object, ...]]]:
    """Events of each launch, after comparing the three readings of the kernel."""
    module = parse_ir(text)
    image = lower(module, EDGE)
    result = []
    for launch in launches:
        expected = Oracle(image, *launch).run(module)
        host = run_host(image, *launch)
        assert spelled_out(image, host) == expected
        assert run_rv64(image, *launch) == host
        result.append(host)
    return result


LOAD = (
    '"dsa.issue"(%p, %s) <{op = "dma.load", bind = ["hbm", "sram"], '
    "fields = {ndim = 1 : i64, size = array<i64: 50>, sram = 8 : i64}, hbm_arg = 0 : i64}> : "
    '(i64, !dsa.slot) -> () loc("k.py":7:3)'
)


def test_single_slots_are_static_and_many_are_open():
    image = compiled(kernel("\n".join([ring("r", 1, 128), acquire("s", "r"), LOAD])))
    (template,) = image.templates
    assert template.open == ("hbm",)
    assert template.instruction.fields["sram"] == 128 + 8
    assert template.instruction.fields["size"] == (50, 0, 0, 0, 0)
    assert template.instruction.fields["index"] == (NONE,) * 5
    assert template.instruction.engine == Engine.LD
    assert template.loc == Loc("k.py", 7, 3)
    assert template.hbm_arg == 0

    image = compiled(kernel("\n".join([ring("r", 2, 128), acquire("s", "r"), LOAD])))
    assert image.templates[0].open == ("hbm", "sram")
    assert image.templates[0].instruction.fields["sram"] == 0


def test_rings_rotate_for_as_long_as_the_kernel_runs():
    body = "\n".join([
        ring("r", 3, 1024),
        "%zero = arith.constant 0 : i32",
        "%one = arith.constant 1 : i32",
        "scf.for %i = %zero to %n step %one : i32 {",
        "scf.for %j = %zero to %i step %one : i32 {",
        acquire("s", "r"),
        LOAD,
        "}",
        "}",
    ])  # fmt: skip
    (events,) = checked(kernel(body), ([7, 4, 1, 1, 1], 0, 1))
    assert [event[3] for event in events] == [1024 + 8 + 128 * (turn % 3) for turn in range(6)]


def test_grid_loop_over_cores():
    body = "\n".join([
        ring("r", 2, 0),
        '%core = "dsa.core_id"() : () -> i32',
        '%cores = "dsa.num_cores"() : () -> i32',
        '%g0 = "dsa.grid_dim"() <{axis = 0 : i32}> : () -> i32',
        '%g2 = "dsa.grid_dim"() <{axis = 2 : i32}> : () -> i32',
        "%g = arith.muli %g0, %g2 : i32",
        "scf.for %i = %core to %g step %cores : i32 {",
        acquire("s", "r"),
        '"dsa.print"(%i) <{prefix = "i", fmts = ["int32"], shapes = [array<i64>]}> : (i32) -> ()',
        "}",
    ])  # fmt: skip
    launches = [([7, 0, 4, 9, 5], core, 8) for core in range(8)] + [([7, 0, 1, 1, 1], 1, 8)]
    runs = checked(kernel(body), *launches)
    assert sorted(event[2] for run in runs for event in run) == list(range(20))
    assert runs[-1] == []


def test_equal_templates_are_shared_and_constants_are_static():
    body = "\n".join([
        ring("r", 1, 128),
        acquire("s", "r"),
        "%c = arith.constant -3 : i32",
        "%w = arith.extsi %c : i32 to i64",
        *['"dsa.issue"(%p, %s, %c, %w) <{op = "dma.load", bind = ["hbm", "sram", "lo.1", "fill"], '
          "fields = {lo = array<i64: -1, 5>}}> : (i64, !dsa.slot, i32, i64) -> ()"] * 3,
        '"dsa.set"() <{engine = 0 : i32, sem = 3 : i32}> : () -> ()',
        '"dsa.set"() <{engine = 0 : i32, sem = 3 : i32}> : () -> ()',
        '"dsa.wait"() <{engine = 4 : i32, sem = 3 : i32}> : () -> ()',
    ])  # fmt: skip
    image = compiled(kernel(body))
    assert [t.instruction.op for t in image.templates] == ["dma.load", "set"]
    fields = image.templates[0].instruction.fields
    assert fields["lo"] == (-1, -3, 0, 0, 0)
    assert fields["fill"] == (1 << 64) - 3
    (events,) = checked(kernel(body), ([64, 0, 1, 1, 1], 0, 1))
    assert events == [("issue", 0, 64)] * 3 + [("issue", 1)] * 2 + [("wait", 3)]


def test_a_constant_that_does_not_fit_stays_open():
    body = "\n".join([
        "%c = arith.constant -3 : i32",
        '"dsa.issue"(%c) <{op = "mma", bind = ["m"], fields = {}}> : (i32) -> ()',
    ])  # fmt: skip
    (events,) = checked(kernel(body), ([0, 0, 1, 1, 1], 0, 1))
    assert events == [("issue", 0, -3)]


def test_programs_are_shared_and_counted():
    program = r"program inputs(fp16) scalars(fp32) outputs(fp16)\0Ar0 = in.fp16 0\0Aout.fp16 r0, 0"
    spaced = program.replace(r"\0A", r"\0A ")
    issue = '"dsa.issue"(%s, %s) <{{op = "vexec", bind = ["in.0", "out.0"], program = "{}", fields = {{}}}}> : (!dsa.slot, !dsa.slot) -> ()'
    body = "\n".join(
        [ring("r", 1, 64), acquire("s", "r"), issue.format(program), issue.format(spaced)]
    )
    image = compiled(kernel(body))
    assert len(image.programs) == 1 and len(image.templates) == 1
    fields = image.templates[0].instruction.fields
    assert (fields["inputs"], fields["scalars"], fields["outputs"]) == (1, 1, 1)


def test_image_facts():
    text = kernel(
        "\n".join([ring("a", 2, 128), ring("b", 1, 512), acquire("s", "b"), LOAD]),
        attributes=", dsa.credits = array<i64: 2, 0>",
    )
    image = compiled(text)
    assert image.arguments == (Argument("a0", "fp16", True), Argument("a1", "int32", False))
    assert image.credits == (2, 0)
    assert image.sram_bytes == 612
    assert [(r.label, r.address, r.slots, r.stride_bytes, r.slot_bytes) for r in image.rings] == [
        ("a", 128, 2, 128, 100),
        ("b", 512, 1, 128, 100),
    ]
    assert image.target == "edge" and image.target_digest == EDGE.digest
    assert image.code_address == CODE_ADDRESS and image.name == "k"
    assert "__dsa_issue" in riscv_assembly(image)
    assert "triple" not in image.glue


EDGES = (0, 1, -1, 2, -2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, -128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))  # fmt: skip


@pytest.mark.parametrize("type_", ["i8", "i16", "i32", "i64"])
def test_arithmetic_at_the_edges(type_):
    lines = []
    for name in ("p", "q"):
        wide = f"%{name}" if type_ == "i64" else f"%{name}{type_}"
        if type_ != "i64":
            lines.append(f"{wide} = arith.trunci %{name} : i64 to {type_}")
    x, y = ("%p", "%q") if type_ == "i64" else (f"%p{type_}", f"%q{type_}")
    results = []
    for op in BINARY:
        lines.append(f"%{op} = arith.{op} {x}, {y} : {type_}")
        lines.append(f"%z{op} = arith.constant {EDGES[len(op)] % 100} : {type_}")
        lines.append(f"%c{op} = arith.{op} {x}, %z{op} : {type_}")
        results += [f"%{op}", f"%c{op}"]
    fmts = ", ".join(f'"int{type_[1:]}"' for _ in results)
    shapes = ", ".join("array<i64>" for _ in results)
    lines.append(
        f'"dsa.print"({", ".join(results)}) <{{prefix = "", fmts = [{fmts}], shapes = [{shapes}]}}> : '
        f"({', '.join([type_] * len(results))}) -> ()"
    )
    launches = [([a, b, 1, 1, 1], 0, 1) for a, b in itertools.product(EDGES, EDGES)]
    checked(kernel("\n".join(lines), "%p: i64, %q: i64"), *launches[::3], *launches[-3:])


@pytest.mark.parametrize(
    ("low", "high", "step", "trips"),
    [
        (0, 0, 1, 0),
        (5, -5, 1, 0),
        (0, 5, 2, 3),
        (-3, 3, 3, 2),
        (2**31 - 3, 2**31 - 1, 2, 1),
        (-(2**31), 2**31 - 1, 2**31 - 1, 3),
    ],
)
def test_loop_bounds(low, high, step, trips):
    body = """
        %zero = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        %count = scf.for %i = %low to %high step %step iter_args(%c = %zero) -> (i32) : i32 {
          %next = arith.addi %c, %one : i32
          scf.yield %next : i32
        }
        "dsa.print"(%count) <{prefix = "", fmts = ["int32"], shapes = [array<i64>]}> : (i32) -> ()
    """
    text = kernel(body, "%low: i32, %high: i32, %step: i32")
    (events,) = checked(text, ([low, high, step, 1, 1, 1], 0, 1))
    assert events == [("print", 0, trips)]


def test_while_that_never_enters_and_one_that_depends_on_sram():
    body = "\n".join([
        ring("r", 1, 64),
        acquire("s", "r"),
        "%one = arith.constant 1 : i32",
        "%out = scf.while (%x = %n) : (i32) -> (i32) {",
        '%v = "dsa.read"(%s) <{offset = 4 : i64, fmt = "int32"}> : (!dsa.slot) -> i32',
        "%bit = arith.andi %v, %one : i32",
        "%c = arith.cmpi eq, %bit, %one : i32",
        "scf.condition(%c) %v : i32",
        "} do {",
        "^bb0(%y: i32):",
        "%z = arith.addi %y, %one : i32",
        "scf.yield %z : i32",
        "}",
        '"dsa.print"(%out) <{prefix = "", fmts = ["int32"], shapes = [array<i64>]}> : (i32) -> ()',
    ])  # fmt: skip
    (events,) = checked(kernel(body), ([0, 5, 1, 1, 1], 0, 1))
    assert events[0] == ("read", 68, 3) and len(events) > 1


def test_calls_at_the_end_are_no_tail_calls():
    body = '"dsa.set"() <{engine = 0 : i32, sem = 3 : i32}> : () -> ()'
    (events,) = checked(kernel(body), ([0, 0, 1, 1, 1], 0, 1))
    assert events == [("issue", 0)]


def test_many_equal_operands_do_not_become_a_call_of_memset():
    fmts, shapes = ", ".join(['"int32"'] * 32), ", ".join(["array<i64>"] * 32)
    body = (
        "%zero = arith.constant 0 : i32\n"
        f'"dsa.print"({", ".join(["%zero"] * 32)}) <{{prefix = "", fmts = [{fmts}], '
        f"shapes = [{shapes}]}}> : ({', '.join(['i32'] * 32)}) -> ()"
    )
    (events,) = checked(kernel(body), ([0, 0, 1, 1, 1], 0, 1))
    assert events == [("print", 0, *[0] * 32)]


@pytest.mark.parametrize("type_", ["i32", "i64"])
def test_closed_forms_of_sums_need_no_library(type_):
    """LLVM replaces a sum of powers by a formula in wider integers, which must stay inline."""
    body = f"""
        %zero = arith.constant 0 : {type_}
        %one = arith.constant 1 : {type_}
        %sums:3 = scf.for %i = %zero to %n step %one
            iter_args(%a = %zero, %b = %zero, %c = %zero) -> ({type_}, {type_}, {type_}) : {type_} {{
          %aa = arith.addi %a, %i : {type_}
          %bb = arith.addi %b, %aa : {type_}
          %cc = arith.addi %c, %bb : {type_}
          scf.yield %aa, %bb, %cc : {type_}, {type_}, {type_}
        }}
        "dsa.print"(%sums#0, %sums#1, %sums#2) <{{prefix = "", fmts = ["int64", "int64", "int64"],
          shapes = [array<i64>, array<i64>, array<i64>]}}> : ({type_}, {type_}, {type_}) -> ()
    """
    text = kernel(body, f"%p: i64, %n: {type_}")
    checked(text, *[([0, n, 1, 1, 1], 0, 1) for n in (-1, 0, 1, 2, 3, 1000, 70000)])


def test_same_kernel_same_bytes():
    text = random_kernel(random.Random(5))
    assert compiled(text).file == compiled(text).file


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (ring("r", 0, 64), "no place"),
        (ring("r", 1, -1), "no place"),
        ("%f = arith.constant 1.0 : f32", "cannot live"),
        ("%x = arith.ceildivui %n, %n : i32", "cannot run"),
        ('"dsa.issue"() <{op = "mma", bind = [], fields = {m = -1 : i64}}> : () -> ()', "u32"),
        ('"dsa.issue"() <{op = "vexec", bind = [], fields = {}}> : () -> ()', "without a program"),
        (
            '"dsa.issue"() <{op = "vexec", bind = [], program = "x", fields = {}}> : () -> ()',
            "bad vector program",
        ),
    ],
)
def test_what_cannot_be_lowered_is_named(body, message):
    with pytest.raises(InternalError, match=message):
        compiled(kernel(body))
