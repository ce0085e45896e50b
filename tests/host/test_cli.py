"""The `dsa` command."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dsalang._backend.image.elf import load
from dsalang.cli.main import main

KERNELS = '''
import dsalang as dsa
import dsalang.language as tl

@dsa.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    """out = x + y."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = offs < n
    tl.store(out + offs, tl.load(x + offs, mask=keep) + tl.load(y + offs, mask=keep), mask=keep)

@dsa.jit
def cast(x, out, KIND: tl.constexpr, MODE: tl.constexpr = "a"):
    tl.store(out, tl.load(x).to(KIND))

@dsa.jit
def wrong(x):
    tl.store(x, nothing)
'''
SIGNATURE = ["--signature", "*fp16,*fp16,*fp16,i32", "--const", "BLOCK=128"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DSA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(KERNELS)
    return tmp_path


def run(capsys, *argv):
    code = main(argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("emit", "expected"),
    [("asm", "vector programs"), ("dsa", "dsa.ring"), ("tile", "tile.load"), ("llvm", "dsa_kernel"), ("riscv", "code, ")],
)  # fmt: skip
def test_compile_prints(capsys, emit, expected):
    code, out, err = run(capsys, "compile", "kernels.py:add", *SIGNATURE, "--emit", emit)
    assert (code, err) == (0, "")
    assert expected in out


def test_compile_to_a_file(capsys, folder):
    code, out, _ = run(capsys, "compile", "kernels.py:add", *SIGNATURE, "-o", "add.txt")
    assert (code, out) == (0, "")
    assert "vector programs" in (folder / "add.txt").read_text()


def test_image_and_objdump(capsys, folder):
    code, out, _ = run(
        capsys, "compile", "kernels.py:add", *SIGNATURE, "--target", "center", "--emit", "image"
    )
    assert code == 0 and "add.elf" in out
    image = load((folder / "add.elf").read_bytes())
    assert (image.name, image.target) == ("add", "center")
    code, out, _ = run(capsys, "objdump", "add.elf")
    assert code == 0
    assert "kernel add for target center" in out and "semaphores" in out and "SRAM map" in out


def test_constants_may_be_dtypes_and_strings(capsys):
    code, out, _ = run(
        capsys, "compile", "kernels.py:cast", "--signature", "*fp32,*fp16", "--const", "KIND=fp16",
        "--const", "MODE='b'", "--emit", "tile",
    )  # fmt: skip
    assert code == 0 and "fcvt" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["compile", "kernels.py"], "does not name a kernel"),
        (["compile", "missing.py:add"], "no such file: missing.py"),
        (["compile", "kernels.py:sub"], "kernels there are add, cast, wrong"),
        (
            ["compile", "broken.py:add"],
            "broken.py:2:5: running broken.py failed: ZeroDivisionError",
        ),
        (["compile", "slip.py:add"], "slip.py:2:5: running slip.py failed: SyntaxError"),
        (["exercise", "01", "slip.py"], "slip.py:2:5: running slip.py failed: SyntaxError"),
        (
            ["compile", "imports.py:add"],
            "imports.py:2:1: running imports.py failed: ModuleNotFoundError",
        ),
        (
            ["exercise", "01", "imports.py"],
            "imports.py:2:1: running imports.py failed: ModuleNotFoundError",
        ),
        (
            ["compile", "kernels.py:add", "--signature", "*fp16"],
            "no value for constexpr parameter 'BLOCK'",
        ),
        (["compile", "kernels.py:add", "--const", "BLOCK=128"], "has 0 types"),
        (["compile", "kernels.py:add", "--const", "BLOCK"], "is not NAME=VALUE"),
        (["compile", "kernels.py:add", "--const", "BLOCK=abc"], "not a Python literal or a dtype"),
        (["compile", "kernels.py:add", *SIGNATURE, "--target", "moon"], "unknown target 'moon'"),
        (["compile", "kernels.py:add", *SIGNATURE, "-o", "no/such/file"], "cannot write"),
        (["compile", "kernels.py:wrong", "--signature", "*fp32"], "kernels.py:18:17"),
        (["objdump", "missing.elf"], "cannot read missing.elf"),
        (["objdump", "kernels.py"], "error: "),
        (["targets", "moon"], "unknown target 'moon'"),
        (["exercise", "99", "kernels.py"], "no exercise '99'"),
    ],
)
def test_mistakes_of_the_user(capsys, folder, argv, message):
    (folder / "broken.py").write_text("x = 1\ny = x / 0\n")
    (folder / "slip.py").write_text("x = 1\ny = = 3\n")
    (folder / "imports.py").write_text("x = 1\nimport nothing_of_that_name\n")
    code, out, err = run(capsys, *argv)
    assert code == 1 and out == ""
    assert err.startswith("error: ") and message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "argv", [[], ["nope"], ["compile"], ["cache"], ["compile", "a:b", "--emit", "ptx"]]
)
def test_wrong_usage(capsys, argv):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert "usage: dsa" in capsys.readouterr().err


def test_targets(capsys):
    code, out, _ = run(capsys, "targets")
    assert code == 0 and all(name in out for name in ("edge", "edge-server", "center"))
    code, out, _ = run(capsys, "targets", "edge")
    assert "sram_bytes = 4194304\n" in out and "hbm.burst_bytes = " in out


def test_cache(capsys, folder):
    code, out, _ = run(capsys, "cache", "info")
    assert code == 0 and str(folder / "cache") in out and "entries  0" in out
    run(capsys, "compile", "kernels.py:add", *SIGNATURE)
    assert "entries  1" in run(capsys, "cache", "info")[1]
    assert "deleted 1 entries" in run(capsys, "cache", "clear")[1]
    assert "entries  0" in run(capsys, "cache", "info")[1]


def test_as_a_module_with_a_closed_pipe(folder):
    done = subprocess.run(
        f"{sys.executable} -m dsalang compile kernels.py:add --signature '*fp16,*fp16,*fp16,i32' "
        "--const BLOCK=128 | head -1",
        shell=True, capture_output=True, text=True, env=os.environ,
    )  # fmt: skip
    assert done.stdout.strip() and "Traceback" not in done.stderr
