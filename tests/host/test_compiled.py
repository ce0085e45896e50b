"""Compiled kernels end to end: launch, cache, texts, errors."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from suite import CASES

import dsalang as dsa
import dsalang.language as tl
from dsalang._backend.errors import CompileError, DeviceError, InternalError, LaunchError
from dsalang._backend.image.elf import load
from dsalang._jit import compiled as compiled_module
from dsalang._jit import devices, engines
from dsalang._runtime.fast import objects


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.delenv("DSA_INTERPRET", raising=False)
    monkeypatch.setenv("DSA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_add():
    """A kernel with empty caches in memory."""

    @dsa.jit
    def add(x, y, out, n, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        keep = offs < n
        a = tl.load(x + offs, mask=keep)
        tl.store(out + offs, a + tl.load(y + offs, mask=keep), mask=keep)

    return add


@pytest.fixture
def compilations(monkeypatch):
    """The kernels that were compiled, not found in a cache."""
    made, real = [], compiled_module.compile_kernel

    def compile_kernel(source, spec, target):
        made.append(source.name)
        return real(source, spec, target)

    monkeypatch.setattr(compiled_module, "compile_kernel", compile_kernel)
    forget()
    return made


def forget():
    """Have nothing in memory, as a new process."""
    engines._programs.clear()
    objects._loaded.clear()
    devices.emulator()._forget_sram()


def launch(kernel, n=300, dtype=np.float32, **options):
    x, y = np.arange(n).astype(dtype), np.ones(n, dtype)
    out = np.zeros(n, dtype)
    run = kernel[(dsa.cdiv(n, 128),)](x, y, out, n, BLOCK=128, **options)
    np.testing.assert_array_equal(out, x + y)
    return run


def test_a_launch_reports(tmp_path):
    run = launch(make_add())
    assert run.cycles > 0 and run.microseconds > 0 and run.hbm_bytes >= 3 * 300 * 4
    path = run.timeline(tmp_path / "timeline.json")
    assert json.loads(path.read_text())
    with pytest.raises(LaunchError, match=r"cannot write the timeline to .*: it is a folder"):
        run.timeline(tmp_path)


def test_a_grid_without_programs_reports_nothing_done():
    out = np.zeros(4, np.float32)
    run = make_add()[0](out, out, out, 4, BLOCK=4)
    assert (run.cycles, run.hbm_bytes, run.prints) == (0, 0, [])
    assert "0 cycles" in run.summary()


def test_second_launch_and_second_process_do_not_compile(compilations, folder):
    kernel = make_add()
    launch(kernel)
    launch(kernel)
    assert compilations == ["add"]
    forget()
    assert launch(make_add()).image.name == "add"
    assert compilations == ["add"]
    launch(kernel, target="center")
    launch(kernel, num_stages=1)
    launch(kernel, n=304)
    assert compilations == ["add"] * 4
    assert len(list(folder.glob("??/*.elf"))) == 4


def test_the_cache_can_be_switched_off(compilations, folder, monkeypatch):
    monkeypatch.setenv("DSA_CACHE", "0")
    launch(make_add())
    forget()
    launch(make_add())
    assert compilations == ["add", "add"] and not folder.exists()


def test_a_damaged_entry_is_compiled_again(compilations, folder):
    launch(make_add())
    (path,) = folder.glob("??/*.elf")
    path.write_bytes(path.read_bytes()[:1000])
    forget()
    run = launch(make_add())
    assert compilations == ["add"]  # the host code is whole, and enough
    assert run.image.name == "add"
    assert compilations == ["add", "add"]
    assert load(path.read_bytes()).name == "add"


def test_an_unusable_folder_warns_once(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DSA_CACHE_DIR", str(tmp_path / "file"))
    kernel = make_add()
    with pytest.warns(RuntimeWarning, match="kernel cache") as caught:
        launch(kernel)
        launch(kernel, num_stages=1)
    assert len(caught) == 1
    monkeypatch.setenv("DSA_WARN", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch(kernel, num_stages=2)


class TestCompile:
    def test_texts(self):
        made = make_add().compile("*fp16:16, *fp16:16, *fp16:16, i32", {"BLOCK": 128})
        assert set(made.text) == {"tile", "dsa", "asm", "llvm", "riscv"}
        assert "tile.load" in made.text["tile"] and "func.func @add" in made.text["tile"]
        assert "dsa.ring" in made.text["dsa"] and "tensor<" not in made.text["dsa"]
        assert "load" in made.text["asm"] and "vector programs" in made.text["asm"]
        assert "define" in made.text["llvm"] and "dsa_kernel" in made.text["llvm"]
        assert "addi" in made.text["riscv"]
        assert "vector programs" not in made.text["riscv"] and "code," not in made.text["asm"]
        with pytest.raises(KeyError, match="'ptx'"):
            made.text["ptx"]

    def test_texts_are_lazy(self, monkeypatch):
        made = make_add().compile("*fp16, *fp16, *fp16, i32", {"BLOCK": 128})
        monkeypatch.setattr(compiled_module, "tile_ir", None)
        assert made.text["llvm"]
        with pytest.raises(TypeError):
            made.text["tile"]

    def test_metadata_and_save(self, tmp_path):
        made = make_add().compile("*fp16, *fp16, *fp16, i32", {"BLOCK": 128}, target="center")
        data = made.metadata
        assert (data["name"], data["target"], data["constants"]) == (
            "add",
            "center",
            {"BLOCK": 128},
        )
        assert data["signature"] == {"x": "*fp16", "y": "*fp16", "out": "*fp16", "n": "int32"}
        assert 0 < data["sram_bytes"] <= dsa.Target.by_name("center").sram_bytes
        path = made.save(tmp_path / "add.elf")
        assert load(path.read_bytes()) == made.image

    def test_compiling_uses_the_launchs_cache(self, compilations):
        kernel = make_add()
        for _ in range(2):
            kernel.compile("*fp16, *fp16, *fp16, i32", {"BLOCK": 128})
        assert compilations == ["add"]


def test_dump(capsys, monkeypatch):
    monkeypatch.setenv("DSA_DUMP", "passes,asm")
    launch(make_add())
    shown = capsys.readouterr().err
    for name in (
        "parse",
        "simplify",
        "access",
        "fuse",
        "place",
        "buffer",
        "allocate",
        "sync",
        "check",
    ):
        assert f"// after {name}\n" in shown
    assert "// add: asm" in shown


def test_store_to_a_read_only_array():
    x = np.zeros(8, np.float32)
    out = np.zeros(8, np.float32)
    out.flags.writeable = False
    with pytest.raises(DeviceError, match=r"\bout\b.*read-only"):
        make_add()[1](x, x, out, 8, BLOCK=8)


def test_in_place_and_overlapping_arguments():
    x = np.arange(64, dtype=np.float32)
    make_add()[4](x, x, x, 64, BLOCK=16)
    np.testing.assert_array_equal(x, np.arange(64) * 2)


@pytest.mark.parametrize("name", ["softmax_strided", "matmul_transposed", "running_length"])
def test_suite_cases_run(name):
    case = CASES[name]()
    case.launch()
    case.check()


def test_a_mistake_shows_the_line_and_no_frames_of_the_compiler():
    @dsa.jit
    def wrong(x):
        tl.store(x, unknown_name)  # noqa: F821

    with pytest.raises(CompileError, match="unknown_name") as error:
        wrong[1](np.zeros(1, np.float32))
    assert error.value.loc.file == __file__
    frames = []
    trace = error.value.__traceback__
    while trace:
        frames.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    assert len(frames) <= 2
    assert error.value.__cause__ is None and error.value.__suppress_context__


def test_a_bug_says_how_to_reproduce_it(monkeypatch):
    forget()
    monkeypatch.setattr(compiled_module, "tile_ir", lambda source, spec, plan: 1 / 0)
    with pytest.raises(InternalError) as error:
        launch(make_add())
    message = str(error.value)
    assert "ZeroDivisionError" in message and "bug in dsalang" in message
    assert f"dsa compile {__file__}:add --target edge" in message
    assert "--const BLOCK=128" in message


def test_wrong_launches_compile_nothing(compilations):
    with pytest.raises(LaunchError):
        make_add()[1](np.zeros(1), 1)
    assert compilations == []
