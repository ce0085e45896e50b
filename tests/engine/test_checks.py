"""Each check of the reference engine fires on a program that deserves it, with the right line."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from dsalang._backend.errors import DeviceError, ImageError, LaunchError
from dsalang._backend.image.model import AssertInfo, PrintInfo
from dsalang._backend.isa.table import AtomicKind
from dsalang._backend.target import Target
from dsalang._runtime.memory import Memory
from dsalang._runtime.reference.engine import run

from .machine import CORE, LD, MM, ST, VE, Program, simple_target


def floats(count: int, start: float = 0.0) -> np.ndarray:
    return np.arange(count, dtype=np.float32) + np.float32(start)


def fails(program: Program, line: int | None, match: str, **options: Any) -> DeviceError:
    with pytest.raises(DeviceError, match=match) as caught:
        program.run(**options)
    assert (caught.value.loc.line if caught.value.loc else None) == line
    return caught.value


def test_load_past_the_end_names_array_and_element() -> None:
    p = Program()
    x = p.array("x", floats(16))
    p.load(x, 0, 16, argument=0)
    p.load(x + 32, 64, 16, argument=0)
    fails(p, 2, r"outside of array 'x': byte 64 \(element 16\).*elements \[0, 16\)")


def test_load_before_the_start_with_negative_stride() -> None:
    p = Program()
    x = p.array("x", floats(16))
    p.issue(
        "dma.load", argument=0, elem_bytes=4, ndim=1, size=(4,), hi=(4,), hbm=x + 8,
        hbm_stride=(-4,), sram=0, sram_stride=(4,),
    )  # fmt: skip
    fails(p, 1, r"'x': byte -4 \(element -1\)")


def test_access_into_the_neighbouring_array_is_caught() -> None:
    p = Program()
    x = p.array("x", floats(16))
    y = p.array("y", floats(16))
    p.load(x + (y - x), 0, 16, argument=0)
    fails(p, 1, "outside of array 'x'")


def test_address_without_array() -> None:
    p = Program()
    p.load(12, 0, 4)
    fails(p, 1, "where there is no array")


def test_masked_off_elements_may_be_out_of_bounds() -> None:
    p = Program()
    x = p.array("x", floats(4))
    p.issue(
        "dma.load", argument=0, elem_bytes=4, ndim=1, size=(8,), lo=(2,), hi=(6,), hbm=x - 8,
        hbm_stride=(4,), sram=0, sram_stride=(4,), fill=7,
    )  # fmt: skip
    p.run()


def test_store_to_read_only_array() -> None:
    p = Program()
    x = p.array("x", floats(4), writable=False)
    p.load(x, 0, 4)
    p.sync(LD, ST, 0)
    p.store(0, x, 4)
    fails(p, 4, "'x', which is read-only")


def test_sram_out_of_range() -> None:
    p = Program(sram_bytes=64)
    x = p.array("x", floats(16))
    p.load(x, 4, 16)
    fails(p, 1, r"LD dma.load writes SRAM bytes \[4, 68\), but the kernel has \[0, 64\)")


def test_read_of_uninitialised_sram() -> None:
    p = Program()
    x = p.array("x", floats(16))
    p.load(x, 0, 15)
    p.sync(LD, ST, 0)
    p.store(0, x, 16)
    fails(p, 4, r"uninitialised SRAM at byte 60 .*element \[15\]")
    assert p.run(check_init=False).cycles > 0


@pytest.mark.parametrize("drop", ["set and wait", None])
def test_race_between_load_and_vector_engine(drop: str | None) -> None:
    p = Program()
    x = p.array("x", floats(16))
    p.load(x, 0, 16)
    if drop is None:
        p.sync(LD, VE, 0)
    p.binary("fadd", "fp32", 0, 0, 64, 16, 4)
    if drop is None:
        p.run()
    else:
        message = str(
            fails(p, 2, "race: VE vexec reads bytes .* while LD dma.load", check_init=False)
        )
        assert "k.py:1:1" in message


def test_write_after_read_race() -> None:
    p = Program(simple_target(scalar__issue_cycles=100))
    x = p.array("x", floats(16))
    p.load(x, 0, 16)
    p.sync(LD, VE, 0)
    p.binary("fadd", "fp32", 0, 0, 64, 16, 4)
    p.load(x, 0, 16)
    fails(p, 5, r"race: LD dma.load writes bytes \[0, 64\) of SRAM .* may still be reading")


def test_order_through_a_third_engine_is_no_race() -> None:
    p = Program()
    x = p.array("x", floats(16))
    p.load(x, 0, 16)
    p.sync(LD, VE, 0)
    p.binary("fadd", "fp32", 0, 0, 64, 16, 4)
    p.sync(VE, ST, 1)
    p.store(0, x, 16)  # LD wrote it; ST knows through VE
    p.run()


def test_order_through_the_control_core_is_no_race() -> None:
    p = Program()
    x = p.array("x", floats(16))
    p.load(x, 0, 16)
    p.set(LD, 0)
    p.wait(CORE, 0)
    p.binary("fadd", "fp32", 0, 0, 64, 16, 4)
    p.run()


def test_read_by_the_control_core_without_wait_is_a_race() -> None:
    p = Program(simple_target(scalar__issue_cycles=1))
    x = p.array("x", floats(16))
    p.load(x, 0, 16)
    p.set(VE, 0)  # takes time, so that the load has started when the control core reads
    p.call("read", 0, 13)
    fails(p, None, "race: the control core reads .* while LD dma.load")


def test_load_of_what_the_same_program_stored_needs_order() -> None:
    def program(ordered: bool) -> Program:
        p = Program(simple_target(hbm__latency_cycles=10))
        x = p.array("x", floats(32))
        p.load(x, 0, 16)
        p.sync(LD, ST, 0)
        p.store(0, x + 64, 16)
        if ordered:
            p.sync(ST, LD, 1)
        else:
            p.sync(LD, ST, 1)
            p.sync(LD, CORE, 2)
        p.load(x + 64, 64, 16)
        return p

    program(True).run()
    fails(
        program(False),
        9,
        r"race: LD dma.load reads bytes \[64, 128\) of 'x' in HBM while ST dma.store",
    )


def test_interleaved_columns_do_not_race() -> None:
    p = Program()
    x = p.array("x", floats(32))
    for column in range(2):
        p.issue(
            "dma.load" if column == 0 else "dma.store", elem_bytes=4, ndim=2, size=(4, 4),
            hi=(4, 4), hbm=x + 16 * column, hbm_stride=(32, 4), sram=0, sram_stride=(16, 4),
        )  # fmt: skip
        if column == 0:
            p.sync(LD, ST, 0)
    p.load(x, 128, 4)  # does not touch the stored columns
    p.run()


def test_index_vector_of_an_earlier_load_needs_order() -> None:
    def program(ordered: bool) -> Program:
        p = Program(simple_target(hbm__latency_cycles=5))
        x = p.array("x", floats(16))
        i = p.array("i", np.array([3, 1], np.int32))
        p.load(i, 0, 2)
        if ordered:
            p.sync(LD, LD, 0)
        p.issue(
            "dma.load", elem_bytes=4, ndim=1, size=(2,), hi=(2,), hbm=x, hbm_stride=(4,),
            sram=64, sram_stride=(4,), index=(0,), index_fmt=3,
        )  # fmt: skip
        return p

    program(True).run()
    fails(program(False), 2, "race: LD dma.load reads .* may still be writing")


def test_atomics_of_one_queue_do_not_race_but_their_old_values_do() -> None:
    def program(old: bool) -> Program:
        p = Program()
        x = p.array("x", np.zeros(4, np.int32))
        o = p.array("o", np.zeros(2, np.int64))
        p.load(o, 0, 2, 8)
        p.load(x, 64, 2)
        p.sync(LD, ST, 0)
        for _ in range(2):
            fields = {"old": 128} if old else {}
            p.issue(
                "dma.atomic", elem_bytes=4, ndim=1, size=(2,), offset=0, sram=64, sram_stride=(4,),
                hbm=x, kind=int(AtomicKind.IADD), fmt=3, **fields,
            )  # fmt: skip
        if old:
            p.store(128, x + 8, 2)
        return p

    program(False).run()
    fails(program(True), 7, "race: ST dma.store reads .* while ST dma.atomic")


def test_deadlock_says_who_waits_for_whom() -> None:
    p = Program()
    x = p.array("x", floats(16))
    p.wait(LD, 1)
    p.load(x, 0, 16)
    p.wait(VE, 0)
    p.set(VE, 1)
    p.set(LD, 0)
    error = fails(p, 1, "deadlock")
    assert "LD waits on semaphore 1, which VE sets (k.py:1:1)" in error.message
    assert "VE waits on semaphore 0, which LD sets (k.py:3:1)" in error.message


def test_deadlock_of_the_control_core_and_of_a_full_queue() -> None:
    p = Program()
    p.wait(CORE, 3)
    fails(p, None, "the control core waits on semaphore 3, which nobody sets")
    p = Program(simple_target(queue_depth=1))
    p.wait(MM, 0)
    p.wait(MM, 0)
    p.set(VE, 0)
    fails(p, 1, "the control core waits for room in the full queue of MM")


def test_semaphore_overflow() -> None:
    p = Program(simple_target(semaphore_max=2))
    for _ in range(3):
        p.set(VE, 0)
    fails(p, 3, "semaphore 0 overflowed: 3 is above the 2")


def test_integer_accumulator_overflow() -> None:
    p = Program()
    x = p.array("x", np.full(64, 127, np.int8))
    d = p.array("d", np.full(1, 2**31 - 1, np.int32))
    p.load(x, 0, 64, 1)
    p.load(d, 64, 1)
    p.sync(LD, MM, 0)
    p.issue(
        "mma", fmt_a=1, fmt_b=1, fmt_d=3, accumulate=1, batch=1, m=1, n=1, k=8, a=0, lda=8, b=0,
        ldb=1, d=64, ldd=4,
    )  # fmt: skip
    fails(p, 5, "int32 accumulator of mma overflowed")


def test_operand_out_of_range() -> None:
    p = Program()
    x = p.array("x", floats(4))
    p.load(x, 0, 4, open=(("hi.0", 1 << 40),))
    fails(p, 1, r"operand hi.0 = 1099511627776 does not fit i32")
    p = Program()
    p.load(0, 0, 4, open=(("sram", -4),))
    fails(p, 1, "operand sram = -4 does not fit u32")


def test_device_assertion() -> None:
    p = Program()
    p.asserts.append(AssertInfo("n must be positive", p.loc()))
    p.call("assert", 0, 1)
    p.run()
    p.call("assert", 0, 0)
    fails(p, 1, "device assertion failed on core 0: n must be positive")


def test_prints() -> None:
    p = Program()
    x = p.array("x", floats(4))
    p.load(x, 0, 4)
    p.sync(LD, CORE, 0)
    p.prints.append(PrintInfo("x = ", ("fp32", "int32"), ((2, 2), None), p.loc()))
    p.operands += [0, -3]
    p.call("print", 0, 0)
    lines: list[str] = []
    result = p.run(write=lines.append)
    assert lines == result.prints == ["core 0: x = [[0. 1.]\n [2. 3.]] -3"]


def test_max_cycles() -> None:
    p = Program()
    x = p.array("x", floats(64))
    p.load(x, 0, 64)
    p.load(x, 0, 64)
    fails(p, None, "more than 100 cycles", max_cycles=100)


def test_images_that_do_not_fit() -> None:
    p = Program(Target.by_name("edge"))
    image = p.image()
    p.target = simple_target()
    other = dataclasses.replace(image, target_digest=p.target.digest)
    for changes, match in (
        ({"target_digest": image.target_digest}, "was compiled for target 'edge'"),
        ({"sram_bytes": 1 << 30}, "bytes of SRAM"),
        ({"credits": (0,) * 99}, "99 semaphores"),
        ({}, "no code"),
    ):
        bad = dataclasses.replace(other, **changes)
        with pytest.raises(ImageError, match=match):
            run(bad, p.target, (), (1, 1, 1), Memory())
    p.array("x", floats(4))
    p.args = []
    with pytest.raises(LaunchError, match="takes 1 arguments, not 0"):
        p.run()
    p.args = [0]
    p.call("issue", 5, 0)
    with pytest.raises(ImageError, match="template 5, which does not exist"):
        p.run()


def test_timing_only_needs_no_data_and_refuses_reads() -> None:
    p = Program()
    x = p.array("x", floats(16))
    p.load(x, 0, 16)
    p.sync(LD, VE, 0)
    p.binary("fadd", "fp32", 0, 0, 64, 16, 4)
    assert p.run(functional=False).cycles == p.run().cycles
    p.call("read", 0, 13)
    fails(p, None, "timing without data", functional=False)
