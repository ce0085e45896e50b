"""Hand-written dsa IR, lowered to an image, on the reference engine: its RV64 code runs the loops."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from dsalang._backend.dialects import parse_ir
from dsalang._backend.dialects.dsa import SetOp, WaitOp
from dsalang._backend.errors import DeviceError, ImageError
from dsalang._backend.passes.check import check
from dsalang._backend.passes.lower import lower
from dsalang._backend.passes.sync import sync
from dsalang._backend.target import Target
from dsalang._runtime.memory import Memory, Segment
from dsalang._runtime.reference.engine import run
from dsalang._runtime.reference.options import Options

from .machine import simple_target

LD, ST, VE = 0, 1, 3


def kernel(
    name: str, arguments: str, fmts: list[str], credits: list[int], rings: str, body: str
) -> ModuleOp:
    """A kernel whose grid loop has `body`; %p is the program number."""
    names = [part.split(":")[0].strip(" %") for part in arguments.split(",")]
    quoted = [", ".join(f'"{text}"' for text in texts) for texts in (names, fmts)]
    return parse_ir(f"""
    func.func @{name}({arguments}) attributes {{
        "dsa.args" = [{quoted[0]}], "dsa.formats" = [{quoted[1]}],
        "dsa.credits" = array<i64: {", ".join(map(str, credits))}>
    }} {{
      {rings}
      %core = "dsa.core_id"() : () -> i32
      %cores = "dsa.num_cores"() : () -> i32
      %programs = "dsa.grid_dim"() <{{axis = 0 : i32}}> : () -> i32
      scf.for %p = %core to %programs step %cores : i32 {{
        {body}
      }}
      func.return
    }}""")


def ring(label: str, bytes_: int, slots: int, address: int, fmt: str = "fp32") -> str:
    return (
        f'%{label} = "dsa.ring"() <{{label = "{label}", bytes = {bytes_} : i64, slots = {slots} : i64, '
        f'address = {address} : i64, shape = array<i64: {bytes_}>, fmt = "{fmt}"}}> : () -> !dsa.ring'
    )


def acquire(label: str) -> str:
    return f'%{label}_slot = "dsa.acquire"(%{label}) : (!dsa.ring) -> !dsa.slot'


def flag(kind: str, engine: int, sem: int) -> str:
    return f'"dsa.{kind}"() <{{engine = {engine} : i32, sem = {sem} : i32}}> : () -> ()'


def row_dma(kind: str, hbm: str, slot: str, hi: str, count: int, width: int, arg: int) -> str:
    return f"""
        "dsa.issue"({hbm}, {slot}, {hi}) <{{op = "dma.{kind}", bind = ["hbm", "sram", "hi.0"],
          fields = {{elem_bytes = {width} : i64, ndim = 1 : i64, size = array<i64: {count}>,
            hbm_stride = array<i64: {width}>, sram_stride = array<i64: {width}>}},
          hbm_arg = {arg} : i64}}> : (i64, !dsa.slot, i32) -> () loc("k.py":{arg + 1}:1)"""


def vector(program: str, ins: list[str], outs: list[str], size: int, strides: list[int]) -> str:
    binds = [f'"in.{i}"' for i in range(len(ins))] + [f'"out.{i}"' for i in range(len(outs))]
    types = ", ".join(["!dsa.slot"] * len(binds))
    walks = ", ".join(f"{s}, 0, 0, 0" for s in strides[: len(ins)])
    out_walks = ", ".join(f"{s}, 0, 0, 0" for s in strides[len(ins) :])
    text = program.replace("\n", "\\0A")
    return f"""
        "dsa.issue"({", ".join(ins + outs)}) <{{op = "vexec", bind = [{", ".join(binds)}],
          fields = {{ndim = 1 : i64, size = array<i64: {size}>, inputs = {len(ins)} : i64,
            outputs = {len(outs)} : i64, in_stride = array<i64: {walks}>,
            out_stride = array<i64: {out_walks}>}},
          program = "{text}"}}> : ({types}) -> ()"""


ADD = """program inputs(fp32, fp32) scalars() outputs(fp32)
r0 = in.fp32 0
r1 = in.fp32 1
r0 = fadd.fp32 r0, r1
out.fp32 r0, 0
"""


def add_kernel(flags: bool, slots: int = 2) -> ModuleOp:
    """out[i] = x[i] + y[i] for i < n, 64 elements a program."""

    def when(text: str) -> str:
        return text if flags else ""

    rings = "\n".join(
        ring(label, 256, slots, 1024 * i) for i, label in enumerate(("x_tile", "y_tile", "sum"))
    )
    body = f"""
        %block = arith.constant 64 : i32
        %first = arith.muli %p, %block : i32
        %left = arith.subi %n, %first : i32
        %wide = arith.extsi %first : i32 to i64
        %four = arith.constant 4 : i64
        %offset = arith.muli %wide, %four : i64
        %x_at = arith.addi %x, %offset : i64
        %y_at = arith.addi %y, %offset : i64
        %out_at = arith.addi %out, %offset : i64
        {acquire("x_tile")}
        {when(flag("wait", LD, 0))}
        {row_dma("load", "%x_at", "%x_tile_slot", "%left", 64, 4, 0)}
        {acquire("y_tile")}
        {row_dma("load", "%y_at", "%y_tile_slot", "%left", 64, 4, 1)}
        {when(flag("set", LD, 1))}
        {acquire("sum")}
        {when(flag("wait", VE, 1) + flag("wait", VE, 2))}
        {vector(ADD, ["%x_tile_slot", "%y_tile_slot"], ["%sum_slot"], 64, [4, 4, 4])}
        {when(flag("set", VE, 0) + flag("set", VE, 3))}
        {when(flag("wait", ST, 3))}
        {row_dma("store", "%out_at", "%sum_slot", "%left", 64, 4, 2)}
        {when(flag("set", ST, 2))}
    """
    credits = [slots, 0, slots, 0]
    arguments = "%x: i64, %y: i64, %out: i64, %n: i32"
    return kernel("add", arguments, ["*fp32", "*fp32", "*fp32", "i32"], credits, rings, body)


def launch_add(module: ModuleOp, target: Target, n: int, options: Options | None = None) -> int:
    """Run the kernel on arrays of n elements and check the result; the cycles."""
    x, y = np.arange(n, dtype=np.float32), np.full(n, 0.5, np.float32)
    out = np.zeros(n, np.float32)
    arrays = {"x": x, "y": y, "out": out}
    places = {name: 0x1000_0000 * (i + 1) for i, name in enumerate(arrays)}
    memory = Memory(
        Segment(places[name], data.view(np.uint8), name, name == "out")
        for name, data in arrays.items()
    )
    image = lower(module, target)
    result = run(image, target, (*places.values(), n), (-(-n // 64), 1, 1), memory, options)
    assert np.array_equal(out, x + y)
    assert result.hbm["x"].read == result.hbm["out"].written == 4 * n
    return result.cycles


@pytest.mark.parametrize("n", [1, 64, 1000])
@pytest.mark.parametrize("name", ["edge", "edge-server", "center"])
def test_vector_add(name: str, n: int) -> None:
    launch_add(add_kernel(flags=True), Target.by_name(name), n)


def test_vector_add_with_adversarial_delays() -> None:
    for seed in range(3):
        options = Options(adversarial_seed=seed)
        launch_add(add_kernel(flags=True), Target.by_name("edge"), 1000, options)


def test_more_slots_are_not_slower_and_one_is_right_too() -> None:
    edge = Target.by_name("edge")
    cycles = [launch_add(add_kernel(flags=True, slots=s), edge, 2000) for s in (1, 2, 3)]
    assert cycles[0] > cycles[1] >= cycles[2]


def test_a_kernel_without_flags_is_a_race_with_both_lines() -> None:
    with pytest.raises(DeviceError, match=r"race: .*k\.py:\d+:1") as caught:
        launch_add(add_kernel(flags=False), Target.by_name("edge"), 1000, Options(check_init=False))
    assert caught.value.hint


@pytest.mark.parametrize("sem", range(4))
def test_every_pair_is_missed(sem: int) -> None:
    """Without one semaphore's sets and waits, the engine finds the race that it prevented."""
    module = add_kernel(flags=True)
    for op in list(module.walk()):
        if isinstance(op, (SetOp, WaitOp)) and op.sem.value.data == sem:
            op.detach()
    with pytest.raises(DeviceError, match="race: "):
        launch_add(module, Target.by_name("edge"), 1000, Options(check_init=False))


@pytest.mark.parametrize("sem", range(4))
def test_missing_sets_are_a_deadlock(sem: int) -> None:
    module = add_kernel(flags=True)
    for op in list(module.walk()):
        if isinstance(op, SetOp) and op.sem.value.data == sem:
            op.detach()
    with pytest.raises(DeviceError, match=rf"deadlock.* waits on semaphore {sem}, which nobody"):
        launch_add(module, Target.by_name("edge"), 1000)


@pytest.mark.parametrize("sem", range(4))
def test_missing_waits_overflow_the_semaphore_or_race(sem: int) -> None:
    module = add_kernel(flags=True)
    for op in list(module.walk()):
        if isinstance(op, WaitOp) and op.sem.value.data == sem:
            op.detach()
    with pytest.raises(DeviceError, match=r"race: |overflowed"):
        launch_add(module, Target.by_name("edge"), 1000, Options(check_init=False))


def test_flags_of_the_sync_pass_are_enough() -> None:
    edge = Target.by_name("edge")
    module = add_kernel(flags=False)
    sync(module, edge)
    check(module, edge)
    for seed in (None, 1, 2):
        launch_add(module, edge, 1000, Options(adversarial_seed=seed))


WORK = """program inputs(int8) scalars() outputs(int8)
r0 = in.int8 0
r0 = iabs.int8 r0
out.int8 r0, 0
"""


@pytest.mark.parametrize("slots, transfer, total", [
    (1, 60_000, 1_600_000), (2, 60_000, 1_060_000), (1, 120_000, 2_200_000), (2, 120_000, 1_300_000),
])  # fmt: skip
def test_worked_figures(slots: int, transfer: int, total: int) -> None:
    """10 programs, each loads a tile (60 or 120 µs) and computes on it (100 µs); clock 1 GHz."""
    body = f"""
        %all = arith.constant {transfer} : i32
        {acquire("tile")}
        {flag("wait", LD, 0)}
        {row_dma("load", "%x", "%tile_slot", "%all", transfer, 1, 0)}
        {flag("set", LD, 1)}
        {acquire("result")}
        {flag("wait", VE, 1)}
        {vector(WORK, ["%tile_slot"], ["%result_slot"], 100_000, [0, 1])}
        {flag("set", VE, 0)}
    """
    rings = ring("tile", transfer, slots, 0, "int8")
    rings += "\n" + ring("result", 100_000, 1, 256 * 1024, "int8")
    module = kernel("work", "%x: i64", ["*int8"], [slots, 0], rings, body)
    target = simple_target()
    memory = Memory([Segment(0x1000, np.zeros(transfer, np.uint8), "x")])
    result = run(lower(module, target), target, (0x1000,), (10, 1, 1), memory)
    assert result.cycles == total
    assert result.microseconds == total / 1000


def test_image_for_another_machine_is_refused() -> None:
    image = lower(add_kernel(flags=True), Target.by_name("edge"))
    faster = dataclasses.replace(Target.by_name("edge"), clock_mhz=2000)
    with pytest.raises(ImageError, match="compiled for target 'edge'"):
        run(image, faster, (0, 0, 0, 0), (1, 1, 1), Memory())
