"""One emulated core on the host: its memory, a run of it, and what came of it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dsalang._backend import formats
from dsalang._backend.errors import DeviceError, ImageError, InternalError
from dsalang._backend.isa.table import Engine
from dsalang._backend.llvm.host.abi import Fault, Slot

from ..memory import Memory as Hbm
from ..reference.races import Clocks
from ..reference.state import GARBAGE, CoreState, Current
from ..reference.units import SEMANTICS, overflow_error, read_scalar
from . import services
from .context import POLL_WORK, Entry, Status
from .simulator import Memory
from .stuck import deadlock, overflowed

if TYPE_CHECKING:
    from collections.abc import Generator

    from .engine import Program


class Worker:
    """A core of an image, used for one run after the other. `start` and `finish` bracket a run."""

    def __init__(self, program: Program, memory: Memory, simulate: int) -> None:
        self.image, self.target, self.rows = program.image, program.target, program.rows
        self.memory = memory
        image = self.image
        self.sram: npt.NDArray[np.uint8] = np.empty(max(1, image.sram_bytes), np.uint8)
        self._coroutine: Generator[int, int, None] = services.serve(self)
        self._callback = services.callback(self._coroutine)
        words = memory.start
        words[Entry.SRAM] = self.sram.__array_interface__["data"][0]
        words[Entry.SIMULATE] = simulate
        words[Entry.SERVICE] = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        words[Entry.BUDGET] = POLL_WORK
        words[Slot.SRAM_BYTES] = image.sram_bytes
        self.core = 0
        self.error: BaseException | None = None
        self.prints: list[str] = []
        self.events: list[npt.NDArray[np.int64]] = []
        self.stands: list[npt.NDArray[np.int64]] = []
        self.write: Callable[[str], None] = print
        self._args: tuple[int, ...] = ()
        self._hbm: Hbm | None = None

    def start(
        self,
        core: int,
        arguments: int,
        segments: npt.NDArray[np.int64],
        args: tuple[int, ...],
        hbm: Hbm,
        write: Callable[[str], None],
    ) -> None:
        """Get ready to run as core `core`; `arguments` is the address of the arguments."""
        memory = self.memory
        memory.reset()
        words = memory.words
        words[Slot.SEGMENTS] = segments.__array_interface__["data"][0]
        words[Slot.SEGMENT_COUNT] = len(segments)
        words[Slot.ARGUMENTS] = arguments
        self.sram.fill(GARBAGE)
        self.core, self.write, self.error = core, write, None
        self._args, self._hbm = args, hbm
        self.prints, self.events, self.stands = [], [], []

    def stop(self) -> None:
        """End the run soon, from another thread."""
        self.memory.words[Entry.STOP] = 1

    def check(self, status: int) -> None:
        """Raise what the run ended with, as the reference engine would."""
        if status == Status.DONE:
            if self.memory.view.value("over_time") >= 0:
                raise overflowed(self)
            return
        if status == Status.RAISED and self.error is not None:
            raise self.error
        if status == Status.STOPPED:
            raise KeyboardInterrupt
        if status == Status.STUCK:
            raise overflowed(self) if self.memory.view.value("over_time") >= 0 else deadlock(self)
        if status == Status.NO_DATA:
            raise DeviceError("timing without data: the kernel reads a value back to the core")
        words = self.memory.words
        detail = int(words[Entry.DETAIL])
        if status == Status.ASSERT:
            raise self._assertion(detail)
        if status == Status.READ:
            raise self._bad_read(detail, int(words[Entry.FORMAT]))
        raise self._fault(Fault(detail), int(words[Entry.TEMPLATE]))

    def reference_state(self, template: int = -1) -> CoreState:
        """The core as the reference engine's functions see it."""
        hbm = self._hbm
        assert hbm is not None
        state = CoreState(self.image, self._args, hbm, Clocks(), False, False)
        state.sram = self.sram[: self.image.sram_bytes]
        engine = self.rows[template].engine if template >= 0 else Engine.CORE
        state.current = Current(engine, 0, template)
        return state

    def _assertion(self, number: int) -> Exception:
        if number >= len(self.image.asserts):
            return ImageError(f"the control core refers to assert {number}, which does not exist")
        info = self.image.asserts[number]
        return DeviceError(f"device assertion failed on core {self.core}: {info.message}", info.loc)

    def _bad_read(self, address: int, code: int) -> Exception:
        fmt = formats.BY_CODE.get(code)
        if fmt is None:
            return ImageError(f"the control core reads a value of unknown format {code}")
        return self._replay(lambda: read_scalar(self.reference_state(), address, fmt))

    def _fault(self, fault: Fault, template: int) -> Exception:
        """The error of a faulting instruction: that of the reference engine, which gets to execute it too."""
        prepared = self.rows[template].prepared
        words = self.memory.words
        values = [int(v) for v in words[Entry.SIZE : Entry.SIZE + len(prepared.open)]]
        state = self.reference_state(template)
        if fault == Fault.OVERFLOW:  # the accumulator may have changed already
            return overflow_error(state, prepared.fields)

        def execute() -> None:
            SEMANTICS[prepared.op](state, prepared.bind(values), prepared.program)

        return self._replay(execute)

    def _replay(self, action: Callable[[], Any]) -> Exception:
        try:
            action()
        except DeviceError as error:
            return error
        return InternalError("the fast engine reports a fault that the reference engine does not")
