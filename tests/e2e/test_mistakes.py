"""The mistakes that users make most, as a launch shows them: type of the error, place, message, help."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang._backend import target as targets

HERE = Path(__file__).name


@dsa.jit
def scaled(x, out, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    values = tl.load(x + offs, mask=offs < n)
    tl.store(out + offs, values / tl.sum(values, 0), mask=offs < n)


@dsa.jit
def uses_with(x):
    with x:
        pass


@dsa.jit
def unknown(x):
    tl.store(x, ofset)  # noqa: F821


@dsa.jit
def shapes(x):
    tl.store(x + tl.arange(0, 4), tl.arange(0, 5))


@dsa.jit
def types(x):
    tl.store(x, tl.exp(tl.arange(0, 4)))


@dsa.jit
def length(x, n):
    tl.store(x + tl.arange(0, n), 1)


@dsa.jit
def adds(x, y, out):
    tl.store(out, tl.load(x) + tl.load(y + 1))


class OnGpu:
    """An array that says it lives on a GPU."""

    shape, strides = (4,), (1,)

    def __dlpack__(self, **options: object) -> object:
        raise BufferError("on the GPU")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


X = np.ones(8, np.float32)
FIXED = np.ones(8, np.float32)
FIXED.flags.writeable = False
BIG = 1 << 22

CASES: dict[str, tuple[Any, Any, tuple[Any, ...], type[Exception], str, str]] = {
    "construct": (uses_with, 1, (X,), dsa.CompileError, "with x:", "with is not supported in kernels"),
    "name": (unknown, 1, (X,), dsa.CompileError, "tl.store(x, ofset)", "'ofset' is not defined"),
    "shape": (shapes, 1, (X,), dsa.CompileError, "tl.store(x + tl.arange(0, 4), ", "shapes [4] and [5] do not broadcast"),
    "dtype": (types, 1, (X,), dsa.CompileError, "tl.exp(tl.arange(0, 4)", "exp takes floats, not int32"),
    "constexpr": (length, 1, (X, 4), dsa.CompileError, "tl.arange(0, n)", "must be known at compile time"),
    "none": (adds, 1, (X, None, X), dsa.CompileError, "tl.load(y + 1)", "the argument 'y' is None"),
    "sram": (scaled, 1, (X, X, 8, BIG), dsa.SramOverflowError, "values = tl.load(", "target 'edge' has 4096 KiB"),
    "count": (scaled, 1, (X, X, 8, 8, 8), dsa.LaunchError, "", "takes 4 arguments, got 5"),
    "missing": (scaled, 1, (X, X, 8), dsa.LaunchError, "", "misses constexpr argument 'BLOCK'"),
    "type": (scaled, 1, (X, {}, 8, 8), dsa.LaunchError, "", "argument 'out'"),
    "device": (scaled, 1, (OnGpu(), X, 8, 8), dsa.LaunchError, "", "argument 'x'"),
    "read-only": (scaled, 1, (X, FIXED, 8, 8), dsa.DeviceError, "tl.store(out + offs", "read-only"),
    "grid": (scaled, -1, (X, X, 8, 8), dsa.LaunchError, "", "negative"),
    "grid size": (scaled, (2**20, 2**20), (X, X, 8, 8), dsa.LaunchError, "", "programs, more than"),
    "out of bounds": (scaled, 1, (X, X, 9, 16), dsa.DeviceError, "values = tl.load(", "outside of array 'x/out'"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_launch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_CACHE", "0")
    kernel, grid, args, kind, code, message = CASES[name]
    with pytest.raises(dsa.UserError) as caught:
        kernel[grid](*args)
    assert type(caught.value) is kind, caught.value
    text = str(caught.value)
    assert message in text
    assert bool(code) == bool(re.match(rf".*{HERE}:\d+:\d+: ", text)), text
    if code:
        assert caught.value.loc is not None
        assert code in linecache.getline(__file__, caught.value.loc.line)
        assert "^" in text


def test_overflow_names_the_biggest_tiles_and_how_much_smaller_they_must_be() -> None:
    with pytest.raises(dsa.SramOverflowError) as caught:
        scaled[1](X, X, 8, BLOCK=BIG)
    text = str(caught.value)
    assert re.search(rf"16384 KiB  values: 4194304 fp32  .*{HERE}:", text), text
    assert "halve the block sizes" in text


EDGE = (Path(targets.__file__).parent / "targets" / "edge.toml").read_text()
FILES = [
    ("cores = 1", "cores = = 1", "not valid TOML", "line"),
    ("cores = 1", "cores = 0", "cores = 0 is not allowed", "cores must be an integer from 1 to"),
    ("cores = 1", "cores = '1'", "cores = '1' is not allowed", "cores must be an integer"),
    ("cores = 1", "cores = true", "cores = True is not allowed", "cores must be an integer"),
    ("cores = 1", "corse = 1", "unknown key corse = 1", "allowed keys here: "),
    ("cores = 1", "", "key cores is missing", "add cores"),
    ("sram_align_bytes = 64", "sram_align_bytes = 48", "= 48 is not allowed", "a power of two"),
    ("setup_cycles = 32", "setup_cycles = -1", "dma.setup_cycles = -1", "an integer from 0 to"),
    ("fp32 = 1024", "fp33 = 1024", "tensor.macs_per_cycle.fp33 = 1024", "one of the keys"),
    ("[hbm]", "[hbn]", "unknown key hbn", "allowed keys here"),
]


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"), FILES, ids=[f[1] or "gone" for f in FILES]
)
def test_target_file(old: str, new: str, message: str, hint: str, tmp_path: Path) -> None:
    assert old in EDGE
    path = tmp_path / "mine.toml"
    path.write_text(EDGE.replace(old, new, 1))
    with pytest.raises(dsa.TargetError) as caught:
        dsa.Target.from_file(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert message in text and hint in text


def test_target_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(dsa.TargetError, match=r"cannot read target file .*nothing.toml"):
        dsa.Target.from_file(tmp_path / "nothing.toml")


@dsa.jit
def unmasked(x, out, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offs, tl.load(x + offs))


@pytest.mark.parametrize("interpret", [False, True])
def test_out_of_bounds_names_array_element_and_line(interpret: bool) -> None:
    """Interpreted, an index had to be guessed, and arrays that are all empty were an IndexError."""
    kernel = dsa.jit(unmasked.fn, interpret=interpret)
    with pytest.raises(dsa.DeviceError, match=r"'x'.*") as caught:
        kernel[3](X, np.zeros(64, np.float32), BLOCK=5)
    assert "byte 32 (element 8)" in str(caught.value) and "elements [0, 8)" in str(caught.value)
    with pytest.raises(dsa.DeviceError, match=r"no .*elements") as caught:
        kernel[3](X[:0], X[:0], BLOCK=5)
    assert caught.value.loc is not None
    assert "tl.load" in linecache.getline(__file__, caught.value.loc.line)


def _generated(text: str, path: Path) -> dict[str, Any]:
    path.write_text("import dsalang as dsa\n" + text)
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space


def test_an_expression_that_is_too_deep_for_the_stack(tmp_path: Path) -> None:
    """It was a RecursionError of the cache's key."""
    text = "@dsa.jit\ndef deep(x, n):\n    dsa.store(x, n" + " + n" * 2500 + ")\n"
    kernel = _generated(text, tmp_path / "deep.py")["deep"]
    with pytest.raises(dsa.CompileError, match=r"deep.py:2:1: deep\(\) is nested too deeply"):
        kernel[1](X, 2)


def test_a_long_chain_of_calls_is_shown_in_part(tmp_path: Path) -> None:
    text = "@dsa.jit\ndef f0(x):\n    nonsense\n"
    text += "".join(f"@dsa.jit\ndef f{n}(x):\n    f{n - 1}(x)\n" for n in range(1, 31))
    kernel = _generated(text, tmp_path / "chain.py")["f30"]
    with pytest.raises(dsa.CompileError, match="nonsense") as caught:
        kernel[1](X)
    assert str(caught.value).count("called from") == 8 and "22 more calls" in str(caught.value)
