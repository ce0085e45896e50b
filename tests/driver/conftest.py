"""The driver of these tests, built by the system's compiler, and devices behind it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dsalang as dsa
from dsalang._runtime import driver
from dsalang._runtime.driver import worker

HERE = Path(__file__).parent
HEADERS = Path(driver.__file__).parent
WORKER = f"{sys.executable} -m {worker.__name__} --engine reference"

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("driver")

    def compile_driver(*flags: str, source: Path = HERE / "worker_driver.c") -> Path:
        library = folder / f"{source.stem}{abs(hash(flags))}.so"
        command = [compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
        command += [*flags, "-I", str(HEADERS), "-o", str(library), str(source), "-lpthread", "-lm"]
        subprocess.run(command, check=True)
        return library

    return compile_driver


@pytest.fixture(scope="session")
def library(build: Build) -> Path:
    return build()


@pytest.fixture
def healthy(library: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The driver's library, its worker without faults."""
    monkeypatch.setenv("DSA_WORKER", WORKER)
    return library


@pytest.fixture(scope="module")
def device(library: Path) -> Iterator[dsa.Device]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSA_WORKER", WORKER)
        opened = dsa.Device(library)
    yield opened
    opened.close()
