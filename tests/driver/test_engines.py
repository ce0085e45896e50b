"""The whole suite on every engine: the same bits and cycles on all that run the image, and what the interpreter says
within the format's tolerance."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from suite.cases import CASES, TOLERANCE, Case

import dsalang as dsa

from .conftest import WORKER, Build

ENGINES = ("fast", "riscv", "driver", "interpreter")


@cache
def on_reference(name: str) -> tuple[Case, int]:
    """A case that the reference engine has run, and its cycles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSA_EMULATOR", "reference")
        case = CASES[name]()
        cycles: int = case.launch(target="edge").cycles
    case.check()
    return case, cycles


@pytest.fixture(scope="module")
def worker_device(build: Build) -> Iterator[dsa.Device]:
    """A device behind the C driver; one worker runs the whole suite."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSA_WORKER", WORKER)
        opened = dsa.Device(build())
    yield opened
    opened.close()


def launched(name: str, engine: str, request: pytest.FixtureRequest) -> tuple[Case, int | None]:
    """A case run by an engine, and its cycles."""
    case = CASES[name]()
    with pytest.MonkeyPatch.context() as patch:
        if engine == "driver":
            with request.getfixturevalue("worker_device"):
                return case, case.launch().cycles
        if engine == "interpreter":
            patch.setenv("DSA_INTERPRET", "1")
            case.launch()
            return case, None
        patch.setenv("DSA_EMULATOR", engine)
        return case, case.launch(target="edge").cycles


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CASES)
def test_same_as_the_reference_engine(
    name: str, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "riscv":
        pytest.importorskip("unicorn")
        pytest.importorskip("elftools")
    expected, cycles = on_reference(name)
    case, found = launched(name, engine, request)
    case.check()
    if engine != "interpreter":
        assert [o.tobytes() for o in case.outputs] == [o.tobytes() for o in expected.outputs]
        assert found == cycles
        return
    for ours, theirs in zip(case.outputs, expected.outputs, strict=True):
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        error = np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b)), initial=0.0)
        assert error <= TOLERANCE[ours.dtype]
