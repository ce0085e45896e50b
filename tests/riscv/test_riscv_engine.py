"""The RISC-V engine: results, counts, its second ELF reader, its errors."""

from __future__ import annotations

import dataclasses
import re
import struct
import sys
from pathlib import Path

import pytest
from suite.cases import CASES

from dsalang._backend import target
from dsalang._backend.errors import DeviceError, ImageError, LaunchError
from dsalang._backend.isa.rv64 import CALLS, custom_0, decode_rv64
from dsalang._runtime.rv64 import ControlCore

pytest.importorskip("unicorn")
pytest.importorskip("elftools")

from dsalang._runtime.riscv.core import UnicornCore
from dsalang._runtime.riscv.elf_file import BareProgram, read_program
from dsalang._runtime.riscv.scalar_cost import measure

from .streams import Launched, recorded

NOP, RETURN = 0x13, 0x00008067
BASE = 0x10000


def program(*words: int) -> BareProgram:
    return BareProgram(struct.pack(f"<{len(words)}I", *words), BASE, BASE)


def test_kernel_chosen_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["running_length"]()
    expected = case.launch(target="edge")
    before = [output.tobytes() for output in case.outputs]
    monkeypatch.setenv("DSA_EMULATOR", "riscv")
    again = CASES["running_length"]()
    report = again.launch(target="edge")
    assert [output.tobytes() for output in again.outputs] == before
    assert report.cycles == expected.cycles


def test_calls_take_results_and_instructions_are_counted() -> None:
    addi = 0x00150513  # a0 += 1
    core = UnicornCore(
        program(custom_0(CALLS.index("read")), NOP, addi, custom_0(1), NOP, RETURN), (), 5, 8
    )
    calls = core.run()
    first = next(calls)
    assert (first[0], first[2], core.retired) == (2, 5, 1)
    assert calls.send(-41) == (1, -40 & (1 << 64) - 1, 5)
    assert core.retired == 4
    with pytest.raises(StopIteration):
        calls.send(0)
    assert core.retired == 6


def test_retired_is_what_single_steps_count() -> None:
    """The block hook's count against a hook per instruction, over loops and branches."""
    launched = Launched(CASES["histogram"]())
    core = UnicornCore(read_program(launched.image), launched.values, 0, 1)
    steps = 0

    def step(uc: object, address: int, size: int, data: object) -> None:
        nonlocal steps
        steps += 1

    core._uc.hook_add(core._unicorn.UC_HOOK_CODE, step)
    calls = core.run()
    next(calls)
    for _ in range(200):
        try:
            calls.send(0)
        except StopIteration:
            break
        assert core.retired == steps
    assert steps > 100


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((0xFFFFFFFF,), "unknown instruction 0xffffffff at 0x10000"),
        ((custom_0(7),), "unknown instruction 0x00b5750b"),
        ((NOP, 0x00000073), "unknown instruction 0x00000073 at 0x10004"),  # ecall
        ((0x00053023,), "stopped in the code"),  # a store to the arguments
        ((0x00003503,), "stopped in the code"),  # a load from address 0
        ((0x0000006F | 4 << 20,), "stopped|unknown"),  # a jump out of the code
    ],
)
def test_bad_code_is_an_error(words: tuple[int, ...], message: str) -> None:
    core = UnicornCore(program(*words), (0, 0), 0, 1)
    with pytest.raises((DeviceError, ImageError), match=message):
        list(core.run())


def test_operands_outside_memory_are_an_error() -> None:
    core = UnicornCore(program(RETURN), (7, -1), 0, 1)
    assert core.values(BASE + 0x1000, 2) == (7, -1)
    with pytest.raises(DeviceError, match="bad address 0x10"):
        core.values(16, 1)


def test_second_reader_notices_another_program() -> None:
    image = Launched(CASES["add_odd"]()).image
    found = read_program(image)
    assert (found.memory, found.entry - found.address) == (image.code, image.entry)
    for other in (
        dataclasses.replace(image, code=bytes(len(image.code))).stored_in(image.file),
        dataclasses.replace(image, entry=image.entry + 4).stored_in(image.file),
        image.stored_in(image.file[: len(image.file) // 2]),
        image.stored_in(b""),
        image.stored_in(b"\x7fELF" + bytes(60)),
    ):
        with pytest.raises(ImageError):
            read_program(other)


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = Launched(CASES["add_odd"]())
    for package in ("unicorn", "elftools.elf.elffile"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(LaunchError, match=r"pip install dsalang\[riscv\]"):
                UnicornCore(read_program(launched.image), launched.values, 0, 1)


def test_scalar_cost_counts_every_instruction() -> None:
    launched = Launched(CASES["matmul_fp16"]())
    cost = measure(launched.image, launched.target, launched.args, launched.grid, launched.memory)
    image, values = launched.image, launched.values
    core = recorded(launched, lambda core, count: ControlCore(image, values, core, count))[0]
    assert [i.template for i in cost.issues] == [e[1] for e in core.events if e[0] == 0]
    assert cost.retired + cost.rest > len(cost.issues)
    first, *others = cost.issues
    assert all(issue.retired >= 1 + issue.operands // 2 for issue in others)
    assert cost.start > 0 and first.retired >= 0


def counted_targets() -> list[str]:
    """Shipped targets whose files say that what an issue costs is counted, not estimated."""
    folder = Path(target.__file__).parent / "targets"
    return [
        name
        for name in target.Target.shipped()
        if re.search(r"^issue_cycles = .*# counted", (folder / f"{name}.toml").read_text(), re.M)
    ]


def test_some_targets_say_that_their_scalar_cost_is_counted() -> None:
    assert {"edge", "edge-server", "center"} <= set(counted_targets())


@pytest.mark.parametrize("name", counted_targets())
def test_scalar_cost_is_that_of_the_binaries(name: str) -> None:
    """Over the suite, issues as the target states them and as counted differ by less than a tenth."""
    stated = counted = 0
    for make in CASES.values():
        launched = Launched(make(), name)
        cost = measure(
            launched.image, launched.target, launched.args, launched.grid, launched.memory
        )
        stated += cost.stated(launched.target)
        counted += cost.retired
    assert 0.9 < stated / counted < 1.1


def test_words_of_the_table() -> None:
    assert decode_rv64(custom_0(0)).mnemonic == "dsa.issue"  # type: ignore[union-attr]
