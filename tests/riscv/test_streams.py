"""The image's binary issues the instructions that the host's glue issues, for every kernel of the suite."""

from __future__ import annotations

import numpy as np
import pytest
from suite.cases import CASES

from dsalang._runtime.rv64 import ControlCore

pytest.importorskip("unicorn")
pytest.importorskip("elftools")

from dsalang._runtime.riscv.core import UnicornCore
from dsalang._runtime.riscv.elf_file import read_program

from .streams import Launched, host_events, recorded


@pytest.mark.parametrize("name", CASES)
def test_same_stream(name: str) -> None:
    case = CASES[name]()
    launched = Launched(case, "edge-server" if name.startswith("matmul") else "edge")
    image, values = launched.image, launched.values
    program = read_program(image)
    arrays = [(value, value.copy()) for value in case.args if isinstance(value, np.ndarray)]
    cores = recorded(launched, lambda core, count: UnicornCore(program, values, core, count))
    case.check()
    bits = [output.tobytes() for output in case.outputs]
    assert all(core.events for core in cores)
    for core, unicorn in enumerate(cores):
        assert host_events(image, values, core, len(cores), unicorn.reads) == unicorn.events
    for array, before in arrays:
        array[...] = before
    again = recorded(launched, lambda core, count: ControlCore(image, values, core, count))
    assert [core.events for core in again] == [core.events for core in cores]
    assert [output.tobytes() for output in case.outputs] == bits
