"""The wheel works in a folder that holds the user's own backend/, jit/ and runtime/."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USE = """
import numpy as np
import backend, jit, runtime
assert backend.MINE and jit.MINE and runtime.MINE
import dsalang as dsa
assert "site" in dsa.__file__, dsa.__file__
@dsa.jit(interpret=True)
def kernel(x):
    dsa.store(x, dsa.load(x) + 1.0)
x = np.zeros(1, np.float32)
kernel[1](x)
assert x[0] == 1
from dsalang._backend.pipeline import compile_module
print(*dsa.Target.shipped())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("dsalang", "jit", "backend", "runtime"):
        shutil.copytree(
            ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source / name)
    build = "from setuptools.build_meta import build_wheel; print(build_wheel('..'))"
    done = subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    # What pip does with a wheel without scripts: unpack it. Dependencies are this environment's.
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_the_wheel_holds_only_dsalang(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dsalang"}


def test_it_works_beside_hostile_folders(installed, tmp_path):
    for name in ("backend", "jit", "runtime"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    script = tmp_path / "use.py"
    script.write_text(USE)
    env = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert {"center", "edge", "edge-server"} <= set(done.stdout.split())


def test_its_command_line_works_from_anywhere(installed, tmp_path):
    env = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-m", "dsalang", "targets"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "edge-server" in done.stdout
